"""``keqa ask``: one question, answered in the open."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from keqa.cli.options import (
    AsJson,
    AskedProgram,
    Embedder,
    Index,
    KeqaOptions,
    LanguageModels,
    NoCache,
    RiskOptions,
    with_groups,
)
from keqa.errors import InputError, StageError

if TYPE_CHECKING:
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
    index: Index = None,
    program: AskedProgram = None,
    embedder: Embedder = None,
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
    no_cache: NoCache = False,
    *,
    models: LanguageModels,
    options: KeqaOptions,
    risk: RiskOptions,
) -> None:
    """Ask a question and see how it was answered.

    Without --index and --lm it goes to the language model that ships with KEQA, over the testbed's fictional
    encyclopedia. Exit code: 0 answered, 1 the question ended without an answer, 2 something to put right first.
    """
    from keqa.cli.console import UNANSWERED, complain, status, warn

    kind = _answer_type(answer_type, choice or [])
    settings = options.settings()
    if embedder is not None and program is None:
        raise InputError("--embedder needs --program: the compiled program whose embedding model it is")
    models.check()
    risk.check()
    with status().status("asking…"):
        text = _checked(sys.stdin.read() if question == "-" else question)
        from keqa.cli.opening import check_roles, open_program, open_retriever
        from keqa.evaluation.build import Parts, own_of

        models.check_listening()
        retriever = open_retriever(index, models.lm)
        roles = models.roles(cache=not no_cache)
        asked = (
            open_program(program, retriever, roles, settings, embedder)
            if method == "keqa"
            else _method(method, Parts(retriever, roles, settings, program, own=own_of(models.lm), embedder=embedder))
        )
        promise = risk.hold(asked)
        check_roles(roles)
        if promise:
            warn(promise)
        record, error = _answer(asked, text, kind, choice or [])
    from keqa.programs.record_redaction import record_without_keys

    _show(record_without_keys(record, [roles.task, roles.consistency, roles.utility]), as_json)
    if error is not None:
        complain(error)
        raise typer.Exit(UNANSWERED)


def _method(name: str, parts: Parts) -> Program:
    """Another method than KEQA.

    Raises:
        InputError: There is none of the name, or a setting was given that it does not have.
    """
    from keqa.cli.running import refuse_foreign
    from keqa.evaluation.build import make
    from keqa.programs.registry import parse_spec

    spec = parse_spec(name)
    refuse_foreign(parts.settings, [spec])
    return make(spec, parts)


def _checked(question: str) -> str:
    """Refuse a question that cannot be asked before anything is loaded for it."""
    from keqa.data.question import clean

    if not clean(question):
        raise InputError("the question is empty")
    return question


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
    program: Program, question: str, answer_type: AnswerType, choices: list[str]
) -> tuple[QuestionRecord, StageError | None]:
    """Ask, and keep the record of a question that failed."""
    try:
        prediction = program(question, answer_type=answer_type, choices=choices)
    except StageError as error:
        record = getattr(error, "record", None)
        if record is None:
            raise
        return record, error
    return prediction.record, None


def _show(record: QuestionRecord, as_json: bool) -> None:
    from keqa.cli.console import results, show_json
    from keqa.cli.record_tree import record_tree

    if as_json:
        show_json(record.model_dump(mode="json"))
    else:
        results().print(record_tree(record))
