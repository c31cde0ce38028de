"""The gates beside each other: how often each has passages searched for, and how well it ranks what the LM knows."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from keqa.data.question import quiz_key
from keqa.evaluation.reports.grid import EMPTY, Figure, Grid, Named, Panel, Series, count, number, share, table, text
from keqa.evaluation.reports.parts import searching, untouched_note
from keqa.evaluation.reports.questions import mean, measure
from keqa.evaluation.reports.rows import Entry, Group, groups_of
from keqa.metrics.abstention import Declining
from keqa.metrics.confidence import aurc, auroc, expected_calibration_error, prediction_rejection_ratio, risk_coverage
from keqa.programs.gates import RandomGate, VoteGate
from keqa.programs.registry import METHODS

TARGETS = (0.5, 0.75, 0.9)
"""The chances to be right from which on an answer is worth giving, for each of which there is a column of credit."""

_BOUNDS = ("gate-never", "gate-always")
_MEMORY = "memory's answers"
_Ranked = tuple[list[float], list[float]]
"""Scores of quizzes, and for each whether memory's answer is right."""


def _auroc(scores: Sequence[float], quality: Sequence[float]) -> float:
    ranked = list(zip(scores, quality, strict=True))
    return auroc([score for score, right in ranked if right], [score for score, right in ranked if not right])


_RANKING: dict[str, Callable[[Sequence[float], Sequence[float]], float]] = {
    **{"AUROC": _auroc, "PRR": prediction_rejection_ratio, "AURC": aurc, "ECE": expected_calibration_error}
}


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
    rates, rate_notes = searching(compared)
    truth: dict[str, bool] = {}
    for one in (one for entry in entries for one in entry.checked() if one.quiz.complete):
        truth.setdefault(one.text, one.right(one.answer))
    own = {entry: ranked(entry) for entry in compared}
    # A gate that made not all draws, or none: the truth is that of another row's draws.
    joined = {entry: _joined(entry, truth) for entry in compared if not own[entry][0]}
    bounds = _bounds(compared, None)
    rows = ([*_cells(entry, joined.get(entry, own[entry]), bounds), *rates[entry]] for entry in compared)
    notes = [
        *_thresholds(compared),
        "Ratio: the share of quizzes that were searched for. AUROC, PRR, AURC and ECE are of the gate's score against "
        "whether the answer from memory is right, over the quizzes whose gold answer is known; they are missing where "
        "a gate ranks nothing, or stopped drawing before it had all draws.",
    ]
    if bounds:
        notes.append(
            "F1 by chance: what random retrieval at the row's own ratio scores in expectation, from the rows that "
            "never and always retrieve."
        )
    if others := [entry.title for entry, (scores, _) in joined.items() if scores]:
        notes.append(
            f"{', '.join(others)}: a gate that draws less than all, or nothing, is measured against the answers from "
            "memory of the first row with all draws, by the text of the quiz."
        )
    notes += [untouched_note(compared), *rate_notes]
    for entry in compared:
        counts = [line.oracle for line in entry.within() if line.oracle is not None]
        known, decided = sum(one for one, _ in counts), sum(one for _, one in counts)
        if decided:
            notes.append(
                f"{entry.title}: the gold answer is known of {known} of {decided} quizzes "
                f"({share(known / decided).text}); for the others it searches, so that it is an upper bound only as "
                "far as they are known."
            )
    return table("gates", "Gates", rows, *notes)


def ranked(entry: Entry) -> _Ranked:
    """Score and correctness of the answers from memory; none where some have no score, as the rest would flatter."""
    scores, quality = [], []
    for one in entry.checked():
        score = one.score if one.quiz.complete else None
        if score is None:
            return [], []
        scores.append(score)
        quality.append(float(one.right(one.answer)))
    return scores, quality


def _joined(entry: Entry, truth: Mapping[str, bool]) -> _Ranked:
    """The same of a gate that made not all draws, or none, against what another row's draws say of the text."""
    found: dict[str, float] = {}
    for quiz in (quiz for line in entry.within() for quiz in line.quizzes):
        name = quiz_key(quiz.resolved or "")
        if quiz.certainty is not None and not (quiz.samples and quiz.complete) and name in truth:
            found.setdefault(name, quiz.certainty)
    return list(found.values()), [float(truth[name]) for name in found]


def _cells(entry: Entry, ranks: _Ranked, bounds: Sequence[tuple[float, float]]) -> Iterator[Named]:
    scores, quality = ranks
    lines = entry.within()
    ratio = measure("quiz retrieval ratio", lines)
    yield "gate", text(entry.title)
    yield "threshold", number(entry.settings.gate_threshold)
    yield "ratio", number(ratio)
    yield "F1", number(measure("f1", lines))
    yield "EM", number(measure("em", lines))
    if bounds:
        yield "F1 by chance", number(None if entry.method in _BOUNDS else _by_chance(ratio, bounds))
    yield "quizzes", count(len(scores))
    yield ("right", _MEMORY), number(mean(quality))
    for name, measured in _RANKING.items():
        # A figure where the scores have it: not of one kind only, and for ECE from 0 to 1.
        try:
            yield (name, _MEMORY), number(measured(scores, quality))
        except ValueError:
            yield (name, _MEMORY), EMPTY


