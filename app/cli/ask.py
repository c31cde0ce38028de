"""``keqa ask``: one question, answered in the open."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from keqa.cli.console import NOT_IN_DOCUMENTS, UNANSWERED, complain, results, show_json, status, warn
from keqa.cli.options import (
    AsJson,
    KeqaOptions,
    LanguageModels,
    ProgramOptions,
    RiskOptions,
    argument,
    option,
)
from keqa.errors import InputError, NotInDocumentsError, StageError

if TYPE_CHECKING:
    from rich.text import Text

    from keqa.data.question import AnswerType
    from keqa.lms import Roles
    from keqa.programs.build import Parts
    from keqa.programs.program import Program
    from keqa.programs.records import QuestionRecord
    from keqa.retrievers import Retriever


def ask(
    *,
    question: str = argument("QUESTION", "The question; - reads it from standard input."),
    program: ProgramOptions,
    method: str = option(
        "Any method of keqa compare, such as ks-llm or rag:top_k=5, with the settings below that it has.",
        default="keqa",
    ),
    answer_type: str = option("short, yes/no or choice.", default="short"),
    choice: list[str] | None = option("An option to choose from; give it once for each option."),
    as_json: AsJson = False,
    full: bool = option("Show passages whole.", default=False),
    quiet: bool = option("Print the answer alone.", "-q", default=False),
    html: Path | None = option("Write the story to this file, too, as a page that needs no network."),
    max_tokens: int | None = option(
        "Tokens that a reply may have.", shown="1024; 256 for a model in this process", min=1
    ),
    timeout: float = option("Seconds for one attempt at a call to a served model.", default=120.0, min=0.1),
    models: LanguageModels,
    options: KeqaOptions,
    risk: RiskOptions,
) -> None:
    """Ask a question and see how it was answered.

    The answer stands first, then its sources with the sentences that carried it, then the story. On a terminal, each
    quiz is shown as it settles.

    Without --index and --lm it goes to the language model that ships with KEQA, over the testbed's fictional
    encyclopedia. Exit code: 0 answered, 1 the question ended without an answer, 2 something to put right first, 3 the
    documents do not say it.
    """
    kind = _answer_type(answer_type, choice or [])
    if as_json and (full or quiet):
        raise InputError("--json prints the whole record and nothing else: leave out --full and --quiet")
    if html is not None:
        from keqa.page.story import check_place, story_page, write_page

        check_place(html)
    from keqa.data.question import clean

    text = sys.stdin.read() if question == "-" else question
    if not clean(text):
        raise InputError("the question is empty")
    from keqa.cli.opening import open_all

    def other(retriever: Retriever, roles: Roles) -> Program:
        from keqa.programs.build import Parts, own_of

        own, folder = own_of(models.lm), program.program
        return _method(method, Parts(retriever, roles, options.settings(), folder, own=own, embedder=program.embedder))

    make = None if method == "keqa" else other
    asked, _, roles = open_all(program, models, options, risk, make=make, max_tokens=max_tokens, timeout=timeout)
    console = status()
    with console.status("asking…") as shown:
        live = console.is_terminal and not quiet and not as_json
        record, error = _answer(asked, text, kind, choice or [], shown.update if live else None)
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
    from keqa.cli.answer import shown_answer
    from keqa.cli.record_tree import plain
    from keqa.programs.sources import sources_of

    if as_json:
        sources = [source.model_dump(mode="json") for source in sources_of(record)]
        show_json({**record.model_dump(mode="json"), "sources": sources})
    elif not quiet:
        results().print(shown_answer(record, full=full))
    elif record.answer is not None:
        results().print(plain(record.answer, whole=True), soft_wrap=True)
        if record.guessed:
            warn("The answer is a guess: nothing was found that carries it.")


def _method(name: str, parts: Parts) -> Program:
    """Another method than KEQA."""
    from keqa.cli.running import refuse_foreign
    from keqa.programs.build import make
    from keqa.programs.gates.base import asks
    from keqa.programs.registry import parse_spec
    from keqa.programs.shared_draws import SharedDraws

    spec = parse_spec(name)
    refuse_foreign(parts.settings, [spec])
    gate = spec.method.gate
    draws = None if gate is None else SharedDraws(probabilities=asks(gate) == "probabilities")
    return make(spec, replace(parts, draws=draws))


def _answer_type(given: str, choices: list[str]) -> AnswerType:
    """Check the answer type; choices alone say that it is a choice."""
    known: dict[str, AnswerType] = {"short": "short", "yes/no": "yes/no", "choice": "choice"}
    if given not in known:
        raise InputError(f"--answer-type must be short, yes/no or choice, not {given!r}")
    if choices and given == "short":
        return "choice"
    if (given == "choice") != bool(choices):
        raise InputError("--answer-type choice and --choice go together: give each option with its own --choice")
    return known[given]


def _answer(
    program: Program,
    question: str,
    answer_type: AnswerType,
    choices: list[str],
    update: Callable[[Text], Any] | None,
) -> tuple[QuestionRecord, StageError | None]:
    """Ask, and keep the record of a question that failed."""
    try:
        if update is None:
            prediction = program(question, answer_type=answer_type, choices=choices)
        else:
            from keqa.cli.answer import follow

            prediction = follow(program.stream(question, answer_type=answer_type, choices=choices), update)
    except NotInDocumentsError as finding:
        return finding.record, None
    except StageError as error:
        record = getattr(error, "record", None)
        if record is None:
            raise
        return record, error
    return prediction.record, None
