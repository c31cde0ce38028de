"""The table and the figure of what retrieval does, by what the LM knows.

The analysis is in `keqa.evaluation.reports.retrieval_effect`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from keqa.evaluation.reports.curves import Figure, Panel, Series
from keqa.evaluation.reports.grid import EMPTY, Cell, Column, Grid, Row, number, p_value, share, text
from keqa.evaluation.reports.retrieval_effect import (
    CHANGES,
    INDICATORS,
    Change,
    Compared,
    Effect,
    compared,
    correlation,
)
from keqa.evaluation.reports.rows import Entry
from keqa.programs.gates import Golds
from keqa.programs.gates.votes import reaches

__all__ = ["KNOWN_FROM", "effect_figure", "retrieval_effect"]

KNOWN_FROM = Fraction(9, 10)
"""From which accuracy, or certainty, on a quiz is known (KBM, appendix B.1)."""

_BOUNDS = ("0", ".2", ".4", ".6", ".8", "1")
_INTERVALS = len(_BOUNDS) - 1
_NAME, _TITLE = "retrieval-effect", "What retrieval does to quizzes that the LM knows and does not know"
_COLUMNS = (
    Column("without retrieval", right=False),
    Column("quizzes"),
    *(Column(name, change) for change in CHANGES for name in ("quizzes", "share")),
    *(Column(name, "right") for name in ("a draw", "memory", "retrieval")),
)
_CLASSES = (
    "Beneficial: the answer from memory, that of the largest cluster, is wrong and the answer with retrieval is right; "
    "harmful: the other way round; neutral: both are right, or both wrong. There is one answer with retrieval, and not "
    "as many as there are samples, so that what is right from memory cannot gain, and what is wrong cannot lose. "
    "Accuracy: the share of samples without retrieval that is right; certainty: that over the distinct answers among "
    "them. Right: the mean accuracy, and the shares of answers from memory and with retrieval that are right. "
    f"Known: {number(float(KNOWN_FROM), 1).text} or more."
)


def retrieval_effect(entries: Sequence[Entry], golds: Callable[[Entry], Golds | None]) -> Grid | None:
    """How many quizzes retrieval helps, leaves as they are and harms, and how many answers are right.

    By intervals of accuracy and certainty (KBM, Figure 2; for what is right Figure 8), and for known and unknown
    quizzes (Figure 4, which is Figure 5 of the first version).

    Args:
        entries: All rows.
        golds: The gold answers of a row's quizzes.

    Returns:
        None where there is nothing to compare.
    """
    found = compared(entries, golds)
    if found is None:
        return None
    return Grid(_NAME, _TITLE, _COLUMNS, tuple(_rows(found.effects)), (_CLASSES, _correlated(found), _counted(found)))


def effect_figure(entries: Sequence[Entry], golds: Callable[[Entry], Golds | None]) -> Figure | None:
    """The shares of beneficial, neutral and harmful retrieval over accuracy and over certainty (KBM, Figure 2).

    Each interval stands at its middle; one without a quiz is left out.

    Args:
        entries: All rows.
        golds: The gold answers of a row's quizzes.

    Returns:
        None where there is nothing to compare.
    """
    found = compared(entries, golds)
    if found is None:
        return None
    panels = []
    for name, indicator in INDICATORS.items():
        parts = [(place, part) for place, part in enumerate(_intervals(found.effects, indicator)) if part]
        x = tuple((2 * place + 1) / (2 * _INTERVALS) for place, _ in parts)
        shares = {change: tuple(_count(part, change) / len(part) for _, part in parts) for change in CHANGES}
        panels.append(Panel(name, "share of quizzes", tuple(Series(change, x, y) for change, y in shares.items())))
    return Figure(_NAME, _TITLE, "of the samples without retrieval", tuple(panels))


def _intervals(effects: Sequence[Effect], indicator: Callable[[Effect], float]) -> list[list[Effect]]:
    """Five intervals of equal width, closed below; the last one holds 1 as well."""
    parts: list[list[Effect]] = [[] for _ in range(_INTERVALS)]
    for effect in effects:
        # Rounded first: a float just below a bound that it equals on paper belongs above it.
        parts[min(_INTERVALS - 1, int(round(indicator(effect) * _INTERVALS, 9)))].append(effect)
    return parts


def _rows(effects: Sequence[Effect]) -> Iterator[Row]:
    for name, indicator in INDICATORS.items():
        for place, part in enumerate(_intervals(effects, indicator)):
            closed = "]" if place == _INTERVALS - 1 else ")"
            yield _row(f"{name} [{_BOUNDS[place]}, {_BOUNDS[place + 1]}{closed}", part, ruled=place == 0)
    for name, indicator in INDICATORS.items():
        for known in (True, False):
            part = [effect for effect in effects if reaches(indicator(effect), KNOWN_FROM) is known]
            yield _row(f"{'known' if known else 'unknown'} by {name}", part, ruled=known)
    yield _row("all", effects, ruled=True)


def _row(name: str, part: Sequence[Effect], *, ruled: bool) -> Row:
    count = len(part)
    cells = [text(name), _whole(count)]
    for change in CHANGES:
        cells += [_whole(_count(part, change)), share(_count(part, change) / count) if count else EMPTY]
    for right in (
        [float(effect.accuracy) for effect in part],
        [float(effect.memory) for effect in part],
        [float(effect.retrieved) for effect in part],
    ):
        cells.append(number(math.fsum(right) / count if count else None))
    return Row(tuple(cells), ruled)


def _whole(count: int) -> Cell:
    return Cell(count, str(count))


def _count(part: Sequence[Effect], change: Change) -> int:
    return sum(effect.change == change for effect in part)


def _correlated(found: Compared) -> str:
    measured = correlation(found.effects)
    if measured is None:
        return "Too few quizzes, or quizzes too much alike, for a correlation of accuracy and certainty."
    measures = f"{number(measured[0], 2).text} (p: {p_value(measured[1]).text})"
    return f"Pearson's correlation of accuracy and certainty: {measures}."


def _counted(found: Compared) -> str:
    whole = sum(effect.whole for effect in found.effects)
    vain = sum(not effect.kept for effect in found.effects)
    return (
        f"Counted: {len(found.effects)} of {found.known} quizzes whose gold answer is known, each text once, with "
        f"{' or '.join(map(str, found.tries))} samples each; {whole} of them are questions themselves, the others are "
        "quizzes of one. Left out are those that only one of the runs asked, as earlier answers to which they refer "
        f"differ, and those without an answer. Answered from memory in both runs, as no passage was kept: {vain}."
    )
