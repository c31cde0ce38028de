"""The gates beside each other: how often each has passages searched for, and how well it ranks what the LM knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from keqa.data.quiz_references import plain
from keqa.evaluation.reports import searching, untouched
from keqa.evaluation.reports.grid import Cell, Column, Grid, Row, count, number, share, text
from keqa.evaluation.reports.measures import measure
from keqa.evaluation.reports.quizzes import checked_quizzes
from keqa.evaluation.reports.rows import Entry
from keqa.metrics.calibration import expected_calibration_error
from keqa.metrics.gates import auroc
from keqa.metrics.rejection import aurc, prediction_rejection_ratio
from keqa.programs.gates import MatchedRandomGate, RandomGate, VoteGate
from keqa.programs.registry import METHODS

_COLUMNS = (
    Column("gate", right=False),
    Column("threshold"),
    Column("ratio"),
    Column("F1"),
    Column("EM"),
    Column("quizzes"),
    *(Column(name, "memory's answers") for name in ("right", "AUROC", "PRR", "AURC", "ECE")),
)


def gate_rows(entries: Sequence[Entry]) -> list[Entry]:
    """The rows with a gate of their own, and where there are any KEQA, whose gate is the vote."""
    own = [entry for entry in entries if entry.kind == "gate"]
    voted = any(entry.settings.gate == VoteGate.kind for entry in own)
    return own + [entry for entry in entries if own and not voted and entry.method == entry.label == "keqa"]


def gates(entries: Sequence[Entry]) -> Grid | None:
    """The table of gates; None where no gate was run."""
    compared = gate_rows(entries)
    if not compared:
        return None
    rated = searching.columns(compared)
    truth = _truth(entries)
    rows = tuple(
        Row((text(entry.title), *_cells(entry, truth), *(searching.cells(entry) if rated else ())))
        for entry in compared
    )
    notes = (
        *_thresholds(compared),
        *_chances(compared),
        "Ratio: the share of quizzes that were searched for. AUROC, PRR, AURC and ECE are of the gate's score against "
        "whether the answer from memory is right, over the quizzes whose gold answer is known; they are missing where "
        "a gate ranks nothing, or stopped drawing before it had all draws.",
        *_joined(compared, truth),
        untouched.note(compared),
        *searching.notes(compared),
        *_known_to_oracles(compared),
    )
    return Grid("gates", "Gates", (*_COLUMNS, *rated), rows, notes)


def ranked(entry: Entry) -> tuple[list[float], list[float]]:
    """Score and correctness of the answers from memory; none where some quizzes have no score.

    The score of a set that was stopped early is a bound of its T_c, and quizzes without one are not like the others:
    what is left of them would flatter or wrong the gate.
    """
    scores, quality = [], []
    for one in checked_quizzes(entry):
        score = one.score if one.quiz.complete else None
        if score is None:
            return [], []
        scores.append(score)
        quality.append(float(one.right(one.answer)))
    return scores, quality


def _truth(entries: Sequence[Entry]) -> dict[str, bool]:
    """By plain text, whether memory's answer to a quiz is right, from the first row that has all draws of it."""
    found: dict[str, bool] = {}
    for entry in entries:
        for one in checked_quizzes(entry):
            if one.quiz.complete:
                found.setdefault(plain(str(one.quiz.resolved)), one.right(one.answer))
    return found


def _joined_of(entry: Entry, truth: Mapping[str, bool]) -> tuple[list[float], list[float]]:
    """Score and correctness of a gate that made not all draws, or none: the truth is that of another row's draws."""
    found: dict[str, float] = {}
    for line in entry.lines.values():
        for quiz in line.quizzes:
            name = plain(quiz.resolved or "")
            if quiz.certainty is not None and not (quiz.samples and quiz.complete) and name in truth:
                found.setdefault(name, quiz.certainty)
    return list(found.values()), [float(truth[name]) for name in found]


