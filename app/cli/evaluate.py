"""``keqa evaluate``: one method, many questions, a line each."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated

import typer

from keqa.cli.run_options import RunOptions, with_run_options

__all__ = ["evaluate"]

UNANSWERED = 1
"""Exit code of a run in which no question was answered."""


@with_run_options
def evaluate(
    method: Annotated[
        str,
        typer.Argument(
            metavar="METHOD",
            help="keqa, closed-book, cot, rag, ircot and so on; with arguments of its own as rag:top_k=5.",
            show_default=False,
        ),
    ],
    label: Annotated[str | None, typer.Option(help="Name of the run and its file; METHOD by default.")] = None,
    *,
    options: RunOptions,
) -> None:
    """Ask a method questions with known answers, and keep a line for each in OUT/METHOD.jsonl.

    The line is there when its question ends: the same command resumes after a kill and asks nothing twice. A question
    that fails is kept apart from a wrong answer. Several methods, side by side: keqa compare.

    Exit code: 0 where some question was answered, 1 where every one failed, 2 something to put right first, such as a
    server that is away.
    """
    from keqa.cli.console import results, status
    from keqa.cli.run_table import figures, run_table, told_failures
    from keqa.cli.running import Asking, none_answered, rows_of
    from keqa.evaluation.compiled_programs import check_programs
    from keqa.programs.registry import parse_spec

    spec = parse_spec(method)
    spec = spec if label is None else replace(spec, label=label)
    check_programs([spec], options.program)
    rows = rows_of([spec], Asking.of(options))
    if options.as_json:
        typer.echo(json.dumps(figures(rows)[0], indent=2))
    else:
        results().print(run_table(rows))
        for line in told_failures(rows):
            status().print(line, style="yellow", markup=False, soft_wrap=True)
        results().print(f"Each question in full: {rows[0].path}", markup=False, soft_wrap=True)
    if none_answered(rows):
        raise typer.Exit(UNANSWERED)
