"""``keqa ask``: one question, answered in the open."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keqa.cli.given import open_retriever, refuse_stray_addresses, settings_of
from keqa.errors import InputError, StageError

if TYPE_CHECKING:
    from keqa.data.question import AnswerType
    from keqa.lms import Roles
    from keqa.programs.program import Program
    from keqa.programs.records import QuestionRecord
    from keqa.retrievers import Retriever

__all__ = ["ask"]

UNANSWERED = 1
"""Exit code of a question that ended without an answer."""

_LMS = "Language models"
_METHOD = "Method"


def ask(
    question: Annotated[
        str,
        typer.Argument(metavar="QUESTION", help="The question; - reads it from standard input.", show_default=False),
    ],
    index: Annotated[
        str | None,
        typer.Option(
            "--index",
            "-i",
            help="An index made by keqa index: its folder, or elasticsearch://host:9200/name; several with commas are "
            "ranked together. The testbed's encyclopedia by default.",
        ),
    ] = None,
    program: Annotated[
        Path | None,
        typer.Option(
            "--program",
            "-p",
            help="A compiled program, whose settings hold where no option is given; testbed is the one that ships.",
        ),
    ] = None,
    embedder: Annotated[
        str | None,
        typer.Option(
            help="The embedding model that the program was compiled with, where it is one of the hub or in a folder: "
            "it is opened only if you name it.",
            show_default=False,
        ),
    ] = None,
    answer_type: Annotated[str, typer.Option(help="short, yes/no or choice.")] = "short",
    choice: Annotated[
        list[str] | None, typer.Option(help="An option to choose from; give it once for each option.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole record as JSON and nothing else.")] = False,
    lm: Annotated[
        str | None,
        typer.Option(
            "--lm",
            "-m",
            help="Any LiteLLM string (openai/…, anthropic/…, ollama_chat/…, hosted_vllm/…), transformers/FOLDER, "
            "local/smollm2, or keqa/tiny, which ships with KEQA and knows only the testbed.",
            rich_help_panel=_LMS,
        ),
    ] = None,
    consistency_lm: Annotated[
        str | None,
        typer.Option(help="Judges whether two answers mean the same; --lm by default.", rich_help_panel=_LMS),
    ] = None,
    utility_lm: Annotated[
        str | None, typer.Option(help="Judges whether a passage helps; --lm by default.", rich_help_panel=_LMS)
    ] = None,
    api_base: Annotated[str | None, typer.Option(help="Address of the server of --lm.", rich_help_panel=_LMS)] = None,
    consistency_api_base: Annotated[
        str | None, typer.Option(help="Address of the server of --consistency-lm.", rich_help_panel=_LMS)
    ] = None,
    utility_api_base: Annotated[
        str | None, typer.Option(help="Address of the server of --utility-lm.", rich_help_panel=_LMS)
    ] = None,
    tries: Annotated[
        int | None,
        typer.Option(
            min=1, help="Closed-book samples of the answer to a quiz (N_c).", show_default="5", rich_help_panel=_METHOD
        ),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            help="Share of equal samples from which a quiz is known: .8 or 4/5.",
            show_default="0.8",
            rich_help_panel=_METHOD,
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(min=0.0, help="Temperature of the samples.", show_default="1.0", rich_help_panel=_METHOD),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(min=1, help="Passages retrieved for a quiz.", show_default="10", rich_help_panel=_METHOD),
    ] = None,
    no_examine: Annotated[
        bool, typer.Option("--no-examine", help="Retrieve for every quiz.", rich_help_panel=_METHOD)
    ] = False,
    no_pick: Annotated[
        bool, typer.Option("--no-pick", help="Keep every passage retrieved.", rich_help_panel=_METHOD)
    ] = False,
    select: Annotated[
        bool,
        typer.Option(
            "--select",
            help="Put the sentences closest to triples that the question needs beside the passages (KS-LLM).",
            rich_help_panel=_METHOD,
        ),
    ] = False,
    no_cache: Annotated[
        bool,
        typer.Option(
            "--no-cache",
            help="Make every call again; by default DSPy's cache answers what was asked before.",
            rich_help_panel=_LMS,
        ),
    ] = False,
    no_decompose: Annotated[
        bool, typer.Option("--no-decompose", help="Take the question as its only quiz.", rich_help_panel=_METHOD)
    ] = False,
) -> None:
    """Ask a question and see how it was answered.

    Without --index and --lm it goes to the language model that ships with KEQA, over the testbed's fictional
    encyclopedia. Exit code: 0 answered, 1 the question ended without an answer, 2 something to put right first.
    """
    from keqa.cli.console import complain, status

    kind = _answer_type(answer_type, choice or [])
    given = settings_of(
        tries=tries,
        threshold=threshold,
        temperature=temperature,
        top_k=top_k,
        no_decompose=no_decompose,
        no_examine=no_examine,
        no_pick=no_pick,
        select=select,
    )
    if embedder is not None and program is None:
        raise InputError("--embedder needs --program: the compiled program whose embedding model it is")
    refuse_stray_addresses(lm, consistency_lm, consistency_api_base, utility_lm, utility_api_base, api_base)
    with status().status("asking…"):
        text = _checked(sys.stdin.read() if question == "-" else question)
        from keqa.cli.preflight import check_listening, check_roles

        servers = {
            "api_base": api_base,
            "consistency_api_base": consistency_api_base,
            "utility_api_base": utility_api_base,
        }
        check_listening(lm, consistency_lm, utility_lm, **servers)
        retriever = open_retriever(index, lm)
        from keqa.lms import build_roles

        roles = build_roles(lm or "keqa/tiny", consistency_lm, utility_lm, cache=not no_cache, **servers)
        asked = _program(program, retriever, roles, given, embedder)
        check_roles(roles)
        record, error = _answer(asked, text, kind, choice or [])
    from keqa.programs.record_redaction import record_without_keys

    _show(record_without_keys(record, [roles.task, roles.consistency, roles.utility]), as_json)
    if error is not None:
        complain(error)
        raise typer.Exit(UNANSWERED)


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


def _program(
    folder: Path | None, retriever: Retriever, roles: Roles, given: Mapping[str, Any], embedder: str | None
) -> Program:
    """The program in a folder, or one that is not compiled, with the options that were given."""
    if folder is None:
        from keqa.programs.keqa import KEQA

        return KEQA(retriever, lms=roles, **given)
    from keqa.programs.saving.folder import load

    program: Program = load(folder, retriever, roles, embedder=embedder, **given)
    return program


def _answer(
    program: Program, question: str, answer_type: AnswerType, choices: list[str]
) -> tuple[QuestionRecord, StageError | None]:
    """Ask, and keep the story of a question that failed."""
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
