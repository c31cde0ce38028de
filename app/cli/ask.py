"""``keqa ask`` and ``keqa chat``: one question, answered in the open, and a conversation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer
from rich.text import Text

from keqa.cli.console import NOT_IN_DOCUMENTS, UNANSWERED, complain, results, show_json, status, warn
from keqa.cli.declare import argument, option
from keqa.cli.options import AS_JSON, AskedOptions
from keqa.errors import InputError, NotInDocumentsError, StageError
from keqa.storage.redaction import visible_line

if TYPE_CHECKING:
    from keqa.data.question import AnswerType
    from keqa.lms import Roles
    from keqa.programs.program import Program
    from keqa.programs.records import QuestionRecord
    from keqa.retrievers import Retriever

_COMMANDS = "/story shows how the last answer was reached, /new forgets what was said, /quit ends."


def ask(
    *,
    question: str = argument("QUESTION", "The question; - reads it from standard input."),
    options: AskedOptions,
    method: str = option(
        "Any method of keqa compare, such as ks-llm or rag:top_k=5, with the settings below that it has.",
        default="keqa",
    ),
    answer_type: str = option("short, yes/no or choice.", default="short"),
    choice: list[str] | None = option("An option to choose from; give it once for each option."),
    as_json: bool = AS_JSON,
    full: bool = option("Show passages whole.", default=False),
    quiet: bool = option("Print the answer alone.", "-q", default=False),
    html: Path | None = option("Write the story to this file, too, as a page that needs no network."),
    max_tokens: int | None = option(
        "Tokens that a reply may have.", shown="1024; 256 for a model in this process", min=1
    ),
    timeout: float = option("Seconds for one attempt at a call to a served model.", default=120.0, min=0.1),
) -> None:
    """Ask a question and see how it was answered.

    The answer stands first, then its sources with the sentences that carried it, then the story. On a terminal, each
    quiz is shown as it settles.

    Without --index and --lm it goes to the language model that ships with KEQA, over the testbed's fictional
    encyclopedia. Exit code: 0 answered, 1 the question ended without an answer, 2 something to put right first, 3 the
    documents do not say it.
    """
    choices = choice or []
    kind = _answer_type(answer_type, choices)
    if as_json and (full or quiet):
        raise InputError("--json prints the whole record and nothing else: leave out --full and --quiet")
    if html is not None:
        from keqa.page import check_place, story_page, write_page

        check_place(html)
    from keqa.data.question import clean

    text = sys.stdin.read() if question == "-" else question
    if not clean(text):
        raise InputError("the question is empty")

    make = None if method == "keqa" else partial(_method, method, options)
    asked, _, roles = options.open(make, max_tokens=max_tokens, timeout=timeout)
    with status().status("asking…") as shown:
        live = shown.console.is_terminal and not quiet and not as_json
        record, error = _answer(asked, text, {"answer_type": kind, "choices": choices}, shown.update if live else None)
    from keqa.programs.records import record_without_keys

    cleaned = record_without_keys(record, roles.every)
    if html is not None:
        write_page(html, [story_page(cleaned)])
    _show(cleaned, quiet=quiet, as_json=as_json, full=full)
    if error is not None:
        complain(error)
        raise typer.Exit(UNANSWERED)
    if cleaned.unanswered is not None:
        raise typer.Exit(NOT_IN_DOCUMENTS)


def _show(record: QuestionRecord, *, quiet: bool, as_json: bool, full: bool) -> None:
    from keqa.cli.story import shown_answer, written_answer
    from keqa.programs.prediction import sources_of

    if as_json:
        sources = [source.model_dump(mode="json") for source in sources_of(record)]
        show_json({**record.model_dump(mode="json"), "sources": sources})
    elif not quiet:
        results().print(shown_answer(record, full=full))
    elif record.answer is not None:
        for part in [*written_answer(record)] or [Text(visible_line(record.answer))]:
            results().print(part, soft_wrap=isinstance(part, Text))
        if record.guessed:
            warn("The answer is a guess: nothing was found that carries it.")


def _method(name: str, options: AskedOptions, retriever: Retriever, roles: Roles) -> Program:
    from keqa.cli.running import refuse_foreign
    from keqa.programs.build import Parts, make, own_of
    from keqa.programs.gate import asks
    from keqa.programs.registry import parse_spec
    from keqa.programs.shared_draws import SharedDraws

    spec, settings, program = parse_spec(name), options.method.settings(), options.program
    refuse_foreign(settings, [spec])
    gate = spec.method.gate
    draws = None if gate is None else SharedDraws(probabilities=asks(gate) == "probabilities")
    own = own_of(options.models.lm)
    return make(spec, Parts(retriever, roles, settings, program.program, draws, own=own, embedder=program.embedder))


def _answer_type(given: str, choices: list[str]) -> AnswerType:
    """Check the answer type; choices alone say that it is a choice."""
    if given not in ("short", "yes/no", "choice"):
        raise InputError(f"--answer-type must be short, yes/no or choice, not {given!r}")
    kind = "choice" if choices and given == "short" else given
    if (kind == "choice") != bool(choices):
        raise InputError("--answer-type choice and --choice go together: give each option with its own --choice")
    return cast("AnswerType", kind)


def _answer(
    program: Program, question: str, call: dict[str, Any], update: Callable[[Text], Any] | None = None
) -> tuple[QuestionRecord, StageError | None]:
    """Ask, and keep the record of a question that has no answer or failed."""
    try:
        if update is None:
            return program(question, **call).record, None
        from keqa.cli.story import follow

        return follow(program.stream(question, **call), update).record, None
    except NotInDocumentsError as finding:
        return finding.record, None
    except StageError as error:
        record = getattr(error, "record", None)
        if record is None:
            raise
        return record, error


def chat(options: AskedOptions) -> None:
    """Ask questions one after the other; a follow-up is rewritten to stand alone first.

    The last ten questions and their answers are its history. /story shows how the last answer was reached, /new
    forgets what was said, /quit or the end of the input ends. Ctrl-C gives up the question in work, or ends where there
    is none. Exit code 2: something to put right first.
    """
    asked, _, roles = options.open()
    if sys.stdin.isatty():
        status().print(_COMMANDS, style="dim", soft_wrap=True)
    history: list[tuple[str, str]] = []
    last: QuestionRecord | None = None
    for line in map(str.strip, _typed_lines()):
        if line == "/quit":
            return
        if line == "/new":
            history, last = [], None
            status().print("A new conversation.", style="dim")
        elif line == "/story" and last is not None:
            from keqa.cli.story import record_tree

            results().print(record_tree(last))
        elif line.startswith("/"):
            unknown = "no question was answered yet" if line == "/story" else f"there is no {line}"
            status().print(f"keqa: {unknown}. {_COMMANDS}", style="yellow", soft_wrap=True)
        elif line and (record := _told(asked, line, history, roles)) is not None:
            last = record
            if record.answer is not None:
                history.append((record.standalone or record.question, record.answer))
                _show_briefly(record)


def _typed_lines() -> Iterator[str]:
    """What is typed, with a prompt where somebody types it."""
    while True:
        if sys.stdin.isatty():
            sys.stderr.write("> ")
            sys.stderr.flush()
        if not (line := sys.stdin.readline()):
            return
        yield line


def _told(program: Program, question: str, history: list[tuple[str, str]], roles: Roles) -> QuestionRecord | None:
    """The record of a question of a conversation, which goes on whatever becomes of it."""
    from keqa.programs.records import record_without_keys

    try:
        with status().status("asking…"):
            record, error = _answer(program, question, {"history": history})
    except KeyboardInterrupt:
        status().print("given up", style="dim")
        return None
    except (InputError, StageError) as problem:
        complain(problem)
        return None
    if error is not None:
        complain(error)
    return record_without_keys(record, roles.every)


def _show_briefly(record: QuestionRecord) -> None:
    from keqa.cli.story import written_answer
    from keqa.programs.prediction import sources_of
    from keqa.programs.unanswered import lines_of, said

    finding = record.unanswered
    style = "bold yellow" if record.guessed or finding is not None else "bold green"
    lines = [". ".join([line, *beneath]) for line, beneath in lines_of(finding)] if finding is not None else []
    sources, written = sources_of(record), [*written_answer(record)]
    if written:
        lines += [f"[{number}] {source.label}" for number, source in enumerate(sources, start=1)]
    elif names := dict.fromkeys(source.title or source.id for source in sources):
        lines.append(f"Sources: {'; '.join(names)}")
    before = [] if record.standalone is None else [Text(visible_line(f"→ {record.standalone}"), "dim")]
    answer = written or [Text(visible_line(said(record)), style)]
    for part in [*before, *answer, *(Text(visible_line(line), "dim") for line in lines)]:
        results().print(part, soft_wrap=isinstance(part, Text))
