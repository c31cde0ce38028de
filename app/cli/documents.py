"""``keqa documents``: one evidence document a question, for every method to read."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from keqa.cli.console import emit, status, warn_of_many
from keqa.cli.declare import MisplacedOptionError, option
from keqa.cli.options import (
    AS_JSON,
    IN_FLIGHT,
    INDEX,
    LanguageModel,
    MethodOptions,
    QuestionOptions,
    open_retriever,
)
from keqa.errors import InputError

if TYPE_CHECKING:
    from keqa.evaluation.documents import Made, Source


def documents(
    *,
    out: Path = option("The file, .jsonl.", "-o", default=...),
    source: Literal["lm", "contexts", "index"] = option(
        "lm: written by the language model from memory (GenRead). contexts: the passages that come with the "
        "benchmark's questions. index: what --index finds for the question.",
        "--from",
        default="lm",
    ),
    index: str | None = INDEX,
    top_k: int = option("Passages of a document that comes from an index.", default=10, min=1, max=1000),
    in_flight: int = IN_FLIGHT,
    as_json: bool = AS_JSON,
    questions: QuestionOptions,
    model: LanguageModel,
) -> None:
    """Make a file of documents, one a question. Every method then reads the same: --index documents:FILE.

    The same command resumes: what is in the file stays, and questions that got no document are tried again. Exit code:
    0 where every question has a document, 1 otherwise, 2 something to put right first.
    """
    from keqa.cli.running import questions_of
    from keqa.evaluation.documents import make_documents

    if source != "index" and index is not None:
        raise MisplacedOptionError(f"--index is for --from index, not for --from {source}", "--index")
    if source != "lm" and model.lm is not None:
        raise MisplacedOptionError(f"--lm is for --from lm, not for --from {source}", "--lm", "--api-base")
    asked = questions_of(questions, MethodOptions())
    with status().status("making documents…") as shown:

        def progress(made: "Made") -> None:
            shown.update(f"making documents… {made.there + made.written:,}")

        found, origin = source_of(source, index, top_k, model, testbed=questions.testbed)
        made = make_documents(asked.examples, found, out, origin=origin, in_flight=in_flight, progress=progress)
    warn_of_many("no document for ", [f"{identity}: {why}" for identity, why in made.without.items()])
    summary = f"{made.written:,} documents written to {out}, {made.there:,} were there. "
    summary += f"Read them with: keqa compare standard-doc ks-llm --index documents:{out} …"
    figures = {"written": made.written, "there": made.there, "without": len(made.without), "origin": origin}
    emit(figures, [summary], as_json=as_json)
    if made.without:
        raise typer.Exit(1)


def source_of(
    kind: Literal["lm", "contexts", "index"], index: str | None, top_k: int, model: LanguageModel, *, testbed: bool
) -> "tuple[Source, str]":
    """Where documents come from, and what their lines say of it."""
    from keqa.evaluation.documents import from_contexts, from_index, from_memory
    from keqa.testbed.index import DOCUMENTS_ORIGIN

    before = f"{DOCUMENTS_ORIGIN}, " if testbed else ""
    if kind == "contexts":
        return from_contexts, f"{before}the passages of the questions"
    from keqa.programs.fingerprint import digest, lm_spec, retriever_spec

    if kind == "index":
        if index is None and not testbed:
            raise InputError("--from index needs --index: what is searched for each question")
        retriever = open_retriever(index, "any")
        described = digest([retriever_spec(retriever), top_k])
        return from_index(retriever, top_k), f"{before}found in an index, top {top_k} ({described})"
    from keqa.lms import check_reachable
    from keqa.programs.stage import Generation

    roles = model.roles()
    check_reachable(roles.every)
    stage = Generation()
    stage.bind_lms(roles)
    spec = lm_spec(roles.task)
    return from_memory(stage), f"{before}written by {spec['model']} ({digest(spec)})"
