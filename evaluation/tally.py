"""Where a run stands: counts and means, kept up as lines come, so that no line has to be."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from keqa.data.example import Example
from keqa.errors import InputError
from keqa.evaluation.records import RunLine
from keqa.metrics.abstention import Declining
from keqa.programs.program import Program
from keqa.programs.records import Cost

MARK = "*"
"""What stands after the name of a row some of whose questions were learned from."""

_NAMED = 3


@dataclass
class Tally:
    """Sums over the lines of a run. A failed question scores 0 in the means, and is counted by itself as well."""

    questions: int
    done: int = 0
    asked: int = 0
    failed: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    impaired: int = 0
    impairments: Counter[str] = field(default_factory=Counter)
    scored: Counter[str] = field(default_factory=Counter)
    learned_from: int = 0
    learned_unknown: bool = False
    declining: Declining = field(default_factory=Declining)
    cost: Cost = field(default_factory=Cost)
    _sums: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _untouched: Counter[str] = field(default_factory=Counter)
    _untouched_sums: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, line: RunLine) -> None:
        self.done += 1
        if line.error is not None:
            self.failed += 1
            self.causes[line.error.cause] += 1
        if passing := set(line.impairments):
            self.impaired += 1
            self.impairments.update(passing)
        self.declining.add(line)
        for name, score in line.scores.items():
            self.scored[name] += 1
            self._sums[name] += score
            if not line.touched:
                self._untouched[name] += 1
                self._untouched_sums[name] += score
        if line.record is not None:
            self.cost += line.record.cost

    def mean(self, score: str) -> float | None:
        """The mean of a score so far; None where no question has it."""
        return self._sums[score] / self.scored[score] if self.scored[score] else None

    @property
    def untouched(self) -> int:
        """How many of `done` no failure touched."""
        return self.done - self.failed - self.impaired

    def untouched_mean(self, score: str) -> float | None:
        """The mean of a score over the questions that no failure touched; None where none of them has it."""
        count = self._untouched[score]
        return self._untouched_sums[score] / count if count else None

    def a_question(self, count: int) -> float:
        """A sum as the mean over the questions asked so far."""
        return count / self.done if self.done else 0.0


def learned_from(program: Program, examples: Iterable[Example]) -> list[Example]:
    """The questions that a program learned from, by training on them or by being chosen by them."""
    learned = program.learned
    if not (learned.train or learned.validation):
        return []
    return [one for one in examples if learned.ids_of(one.question, one.choices)]


def refuse_overlap(found: Sequence[Example], asked: int, label: str) -> None:
    if found:
        named = ", ".join(one.name for one in found[:_NAMED]) + (" and so on" if len(found) > _NAMED else "")
        raise InputError(
            f"{label}: {_count(len(found), asked)} ({named}), so its answers to them are no measure of it. Ask other "
            "questions, or give --allow-overlap (allow_overlap=True), and every table marks the row"
        )


def overlap_notes(rows: Iterable[tuple[str, int, int, bool]]) -> tuple[str, ...]:
    """What is said under a table of runs: which rows hold questions that were learned from."""
    rows = list(rows)
    marked = [f"{name.removesuffix(MARK)}: {_count(found, asked)}" for name, found, asked, _ in rows if found]
    unknown = [name for name, _, _, unsaid in rows if unsaid]
    notes = [f"{MARK} after the name of a row: {'; '.join(marked)}."] if marked else []
    if unknown:
        notes.append(
            "It is not known whether questions were learned from in these rows, for their program was compiled by "
            f"a version of KEQA that did not keep them: {', '.join(unknown)}."
        )
    return tuple(notes)


def _count(found: int, asked: int) -> str:
    return f"{found} of {asked} questions {'was' if found == 1 else 'were'} learned from"
