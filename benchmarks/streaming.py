"""When a stream gives its first byte, each quiz, the first word of the answer, and its end: by client and in a browser.

    python benchmarks/streaming.py [--repeat 5] [--shipped]

A scripted language model takes half a second for each call, and writes 20 words a second where it streams; a question
has two quizzes and an answer of 48 words. It is asked through OpenAI's client and on the page, in Chromium, where what
counts is what is on the page. With ``--shipped`` the model that ships answers a question of the testbed instead, in
this process. On a terminal it is that question and that model in any case, from the start of ``keqa ask`` on.
Exit code 1: the first sign of life took 0.3 seconds or more.
"""

import os
import pty
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import common
import dspy
import numpy as np
from common import show
from latency import QUESTION, Replies, lakes
from openai import OpenAI
from playwright.sync_api import Browser, sync_playwright
from serve import in_a_thread
from servers.openai_server import OpenAIServer, markers

import keqa
from keqa.conversations import Conversations
from keqa.server.answers import Answers
from keqa.server.application import application
from keqa.server.limits import ServerLimits

CALL, WORD, FIRST = 0.5, 0.05, 0.3
ANSWER = " ".join(["The lakes are ninety metres deep, as their keeper has measured them."] * 4)
TESTBED = "What is the residence of the author of The Restless Song?"
STEPS = ("first byte", "first sign of life", "first quiz settled", "last quiz settled", "first word", "end")
# What is on the page, by the step that it stands for, and when it was there first.
_WATCHED = """() => {
  const seen = window.seen = {}, started = performance.now();
  const has = (selector) => document.querySelector(selector);
  const note = (name, there) => { if (there && !(name in seen)) seen[name] = (performance.now() - started) / 1000; };
  const look = () => {
    note("first sign of life", has(".turn"));
    const settled = [...document.querySelectorAll(".turn .quiz")].filter((one) => /answer: /.test(one.textContent));
    note("first quiz settled", settled.length > 0);
    note("last quiz settled", settled.length && !has(".waiting"));
    note("first word", has(".draft:not([hidden]) .answer-text") || has(".story .answer-text"));
    note("end", has(".story .answer-text"));
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
}"""


_FIRST_BYTE = """() => {
  const asked = performance.getEntriesByType("resource").find((one) => one.name.endsWith("/ask"));
  return (asked.responseStart - asked.startTime) / 1000;
}"""


# What a terminal shows at each step.
_SHOWN = {"first byte": "", "first sign of life": "opening", "first quiz settled": " → ", "first word": "writing…"}


class Prose(Replies):
    """Replies of which the last is prose."""

    def __call__(self, messages: list[dict[str, Any]], n: int, body: dict[str, Any]) -> list[str]:
        if "answered_quizzes" in messages[0]["content"]:
            return [markers(explanation="Both are known.", answer=ANSWER)] * n
        return super().__call__(messages, n, body)


def main() -> int:
    given = common.options(__doc__, repeat=5, shipped=False)
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    os.environ["OPENAI_API_KEY"] = "none"
    with tempfile.TemporaryDirectory() as folder, _serving(given.shipped, Path(folder)) as (url, question):
        ways: dict[str, Callable[[], dict[str, float]]] = {"OpenAI's client": lambda: _by_client(url, question)}
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
            )
            ways["Chromium"] = lambda: _in_browser(browser, url, question)
            _by_client(url, question)  # imports and connections
            found = {name: [way() for _ in range(given.repeat)] for name, way in ways.items()}
            browser.close()
    found["keqa ask, on a terminal"] = [_on_terminal() for _ in range(given.repeat)]
    rows = [{"way": name, **{step: _median(step, times) for step in STEPS}} for name, times in found.items()]
    show(rows, f"Seconds from the question on, medians of {given.repeat}", digits=2)
    return int(any(cast("float", row["first sign of life"]) >= FIRST for row in rows))


def _median(step: str, times: Sequence[dict[str, float]]) -> float | None:
    found = [one[step] for one in times if step in one]
    return float(np.median(found)) if found else None


@contextmanager
def _serving(shipped: bool, folder: Path) -> Iterator[tuple[str, str]]:
    with OpenAIServer(reply=Prose(2), latency=CALL, word_latency=WORD) as lm:
        if shipped:
            retriever: Any = keqa.open_encyclopedia()
            roles = keqa.build_roles("keqa/tiny", cache=False)
        else:
            retriever = lakes(5)
            roles = keqa.build_roles("openai/scripted", api_base=lm.api_base, cache=False)
        program = keqa.KEQA(retriever, lms=roles, unanswered="guess")
        answers = Answers(program, retriever, [roles.task], ServerLimits(rate=0))
        about = "Answers from the testbed by keqa/tiny" if shipped else "Answers from lakes by openai/scripted"
        web = application(answers, conversations=Conversations(folder), about=about)
        with in_a_thread(web, answers.limits) as url:
            yield url, TESTBED if shipped else QUESTION


def _by_client(url: str, question: str) -> dict[str, float]:
    seen: dict[str, float] = {}
    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        started = time.perf_counter()

        def note(step: str) -> None:
            seen.setdefault(step, time.perf_counter() - started)

        asked = [{"role": "user", "content": question}]
        for chunk in client.chat.completions.create(model="keqa", messages=asked, stream=True):  # type: ignore[call-overload]
            delta = chunk.choices[0].delta
            note("first byte")
            line = getattr(delta, "reasoning_content", None) or ""
            if line:
                note("first sign of life")
            if line.startswith(("Answer: ", "No answer: ")):
                note("first quiz settled")
                seen["last quiz settled"] = time.perf_counter() - started
            if delta.content:
                note("first word")
        note("end")
    return seen


def _on_terminal() -> dict[str, float]:
    """What a terminal shows of a question that no cache answers."""
    reads, writes = pty.openpty()
    seen: dict[str, float] = {}
    started, shown = time.perf_counter(), ""
    command = [sys.executable, "-m", "keqa", "ask", TESTBED, "--no-cache"]
    with subprocess.Popen(command, stdin=writes, stdout=writes, stderr=writes) as process:
        os.close(writes)
        with suppress(OSError):  # its end, where nobody writes any more
            while came := os.read(reads, 65536):
                shown += came.decode(errors="replace")
                for step, words in _SHOWN.items():
                    if words in shown:
                        seen.setdefault(step, time.perf_counter() - started)
        process.wait()
    os.close(reads)
    return {**seen, "end": time.perf_counter() - started}


def _in_browser(browser: Browser, url: str, question: str) -> dict[str, float]:
    page = browser.new_page(viewport={"width": 900, "height": 760})
    page.goto(url + "/")
    page.get_by_role("textbox", name="Question").fill(question)
    page.evaluate(_WATCHED)
    page.keyboard.press("Enter")
    page.wait_for_selector(".story .answer-text", timeout=120_000)
    seen: dict[str, float] = page.evaluate("window.seen")
    seen["first byte"] = page.evaluate(_FIRST_BYTE)
    page.close()
    return seen


if __name__ == "__main__":
    raise SystemExit(main())
