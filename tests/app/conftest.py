"""The command line as a user meets it, in this process, and a server that plays the language model."""

from __future__ import annotations

import re
import signal
import sys
from dataclasses import dataclass

import pytest
from servers.openai_server import OpenAIServer, markers

import keqa.__main__

SECTION = re.compile(r"\[\[ ## (\w+) ## \]\]\n(.*?)(?=\n\n\[\[ ## |\n\nRespond with |\Z)", re.DOTALL)
KEYS = ("OPENAI", "ANTHROPIC", "GEMINI", "MISTRAL", "DEEPSEEK", "GROQ", "OPENROUTER")


@dataclass(frozen=True)
class Ended:
    """How a run of the command line ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def keqa_command(monkeypatch, capsys, tmp_path):
    """Runs `keqa` with arguments, with a cache folder of its own and no key in the environment."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    for key in KEYS:
        monkeypatch.delenv(f"{key}_API_KEY", raising=False)

    def run(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["keqa", *map(str, arguments)])
        # The process of the tests must outlive what ends that of a command.
        monkeypatch.setattr(keqa.__main__, "_leave", sys.exit)
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        streams = sys.stdout, sys.stderr
        capsys.readouterr()
        try:
            with pytest.raises(SystemExit) as ended:
                keqa.__main__.main()
        finally:
            sys.stdout, sys.stderr = streams
            for number, handler in handlers.items():
                signal.signal(number, handler)
        out, err = capsys.readouterr()
        return Ended(ended.value.code or 0, out, err)

    return run


def reply(messages, n, body):
    """A mayor known by heart, a spouse unknown, and passages of which those on the mayor help."""
    given = {name: text.strip() for name, text in SECTION.findall(messages[-1]["content"])}
    if "passage" in given:
        return [markers(helpful="married" in given["passage"] or "spouse" in given["passage"])] * n
    if "first_answer" in given:
        return [markers(same=False)] * n
    if "answered_quizzes" in given:
        return [markers(explanation="Heidi Fenman governs Carmouth.", answer="Flora Isvik")] * n
    if "passages" in given:
        return [markers(answer="Flora Isvik")] * n
    if "quiz" in given:
        known = "governs" in given["quiz"]
        return [markers(answer="Heidi Fenman" if known else f"guess {number}") for number in range(n)]
    return [markers(quizzes='["Who governs Carmouth?", "To whom is #1 married?"]')] * n


@pytest.fixture
def server():
    """A server that answers about Carmouth."""
    with OpenAIServer(reply=reply) as running:
        yield running
