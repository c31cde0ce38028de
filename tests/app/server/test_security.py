"""What a server on this machine or in a network refuses, and what it frees."""

import json
import logging
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
import uvicorn
from fixtures.serving import QUESTION, TOKEN, until
from uvicorn.server import ServerState

from keqa.server.application import Documents
from keqa.server.limits import RateLimiter, ServerLimits
from keqa.server.mcp_tools import mcp_server
from keqa.server.serving import Connection

pytestmark = pytest.mark.server


def connect(serving):
    host, port = serving.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=30)
    connection.settimeout(30)
    return connection


def read_all(connection):
    """What the server sends until it closes the connection."""
    found = b""
    while part := connection.recv(10_000):
        found += part
    return found


def can_send(connection, data):
    try:
        connection.sendall(data)
    except OSError:
        return False
    return True


def chat_request(**further):
    body = json.dumps({"model": "keqa", "messages": [{"role": "user", "content": QUESTION}], **further}).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


TOKENS = ("", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \u00e9\u00e9")


@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/mcp", "/nowhere"])
def test_without_the_token_nothing_is_given(serve, server, path):
    with serve(server, token=TOKEN).client as client:
        for headers in ({}, *({"Authorization": token.encode("latin-1")} for token in TOKENS)):
            answer = client.request("POST" if path == "/mcp" else "GET", path, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key"), headers
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.json()["error"]["message"].startswith("Incorrect API key provided, or none")
        assert client.get("/health").json() == {"status": "ok"}
        assert [client.head(there).status_code for there in ("/health", "/", "/v1/models")] == [200, 200, 401]
        assert client.get("/v1/models", headers={"Authorization": f"bearer {TOKEN}"}).status_code == 200


OWN = "127.0.0.1:8321 localhost [::1]:80 192.168.1.20:8321 keqa.example.org KEQA.example.org:443".split()
FOREIGN = "rebound.example.com localhost.example.com:8321 127.0.0.1.example.com user@localhost localhost/path".split()


def test_a_name_of_somebody_else_is_no_way_in(serve, server):
    with serve(server, hosts=("keqa.example.org",)).client as client:
        for host in (*OWN, *FOREIGN, "localhost:port", ""):
            answer = client.get("/v1/models", headers={"Host": host})
            # What is no host at all, h11 refuses before.
            assert answer.status_code in ((200,) if host in OWN else (421, 400)), host


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://example.com"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_no_page_of_another_site_may_ask(serving, server, headers):
    assert serving.chat(headers=headers).status_code == 403
    with serving.client as client:
        before = client.options("/v1/chat/completions", headers={**headers, "Access-Control-Request-Method": "POST"})
        assert before.status_code == 403
        assert client.post("/mcp", json={}, headers=headers).status_code == 403
        own = client.get("/v1/models", headers={"Origin": serving.url, "Sec-Fetch-Site": "same-origin"})
    assert own.status_code == 200
    assert not [name for name in (*before.headers, *own.headers) if name.startswith("access-control")]
    assert server.count == 0


def test_what_a_form_can_send_is_no_question(serve, server):
    body = json.dumps({"model": "keqa", "messages": [{"role": "user", "content": QUESTION}]})
    with serve(server).client as client:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None):
            headers = {} if kind is None else {"Content-Type": kind}
            assert client.post("/v1/chat/completions", content=body.encode(), headers=headers).status_code == 415


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/mcp", "/nowhere"])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_huge_body_is_refused_before_it_is_read(serve, server, path, chunked):
    serving = serve(server, limits=ServerLimits(max_body=10_000, rate=0))
    with connect(serving) as connection:
        size = "Transfer-Encoding: chunked" if chunked else "Content-Length: 10000000000"
        connection.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{size}\r\n\r\n".encode())
        if chunked:
            connection.sendall(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
        reply = read_all(connection)
    assert reply.startswith(b"HTTP/1.1 413")
    assert b"body_too_large" in reply


@pytest.mark.parametrize(
    ("begun", "reply"),
    [
        (b"", b""),
        (b"POST /v1/chat/completions HTTP/1.1\r\nHost: local", b""),
        (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{", b"HTTP/1.1 408"),
    ],
)
def test_a_slow_client_is_cut_off(serve, server, begun, reply):
    serving = serve(server, limits=ServerLimits(patience=0.3, rate=0))
    with connect(serving) as connection:
        connection.sendall(begun)
        found = read_all(connection)
    assert found[: len(reply)] == reply
    assert bool(found) == bool(reply)


def test_a_client_that_drips_its_second_request_is_cut_off(serve, server):
    serving = serve(server, limits=ServerLimits(patience=0.5, rate=0))
    with connect(serving) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(10_000).startswith(b"HTTP/1.1 200")
        # Once the server has closed the connection, nothing more can be sent on it.
        until(lambda: not can_send(connection, b"G"), 10)


LEAVING = "/../../etc/passwd /v1/models/../../etc/passwd /v1/models/..%2f..%2fetc%2fpasswd /%2e%2e/%2e%2e/etc/passwd"
OF_OTHERS = "/mcp/../keqa.toml //etc/passwd /static/app.js /docs /openapi.json /page/page.css"


def test_no_path_leads_to_a_file(serving):
    for path in (*LEAVING.split(), *OF_OTHERS.split()):
        with connect(serving) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            reply = read_all(connection)
        assert reply.startswith(b"HTTP/1.1 404"), path
        assert b"root:" not in reply


def test_markup_in_a_passage_stays_text(serve, server):
    answer = serve(server).chat()
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert "<script>" in answer.json()["choices"][0]["message"]["sources"][0]["text"]


def test_neither_question_nor_answer_nor_token_is_logged(serve, server, caplog):
    def lines():
        return [record.getMessage() for record in caplog.records if record.name == "keqa.server"]

    serving = serve(server, token=TOKEN)
    with caplog.at_level("DEBUG", logger="keqa.server"):
        assert serving.chat(headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
        with serving.client as client:
            client.get(f"/v1/models?token={TOKEN}&q=Carmouth")
            client.get("/Carmouth")
        # A request is logged once its reply is out.
        until(lambda: len(lines()) >= 3)
    own = lines()
    assert len(own) == 3
    assert not any(word in line for line in own for word in ("Carmouth", "Isvik", TOKEN))


@pytest.mark.parametrize("kind", ["whole", "stream", "mcp"])
def test_a_client_that_is_killed_frees_its_slot(serve, slow, kind):
    serving = serve(slow, limits=ServerLimits(in_flight=1, waiting=1, rate=0))
    call = {"name": "ask", "arguments": {"question": QUESTION}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
    head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with connect(serving) as connection:
        connection.sendall(head.encode() + body if kind == "mcp" else chat_request(stream=kind == "stream"))
        until(lambda: slow.count == 1)
    until(lambda: serving.metric("keqa_questions_total", outcome="cancelled") == 1)
    assert serving.metric("keqa_in_work") == 0
    slow.latency = 0.0
    assert serving.chat().status_code == 200


def test_more_than_may_wait_are_refused(serve, slow):
    serving = serve(slow, limits=ServerLimits(in_flight=1, waiting=1, rate=0))
    with connect(serving) as first, connect(serving) as second:
        first.sendall(chat_request())
        until(lambda: slow.count == 1)
        second.sendall(chat_request())
        until(lambda: serving.metric("keqa_waiting") == 1)
        for stream in (False, True):
            third = serving.chat(stream=stream)
            assert (third.status_code, third.json()["error"]["code"]) == (503, "overloaded")
            assert third.headers["retry-after"] == "5"
    until(lambda: serving.metric("keqa_questions_total", outcome="cancelled") == 2)


def test_a_question_that_takes_too_long_is_given_up(serve, slow):
    serving = serve(slow, limits=ServerLimits(timeout=0.5, rate=0))
    answer = serving.chat()
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "timeout")
    assert answer.headers["x-should-retry"] == "false"
    assert serving.metric("keqa_in_work") == 0


def test_one_address_may_ask_so_often_and_what_is_refused_counts(serve, server):
    serving = serve(server, limits=ServerLimits(rate=5), token=TOKEN)
    host, origin = {"Host": "evil.example"}, {"Origin": "http://evil.example"}
    known = {"Authorization": f"Bearer {TOKEN}"}
    with serving.client as client:
        asked = (host, origin, {}, {}, known, host)
        statuses = [client.get("/v1/models", headers=one).status_code for one in asked]
        refused = client.get("/v1/models", headers=known)
    # Nobody may guess tokens faster than others may ask.
    assert statuses == [421, 403, 401, 401, 200, 429]
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert 1 <= int(refused.headers["retry-after"]) <= 12


def test_a_rate_recovers_and_addresses_are_apart_and_forgotten():
    now = [0.0]
    limiter = RateLimiter(60, lambda: now[0])
    assert [limiter.take("10.0.0.1") for _ in range(60)] == [0.0] * 60
    assert limiter.take("10.0.0.1") == pytest.approx(1.0)
    assert limiter.take("10.0.0.2") == 0.0
    now[0] = 1.0
    assert limiter.take("10.0.0.1") == 0.0
    assert limiter.take("10.0.0.1") > 0
    # One who has a network of IPv6 has 2^64 addresses.
    assert [limiter.take(f"2001:db8::{n:x}") for n in range(60)] == [0.0] * 60
    assert limiter.take("2001:db8::ffff%eth0") > 0
    assert limiter.take("2001:db8:0:1::1") == 0.0
    for number in range(20_000):
        limiter.take(str(number))
    assert len(limiter._buckets) == 10_000


def test_questions_in_work_end_before_the_server_does(serving, server):
    server.latency = 0.2
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(serving.chat)
        until(lambda: server.count >= 1)
        serving.web.should_exit = True
        assert asked.result().status_code == 200
    serving.thread.join(20)
    assert not serving.thread.is_alive()


def test_silent_connections_make_room_for_who_asks(serve, server, monkeypatch):
    monkeypatch.setattr("keqa.server.serving._IDLE", 8)
    serving = serve(server, limits=ServerLimits(in_flight=1, waiting=1, rate=0))
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(connect(serving))
        assert serving.chat().status_code == 200
        until(lambda: len(serving.web.server_state.connections) <= 10)


def test_who_does_not_read_is_given_up(serve, server, monkeypatch, tmp_path):
    monkeypatch.setattr("keqa.server.serving._IDLE", 8)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "large.txt").write_bytes(b"x" * 12_000_000)
    limits = ServerLimits(in_flight=1, waiting=1, rate=0, patience=0.5)
    serving = serve(server, limits=limits, documents=Documents(tmp_path / "docs"))
    with ExitStack() as stack:
        for _ in range(20):
            connection = stack.enter_context(connect(serving))
            connection.sendall(b"GET /documents/large.txt HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 200"
        assert serving.chat().status_code == 200
        # Nothing is read meanwhile.
        until(lambda: not serving.web.server_state.connections, 20)
        with serving.client as client:
            assert len(client.get("/documents/large.txt").content) == 12_000_000


async def test_the_address_that_has_most_connections_gives_one_up():
    """Of one network all are alike; the connections of another one stay."""
    closed = []

    class Few(Connection):
        most = 3

    def accept(address, at, waits=True):
        one = Few(config, state, {})
        one._waits_for_client = lambda: waits
        transport = SimpleNamespace(
            get_extra_info=lambda name, address=address: (address, 1) if name == "peername" else None,
            set_write_buffer_limits=lambda **_: None,
            close=lambda: None,
            abort=lambda: closed.append(at),
        )
        one.connection_made(transport)

    config = uvicorn.Config(lambda *_: None, log_config=None)
    state = ServerState()
    for at, address in enumerate(["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.3", "10.0.0.2", "10.0.0.1"]):
        accept(address, at)
    assert closed == [1, 2, 0]
    assert len(state.connections) == 3
    # What is in work counts, too: who has most of it gives up its next one, and nobody else's.
    state.connections.clear()
    closed.clear()
    for at, (address, waits) in enumerate([("10.0.0.2", False)] * 2 + [("10.0.0.1", True)] + [("10.0.0.2", False)] * 2):
        accept(address, at, waits)
    accept("10.0.0.3", 5)
    assert closed == [3, 4, 2]


def test_an_origin_that_is_none_is_refused_without_a_fault(serve, server, caplog):
    with serve(server, token=TOKEN).client as client:
        for origin in ("http://[", "http://[::1", "http://]", "\u00e9", "http://127.0.0.1:x"):
            assert client.get("/v1/models", headers={"Origin": origin.encode("latin-1")}).status_code == 403, origin
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_the_log_of_the_process_stays_as_it_is(serve, server):
    root = logging.getLogger()
    before, root.handlers[:] = root.handlers[:], []
    try:
        mcp_server(serve(server).answers)
        assert root.handlers == []
    finally:
        root.handlers[:] = before
