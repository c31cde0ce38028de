"""``keqa demo``: ways to answer the testbed's questions, in one table."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import typer

from keqa.cli.console import UNANSWERED, emit, table
from keqa.cli.options import AsJson, option

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from keqa.evaluation.demo import DemoResult
    from keqa.metrics.significance import Interval


def demo(
    *,
    questions: int = option("Test questions of the testbed.", default=60, min=2),
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
    from rich.text import Text

    said = (
        f"{result.questions} test questions. F1 and EM: mean with a 95 % bootstrap interval over questions. Lead: "
        f"F1 of {COMPILED}, less the row's, with the paired interval; * where it excludes zero."
    )
    ask = 'keqa ask "What is the residence of the author of The Restless Song?" --program testbed'
    shown = (_table(result), Text(said, "dim"), Text(_untouched(result), "dim"), f"One question in full: {ask}")
    emit(_figures(result), shown, as_json=as_json)
    if any(row.failed == result.questions for row in result.rows):
        raise typer.Exit(UNANSWERED)


def _table(result: DemoResult) -> Table:
    from rich.text import Text

    rows = []
    for row in result.rows:
        best = row is result.compiled
        cells: list[str | Text] = [
            row.method,
            _written(row.f1),
            _written(row.em),
            "" if best else _written(row.f1_less(result.compiled), signed=True),
            f"{row.retrievals:.1f}",
            f"{row.calls:.1f}",
            f"{row.seconds / result.questions:.2f}",
            str(row.failed),
        ]
        rows.append([Text.assemble(cell, style="bold") for cell in cells] if best else cells)
    # Narrow enough for a terminal of 80 columns.
    return table(
        ("method", "F1", "EM", "lead", "retr.", "calls", "sec.", "failed"),
        rows,
        title="The testbed, answered by the language model that ships with KEQA",
        caption="retrievals, LM calls and seconds are for one question",
        caption_justify="left",
        collapse_padding=True,
        pad_edge=False,
    )


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
    rows = [
        {
            "method": row.method,
            "f1": _ends(row.f1),
            "em": _ends(row.em),
            "lead_in_f1": None if row is result.compiled else _ends(row.f1_less(result.compiled)),
            "retrievals_per_question": row.retrievals,
            "lm_calls_per_question": row.calls,
            "seconds_per_question": row.seconds / result.questions,
            **{name: getattr(row, name) for name in ("failed", "untouched", "untouched_f1", "untouched_em")},
        }
        for row in result.rows
    ]
    return {"questions": result.questions, "rows": rows}


def _ends(interval: Interval) -> dict[str, float]:
    return {name: getattr(interval, name) for name in ("mean", "low", "high", "level")}
