"""What a compilation learned, as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
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
_READS = {"quiz": "the quiz", "draft": "one draft", "draws": "all draws"}


def report_parts(report: Report) -> Iterator[RenderableType]:
    """Tables of predictors, settings and scores, then reference, cost and problems in a line each."""
    yield from _predictors(report)
    if report.settings:
        rows = []
        for name, one in report.settings.items():
            cells = (name, *("-" if value is None else str(value) for value in (one.before, one.after)))
            rows.append([Text(cell, "" if one.before == one.after else "bold") for cell in cells])
        yield _table("Settings", rows, "setting", "before", "after")
    if report.curve:
        costs = f"{report.cost_per_retrieval:g} · retrievals - {report.cost_per_call:g} · LM calls a question"
        yield Text(f"Chosen from {len(report.curve)} settings for score - {costs}.\n", "dim")
    yield _scores(report)
    if report.failed:
        failures = [(one.step, f"{one.asked:,}", Text(f"{one.failed:,}", "yellow"), one.cause) for one in report.failed]
        names = ("step", "questions", "failed", "mostly")
        yield _table("Questions without an answer; each scored 0", failures, *names)
    yield Text(
        f"Learned from {report.trained_on} training questions. The program was chosen on the validation questions: "
        "expect a smaller gain on others.\n",
        "dim",
    )
    yield from _costs(report)
    if report.problems:
        yield Text("What could not be used", "yellow")
        for problem in report.problems[:_PROBLEMS_SHOWN]:
            yield Text(visible(f"  {problem}"), "yellow")
        more = len(report.problems) - _PROBLEMS_SHOWN
        if more > 0:
            yield Text(f"  and {more} more, which the program's folder lists", "yellow")


def _predictors(report: Report) -> Iterator[RenderableType]:
    learned = []
    for change in report.predictors:
        same = change.instruction_after == change.instruction_before
        after = Text(str(change.demos_after), "green" if change.demos_after else "dim")
        learned.append((change.name, "as it was" if same else "rewritten", str(change.demos_before), after))
    yield _table("What each predictor learned", learned, "predictor", "instruction", "demos before", "after")
    for change in report.predictors:
        if change.instruction_after != change.instruction_before:
            texts = (("before", change.instruction_before, "dim"), ("after", change.instruction_after, ""))
            for when, text, style in texts:
                yield Text(f"{change.name}, instruction {when}", "bold")
                yield Text(visible(text), style)
            yield Text("")


def _costs(report: Report) -> Iterator[Text]:
    spent = _spent(report.spent)
    if report.spent_earlier.calls:
        spent += f"; earlier runs in the same folder: at least {_spent(report.spent_earlier)}"
    of_settings = {"utility reference": _reference(report), "boundary model": _boundary(report)}
    for label, text in {**(of_settings if report.settings else {}), "language models": spent}.items():
        yield Text.assemble((f"{label}: ", "bold"), text)


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
    title = f"Score on {report.validated_on} validation questions"
    return _table(title, rows, "program", "score", "95 % interval", "")


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
    boundary, vote = (
        "-" if one is None else f"{one:.3f}" for one in (found["mastery"]["auroc"], found["vote"]["auroc"])
    )
    kept = "decides" if report.boundary["kept"] else "left out"
    auroc = f"AUROC {boundary} on {found['quizzes']:,} quizzes held out (five votes: {vote})"
    return f"{kept}; reads {_READS[report.boundary['reads']]}; {auroc}"


def _spent(spent: CallCost) -> str:
    tokens = f"{spent.prompt_tokens:,} tokens read and {spent.completion_tokens:,} written"
    return f"{spent.calls:,} calls, {tokens}"


def _table(title: str, rows: list[Any], *names: str) -> Table:
    return table(names, rows, title=title, title_justify="left")
