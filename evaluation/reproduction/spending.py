"""What runs of the paper's experiments have cost, and what larger ones will cost by that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from keqa.errors import KeqaError
from keqa.evaluation.compare import run_path
from keqa.evaluation.reports.grid import Column, Grid, Named, count, table, text
from keqa.evaluation.reproduction.estimate import Estimate, Spent, held_out, price, spent_on, total
from keqa.evaluation.run_file import iter_lines
from keqa.programs.saving.folder import about

SpentOn = tuple[int, Mapping[str, Spent]]
"""How many questions were asked, and what they cost by language model."""


def spent_by_run(folder: Path, label: str, models: Mapping[str, str]) -> SpentOn | None:
    """What a run has cost; None where there is no such run."""
    path = run_path(folder, label)
    if not path.exists():
        return None
    asked, found = 0, dict.fromkeys(models.values(), Spent())
    for line in iter_lines(path):
        asked += 1
        if line.record is not None:
            for model in found:
                found[model] = total([found[model], spent_on(line.record.cost, model, models)])
    return (asked, found) if asked else None


@dataclass(frozen=True)
class Trained:
    """What it has cost to make a program that learned, and chose among candidates by questions held out."""

    by_model: Mapping[str, Spent]
    learned: int
    held: int
    rounds: int

    @property
    def asked(self) -> int:
        """How often a question was asked."""
        return self.learned + self.held * self.rounds

    def asks(self, questions: int) -> int:
        """How often one will be asked where there are so many, and as many candidates."""
        held = held_out(questions)
        return questions - (held if held < questions else 0) + held * self.rounds


def spent_on_training(folder: Path, model: str) -> Trained | None:
    """What it has cost to make a saved program; None where there is none, or it does not say."""
    try:
        said = about(folder)
        parts = [said["spent"], said.get("spent_earlier") or {}]
        counts = [
            sum(float(part.get(name, 0)) for part in parts) for name in ("calls", "prompt_tokens", "completion_tokens")
        ]
        learned, held = said["questions"]["train"], said["questions"]["validation"]
        rounds = len(said.get("trials") or [])
    except (KeqaError, LookupError, TypeError, ValueError, AttributeError):
        return None
    return Trained({model: Spent(*counts)}, learned, held, rounds)


def expected(estimate: Estimate, found: SpentOn | None, asked: int | None = None) -> Estimate:
    """An estimate with what is expected by a smaller run."""
    if found is None:
        return estimate
    factor = (estimate.questions if asked is None else asked) / found[0]
    return replace(estimate, expected={model: spent.times(factor) for model, spent in found[1].items()})


def spent_table(rows: Sequence[tuple[str, str, SpentOn]]) -> Grid:
    """What everything has cost, a row a run."""
    lines = [_line(dataset, label, [spent]) for dataset, label, spent in rows]
    lines.append(_line("all", "", [spent for _, _, spent in rows]))
    note = (
        "As the estimate counts it: what runs share is counted for each, and what a cache answered as if it had been "
        "asked. Of what was learned before, the requests that were sent."
    )
    return table("spent", "What it has cost", lines, note, ruled={len(rows)})


def _line(dataset: str, label: str, found: Sequence[SpentOn]) -> list[Named]:
    parts = [part for _, by_model in found for part in by_model.items()]
    spent = total(part for _, part in parts)
    prices = [paid for model, part in parts if (paid := price(model, part)) is not None]
    dollars = text(f"{sum(prices):,.2f}" if prices else "unknown")
    counts = zip(("LM calls", "tokens read", "tokens written"), (count(round(value)) for value in spent), strict=True)
    return [("data set", text(dataset)), ("run", text(label)), *counts, (Column("US dollars"), dollars)]
