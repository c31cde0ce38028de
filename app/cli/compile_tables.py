"""What a compilation learned, as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from keqa.cli.console import table
from keqa.storage.redaction import visible

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from keqa.optimize.report import Report
    from keqa.programs.records import CallCost

_PROBLEMS_SHOWN = 8


def report_parts(report: Report) -> Iterator[RenderableType]:
    """Tables of predictors, settings and scores, then reference, cost and problems in a line each."""
    yield _predictors(report)
    for change in report.predictors:
        if change.instruction_after != change.instruction_before:
            yield Text(f"{change.name}, instruction before", "bold")
            yield _plain(change.instruction_before, "dim")
            yield Text(f"{change.name}, instruction after", "bold")
            yield _plain(change.instruction_after)
            yield Text("")
    if report.settings:
        yield _settings(report)
    if report.curve:
        costs = f"{report.cost_per_retrieval:g} · retrievals - {report.cost_per_call:g} · LM calls a question"
        yield Text(f"Chosen from {len(report.curve)} settings for score - {costs}.\n", "dim")
    yield _scores(report)
    if report.failed:
        yield _failed(report)
    yield Text(
        f"Learned from {report.trained_on} training questions. The program was chosen on the validation questions: "
        "expect a smaller gain on others.\n",
        "dim",
    )
    if report.settings:
        yield _line("utility reference", _reference(report))
        yield _line("boundary model", _boundary(report))
    yield _line("language models", _cost(report))
    if report.problems:
        yield Text("What could not be used", "yellow")
        for problem in report.problems[:_PROBLEMS_SHOWN]:
            yield _plain(f"  {problem}", "yellow")
        more = len(report.problems) - _PROBLEMS_SHOWN
        if more > 0:
            yield Text(f"  and {more} more, which the program's folder lists", "yellow")


def _predictors(report: Report) -> Table:
    rows = [
        (
            change.name,
            "as it was" if change.instruction_after == change.instruction_before else "rewritten",
            str(change.demos_before),
            Text(str(change.demos_after), "green" if change.demos_after else "dim"),
        )
        for change in report.predictors
    ]
    return _table("What each predictor learned", ("predictor", "instruction", "demos before", "after"), rows)


def _settings(report: Report) -> Table:
    rows = [
        [
            Text(one, "" if change.before == change.after else "bold")
            for one in (name, *map(_value, (change.before, change.after)))
        ]
        for name, change in report.settings.items()
    ]
    return _table("Settings", ("setting", "before", "after"), rows)


def _scores(report: Report) -> Table:
    rows = []
    for trial in report.trials:
        kept = trial.name in report.chosen
        end = Text("kept", "green") if kept else Text()
        rows.append([Text(trial.name, "" if kept else "dim"), Text(f"{trial.score:.3f}"), Text(), end])
    for name, interval in (("before", report.before_score), ("compiled", report.after_score), ("gain", report.gain)):
        if interval is not None:
            cells = (name, f"{interval.mean:.3f}", f"{interval.low:.3f} … {interval.high:.3f}", "")
            rows.append([Text(cell, "bold") for cell in cells])
    names = ("program", "score", "95 % interval", "")
    return _table(f"Score on {report.validated_on} validation questions", names, rows)


def _failed(report: Report) -> Table:
    rows = [(one.step, f"{one.asked:,}", Text(f"{one.failed:,}", "yellow"), one.cause) for one in report.failed]
    names = ("step", "questions", "failed", "mostly")
    return _table("Questions without an answer; each scored 0", names, rows)


def _reference(report: Report) -> str:
    if not report.reference:
        return "none"
    labelled = ", ".join(f"{count:,} {label}" for label, count in report.reference.items()) + " passages"
    doubted = f"; unreliable sources: {', '.join(report.unreliable_sources)}" if report.unreliable_sources else ""
    return labelled + visible(doubted)


def _boundary(report: Report) -> str:
    if report.boundary is None:
        return "none"
    found = report.boundary["held_out"]
    ranked = (found["mastery"]["auroc"], found["vote"]["auroc"])
    boundary, vote = ("-" if one is None else f"{one:.3f}" for one in ranked)
    kept = "decides" if report.boundary["kept"] else "left out"
    reads = {"quiz": "the quiz", "draft": "one draft", "draws": "all draws"}[report.boundary["reads"]]
    return f"{kept}; reads {reads}; AUROC {boundary} on {found['quizzes']:,} quizzes held out (five votes: {vote})"


def _cost(report: Report) -> str:
    spent = _spent(report.spent)
    if report.spent_earlier.calls:
        spent += f"; earlier runs in the same folder: at least {_spent(report.spent_earlier)}"
    return spent


def _spent(spent: CallCost) -> str:
    tokens = f"{spent.prompt_tokens:,} tokens read and {spent.completion_tokens:,} written"
    return f"{spent.calls:,} calls, {tokens}"


def _table(title: str, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    return table(names, rows, title=title, title_justify="left")


def _line(label: str, text: str) -> Text:
    return Text.assemble((f"{label}: ", "bold"), text)


def _plain(text: str, style: str = "") -> Text:
    return Text(visible(text), style)


def _value(value: Any) -> str:
    return "-" if value is None else str(value)
