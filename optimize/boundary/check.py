"""What a boundary model is shown of collected draws, and how well it and the vote of five separate right from wrong."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from keqa.errors import InputError, MissingExtraError
from keqa.metrics.answers import normalize
from keqa.metrics.confidence import auroc, brier, expected_calibration_error, prediction_rejection_ratio, reliability
from keqa.optimize.boundary.collect import Collected, CollectedDraw, CollectedQuiz
from keqa.programs.boundary.light import (
    BoundaryError,
    BoundaryModel,
    CertaintyTarget,
    Judgement,
    LightModel,
    Reads,
    certainty,
    consistency,
)
from keqa.programs.calls.batch import in_parallel
from keqa.programs.gate import Draws

_AT_ONCE = 8
DRAWS = 5
"""So many draws a gate makes where nothing else is set: those collected are read in sets of as many."""
_MOST_READINGS = 5


class Reading(NamedTuple):
    """A quiz as a gate would come to see it."""

    signals: Draws
    mastery: float
    certainty: float


@dataclass(frozen=True)
class Ranked:
    """How a score ranks answers; what is not defined, where all are right or all wrong, is None."""

    right: float
    auroc: float | None
    prr: float | None
    ece: float | None
    brier: float | None


@dataclass(frozen=True)
class Figures:
    """The figures of a boundary model on quizzes that it has not learned from."""

    quizzes: int
    mastery: Ranked
    certainty_error: float
    vote: Ranked
    draws: float
    voting: float
    """So many draws a quiz has for the vote, five at most: recorded outcomes may have one."""
    failed: int = 0
    left_out: int = 0
    """So many more quizzes it has learned from."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Judgements(NamedTuple):
    """What a model has not learned from, as it sees it, and its judgements, or None; and of how much it has learned."""

    quizzes: list[CollectedQuiz]
    seen: list[Reading]
    found: list[Judgement | None]
    left_out: int

    @property
    def figures(self) -> Figures:
        judgements = [one or Judgement(0.0, 0.0) for one in self.found]
        mastery, certain = [one.mastery for one in judgements], [one.certainty for one in judgements]
        figures = figures_of(self.quizzes, self.seen, mastery, certain)
        return replace(figures, failed=self.found.count(None), left_out=self.left_out)


def check_model(model: BoundaryModel, collected: Sequence[Collected]) -> Figures:
    return judged(model, collected).figures


def draw_reliability(checked: Judgements, path: Path) -> None:
    """Draw how often quizzes are known that a model takes for so probably known, by tenths."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plots", "A drawing") from error
    scores = [0.0 if one is None else one.mastery for one in checked.found]
    points = reliability(scores, [one.mastery for one in checked.seen])
    figure = Figure(figsize=(4.5, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    axes.plot([one.confidence for one in points], [one.accuracy for one in points], marker="o")
    for one in points:
        place = (one.confidence, one.accuracy)
        axes.annotate(str(one.count), place, xytext=(4, -10), textcoords="offset points", fontsize=8)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="mastery, as stated", ylabel="answers from memory that are right")
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be drawn: {error}") from error


def judged(model: BoundaryModel, collected: Sequence[Collected]) -> Judgements:
    # The same question may have come with another id.
    learned = {*getattr(model, "roots", ()), *getattr(model, "quizzes", ())}
    given = [quiz for one in collected for quiz in one.quizzes]
    if isinstance(model, LightModel):
        given = [quiz for quiz in given if quiz.reference is None]
    quizzes = [quiz for quiz in given if learned.isdisjoint((quiz.root, quiz.digest))]
    if not quizzes:
        why = (
            "the boundary model has learned from all of these questions" if given else "these hold no quiz from memory"
        )
        raise InputError(f"{why}: check it on others")
    target: CertaintyTarget = getattr(model, "certainty", "by_samples")
    seen = [readings(quiz, model.reads, target)[0] for quiz in quizzes]

    def judgement(place: int) -> Judgement | None:
        quiz = quizzes[place]
        with suppress(BoundaryError):
            draws = replace(seen[place].signals, choices=tuple(quiz.choices))
            return model.judge(quiz.quiz, draws, quiz.reference)
        return None

    # One that asks a language model asks several quizzes at once.
    found = dict(in_parallel(lambda place: (place, judgement(place)), range(len(quizzes)), _AT_ONCE))
    return Judgements(quizzes, seen, [found[place] for place in range(len(quizzes))], len(given) - len(quizzes))


def readings(quiz: CollectedQuiz, reads: Reads, target: CertaintyTarget = "by_samples") -> list[Reading]:
    """A quiz in the ways in which a gate may come to see it, five at most.

    Of a model that reads a draft each draw is one, and is right or not; of one that reads draws each set of five is
    one, as right as its most frequent answer; for one that reads the quiz alone, it is the share of right answers.
    """
    agreement = certainty(quiz.signals(), target)
    if reads == "quiz":
        return [Reading(Draws(answer_type=quiz.answer_type), float(quiz.accuracy), agreement)]
    size = min(1 if reads == "draft" else DRAWS, len(quiz.draws))
    starts = range(0, len(quiz.draws) - size + 1, size)[:_MOST_READINGS]
    sets = [quiz.draws[start : start + size] for start in starts]
    return [Reading(quiz.signals(some), float(_leading_right(quiz, some)), agreement) for some in sets]


def _leading_right(quiz: CollectedQuiz, draws: list[CollectedDraw]) -> bool:
    """Whether the most frequent answer is right, the first one of equals; an abstention is none."""
    given = [(normalize(one.text, quiz.answer_type, quiz.choices), one.right) for one in draws if one.text is not None]
    leading = Counter(text for text, _ in given).most_common(1)
    return any(right for text, right in given if text == leading[0][0])


def figures_of(
    quizzes: Sequence[CollectedQuiz], seen: Sequence[Reading], mastery: Sequence[float], certainty: Sequence[float]
) -> Figures:
    votes = [readings(quiz, "draws")[0] for quiz in quizzes]
    return Figures(
        len(quizzes),
        _ranked(mastery, [one.mastery for one in seen]),
        fmean(abs(probability - one.certainty) for probability, one in zip(certainty, seen, strict=True)),
        _ranked([consistency(one.signals) for one in votes], [one.mastery for one in votes]),
        fmean(len(one.signals.answers) for one in seen),
        fmean(len(one.signals.answers) for one in votes),
    )


def _ranked(scores: Sequence[float], quality: Sequence[float]) -> Ranked:
    # Of shares of right answers, those right more often than not count as known.
    sides: dict[bool, list[float]] = {True: [], False: []}
    for score, value in zip(scores, quality, strict=True):
        sides[value > 0.5].append(score)
    measures = (prediction_rejection_ratio, expected_calibration_error, brier)
    others = [_defined(one, scores, quality) for one in measures]
    return Ranked(fmean(quality), _defined(auroc, sides[True], sides[False]), *others)


def _defined(of: Callable[..., float], *values: Sequence[float]) -> float | None:
    """A figure where the scores have it."""
    with suppress(ValueError):
        return of(*values)
    return None
