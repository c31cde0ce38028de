"""The conversations of the page: kept, resumed, told apart, exported, deleted, and there after a kill."""

import os
import re
import shutil
import signal
import time

import httpx
import pytest
from fixtures.command_line import begin
from fixtures.serving import QUESTION, TOKEN, asked, until

from keqa.conversations import Conversations
from keqa.errors import RetrievalError
from keqa.server.intake import Intake
from keqa.server.limits import ServerLimits
from keqa.storage.files import open_locked

pytestmark = pytest.mark.server


@pytest.fixture
def kept(tmp_path):
    return Conversations(tmp_path / "conversations")


def test_a_conversation_goes_on_where_it_was_and_asks_nothing_again(serve, server, kept):
    serving = serve(server, conversations=kept, about="Answers from own by scripted")
    with serving.client as client:
        first, *_, end = asked(client, conversation="")
        assert (first["kind"], end["kind"]) == ("Kept", "Answered")
        name, count = first["conversation"], server.count
        *_, again = asked(client, conversation=name)
        # Rewritten, taken apart and summed up: the quizzes are known.
        assert server.count - count <= 3
        quizzes = again["record"]["quizzes"]
        assert [quiz["earlier"] for quiz in quizzes] == [QUESTION, QUESTION]
        assert again["sources"] == end["sources"]
        (listed,) = client.get("/conversations").json()["conversations"]
        assert (listed["id"], listed["title"], listed["about"]) == (name, QUESTION, "Answers from own by scripted")
        turns = client.get(f"/conversations/{name}").json()["turns"]
        assert [turn["record"]["answer"] for turn in turns] == ["Flora Isvik", "Flora Isvik"]
        markdown = client.get(f"/conversations/{name}?form=md")
        assert markdown.headers["content-disposition"] == f'attachment; filename="conversation-{name}.md"'
        assert f"## {QUESTION}\n\nFlora Isvik\n\nSources:" in markdown.text
        assert client.get(f"/conversations/{name}?form=html").text.startswith("<!DOCTYPE html>")
        assert client.delete(f"/conversations/{name}").status_code == 200
        assert client.get(f"/conversations/{name}").status_code == 400
        assert client.get("/conversations").json() == {"conversations": []}


def test_another_program_or_index_settles_nothing_of_this_one(serve, server, kept):
    with serve(server, conversations=kept).client as client:
        name = asked(client, conversation="")[0]["conversation"]
    serving = serve(server, conversations=kept)
    serving.answers._program.threshold = "3/5"
    with serving.client as client:
        *_, end = asked(client, conversation=name)
    assert [quiz["earlier"] for quiz in end["record"]["quizzes"]] == ["", ""]


