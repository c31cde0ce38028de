"""The gates beside each other: how often each has passages searched for, and how well it ranks what the LM knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from keqa.metrics.calibration import expected_calibration_error
from keqa.metrics.gates import auroc
from keqa.metrics.rejection import aurc, prediction_rejection_ratio
from keqa.programs.gates import Golds
from keqa.reports.entries import Entry
from keqa.reports.grid import Cell, Column, Grid, Row, number, text
from keqa.reports.measures import measure
from keqa.reports.quizzes import checked_quizzes

__all__ = ["gate_rows", "gates", "ranked"]

_COLUMNS = (
    Column("gate", right=False),
    Column("ratio"),
    Column("F1"),
    Column("EM"),
    Column("quizzes"),
    *(Column(name, "memory's answers") for name in ("right", "AUROC", "PRR", "AURC", "ECE")),
)


def gate_rows(entries: Sequence[Entry]) -> list[Entry]:
    """The rows with a gate of their own, and where there are any KEQA, whose gate is the vote."""
    own = [entry for entry in entries if entry.kind == "gate"]
    voted = any(entry.facets.gate == "votes" for entry in own)
    return own + [entry for entry in entries if own and not voted and entry.method == entry.label == "keqa"]


def gates(entries: Sequence[Entry], golds: Callable[[Entry], Golds | None]) -> Grid | None:
    """The table of gates; None where no gate was run.

    Args:
        entries: All rows.
        golds: The gold answers of a row's quizzes.
    """
    compared = gate_rows(entries)
    if not compared:
        return None
    rows = tuple(Row((text(entry.title), *_cells(entry, golds(entry)))) for entry in compared)
    notes = (
        "Ratio: the share of quizzes that were searched for. AUROC, PRR, AURC and ECE are of the gate's score against "
        "whether the answer from memory is right, over the quizzes whose gold answer is known; they are missing where "
        "a gate ranks nothing, or stopped drawing before it had all draws.",
    )
    return Grid("gates", "Gates", _COLUMNS, rows, notes)


def ranked(entry: Entry, golds: Golds | None) -> tuple[list[float], list[float]]:
    """Score and correctness of the answers from memory; none where some quizzes have no score.

    The score of a set that was stopped early is a bound of its T_c, and quizzes without one are not like the others:
    what is left of them would flatter or wrong the gate.
    """
    found = checked_quizzes(entry, golds=golds)
    scores = [one.score for one in found if one.quiz.complete]
    if len(scores) < len(found) or None in scores:
        return [], []
    return [float(score or 0.0) for score in scores], [float(one.right(one.answer)) for one in found]


def _cells(entry: Entry, golds: Golds | None) -> list[Cell]:
    lines = list(entry.lines.values())
    scores, quality = ranked(entry, golds)
    known = [score for score, right in zip(scores, quality, strict=True) if right]
    unknown = [score for score, right in zip(scores, quality, strict=True) if not right]
    return [
        number(measure("quiz retrieval ratio", lines)),
        number(measure("f1", lines)),
        number(measure("em", lines)),
        Cell(len(scores), str(len(scores))),
        number(sum(quality) / len(quality) if quality else None),
        _defined(auroc, known, unknown),
        _defined(prediction_rejection_ratio, scores, quality),
        _defined(aurc, scores, quality),
        _defined(expected_calibration_error, scores, quality),
    ]


def _defined(of: Callable[[Sequence[float], Sequence[float]], float], a: list[float], b: list[float]) -> Cell:
    """A figure where the scores have it: not of one kind only, and for ECE from 0 to 1."""
    try:
        return number(of(a, b))
    except ValueError:
        return number(None)
