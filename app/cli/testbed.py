"""``keqa testbed`` and ``keqa demo``: what can be done with the fictional encyclopedia and the LM trained on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from keqa.cli.console import UNANSWERED, Bars, emit, table
from keqa.cli.declare import Commands, option
from keqa.cli.options import AS_JSON, LanguageModel
from keqa.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from keqa.evaluation.demo import MethodResult
    from keqa.metrics.significance import Interval
    from keqa.testbed.check import SkillScore

testbed = Commands(
    name="testbed", help="The fictional encyclopedia, and the small LM trained on a part of it.", no_args_is_help=True
)


@testbed.command()
def check(
    *,
    asked: int = option("Examples for each skill and number of demonstrations.", default=100, min=1),
    skill: list[str] | None = option("This skill only; once for each, all by default."),
    as_json: bool = AS_JSON,
    model: LanguageModel,
) -> None:
    """Ask an LM for every skill on entities it has never seen.

    A reworded signature that needs retraining shows up here. Exit code: 0 where every skill reaches what the testbed
    asks, 1 otherwise.
    """
    from keqa.testbed.check import DEMONSTRATIONS, TASKS, check_skills, shortfalls

    tasks = [task for task in TASKS if not skill or task.name in skill]
    if unknown := set(skill or ()) - {task.name for task in TASKS}:
        raise InputError(
            f"there is no skill {min(unknown)!r}; there are {', '.join(repr(task.name) for task in TASKS)}"
        )
    total = len(tasks) * len(DEMONSTRATIONS) * asked
    with Bars() as bars:
        lm = model.roles().task
        scores = check_skills(lm, asked=asked, tasks=tasks, progress=lambda: bars.advance("checking", total))
    missed = shortfalls(scores)
    names = ("task", "demonstrations", "right", "parsed", "asked")
    rows = [{name: getattr(score, name) for name in names} for score in scores]
    below = [Text(f"below what is asked: {line}", "yellow") for line in missed]
    emit({"lm": model.name, "scores": rows, "shortfalls": missed}, [_table(scores), *below], as_json=as_json)
    if missed:
        raise typer.Exit(1)


@testbed.command()
def boundary(
    *,
    facts: int = option("Facts to examine, drawn over all tiers.", default=400, min=50, max=800),
    tries: int = option("Answers to each, N_c.", default=5, min=1),
    as_json: bool = AS_JSON,
    model: LanguageModel,
) -> None:
    """Examine facts of the encyclopedia: how well does their consistency T_c show what the LM was trained on?"""
    from keqa.testbed.boundary import draw_boundary

    with Bars() as bars:
        roles = model.roles()
        found = draw_boundary(roles, facts=facts, tries=tries, progress=lambda: bars.advance("examining", facts))
    tiers = [{"tier": tier, **found.figures(tier)} for tier in found.tiers]
    shares = ("consistency", "known", "right")
    rows = [(of["tier"], f"{of['facts']:.0f}", *(f"{of[share]:.2f}" for share in shares)) for of in tiers]
    title = f"T_c (samples that agree) of {len(found.facts)} facts, by how often they were in the training text"
    shown = (
        table(("in training", "facts", "mean T_c", "T_c >= .8", "answer right"), rows, title=title),
        f"AUROC, often against never: {found.auroc:.3f}",
        f"AUROC, often and sometimes against never and stale: {found.auroc_of_all:.3f}",
    )
    figures = {"lm": model.name, "tiers": tiers, "auroc": found.auroc, "auroc_of_all": found.auroc_of_all}
    emit(figures, shown, as_json=as_json)


@testbed.command()
def questions(
    *,
    split: str = option("train, dev, test or lists.", default="test"),
    count: int = option("How many to show.", "-n", default=10, min=1),
    seed: int = option("Another seed shows others.", default=0),
    as_json: bool = AS_JSON,
) -> None:
    """Show questions to try with keqa ask and keqa chat, with their answers.

    Below each stand its answer, its kind, and how often the facts its quizzes ask for were in the
    training text of the language model that ships.
    """
    import random

    from keqa.testbed.testbed import Testbed

    splits = ("dev", "lists", "test", "train")
    if split not in splits:
        raise InputError(f"there is no split {split!r}; there are {', '.join(splits)}")
    given = getattr(Testbed(), split)
    drawn = random.Random(seed).sample(given, min(count, len(given)))
    rows = [
        {"id": q.id, "question": q.question, "answer": "; ".join(q.answers), "kind": q.shape, "tiers": list(q.tiers)}
        for q in drawn
    ]
    # A question on a line of its own, to be copied from.
    text = "{question}\n    {answer} ({kind}; in training: {known})"
    emit(rows, [text.format(**row, known=", ".join(row["tiers"])) for row in rows], as_json=as_json)


def _table(scores: list[SkillScore]) -> Table:
    counts = sorted({score.demonstrations for score in scores})
    rows = []
    for task in dict.fromkeys(score.task for score in scores):
        row = {score.demonstrations: score for score in scores if score.task == task}
        shares = [f"{row[count].share:.2f}" if count in row else "" for count in counts]
        parsed = sum(score.parsed for score in row.values()) / sum(score.asked for score in row.values())
        rows.append((task, *shares, f"{parsed:.2f}"))
    title = "Exact match on unseen entities, by number of demonstrations"
    return table(("skill", *map(str, counts), "parsed"), rows, title=title)


def demo(
    *, questions: int = option("Test questions of the testbed.", default=60, min=2), as_json: bool = AS_JSON
) -> None:
    """Compare closed book, always retrieving, always searching and KEQA on the testbed, with the LM that ships with it.

    No key and no network are needed: both the fictional encyclopedia and the language model that knows a part of it
    come with the package. Exit code: 0, or 1 where a method answered no question.
    """
    from keqa.evaluation.demo import COMPILED, run_demo
    from keqa.evaluation.reports.parts import untouched_note

    with Bars() as bars:
        bars.report("loading the language model", 0, 1)

        def advance(method: str) -> None:
            bars.report("loading the language model", 1, 1)
            bars.advance(method, questions)

        rows = run_demo(questions, advance)
    note = (
        f"{len(rows[-1].lines)} test questions. F1 and EM: mean with a 95 % bootstrap interval over questions. Lead: "
        f"F1 of {COMPILED}, less the row's, with the paired interval; * where it excludes zero."
    )
    ask = 'keqa ask "What is the residence of the author of The Restless Song?" --program testbed'
    untouched = untouched_note([row.entry for row in rows])
    shown = (_demo_table(rows), Text(note, "dim"), Text(untouched, "dim"), f"One question in full: {ask}")
    emit(_figures(rows), shown, as_json=as_json)
    if any(_failed(row) == len(row.lines) for row in rows):
        raise typer.Exit(UNANSWERED)


def _demo_table(found: Sequence[MethodResult]) -> Table:
    rows = []
    for row in found:
        best = row is found[-1]
        lead = "" if best else _written(row.f1_less(found[-1]), signed=True)
        spent = (f"{row.mean(name):.1f}" for name in ("retrievals", "requests"))
        costs = (*spent, f"{row.mean('tokens'):,.0f}", f"{row.seconds / len(row.lines):.2f}")
        cells: list[str | Text] = [row.method, _written(row.f1), _written(row.em), lead, *costs]
        rows.append([Text.assemble(cell, style="bold" if best else "") for cell in cells])
    # Narrow enough for a terminal of 80 columns.
    return table(
        ("method", "F1", "EM", "lead", "retr.", "calls", "tokens", "sec."),
        rows,
        title="The testbed, answered by the language model that ships with KEQA",
        caption="retrievals, LM calls, tokens and seconds are for one question",
        caption_justify="left",
        collapse_padding=True,
        pad_edge=False,
    )


_UNTOUCHED = ("untouched", "untouched_f1", "untouched_em")


def _failed(row: MethodResult) -> int:
    return sum(line.failed for line in row.lines)


def _written(of: Interval, *, signed: bool = False) -> Text:
    sign, star = "+" if signed else "", "*" if signed and of.excludes_zero else ""
    return Text.assemble(f"{of.mean:{sign}.2f}{star}\n", (f"{of.low:{sign}.2f}…{of.high:{sign}.2f}", "dim"))


def _figures(found: Sequence[MethodResult]) -> dict[str, Any]:
    from keqa.evaluation.reports.parts import untouched

    rows = [
        {
            **{"method": row.method, "f1": asdict(row.f1), "em": asdict(row.em)},
            "lead_in_f1": None if row is found[-1] else asdict(row.f1_less(found[-1])),
            "retrievals_per_question": row.mean("retrievals"),
            "lm_calls_per_question": row.mean("requests"),
            "tokens_per_question": row.mean("tokens"),
            "seconds_per_question": row.seconds / len(row.lines),
            "failed": _failed(row),
            **{name: cell.value for name, (_, cell) in zip(_UNTOUCHED, untouched(row.entry), strict=True)},
        }
        for row in found
    ]
    return {"questions": len(found[-1].lines), "rows": rows}
