"""``keqa compare``: several methods on the same questions."""

from __future__ import annotations

import json
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
from keqa.errors import InputError

__all__ = ["compare"]


def compare(
    methods: Annotated[
        list[str],
        typer.Argument(
            metavar="METHOD...",
            help="keqa, closed-book, cot, rag, ircot and so on; with arguments of its own as rag:top_k=5. Or run files "
            "and folders of them, which are compared without asking anything.",
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
    """Ask several methods the same questions, one run file a method in OUT, and put them side by side.

    They share language models, passages and a cache of calls, so that none pays for what another has asked; both what
    the answers take and what was paid are told. The same command goes on after a kill, and one more method costs its
    own questions only. The paper's tables and figures are written to OUT/report; given run files, they are drawn again.
    """
    from keqa.cli.console import results, status
    from keqa.cli.running import Asking, Models, figures, questions_of, rows_of, run_table, settings_of, told_failures
    from keqa.runs.lines import read_run
    from keqa.runs.methods import parse_spec

    files = run_files(methods)
    if files is None:
        specs = [parse_spec(method) for method in methods]
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
        rows = rows_of(specs, asking)
        files = [row.path for row in rows]
        for line in told_failures(rows):
            status().print(line, style="yellow", markup=False, soft_wrap=True)
        if as_json:
            typer.echo(json.dumps(figures(rows), indent=2))
        else:
            results().print(run_table(rows))
    elif testbed or questions is not None or lm is not None or as_json:
        raise InputError("run files are compared as they are: leave out --testbed, --questions, --lm and --json")
    from keqa.reports import table, write

    runs = [read_run(file) for file in files]
    write(out / "report", runs)
    if not as_json:
        results().print(table(runs))
        results().print(f"Tables and figures: {out / 'report'}", markup=False, soft_wrap=True)


def run_files(names: list[str]) -> list[Path] | None:
    """The run files that are named, by themselves or by their folder; None where methods are.

    Raises:
        InputError: Some are and some are not, or a folder holds none.
    """
    from keqa.runs.methods import METHODS

    # A folder may be called like a method, and then has to be written as ./keqa.
    places = [Path(name) for name in names if name.partition(":")[0] not in METHODS]
    if not any(place.exists() or place.suffix == ".jsonl" for place in places):
        return None
    if len(places) < len(names):
        raise InputError("give run files only, or methods only")
    found: list[Path] = []
    for place in places:
        if not place.exists():
            raise InputError(f"{place} is not there")
        inside = sorted(place.glob("*.jsonl")) if place.is_dir() else [place]
        if not inside:
            raise InputError(f"{place} holds no run file")
        found += inside
    return found
