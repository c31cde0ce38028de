"""``keqa evaluate``: one method, many questions, a line each."""

from __future__ import annotations

from dataclasses import replace

import typer

from keqa.cli.console import UNANSWERED, emit
from keqa.cli.options import AsJson, EvaluationOptions, Places, argument, option


def evaluate(
    *,
    method: str = argument(
        "METHOD",
        "keqa, closed-book, cot, rag, ircot and so on; with arguments of its own as rag:top_k=5.",
        place=Places(":=,"),
    ),
    label: str | None = option("Name of the run and its file; METHOD by default."),
    as_json: AsJson = False,
    options: EvaluationOptions,
) -> None:
    """Ask a method questions with known answers, and keep a line for each in OUT/METHOD.jsonl.

    The line is there when its question ends: the same command resumes after a kill and asks nothing twice. A question
    that fails is kept apart from a wrong answer. Several methods, side by side: keqa compare.

    With --risk the method says "I do not know" where its answer is too probably wrong. It says first how often that
    will be, and does not begin where no threshold holds the risk.

    Exit code: 0 where some question was answered, 1 where every one failed, 2 something to put right first, such as a
    server that is away.
    """
    from keqa.cli.run_table import figures, run_table, warn_of_failures
    from keqa.cli.running import evaluate_methods, none_answered
    from keqa.programs.registry import parse_spec

    spec = parse_spec(method)
    spec = spec if label is None else replace(spec, label=label)
    rows = evaluate_methods([spec], options, held=spec)
    emit(figures(rows)[0], [run_table(rows), f"Each question in full: {rows[0].path}"], as_json=as_json)
    if not as_json:
        warn_of_failures(rows)
    if none_answered(rows):
        raise typer.Exit(UNANSWERED)
