"""When a stream gives its first byte, each quiz, the first word of the answer, and its end: by client and in a browser.

    python benchmarks/streaming.py [--repeat 5] [--shipped]

A scripted language model takes half a second for each call, and writes 20 words a second where it streams; a question
has two quizzes and an answer of 48 words. With ``--shipped`` the model that ships answers a question of the testbed
instead; on a terminal it does so in any case, from the start of ``keqa ask`` on. In Chromium what counts is what is on
the page. Exit code 1: the first sign of life took 0.3 seconds or more.
"""

import os
import pty
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

import dspy
from common import options, show
from fixtures.serving import serving
from lakes import QUESTION, Replies, lakes
from openai import OpenAI
from playwright.sync_api import Browser, sync_playwright
from servers.openai_server import OpenAIServer, markers

import keqa
from keqa.conversations import Conversations
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


class Seen(dict[str, float]):
    """When each step was seen first, in seconds from now on."""

    def __init__(self) -> None:
        self._started = time.perf_counter()

    def note(self, step: str, there: object = True, *, again: bool = False) -> None:
        if there and (again or step not in self):
            self[step] = time.perf_counter() - self._started


def main() -> int:
    given = options(__doc__, repeat=5, shipped=False)
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    os.environ["OPENAI_API_KEY"] = "none"
    turns, found = range(given.repeat), {}
    with tempfile.TemporaryDirectory() as folder, _serving(given.shipped, Path(folder)) as asked:
        _by_client(*asked)  # imports and connections
        found["OpenAI's client"] = [_by_client(*asked) for _ in turns]
        with sync_playwright() as playwright:
            how = {"executable_path": shutil.which("chromium"), "args": ["--no-sandbox", "--disable-gpu"]}
            with playwright.chromium.launch(**how) as browser:
                found["Chromium"] = [_in_browser(browser, *asked) for _ in turns]
    found["keqa ask, on a terminal"] = [_on_terminal() for _ in turns]
    rows = []
    for name, times in found.items():
        seen = {step: [one[step] for one in times if step in one] for step in STEPS}
        rows.append({"way": name, **{step: median(some) if some else None for step, some in seen.items()}})
    show(rows, f"Seconds from the question on, medians of {given.repeat}", digits=2)
    return int(any(row["first sign of life"] >= FIRST for row in rows))


@contextmanager
def _serving(shipped: bool, folder: Path) -> Iterator[tuple[str, str]]:
    with OpenAIServer(reply=Prose(2), latency=CALL, word_latency=WORD) as lm:
        name = "keqa/tiny" if shipped else "openai/scripted"
        retriever: Any = keqa.open_encyclopedia() if shipped else lakes(5)
        roles = keqa.build_roles(name, api_base=None if shipped else lm.api_base, cache=False)
        program = keqa.KEQA(retriever, lms=roles, unanswered="guess")
        shown = {"conversations": Conversations(folder), "about": f"Answers by {name}"}
        with serving(program, retriever, [roles.task], ServerLimits(rate=0), **shown) as served:
            yield served.url, TESTBED if shipped else QUESTION


def _by_client(url: str, question: str) -> Seen:
    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        seen, asked = Seen(), [{"role": "user", "content": question}]
        for chunk in client.chat.completions.create(model="keqa", messages=asked, stream=True):  # type: ignore[call-overload]
            delta = chunk.choices[0].delta
            line = getattr(delta, "reasoning_content", None) or ""
            settled = line.startswith(("Answer: ", "No answer: "))
            seen.note("first byte")
            seen.note("first sign of life", line)
            seen.note("first quiz settled", settled)
            seen.note("last quiz settled", settled, again=True)
            seen.note("first word", delta.content)
        seen.note("end")
    return seen


def _on_terminal() -> Seen:
    reads, writes = pty.openpty()
    seen, shown = Seen(), ""
    command = [sys.executable, "-m", "keqa", "ask", TESTBED, "--no-cache"]
    with subprocess.Popen(command, stdin=writes, stdout=writes, stderr=writes) as process:
        os.close(writes)
        with suppress(OSError):  # its end, where nobody writes any more
            while came := os.read(reads, 65536):
                shown += came.decode(errors="replace")
                for step, words in _SHOWN.items():
                    seen.note(step, words in shown)
        process.wait()
    os.close(reads)
    seen.note("end")
    return seen


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
