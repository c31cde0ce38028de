"""``keqa ask``: one question, answered in the open."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keqa.cli.console import NOT_IN_DOCUMENTS, UNANSWERED, complain, results, show_json, status, warn
from keqa.cli.options import AsJson, KeqaOptions, LanguageModels, ProgramOptions, RiskOptions, with_groups
from keqa.errors import InputError, NotInDocumentsError, StageError

if TYPE_CHECKING:
    from rich.text import Text

    from keqa.data.question import AnswerType
    from keqa.evaluation.build import Parts
    from keqa.programs.program import Program
    from keqa.programs.records import QuestionRecord


@with_groups
def ask(
    question: Annotated[
        str,
        typer.Argument(metavar="QUESTION", help="The question; - reads it from standard input.", show_default=False),
    ],
    program: ProgramOptions,
    method: Annotated[
        str,
        typer.Option(
            help="Any method of keqa compare, such as ks-llm or rag:top_k=5, with the settings below that it has."
        ),
    ] = "keqa",
    answer_type: Annotated[str, typer.Option(help="short, yes/no or choice.")] = "short",
    choice: Annotated[
        list[str] | None, typer.Option(help="An option to choose from; give it once for each option.")
    ] = None,
    as_json: AsJson = False,
    full: Annotated[bool, typer.Option("--full", help="Show passages whole.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer alone.")] = False,
    html: Annotated[
        Path | None,
        typer.Option(help="Write the story to this file, too, as a page that needs no network.", show_default=False),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens that a reply may have.", show_default="1024; 256 for a model in this process"),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds for one attempt at a call to a served model.")
    ] = 120.0,
    *,
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
    settings = options.settings()
    program.check()
    if as_json and (full or quiet):
        raise InputError("--json prints the whole record and nothing else: leave out --full and --quiet")
    models.check()
    risk.check()
    if html is not None:
        from keqa.page.story import check_place, story_page, write_page

        check_place(html)
    console = status()
    with console.status("asking…") as shown:
        from keqa.data.question import clean

        text = sys.stdin.read() if question == "-" else question
        if not clean(text):
            raise InputError("the question is empty")
        from keqa.cli.opening import check_roles, open_program, open_retriever
        from keqa.evaluation.build import Parts, own_of

        models.check_listening()
        retriever = open_retriever(program.index, models.lm)
        roles = models.roles(cache=not program.no_cache, max_tokens=max_tokens, timeout=timeout)
        folder, embedder = program.program, program.embedder
        asked = (
            open_program(folder, retriever, roles, settings, embedder)
            if method == "keqa"
            else _method(method, Parts(retriever, roles, settings, folder, own=own_of(models.lm), embedder=embedder))
        )
        promise = risk.hold(asked)
        check_roles(roles)
        if promise:
            warn(promise)
        live = console.is_terminal and not quiet and not as_json
        record, error = _answer(asked, text, kind, choice or [], shown.update if live else None)
    from keqa.programs.record_redaction import record_without_keys

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
    from keqa.evaluation.build import make
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
