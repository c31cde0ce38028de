"""``keqa evaluate``: one method, many questions, a line each."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from keqa.cli.run_options import (
    ApiBase,
    AsJson,
    ConsistencyApiBase,
    ConsistencyLm,
    DataFolder,
    Index,
    InFlight,
    Limit,
    Lm,
    NoCache,
    NoDecompose,
    Out,
    ProgramFolder,
    QuestionsName,
    RetryFailed,
    Sample,
    Seed,
    Split,
    Temperature,
    Testbed,
    Threshold,
    TopK,
    Tries,
    UtilityApiBase,
    UtilityLm,
)

__all__ = ["evaluate"]


def evaluate(
    method: Annotated[
        str,
        typer.Argument(
            metavar="METHOD",
            help="keqa, closed-book, cot, rag, ircot and so on; with arguments of its own as rag:top_k=5.",
            show_default=False,
        ),
    ],
    testbed: Testbed = False,
    questions: QuestionsName = None,
    data: DataFolder = None,
    split: Split = None,
    sample: Sample = None,
    seed: Seed = 0,
    limit: Limit = None,
    out: Out = Path("runs"),
    label: Annotated[str | None, typer.Option(help="Name of the run and its file; METHOD by default.")] = None,
    retry_failed: RetryFailed = False,
    no_cache: NoCache = False,
    in_flight: InFlight = 8,
    as_json: AsJson = False,
    index: Index = None,
    program: ProgramFolder = None,
    tries: Tries = None,
    threshold: Threshold = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    no_decompose: NoDecompose = False,
    lm: Lm = None,
    consistency_lm: ConsistencyLm = None,
    utility_lm: UtilityLm = None,
    api_base: ApiBase = None,
    consistency_api_base: ConsistencyApiBase = None,
    utility_api_base: UtilityApiBase = None,
) -> None:
    """Ask a method questions with known answers, and keep a line for each in OUT/METHOD.jsonl.

    The line is there when its question ends: the same command goes on after a kill and asks nothing twice. A question
    that fails is kept apart from a wrong answer. Several methods, side by side: keqa compare.
    """
    from keqa.cli.console import results, status
    from keqa.cli.running import Asking, Models, figures, questions_of, rows_of, run_table, settings_of, told_failures
    from keqa.runs.methods import parse_spec

    spec = parse_spec(method)
    spec = spec if label is None else replace(spec, label=label)
    asking = Asking(
        questions_of(testbed, questions, data, split, sample, seed, limit, index),
        Models(lm, consistency_lm, utility_lm, api_base, consistency_api_base, utility_api_base),
        out,
        index,
        program,
        settings_of(tries, threshold, temperature, top_k, no_decompose),
        in_flight,
        retry_failed,
        not no_cache,
    )
    rows = rows_of([spec], asking)
    if as_json:
        typer.echo(json.dumps(figures(rows)[0], indent=2))
        return
    results().print(run_table(rows))
    for line in told_failures(rows):
        status().print(line, style="yellow", markup=False, soft_wrap=True)
    results().print(f"Each question in full: {rows[0].path}", markup=False, soft_wrap=True)
