"""``keqa chat``: questions and follow-ups, one after the other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from keqa.cli.console import complain, results, status
from keqa.cli.options import KeqaOptions, LanguageModels, ProgramOptions, RiskOptions, with_groups
from keqa.errors import InputError
from keqa.storage.redaction import visible_line

if TYPE_CHECKING:
    from keqa.lms import Roles
    from keqa.programs.program import Program
    from keqa.programs.records import QuestionRecord

_HELP = "/story shows how the last answer was reached, /new forgets what was said, /quit ends."


@with_groups
def chat(
    program: ProgramOptions,
    models: LanguageModels,
    method: KeqaOptions,
    risk: RiskOptions,
) -> None:
    """Ask questions one after the other; a follow-up is rewritten to stand alone first.

    The last ten questions and their answers are its history. /story shows how the last answer was reached, /new
    forgets what was said, /quit or the end of the input ends. Ctrl-C gives up the question in work, or ends where there
    is none. Exit code 2: something to put right first.
    """
    from keqa.cli.opening import open_all

    asked, _, roles = open_all(program, models, method, risk)
    if sys.stdin.isatty():
        status().print(_HELP, style="dim", soft_wrap=True)
    _Conversation(asked, roles).hold(_lines())


class _Conversation:
    """What was said so far."""

    def __init__(self, program: Program, roles: Roles) -> None:
        self._program, self._lms = program, roles.every
        self._history: list[tuple[str, str]] = []
        self._last: QuestionRecord | None = None

    def hold(self, lines: Iterator[str]) -> None:
        for line in lines:
            word = line.strip()
            if word == "/quit":
                return
            if word.startswith("/"):
                self._command(word)
            elif word:
                try:
                    self._ask(word)
                except InputError as error:
                    complain(error)

    def _command(self, word: str) -> None:
        if word == "/new":
            self._history.clear()
            self._last = None
            status().print("A new conversation.", style="dim")
        elif word == "/story" and self._last is not None:
            from keqa.cli.record_tree import record_tree

            results().print(record_tree(self._last))
        else:
            unknown = "no question was answered yet" if word == "/story" else f"there is no {word}"
            status().print(f"keqa: {unknown}. {_HELP}", style="yellow", soft_wrap=True)

    def _ask(self, question: str) -> None:
        from keqa.errors import NotInDocumentsError, StageError
        from keqa.programs.records import record_without_keys

        try:
            with status().status("asking…"):
                record = self._program(question, history=self._history).record
        except KeyboardInterrupt:
            status().print("given up", style="dim")
            return
        except NotInDocumentsError as finding:
            record = finding.record
        except StageError as error:
            complain(error)
            record = getattr(error, "record", None)
        if record is None:
            return
        self._last = record_without_keys(record, self._lms)
        if self._last.answer is not None:
            self._history.append((self._last.standalone or self._last.question, self._last.answer))
            _show(self._last)


def _show(record: QuestionRecord) -> None:
    """The answer, what it was taken to be an answer to, and its sources."""
    from rich.text import Text

    from keqa.programs.sources import sources_of
    from keqa.programs.unanswered import lines_of, said

    shown = results()
    if record.standalone is not None:
        shown.print(Text(f"→ {visible_line(record.standalone)}", "dim"), soft_wrap=True)
    style = "bold yellow" if record.guessed or record.unanswered is not None else "bold green"
    shown.print(Text(visible_line(said(record)), style), soft_wrap=True)
    for line, beneath in lines_of(record.unanswered) if record.unanswered is not None else ():
        shown.print(Text(visible_line(". ".join([line, *beneath])), "dim"), soft_wrap=True)
    names = dict.fromkeys(source.title or source.id for source in sources_of(record))
    if names:
        shown.print(Text(f"Sources: {visible_line('; '.join(names))}", "dim"), soft_wrap=True)


def _lines() -> Iterator[str]:
    """What is typed, with a prompt where somebody types it."""
    typed = sys.stdin.isatty()
    while True:
        if typed:
            sys.stderr.write("> ")
            sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            return
        yield line
