"""``keqa compare``: several methods on the same questions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from keqa.cli.options import (
    AsJson,
    LanguageModels,
    MethodOptions,
    Places,
    QuestionOptions,
    RunOptions,
    given,
    with_groups,
)
from keqa.errors import InputError

LEFT_OUT = 1
"""Exit code of a comparison that a method was left out of, or in which one answered no question."""


@with_groups
def compare(
    methods: Annotated[
        list[str],
        typer.Argument(
            metavar="METHOD...",
            help="keqa, closed-book, cot, rag, ircot and so on; with arguments of its own as rag:top_k=5. Or run files "
            "and folders of them, which are compared without asking anything; --out is their only option.",
            show_default=False,
        ),
        Places(":=,"),
    ],
    as_json: AsJson = False,
    *,
    questions: QuestionOptions,
    run: RunOptions,
    options: MethodOptions,
    models: LanguageModels,
) -> None:
    """Ask several methods the same questions, one run file a method in OUT, and put them side by side.

    They share language models, passages and a cache of calls, so that none pays for what another has asked; both what
    the answers take and what was paid are reported. The same command resumes after a kill, and one more method costs
    its own questions only. The paper's tables and figures are written to OUT/report; given run files, they are
    drawn again.

    Gates (gate-votes, gate-certainty and so on) decide on the same samples. gate-probability needs samples with token
    probabilities: name it from the beginning, for gates that were asked without it in OUT are not asked again with it.

    On the testbed ircot collects 8 passages at most, as many as the language model that ships was trained to read.
    rowen compares answers in English and Chinese, as in its paper, or in another language with rowen:language=German;
    the language model that ships speaks English only, and rephrased questions are all that is compared.

    A method whose language model gives no token probabilities, though it needs them, is reported and left out. Exit
    code: 0 where every method was asked, 1 where one was left out or answered no question, 2 something to put right
    first, such as a server that is away.
    """
    from keqa.cli.console import results, show_figures
    from keqa.cli.run_table import figures, run_table, warn_of_failures
    from keqa.cli.running import none_answered, questions_of, rows_of
    from keqa.evaluation.compiled_programs import check_programs
    from keqa.evaluation.reports.summary import read_brief
    from keqa.programs.registry import parse_spec

    files = run_files(methods)
    left_out = False
    if files is None:
        specs = [parse_spec(method) for method in methods]
        check_programs(specs, options.program)
        rows = rows_of(specs, questions_of(questions, options), models, options, run, leave_out=True)
        left_out = len(rows) < len(specs) or none_answered(rows)
        if not rows:
            raise typer.Exit(LEFT_OUT)
        files = [row.path for row in rows]
        warn_of_failures(rows)
        if as_json:
            show_figures(figures(rows))
        else:
            results().print(run_table(rows))
    elif flags := [*given(questions, replace(run, out=RunOptions.out), options, models), *["--json"] * as_json]:
        raise InputError(f"run files are compared as they are, and nothing is asked: leave out {', '.join(flags)}")
    from keqa.evaluation.reports import effect_table, table, write

    runs = [read_brief(file) for file in files]
    write(run.out / "report", runs)
    if not as_json:
        results().print(table(runs))
        if (effect := effect_table(runs)) is not None:
            results().print(effect)
        results().print(f"Tables and figures: {run.out / 'report'}", soft_wrap=True)
    if left_out:
        raise typer.Exit(LEFT_OUT)


def run_files(names: list[str]) -> list[Path] | None:
    """The run files that are named, by themselves or by their folder; None where methods are.

    Raises:
        InputError: Some are and some are not, or a folder holds none.
    """
    from keqa.programs.registry import METHODS

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
        inside = sorted(place.glob("*.jsonl"), key=_order) if place.is_dir() else [place]
        if not inside:
            raise InputError(f"{place} holds no run file")
        found += inside
    return found


def _order(file: Path) -> tuple[int, str]:
    """A folder's runs in the order of the paper's tables, as far as their names show their methods."""
    from keqa.programs.registry import METHODS

    named = [name for name in METHODS if f"{file.stem}-".startswith(f"{name}-")]
    known = max(named, key=len, default=None)
    return (len(METHODS) if known is None else list(METHODS).index(known)), file.stem
