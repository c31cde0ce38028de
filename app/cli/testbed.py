"""``keqa testbed``: what can be done with the fictional encyclopedia and the LM trained on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from keqa.cli.console import results, show_figures, show_json, status
from keqa.cli.help import Commands
from keqa.cli.options import AsJson, LanguageModel, with_groups
from keqa.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from keqa.testbed.boundary import Boundary
    from keqa.testbed.check import SkillScore

testbed = Commands(
    name="testbed", help="The fictional encyclopedia, and the small LM trained on a part of it.", no_args_is_help=True
)


@testbed.command()
@with_groups
def check(
    asked: Annotated[int, typer.Option(min=1, help="Examples for each skill and number of demonstrations.")] = 100,
    skill: Annotated[
        list[str] | None, typer.Option(help="This skill only; once for each, all by default.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    *,
    model: LanguageModel,
) -> None:
    """Ask an LM for every skill on entities it has never seen.

    A reworded signature that needs retraining shows up here. Exit code: 0 where every skill reaches what the testbed
    asks, 1 otherwise.
    """
    from rich.progress import Progress

    from keqa.testbed.check import DEMONSTRATIONS, TASKS, check_skills, shortfalls

    tasks = [task for task in TASKS if not skill or task.name in skill]
    unknown = set(skill or ()) - {task.name for task in TASKS}
    if unknown:
        raise InputError(
            f"there is no skill {min(unknown)!r}; there are {', '.join(repr(task.name) for task in TASKS)}"
        )
    with Progress(console=status(), transient=True) as bar:
        counted = bar.add_task("checking", total=len(tasks) * len(DEMONSTRATIONS) * asked)
        scores = check_skills(model.roles().task, asked=asked, tasks=tasks, progress=lambda: bar.advance(counted))
    missed = shortfalls(scores)
    if as_json:
        rows = [
            {"task": s.task, "demonstrations": s.demonstrations, "right": s.right, "parsed": s.parsed, "asked": s.asked}
            for s in scores
        ]
        show_figures({"lm": model.name, "scores": rows, "shortfalls": missed})
    else:
        results().print(_table(scores))
        for line in missed:
            results().print(f"below what is asked: {line}", style="yellow")
    if missed:
        raise typer.Exit(1)


@testbed.command()
@with_groups
def boundary(
    facts: Annotated[int, typer.Option(min=50, max=800, help="Facts to examine, drawn over all tiers.")] = 400,
    tries: Annotated[int, typer.Option(min=1, help="Answers to each, N_c.")] = 5,
    as_json: AsJson = False,
    *,
    model: LanguageModel,
) -> None:
    """Examine facts of the encyclopedia: how well does their consistency T_c show what the LM was trained on?"""
    from rich.progress import Progress

    from keqa.testbed.boundary import draw_boundary

    with Progress(console=status(), transient=True) as bar:
        task = bar.add_task("examining", total=facts)
        found = draw_boundary(model.roles(), facts=facts, tries=tries, progress=lambda: bar.advance(task))
    if as_json:
        tiers = [{"tier": tier, **found.figures(tier)} for tier in found.tiers]
        figures = {"lm": model.name, "tiers": tiers, "auroc": found.auroc, "auroc_of_all": found.auroc_of_all}
        show_figures(figures)
        return
    results().print(_tiers(found))
    results().print(f"AUROC, often against never: {found.auroc:.3f}")
    results().print(f"AUROC, often and sometimes against never and stale: {found.auroc_of_all:.3f}")


@testbed.command()
def questions(
    split: Annotated[str, typer.Option(help="train, dev or test.")] = "test",
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many to show.")] = 10,
    seed: Annotated[int, typer.Option(help="Another seed shows others.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show questions to try with keqa ask and keqa chat, with their answers.

    Below each stand its answer, its kind, and how often the facts its quizzes ask for were in the
    training text of the language model that ships.
    """
    import random

    from keqa.testbed.testbed import Testbed

    splits = {"train", "dev", "test"}
    if split not in splits:
        raise InputError(f"there is no split {split!r}; there are {', '.join(sorted(splits))}")
    given = getattr(Testbed(), split)
    drawn = random.Random(seed).sample(given, min(count, len(given)))
    if as_json:
        rows = [
            {"id": q.id, "question": q.question, "answer": q.answers[0], "kind": q.shape, "tiers": list(q.tiers)}
            for q in drawn
        ]
        show_json(rows)
        return
    shown = results()
    for one in drawn:
        # On a line of its own, to be copied from.
        shown.print(one.question, soft_wrap=True)
        shown.print(
            f"    {one.answers[0]} ({one.shape}; in training: {', '.join(one.tiers)})", style="dim", soft_wrap=True
        )


def _tiers(found: Boundary) -> Table:
    from rich.table import Table

    title = f"T_c (samples that agree) of {len(found.facts)} facts, by how often they were in the training text"
    table = Table("in training", title=title)
    for name in ("facts", "mean T_c", "T_c >= .8", "answer right"):
        table.add_column(name, justify="right")
    for tier in found.tiers:
        of = found.figures(tier)
        shares = [f"{of[name]:.2f}" for name in ("consistency", "known", "right")]
        table.add_row(tier, f"{of['facts']:.0f}", *shares)
    return table


def _table(scores: list[SkillScore]) -> Table:
    from rich.table import Table

    counts = sorted({score.demonstrations for score in scores})
    table = Table("skill", title="Exact match on unseen entities, by number of demonstrations")
    for count in counts:
        table.add_column(str(count), justify="right")
    table.add_column("parsed", justify="right")
    for task in dict.fromkeys(score.task for score in scores):
        row = {score.demonstrations: score for score in scores if score.task == task}
        shares = [f"{row[count].share:.2f}" if count in row else "" for count in counts]
        parsed = sum(score.parsed for score in row.values()) / sum(score.asked for score in row.values())
        table.add_row(task, *shares, f"{parsed:.2f}")
    return table