def _by_chance(ratio: float | None, bounds: Sequence[tuple[float, float]]) -> float | None:
    """The score on the line through never and always retrieving, at a ratio."""
    (low, memory), (high, passages) = bounds
    if ratio is None or high == low:
        return None if ratio is None else memory
    return memory + (passages - memory) * (ratio - low) / (high - low)


def _thresholds(compared: Sequence[Entry]) -> Iterator[str]:
    """What the thresholds decide, and which of them are others than their gates come with."""
    others = []
    for entry in compared:
        method, threshold = METHODS.get(entry.method), entry.settings.gate_threshold
        gate = VoteGate if method is None or method.gate is None else method.gate
        # Some gates have none, or none until they are given one.
        usual = getattr(gate, "threshold", None)
        if threshold is not None and usual is not None and float(usual) != threshold:
            others.append(f"{entry.title} {number(threshold).text} instead of {number(float(usual)).text}")
    thresholds = "Thresholds are the gates' defaults"
    if others:
        # Demonstrations are everybody's, a threshold is that of the gate it was tuned for.
        thresholds += f", except where a compiled program brought its own or one was given: {', '.join(others)}"
    yield (
        f"{thresholds}. What is searched for, and so ratio, F1 and EM, depends on them: a gate whose threshold was "
        "tuned has an advantage there over those at their defaults. AUROC, PRR, AURC and ECE do not depend on them."
    )
    if any(entry.settings.gate == RandomGate.kind for entry in compared):
        yield (
            "The threshold of a random gate is the chance with which each quiz is searched for; the ratio of few "
            "quizzes is rather more or less."
        )


def gate_figure(entries: Sequence[Entry]) -> Figure | None:
    """Accuracy against the share of quizzes searched for, with every gate on it."""
    compared = gate_rows(entries)
    panels = []
    for group in groups_of(compared):
        bounds = _bounds(compared, group)
        x, y = tuple(place for place, _ in bounds), tuple(score for _, score in bounds)
        series = [Series("chance", x, y, style="curve")] if bounds else []
        points = ((entry.title, _point(entry, group)) for entry in compared)
        series += [Series(title, point[:1], point[1:], style="points") for title, point in points if point is not None]
        panels.append(Panel(group.name, group.scores[0][0], tuple(series)))
    return Figure("gates", "Accuracy against retrieval ratio", "retrieval ratio", tuple(panels)) if compared else None


def _point(entry: Entry, group: Group | None) -> tuple[float, float] | None:
    lines = entry.within(group)
    name = "f1" if group is None else group.scores[0][1]
    ratio, score = measure("quiz retrieval ratio", lines), measure(name, lines)
    return None if ratio is None or score is None else (ratio, score)


def _bounds(compared: Sequence[Entry], group: Group | None) -> list[tuple[float, float]]:
    """Ratio and score of never and of always retrieving; none where one of them is missing."""
    points = {entry.method: _point(entry, group) for entry in compared}
    found = [point for name in _BOUNDS if (point := points.get(name)) is not None]
    return found if len(found) == len(_BOUNDS) else []


def risk(entries: Sequence[Entry]) -> Figure | None:
    """Risk against coverage of the answers from memory, the quizzes that a gate is surest of first."""
    curves = [(entry, risk_coverage(*ranks)) for entry in gate_rows(entries) if (ranks := ranked(entry))[0]]
    series = tuple(Series(entry.title, curve.coverage, curve.risk, style="curve") for entry, curve in curves)
    panels = (Panel("", "risk", series),)
    return Figure("risk-coverage", "Risk against coverage", "coverage", panels) if series else None


def abstention(entries: Sequence[Entry]) -> Grid | None:
    """What methods gain by saying "I do not know"; None where no row was to hold a risk."""
    if not any("abstention" in (entry.settings.model_extra or {}) for entry in entries):
        return None
    rows: list[list[Named]] = []
    for entry in entries:
        found = Declining.of(entry.within())
        credits = [((f"{target:g}", "credit by target"), number(found.credit(target))) for target in TARGETS]
        shares = [("coverage", number(found.coverage)), ("risk", number(found.risk))]
        rows.append([("method", text(entry.title)), ("questions", count(found.questions)), *shares, *credits])
    note = (
        "Coverage: the share of the questions that were answered; one that failed was not. Risk: the share of the "
        'answers that are wrong by exact match; "I do not know" is no answer. Credit by a target t: 1 for a right '
        "answer, 0 for none, -t/(1-t) for a wrong one, so that an answer is worth giving where its chance to be right "
        "exceeds t."
    )
    return table("abstention", "Abstention", rows, note)
