"""The command: what it refuses before it listens, and how it stops."""

import asyncio
import re
import signal
import socket
import sys
from contextlib import ExitStack

import pytest
from fixtures.command_line import begin
from fixtures.serving import QUESTION, TOKEN
from openai import AuthenticationError, OpenAI

from keqa.errors import ConfigurationError, InputError
from keqa.server.serving import is_local, listen, token_for

LOCAL = ("127.0.0.1", "127.1.2.3", "::1", "localhost", "LOCALHOST")
OTHERS = ("0.0.0.0", "::", "192.168.1.20", "example.org", "")


@pytest.mark.parametrize(("host", "local"), [(host, host in LOCAL) for host in LOCAL + OTHERS])
def test_only_this_machine_needs_no_token(host, local):
    assert is_local(host) is local
    if local:
        assert token_for(host, None, {}) is None
    else:
        with pytest.raises(ConfigurationError, match="a token is needed"):
            token_for(host, None, {})
    assert token_for(host, None, {"KEQA_TOKEN": TOKEN}) == TOKEN


TOKENS = {
    b"": "holds no token",
    b"short": "holds no token",
    b"two words that are long enough": "holds no token",
    b"x" * 1001: "holds no token",
    b"token-with-an-\x1b-escape": "holds no token",
    b"\xff" * 40: "cannot be read",
}


def test_a_file_holds_the_token_and_what_is_none_is_refused_without_being_shown(tmp_path):
    file = tmp_path / "token"
    with pytest.raises(InputError, match="cannot be read"):
        token_for("127.0.0.1", file, {})
    file.write_text(f"{TOKEN}\n")
    assert token_for("0.0.0.0", file, {"KEQA_TOKEN": "another-token-that-is-long"}) == TOKEN
    for content, why in TOKENS.items():
        file.write_bytes(content)
        with pytest.raises(InputError, match=why) as error:
            token_for("127.0.0.1", file, {})
        assert not content or content.decode("latin-1") not in str(error.value)


def test_a_port_that_is_taken_is_said():
    with listen("127.0.0.1", 0) as taken, pytest.raises(ConfigurationError, match=r"cannot listen on 127.0.0.1:\d+"):
        listen("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(ConfigurationError, match=r"cannot listen on no\.such\.host\.invalid:1"):
        listen("no.such.host.invalid", 1)


def test_the_command_says_what_to_install(keqa_command, monkeypatch):
    real = __import__("importlib.util").util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None if name == "mcp" else real(name, *rest))
    ended = keqa_command("serve")
    assert (ended.code, ended.out) == (2, "")
    assert "pip install 'keqa[serve]'" in ended.err


def start(lm, index, folder, before="", **further):
    """The command in a process of its own, and its first line."""
    options = ("--no-look-first", "--index", index, "--port", 0, "--lm", "openai/scripted", "--api-base", lm.api_base)
    process = begin("serve", *options, tmp_path=folder, before=before, environment=further)
    return process, process.stderr.readline()


def asking(question):
    return [{"role": "user", "content": question}]


FEW = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))"


@pytest.mark.server
@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no bound on files, and other signals")
@pytest.mark.parametrize(("number", "given"), [(signal.SIGINT, {"KEQA_TOKEN": TOKEN}), (signal.SIGTERM, {})])
def test_more_connections_than_files_end_nothing_the_token_is_needed_and_a_signal_lets_a_question_in_work_end(
    server, own_index, tmp_path, monkeypatch, number, given
):
    monkeypatch.delenv("KEQA_TOKEN", raising=False)
    process, first = start(server, own_index, tmp_path, FEW, **given)
    try:
        (url,) = re.findall(r"Serving at (http://127\.0\.0\.1:\d+)/v1 \(model keqa\)", first)
        (token,) = re.findall(r"the token (\S+);", first) or [TOKEN]
        assert ("with a token" if given else f"{url}/#token={token}. ") in first
        host, port = url.removeprefix("http://").split(":")
        client = OpenAI(base_url=f"{url}/v1", api_key=token, max_retries=0)
        with ExitStack() as stack:
            for _ in range(450):
                stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
            answer = client.chat.completions.create(
                model="keqa", messages=asking("To whom is the mayor of Carmouth married now?")
            )
            assert answer.choices[0].message.content == "Flora Isvik"
            with pytest.raises(AuthenticationError):
                client.with_options(api_key="x").models.list()
        assert process.poll() is None
        server.latency = 0.3
        with client.chat.completions.create(model="keqa", messages=asking(QUESTION), stream=True) as chunks:
            next(chunks)
            process.send_signal(number)
            assert "Flora Isvik" in "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    except BaseException:
        process.kill()
        raise
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert err.rstrip().endswith("questions in work got the time of --grace to end")
    # Where a connection finds no file, asyncio says so in its own way.
    assert err.count("Traceback") == err.count("socket.accept() out of system resource")
    assert not any(word in first + err for word in ("Carmouth", "Isvik", *given.values()))
    # What DSPy keeps of the calls is for nobody else.
    assert (tmp_path / "dspy").stat().st_mode & 0o777 == 0o700


def test_no_answer_waits_for_its_head_to_be_acknowledged():
    delayed = []

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport):
            accepted = transport.get_extra_info("socket")
            delayed.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0)
            transport.close()

    async def connected():
        with listen("127.0.0.1", 0) as port:
            web = await asyncio.get_running_loop().create_server(Protocol, sock=port)
            async with web:
                reader, writer = await asyncio.open_connection(*port.getsockname())
                await reader.read()
                writer.close()

    asyncio.run(connected())
    assert delayed == [False]
