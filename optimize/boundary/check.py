"""How well a boundary model tells right answers from wrong ones, beside the vote of five draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from keqa.errors import InputError
from keqa.metrics.calibration import brier, expected_calibration_error
from keqa.metrics.gates import auroc
from keqa.metrics.rejection import prediction_rejection_ratio
from keqa.optimize.boundary.collect import Collected, CollectedQuiz
from keqa.optimize.boundary.labels import readings
from keqa.programs.boundary.features import consistency
from keqa.programs.boundary.model import BoundaryModel, Reads


@dataclass(frozen=True)
class Ranked:
    """How a score ranks answers; what is not defined, where all are right or all wrong, is None.

    Attributes:
        right: The share of the answers that are right.
        auroc: See `keqa.metrics.gates.auroc`.
        prr: See `keqa.metrics.rejection.prediction_rejection_ratio`.
        ece: See `keqa.metrics.calibration.expected_calibration_error`.
        brier: See `keqa.metrics.calibration.brier`.
    """

    right: float
    auroc: float | None
    prr: float | None
    ece: float | None
    brier: float | None


@dataclass(frozen=True)
class Figures:
    """The figures of a boundary model on quizzes that it has not learned from.

    Attributes:
        quizzes: How many.
        mastery: Its mastery, against whether the answer that would be given from memory is right.
        certainty_error: The mean distance of its certainty from that of all draws.
        vote: T_c of the first five draws, against whether their most frequent answer is right.
    """

    quizzes: int
    mastery: Ranked
    certainty_error: float
    vote: Ranked

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def check_model(model: BoundaryModel, collected: Sequence[Collected], roots: Sequence[str] = ()) -> Figures:
    """Judge what was collected, and compare.

    Args:
        model: Which.
        collected: Of questions that it did not learn from, with the language model that it shall be used with.
        roots: Digests of questions that it did learn from, which are left out.

    Raises:
        InputError: Nothing is left.
    """
    known = set(roots)
    quizzes = [quiz for one in collected for quiz in one.quizzes if quiz.root not in known]
    if not quizzes:
        raise InputError("the boundary model has learned from all of these questions: check it on others")
    judged = [model.judge(quiz.quiz, readings(quiz, model.reads)[0].signals) for quiz in quizzes]
    return figures_of(quizzes, [one.mastery for one in judged], [one.certainty for one in judged], model.reads)


def figures_of(
    quizzes: Sequence[CollectedQuiz], mastery: Sequence[float], certainty: Sequence[float], reads: Reads
) -> Figures:
    """The figures of judgements.

    Args:
        quizzes: What was judged.
        mastery: How probably the answer from memory is right, one a quiz.
        certainty: How much the draws agree, one a quiz.
        reads: What the model read, which says what the answer from memory is.
    """
    told = [readings(quiz, reads)[0] for quiz in quizzes]
    votes = [readings(quiz, "draws")[0] for quiz in quizzes]
    return Figures(
        len(quizzes),
        _ranked(mastery, [one.mastery for one in told]),
        fmean(abs(said - one.certainty) for said, one in zip(certainty, told, strict=True)),
        _ranked([consistency(one.signals) for one in votes], [one.mastery for one in votes]),
    )


def _ranked(scores: Sequence[float], quality: Sequence[float]) -> Ranked:
    # Of shares of right answers, those right more often than not count as known.
    known = [score for score, value in zip(scores, quality, strict=True) if value > 0.5]
    unknown = [score for score, value in zip(scores, quality, strict=True) if value <= 0.5]
    return Ranked(
        fmean(quality),
        _defined(auroc, known, unknown),
        _defined(prediction_rejection_ratio, scores, quality),
        _defined(expected_calibration_error, scores, quality),
        _defined(brier, scores, quality),
    )


def _defined(of: Callable[..., float], *values: Sequence[float]) -> float | None:
    """A figure where the scores have it."""
    try:
        return of(*values)
    except ValueError:
        return None
