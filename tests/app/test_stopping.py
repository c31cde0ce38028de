"""Ctrl-C and SIGTERM: one line of what was kept and how to resume, a code of their own and no traceback."""

import os
import select
import signal
import sys
import time

import pytest
from fixtures.command_line import begin, served_by
from fixtures.serving import QUESTION
from servers.openai_server import OpenAIServer, markers

pytestmark = [pytest.mark.process, pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")]

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


class Terminal:
    """What a process writes to a terminal."""

    def __init__(self, process, reads):
        self.process, self._reads, self.shown = process, reads, ""

    def until(self, words, seconds=120):
        end = time.monotonic() + seconds
        while words not in self.shown:
            assert time.monotonic() < end, self.shown
            assert self.read(1) is not None, self.shown

    def read(self, seconds):
        """What came, if anything did; None once the process has ended."""
        if not select.select([self._reads], [], [], seconds)[0]:
            return ""
        try:
            came = os.read(self._reads, 65536).decode(errors="replace")
        except OSError:
            return None
        self.shown += came
        return came or None

    def ended(self, number):
        """What was shown after a signal, with its code and no traceback."""
        before = len(self.shown)
        self.process.send_signal(number)
        while self.read(60):
            pass
        assert (self.process.wait(60), "Traceback" in self.shown) == (CODES[number], False)
        return self.shown[before:]


@pytest.fixture
def on_terminal():
    """Runs the command line on terminals."""
    import pty

    opened = []

    def start(*arguments, **further):
        reads, writes = pty.openpty()
        opened.append(reads)
        process = begin(*arguments, **further, stdin=writes, stdout=writes, stderr=writes)
        os.close(writes)
        return Terminal(process, reads)

    yield start
    for one in opened:
        os.close(one)


def until(met, process, seconds=120):
    end = time.monotonic() + seconds
    while not met():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def stop(process, number):
    """What a process wrote that was stopped by a signal, with its code and no traceback."""
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in err) == (CODES[number], False)
    return out, err


@pytest.fixture
def questions(write_json):
    rows = [{"id": str(n), "question": f"Question {n}?", "answers": ["so"]} for n in range(40)]
    return write_json("questions.jsonl", rows)


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
def test_an_evaluation_that_is_stopped_says_what_is_kept_and_resumes(keqa_command, tmp_path, questions, number):
    with OpenAIServer(reply=lambda messages, n, body: [markers(answer="so")] * n, latency=0.2) as server:
        asked = ["evaluate", "closed-book", "--questions", questions, *served_by(server)]
        asked += ["-o", tmp_path / "runs", "--in-flight", 2]
        process = begin(*asked, tmp_path=tmp_path)
        until(lambda: server.count >= 4, process)
        out, err = stop(process, number)
        assert out == ""
        how = "interrupted" if number == signal.SIGINT else "ended by SIGTERM"
        last = err.rstrip().splitlines()[-1]
        assert last == f"keqa: {how}: questions that ended are kept; the same command resumes and asks the others"
        kept = len((tmp_path / "runs" / "closed-book.jsonl").read_text().splitlines()) - 1
        assert 2 <= kept < 40
        before = server.count
        keqa_command(*asked).fine()
    assert server.count - before <= 40 - kept + 1


def test_a_second_signal_does_not_wait(tmp_path, questions):
    with OpenAIServer(reply=lambda messages, n, body: ["never"], latency=300) as server:
        asked = ["evaluate", "closed-book", "--questions", questions, *served_by(server)]
        process = begin(*asked, "-o", tmp_path / "runs", tmp_path=tmp_path)
        until(lambda: server.count >= 2, process)
        process.send_signal(signal.SIGINT)
        assert "once more ends at once" in process.stderr.readline()
        assert "the same command resumes" in stop(process, signal.SIGINT)[1]


def test_a_question_that_is_stopped_does_not_wait_for_its_calls(tmp_path):
    (tmp_path / "latin-1.txt").write_bytes("Wo ist München?".encode("latin-1"))
    with (
        OpenAIServer(reply=lambda messages, n, body: ["never"], latency=300) as server,
        open(tmp_path / "latin-1.txt") as question,
    ):
        asked = ["ask", "-", "--lm", "openai/scripted", "--api-base", server.api_base]
        process = begin(*asked, tmp_path=tmp_path, stdin=question, environment={"PYTHONIOENCODING": "utf-8:strict"})
        until(lambda: server.count >= 1, process)
        assert stop(process, signal.SIGTERM)[1].endswith("the same command makes only the other calls\n")


SLOW_IMPORT = """
import importlib.abc, time
class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == 'keqa.cli':
            print('now', flush=True)
            time.sleep(60)
sys.meta_path.insert(0, Slow())
"""


def test_an_answer_that_is_being_written_is_given_up(tmp_path, server, own_index, on_terminal):
    """Its request is closed, and what was answered before comes from the cache."""
    usual = server.reply

    def reply(messages, n, body):
        if "answered_quizzes" in messages[0]["content"]:
            return [markers(explanation="She governs it.", answer="Flora " * 1000)] * n
        return usual(messages, n, body)

    server.reply, server.word_latency = reply, 0.1
    asked = ["ask", QUESTION, "--index", own_index, "--no-look-first", "--settle", "quizzes"]
    asked += ["--lm", "openai/scripted", "--api-base", server.api_base]
    terminal = on_terminal(*asked, tmp_path=tmp_path)
    terminal.until("Flora Flora")
    (written,) = [call for call in server.calls if call.body.get("stream")]
    kept, given_up = server.count - 1, time.monotonic()
    shown = terminal.ended(signal.SIGINT)
    assert shown.rstrip().endswith("the same command makes only the other calls")
    while written.finished is None:
        assert time.monotonic() < given_up + 20
        time.sleep(0.05)
    assert server.count == kept + 1
    server.word_latency, server.reply = 0, usual
    out, _ = begin(*asked, tmp_path=tmp_path).communicate(timeout=120)
    assert "Answer: Flora Isvik" in out
    assert server.count == kept + 2


def test_the_first_sign_of_life_comes_before_what_takes_long_to_import(tmp_path, on_terminal):
    terminal = on_terminal("ask", "Why?", tmp_path=tmp_path, before=SLOW_IMPORT)
    terminal.until("now")
    assert terminal.shown.strip() == "opening\rnow"
    # Others read the output of a command that writes to no terminal.
    process = begin("ask", "Why?", tmp_path=tmp_path, before=SLOW_IMPORT)
    assert process.stdout.readline() == "now\n"
    assert "opening" not in stop(process, signal.SIGINT)[1]
    assert "opening" not in terminal.ended(signal.SIGINT)


@pytest.mark.parametrize(("place", "number"), [("import", signal.SIGINT), ("shutdown", signal.SIGTERM)])
def test_a_signal_during_imports_or_the_last_threads_is_no_traceback(tmp_path, number, place):
    slow_thread = (
        "import keqa.__main__, time\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def run():\n"
        "    ThreadPoolExecutor(1).submit(time.sleep, 60)\n"
        "    print('now', flush=True)\n"
        "    sys.exit(1)\n"
        "keqa.__main__._run = run\n"
    )
    before = SLOW_IMPORT if place == "import" else slow_thread
    process = begin("index", "x", tmp_path=tmp_path, before=before)
    assert process.stdout.readline() == "now\n"
    time.sleep(0.5)
    _, err = stop(process, number)
    if place == "import":
        assert err.startswith("keqa: ")
        assert "the same command builds the new one" in err
