"""``keqa demo``: ways to answer the testbed's questions, in one table."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keqa.cli.console import UNANSWERED, results, show_figures
from keqa.cli.options import AsJson

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from keqa.evaluation.demo import DemoResult
    from keqa.metrics.significance import Interval


def demo(
    questions: Annotated[int, typer.Option(min=2, help="Test questions of the testbed.")] = 60,
    as_json: AsJson = False,
) -> None:
    """Compare closed book, always-retrieve and KEQA on the testbed, with the LM that ships with it.

    No key and no network are needed: both the fictional encyclopedia and the language model that knows a part of it
    come with the package. Exit code: 0, or 1 where a method answered no question.
    """
    from keqa.cli.progress import Bars
    from keqa.evaluation.demo import COMPILED, run_demo

    done: Counter[str] = Counter()
    loading = "loading the language model"
    with Bars() as bars:
        bars.report(loading, 0, 1)

        def advance(method: str) -> None:
            done[method] += 1
            bars.report(loading, 1, 1)
            bars.report(method, done[method], questions)

        result = run_demo(questions, advance)
    if as_json:
        show_figures(_figures(result))
    else:
        results().print(_table(result))
        results().print(
            f"{result.questions} test questions. F1 and EM: mean with a 95 % bootstrap interval over questions. Lead: "
            f"F1 of {COMPILED}, less the row's, with the paired interval; * where it excludes zero.",
            style="dim",
        )
        results().print(_untouched(result), style="dim")
        ask = 'keqa ask "What is the residence of the author of The Restless Song?" --program testbed'
        results().print(f"One question in full: {ask}", soft_wrap=True)
    if any(row.failed == result.questions for row in result.rows):
        raise typer.Exit(UNANSWERED)


def _table(result: DemoResult) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    # Narrow enough for a terminal of 80 columns.
    title = "The testbed, answered by the language model that ships with KEQA"
    table = Table(title=title, box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    table.add_column("method")
    for name in ("F1", "EM", "lead", "retr.", "calls", "sec.", "failed"):
        table.add_column(name, justify="right", no_wrap=True)
    compiled = result.compiled
    for row in result.rows:
        lead: str | Text = "" if row is compiled else _written(row.f1_less(compiled), signed=True)
        table.add_row(
            row.method,
            _written(row.f1),
            _written(row.em),
            lead,
            f"{row.retrievals:.1f}",
            f"{row.calls:.1f}",
            f"{row.seconds / result.questions:.2f}",
            str(row.failed),
            style="bold" if row is compiled else None,
        )
    table.caption = "retrievals, LM calls and seconds are for one question"
    table.caption_justify = "left"
    return table


def _written(interval: Interval, *, signed: bool = False) -> Text:
    from rich.text import Text

    sign = "+" if signed else ""
    star = "*" if signed and interval.excludes_zero else ""
    return Text.assemble(
        f"{interval.mean:{sign}.2f}{star}\n", (f"{interval.low:{sign}.2f}…{interval.high:{sign}.2f}", "dim")
    )


def _untouched(result: DemoResult) -> str:
    """The scores over the questions that no failure touched, where these are not all."""
    untouched = [
        f"{row.method} {row.untouched} (F1 {_mean(row.untouched_f1)}, EM {_mean(row.untouched_em)})"
        for row in result.rows
        if row.untouched < result.questions
    ]
    if not untouched:
        return f"Untouched by failures: all {result.questions} questions of every row."
    return f"Untouched by failures, of {result.questions}: {'; '.join(untouched)}; all of the other rows."


def _mean(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _figures(result: DemoResult) -> dict[str, Any]:
    compiled = result.compiled
    return {
        "questions": result.questions,
        "rows": [
            {
                "method": row.method,
                "f1": _ends(row.f1),
                "em": _ends(row.em),
                "lead_in_f1": None if row is compiled else _ends(row.f1_less(compiled)),
                "retrievals_per_question": row.retrievals,
                "lm_calls_per_question": row.calls,
                "seconds_per_question": row.seconds / result.questions,
                "failed": row.failed,
                "untouched": row.untouched,
                "untouched_f1": row.untouched_f1,
                "untouched_em": row.untouched_em,
            }
            for row in result.rows
        ],
    }


def _ends(interval: Interval) -> dict[str, float]:
    return {"mean": interval.mean, "low": interval.low, "high": interval.high, "level": interval.level}