def test_only_who_may_ask_sees_them_and_only_where_they_are_kept(serve, server, kept):
    with serve(server, conversations=kept, token=TOKEN).client as client:
        for method, path in (("GET", "/conversations"), ("DELETE", f"/conversations/{'0' * 16}")):
            assert client.request(method, path).status_code == 401
        headers = {"Authorization": f"Bearer {TOKEN}"}
        for path in ("..%2F..%2Fetc", "x", "0" * 16):
            assert client.get(f"/conversations/{path}", headers=headers).status_code in (400, 404)
        site = {**headers, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert client.get("/conversations", headers=site).status_code == 403
    with serve(server).client as client:
        assert client.get("/conversations").status_code == 404
        assert client.post("/ask", json={"question": "Who?", "conversation": ""}).status_code == 400
    assert server.count == 0


def test_an_answer_that_cannot_be_kept_is_given(serve, server, kept, monkeypatch, caplog):
    with serve(server, conversations=kept).client as client:
        monkeypatch.setattr("keqa.conversations.MOST_BYTES", 3000)
        assert asked(client, conversation="")[-1]["record"]["answer"] == "Flora Isvik"
    assert "an answer cannot be kept: this conversation holds as much" in caplog.text


@pytest.mark.process
def test_a_kill_loses_nothing_but_the_answer_in_flight(server, served, own_index, tmp_path):
    folder = tmp_path / "kept"
    options = [*served, "--port", 0, "--no-token", "--no-look-first", "--no-cache", "--index", own_index]
    with begin("serve", *options, tmp_path=tmp_path, environment={"KEQA_CONVERSATIONS": str(folder)}) as process:
        try:
            said = next(line for line in process.stderr or () if "Serving at" in line)
            address = re.search(r"http://[\d.:]+", said)[0]
            with httpx.Client(base_url=address, timeout=60) as client:
                name = asked(client, conversation="")[0]["conversation"]
                server.latency, count = 60, server.count
                with client.stream("POST", "/ask", json={"question": "And where?", "conversation": name}) as answer:
                    lines = answer.iter_lines()
                    assert "Kept" in next(lines)
                    until(lambda: server.count > count)
                    os.kill(process.pid, signal.SIGKILL)
        finally:
            process.kill()
    turns = Conversations(folder).read(name).turns
    assert [(turn.question, turn.record and turn.record.answer) for turn in turns] == [
        (QUESTION, "Flora Isvik"),
        ("And where?", None),
    ]
    assert [path.name for path in folder.iterdir()] == [f"{name}.json"]


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "docs"
    made.mkdir()
    (made / "old.txt").write_text("An old document about harbours.")
    return made


def put(client, name, content=b"The ferry to Norvik leaves at nine.", **headers):
    sent = {"Content-Type": "application/octet-stream", **headers}
    return client.post("/documents", params={"name": name}, content=content, headers=sent)


def test_a_document_is_added_and_the_next_question_sees_it(serve, server, folder, tmp_path):
    def slowly():
        # More time than other bodies have, of which one may have a hundredth of the bytes.
        yield b"The ferry to Norvik "
        time.sleep(0.6)
        yield b"leaves at nine."

    limits = ServerLimits(patience=0.3, max_body=100, rate=0)
    serving = serve(server, watch=True, limits=limits, intake=Intake(str(tmp_path / "own"), folder, 10_000))
    with serving.client as client:
        assert put(client, "ferry times.txt", slowly()).json() == {"file": "ferry times.txt", "passages": 1}
    assert (folder / "ferry times.txt").read_bytes() == b"The ferry to Norvik leaves at nine."
    found = serving.answers._retriever
    found.refresh()
    assert found.search("ferry", 1)[0].passage.place.file == "ferry times.txt"


@pytest.mark.parametrize(
    ("name", "content", "headers", "status"),
    [
        ("", b"x", {}, 400),
        ("../up.txt", b"x", {}, 400),
        ("/etc/cron.d/x.txt", b"x", {}, 400),
        ("a\\b.txt", b"x", {}, 400),
        (".hidden.txt", b"x", {}, 400),
        ("a\nb.txt", b"x", {}, 400),
        ("\u202etxt.exe.txt", b"x", {}, 400),
        ("a" * 300 + ".txt", b"x", {}, 400),
        ("Nul.tar.txt", b"x", {}, 400),
        ("a.exe", b"x", {}, 415),
        ("a", b"x", {}, 415),
        ("secrets.yml", b"x: 1", {}, 415),
        ("a.jsonl", b'{"title": "a", "text": "b"}', {}, 415),
        ("a.txt", b"", {}, 400),
        ("old.txt", b"another", {}, 409),
        ("a.txt", b"x" * 10_001, {}, 413),
        ("a.pdf", b"no PDF at all", {}, 400),
        ("a.docx", b"PK\x03\x04broken", {}, 400),
        ("a.txt", b"x", {"Content-Type": "text/plain"}, 415),
        ("a.txt", b"x", {"Content-Type": "multipart/form-data"}, 415),
        ("a.txt", b"x", {"Origin": "http://elsewhere.example"}, 403),
    ],
)
def test_no_other_document_is_taken(serve, server, folder, tmp_path, name, content, headers, status):
    serving = serve(server, intake=Intake(str(tmp_path / "own"), folder, 10_000))
    with serving.client as client:
        assert put(client, name, content, **headers).status_code == status
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [
        ("old.txt", "An old document about harbours.")
    ]
    assert serving.answers._retriever.manifest.passages == 2


def test_none_is_taken_where_that_is_not_allowed(serve, server):
    with serve(server).client as client:
        assert put(client, "a.txt").status_code == 404
    with serve(server, token=TOKEN).client as client:
        assert put(client, "a.txt").status_code == 401


def test_what_keeps_a_document_out_is_no_fault_and_names_no_path(serve, server, folder, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("keqa.server.intake._PAUSE", 0)
    index = tmp_path / "own"
    serving = serve(server, intake=Intake(str(index), folder, 10_000))
    with serving.client as client, caplog.at_level("ERROR", logger="keqa.server"):
        with open_locked(index / "lock", "another process", "end it", lock_only=True, error=RetrievalError):
            busy = put(client, "ferry.txt")
        assert [path.name for path in folder.iterdir()] == ["old.txt"]
        shutil.rmtree(folder)
        gone = put(client, "ferry.txt")
    assert [(one.status_code, one.json()["error"]["code"]) for one in (busy, gone)] == [
        (503, "index_busy"),
        (500, "storage"),
    ]
    assert "add the document later" in busy.json()["error"]["message"]
    assert "No such file or directory" in gone.json()["error"]["message"]
    assert "(RetrievalError): keqa index add says why" in caplog.text
    assert "cannot be used: No such file or directory" in caplog.text
    assert not any(str(tmp_path) in text for text in (busy.text, gone.text, caplog.text))


def test_a_document_that_was_removed_may_come_again_in_other_words(serve, server, folder, tmp_path):
    serving = serve(server, watch=True, intake=Intake(str(tmp_path / "own"), folder, 10_000))
    with serving.client as client:
        put(client, "ferry.txt")
        (folder / "ferry.txt").unlink()
        assert put(client, "ferry.txt", b"The ferry leaves at ten.").json() == {"file": "ferry.txt", "passages": 1}
    assert (folder / "ferry.txt").read_text() == "The ferry leaves at ten."
