"""``keqa testbed``: what can be done with the fictional encyclopedia and the LM trained on it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from keqa.testbed.check import SkillScore

__all__ = ["testbed"]

testbed = typer.Typer(
    name="testbed", help="The fictional encyclopedia, and the small LM trained on a part of it.", no_args_is_help=True
)


@testbed.callback()
def _testbed() -> None:
    """Keep `check` a command of its own while it is the only one."""


@testbed.command()
def check(
    lm: Annotated[str, typer.Option("--lm", "-m", help="The language model to check.")] = "keqa/tiny",
    api_base: Annotated[str | None, typer.Option(help="Address of its server.")] = None,
    asked: Annotated[int, typer.Option(min=1, help="Examples for each skill and number of demonstrations.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON and nothing else.")] = False,
) -> None:
    """Ask an LM for every skill on entities it has never seen.

    A reworded signature that needs retraining shows up here. Exit code: 0 where every skill reaches what the testbed
    asks, 1 otherwise.
    """
    from rich.progress import Progress

    from keqa.cli.console import results, status
    from keqa.lms import build_lm
    from keqa.testbed.check import DEMONSTRATIONS, TASKS, check_skills, shortfalls

    with Progress(console=status(), transient=True) as bar:
        task = bar.add_task("checking", total=len(TASKS) * len(DEMONSTRATIONS) * asked)
        scores = check_skills(build_lm(lm, api_base=api_base), asked=asked, progress=lambda: bar.advance(task))
    missed = shortfalls(scores)
    if as_json:
        rows = [
            {"task": s.task, "demonstrations": s.demonstrations, "right": s.right, "parsed": s.parsed, "asked": s.asked}
            for s in scores
        ]
        typer.echo(json.dumps({"lm": lm, "scores": rows, "shortfalls": missed}, indent=2))
    else:
        results().print(_table(scores))
        for line in missed:
            results().print(f"below what is asked: {line}", style="yellow", markup=False)
    if missed:
        raise typer.Exit(1)


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
