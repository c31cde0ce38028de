"""Ctrl-C and SIGTERM: one line of what was kept and how to resume, a code of their own and no traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from servers.openai_server import OpenAIServer, markers

pytestmark = [pytest.mark.process, pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")]

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


def begin(*arguments, tmp_path, before=""):
    # A shell without job control has what it starts in the background ignore interrupts, and so the tests' processes.
    listening = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)"
    script = f"import sys\n{listening}\n{before}\nfrom keqa.__main__ import main\nmain()"
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENAI_API_KEY": "none", "DSPY_CACHEDIR": str(tmp_path / "dspy")},
    )


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
def questions(tmp_path):
    rows = [{"id": str(n), "question": f"Question {n}?", "answers": ["so"]} for n in range(40)]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
def test_an_evaluation_that_is_stopped_says_what_is_kept_and_resumes(tmp_path, questions, number):
    with OpenAIServer(reply=lambda messages, n, body: [markers(answer="so")] * n, latency=0.2) as server:
        asked = ["evaluate", "closed-book", "--questions", questions, "--lm", "openai/scripted"]
        asked += ["--api-base", server.api_base, "-o", tmp_path / "runs", "--in-flight", 2]
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
        process = begin(*asked, tmp_path=tmp_path)
        process.communicate(timeout=120)
    assert process.returncode == 0
    assert server.count - before <= 40 - kept + 1


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
def test_a_second_signal_does_not_wait(tmp_path, questions, number):
    with OpenAIServer(reply=lambda messages, n, body: ["never"], latency=300) as server:
        asked = ["evaluate", "closed-book", "--questions", questions, "--lm", "openai/scripted"]
        process = begin(*asked, "--api-base", server.api_base, "-o", tmp_path / "runs", tmp_path=tmp_path)
        until(lambda: server.count >= 2, process)
        process.send_signal(number)
        assert "once more ends at once" in process.stderr.readline()
        assert "the same command resumes" in stop(process, number)[1]


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
def test_a_question_that_is_stopped_does_not_wait_for_its_calls(tmp_path, number):
    with OpenAIServer(reply=lambda messages, n, body: ["never"], latency=300) as server:
        process = begin("ask", "Why?", "--lm", "openai/scripted", "--api-base", server.api_base, tmp_path=tmp_path)
        until(lambda: server.count >= 1, process)
        assert stop(process, number)[1].endswith("the same command makes only the other calls\n")


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
@pytest.mark.parametrize("place", ["import", "shutdown"])
def test_a_signal_during_imports_or_the_last_threads_is_no_traceback(tmp_path, number, place):
    slow_import = (
        "import importlib.abc, time\n"
        "class Slow(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'keqa.cli':\n"
        "            print('now', flush=True)\n"
        "            time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow())\n"
    )
    slow_thread = (
        "import keqa.__main__, time\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def run():\n"
        "    ThreadPoolExecutor(1).submit(time.sleep, 60)\n"
        "    print('now', flush=True)\n"
        "    sys.exit(1)\n"
        "keqa.__main__._run = run\n"
    )
    before = slow_import if place == "import" else slow_thread
    process = begin("index", "x", tmp_path=tmp_path, before=before)
    assert process.stdout.readline() == "now\n"
    time.sleep(0.5)
    _, err = stop(process, number)
    if place == "import":
        assert err.startswith("keqa: ")
        assert "the same command builds the new one" in err