def _joined(compared: Sequence[Entry], truth: Mapping[str, bool]) -> Iterator[str]:
    """Which rows were measured by the draws of others."""
    others = [entry.title for entry in compared if not ranked(entry)[0] and _joined_of(entry, truth)[0]]
    if others:
        yield (
            f"{', '.join(others)}: a gate that draws less than all, or nothing, is measured against the answers from "
            "memory of the first row with all draws, by the text of the quiz."
        )


def _cells(entry: Entry, truth: Mapping[str, bool]) -> list[Cell]:
    lines = list(entry.lines.values())
    scores, quality = ranked(entry)
    if not scores:
        scores, quality = _joined_of(entry, truth)
    known = [score for score, right in zip(scores, quality, strict=True) if right]
    unknown = [score for score, right in zip(scores, quality, strict=True) if not right]
    return [
        number(entry.settings.gate_threshold),
        number(measure("quiz retrieval ratio", lines)),
        number(measure("f1", lines)),
        number(measure("em", lines)),
        count(len(scores)),
        number(sum(quality) / len(quality) if quality else None),
        _defined(auroc, known, unknown),
        _defined(prediction_rejection_ratio, scores, quality),
        _defined(aurc, scores, quality),
        _defined(expected_calibration_error, scores, quality),
    ]


def _thresholds(compared: Sequence[Entry]) -> Iterator[str]:
    """What the thresholds decide, and which of them are others than their gates come with."""
    usual = {entry.label: _default(entry) for entry in compared}
    others = [
        f"{entry.title} {number(entry.settings.gate_threshold).text} instead of {number(usual[entry.label]).text}"
        for entry in compared
        if entry.settings.gate_threshold is not None and usual[entry.label] not in (None, entry.settings.gate_threshold)
    ]
    thresholds = "Thresholds are the gates' defaults"
    if others:
        # Demonstrations are everybody's, a threshold is that of the gate it was tuned for.
        thresholds += f", except where a compiled program brought its own or one was given: {', '.join(others)}"
    yield (
        f"{thresholds}. What is searched for, and so ratio, F1 and EM, depends on them: a gate whose threshold was "
        "tuned has an advantage there over those at their defaults. AUROC, PRR, AURC and ECE do not depend on them."
    )


def _chances(compared: Sequence[Entry]) -> Iterator[str]:
    """What the thresholds of random gates are, and how near to them their ratios come."""
    kinds = {entry.settings.gate for entry in compared}
    if RandomGate.kind in kinds:
        yield (
            "The threshold of a random gate is the chance with which each quiz is searched for; the ratio of few "
            "quizzes is rather more or less."
        )
    if MatchedRandomGate.kind in kinds:
        yield (
            "The threshold of a random gate that matches a run is the share of quizzes that the run classified as "
            "unknown: of the same quizzes the gate searches for exactly as many, drawn by chance. Their ratios differ "
            "only by what came up in one of the two runs: quizzes that wait for an answer that the other lacks, and "
            "questions that fell back."
        )


def _known_to_oracles(compared: Sequence[Entry]) -> Iterator[str]:
    """Of how many quizzes an oracle had the gold answer, without which it searches as it does for what is unknown."""
    for entry in compared:
        counts = [line.oracle for line in entry.lines.values() if line.oracle is not None]
        known, decided = sum(one for one, _ in counts), sum(one for _, one in counts)
        if decided:
            yield (
                f"{entry.title}: the gold answer is known of {known} of {decided} quizzes "
                f"({share(known / decided).text}); for the others it searches, so that it is an upper "
                "bound only as far as they are known."
            )


def _default(entry: Entry) -> float | None:
    """The threshold that a row's gate comes with; None where it has none, or none until it is given one."""
    method = METHODS.get(entry.method)
    gate = VoteGate if method is None or method.gate is None else method.gate
    threshold = getattr(gate, "threshold", None)
    return None if threshold is None else float(threshold)


def _defined(of: Callable[[Sequence[float], Sequence[float]], float], a: list[float], b: list[float]) -> Cell:
    """A figure where the scores have it: not of one kind only, and for ECE from 0 to 1."""
    try:
        return number(of(a, b))
    except ValueError:
        return number(None)
