"""Training the light boundary model: logistic regressions with Platt's calibration, in seconds.

How much the weights are kept small is chosen by folds that no question is divided by; the calibration is fitted to
what the regressions of the other folds say, and so are the figures on held-out questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

from keqa.errors import InputError
from keqa.optimize.boundary.check import Figures, figures_of
from keqa.optimize.boundary.collect import Collected, CollectedQuiz
from keqa.optimize.boundary.labels import Reading, readings
from keqa.optimize.logistic import log_loss, logistic, platt, regression_of, sigmoid
from keqa.programs.boundary.features import masked, signal_values
from keqa.programs.boundary.light import Aspect, LightModel, Regression, Variant
from keqa.programs.boundary.model import Reads
from keqa.programs.reference.embedding import open_built_in

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

EMBEDDER = "hashing-256"
"""The embedder that ships, with vectors as short as a few hundred quizzes can bear."""

FEWEST_QUIZZES = 20
"""So many quizzes are trained on at least."""
FEWEST_QUESTIONS = 5
"""So many questions they are of at least: one for each fold."""
_FOLDS = FEWEST_QUESTIONS
_PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0)
_SIGNALS_PENALTY = 0.1
_LONGEST = 200


@dataclass(frozen=True)
class Trained:
    """A model, and how it fares.

    Attributes:
        model: Trained on all questions.
        held_out: Of models like it that were trained without the questions that they are measured on.
        quizzes: What it was trained on.
        said: What those others say of the first reading of each quiz, by aspect.
    """

    model: LightModel
    held_out: Figures
    quizzes: Sequence[CollectedQuiz]
    said: Mapping[Aspect, Sequence[float]]


def train_light(
    collected: Sequence[Collected], *, reads: Literal["quiz", "draft", "draws"] = "draft", embedder: str = EMBEDDER
) -> Trained:
    """Train a light boundary model.

    Args:
        collected: What was collected, of one language model; no test split.
        reads: What the model shall read.
        embedder: Of quizzes: ``hashing``, ``hashing-N`` or ``local/minilm``.

    Raises:
        InputError: It is of a test split, of several language models, too little, or all of one kind.
        ConfigurationError: The embedder is none of the built-in ones.
        MissingExtraError: A package is missing that it needs.
    """
    quizzes = checked_quizzes(collected)
    seen = [(place, reading) for place, quiz in enumerate(quizzes) for reading in readings(quiz, reads)]
    data = _Data.of(quizzes, seen, embedder)
    likely = reads != "quiz" and all(reading.signals.has_probabilities for _, reading in seen)
    variants: list[Variant] = ["texts", "probabilities"] if likely else ["texts"]
    heads: dict[Aspect, dict[Variant, Regression]] = {"mastery": {}, "certainty": {}}
    scores: dict[Aspect, Array] = {}
    for aspect in heads:
        for variant in variants:
            heads[aspect][variant], scores[aspect] = _fit(data, seen, aspect, variant, reads)
    about: dict[str, Any] = {
        "keqa": version("keqa"),
        "lm": collected[0].lm[:_LONGEST],
        "datasets": sorted({f"{one.dataset} {one.split}".strip()[:_LONGEST] for one in collected}),
        "quizzes": len(quizzes),
    }
    said = {aspect: _first(seen, scores[aspect]) for aspect in heads}
    held_out = figures_of(quizzes, [readings(quiz, reads)[0] for quiz in quizzes], said["mastery"], said["certainty"])
    model = LightModel(
        reads=reads,
        embedder=embedder,
        heads=heads,
        roots=sorted({quiz.root for quiz in quizzes}),
        about={**about, "held_out": held_out.as_json()},
    )
    return Trained(model, held_out, quizzes, said)


def checked_quizzes(collected: Sequence[Collected]) -> list[CollectedQuiz]:
    """The quizzes of what a boundary model may learn from, each once.

    Raises:
        InputError: It is of a test split, of several language models, too little, or all of one kind.
    """
    for one in collected:
        if one.split == "test":
            raise InputError(
                f"what was collected of {one.dataset or 'this data'} is of a test split: nothing learns from that. "
                "Collect with --split train"
            )
    models = sorted({one.lm for one in collected})
    if len(models) > 1:
        raise InputError(f"a boundary model is of one language model; these are of {', '.join(models)}")
    found = {(quiz.quiz, tuple(quiz.choices)): quiz for one in collected for quiz in one.quizzes}
    quizzes = list(found.values())
    roots = {quiz.root for quiz in quizzes}
    if len(quizzes) < FEWEST_QUIZZES or len(roots) < _FOLDS:
        raise InputError(
            f"{len(quizzes)} quizzes of {len(roots)} questions are too few to train on; collect {FEWEST_QUIZZES} of "
            f"{FEWEST_QUESTIONS} questions at least, a few hundred to rely on it"
        )
    if len({draw.right for quiz in quizzes for draw in quiz.draws}) < 2:
        raise InputError(
            "every answer from memory is right, or every one wrong: there is no boundary to learn. Another language "
            "model, or other questions, may have one"
        )
    return quizzes


@dataclass(frozen=True)
class _Data:
    """The readings as arrays: what they are of, where they are held out, and how much each counts."""

    words: Array
    place: NDArray[np.int64]
    fold: NDArray[np.int64]
    weight: Array

    @classmethod
    def of(cls, quizzes: Sequence[CollectedQuiz], seen: Sequence[tuple[int, Reading]], embedder: str) -> _Data:
        import numpy as np

        words = np.asarray(open_built_in(embedder).embed([masked(quiz.quiz) for quiz in quizzes]), np.float64)
        place = np.array([place for place, _ in seen])
        # The digests of questions are in no order that has to do with them.
        order = {root: number % _FOLDS for number, root in enumerate(sorted({quiz.root for quiz in quizzes}))}
        fold = np.array([order[quizzes[one].root] for one in place])
        return cls(words, place, fold, 1 / np.bincount(place)[place])


def _fit(
    data: _Data, seen: Sequence[tuple[int, Reading]], aspect: Aspect, variant: Variant, reads: Reads
) -> tuple[Regression, Array]:
    """The regression for an aspect, and what regressions like it say of the questions that they were held out from."""
    import numpy as np

    values = [signal_values(reads, reading.signals, variant == "probabilities") for _, reading in seen]
    names = list(values[0])
    raw = np.array([[value[name] for name in names] for value in values]).reshape(len(seen), len(names))
    mean = np.average(raw, axis=0, weights=data.weight)
    scale = np.maximum(np.sqrt(np.average((raw - mean) ** 2, axis=0, weights=data.weight)), 1e-3)
    features = np.hstack([(raw - mean) / scale, data.words[data.place], np.ones((len(seen), 1))])
    target = np.array([getattr(reading, aspect) for _, reading in seen])

    def solved(penalty: float, rows: Any) -> Array:
        penalties = np.r_[np.full(len(names), _SIGNALS_PENALTY), np.full(data.words.shape[1], penalty), 1e-6]
        return logistic(features[rows], target[rows], data.weight[rows], penalties)

    def held_out(penalty: float) -> Array:
        scores = np.zeros(len(seen))
        for fold in range(_FOLDS):
            scores[data.fold == fold] = features[data.fold == fold] @ solved(penalty, data.fold != fold)
        return scores

    tried = {penalty: held_out(penalty) for penalty in _PENALTIES}
    penalty = min(tried, key=lambda one: log_loss(tried[one], target, data.weight))
    calibrated = np.zeros(len(seen))
    for fold in range(_FOLDS):
        slope, offset = platt(tried[penalty], target, data.weight, data.fold != fold)
        calibrated[data.fold == fold] = slope * tried[penalty][data.fold == fold] + offset
    slope, offset = platt(tried[penalty], target, data.weight, np.full(len(seen), True))
    found = solved(penalty, np.full(len(seen), True))
    regression = regression_of(found, names, mean, scale, slope, offset)
    return regression, sigmoid(calibrated)


def _first(seen: Sequence[tuple[int, Reading]], scores: Array) -> list[float]:
    """The score of the first reading of each quiz."""
    found: dict[int, float] = {}
    for (place, _), score in zip(seen, scores, strict=True):
        found.setdefault(place, float(score))
    return list(found.values())
