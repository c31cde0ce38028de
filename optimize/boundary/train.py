"""Training light boundary models: logistic regressions with Platt's calibration, in seconds.

How much the weights are kept small is chosen by folds that no question is divided by; the calibration is fitted to
what the regressions of the other folds say, and so are the figures on held-out questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from keqa.data.example import Example
from keqa.data.quiz_references import plain
from keqa.errors import InputError
from keqa.optimize.alignment import GoldQuiz
from keqa.optimize.boundary.check import Figures, Reading, figures_of, readings
from keqa.optimize.boundary.collect import Collected, CollectedQuiz, Progress, collect, quizzes_of
from keqa.optimize.logistic import FOLDS, cross_validated, platt, regression_of, sigmoid
from keqa.programs.boundary import FinetunedModel, LightModel, PromptedModel
from keqa.programs.boundary.light import Aspect, Regression, Variant, masked, signal_values
from keqa.programs.boundary.model import Reads
from keqa.programs.gates import VoteGate
from keqa.programs.keqa import KEQA
from keqa.programs.reference.embedding import open_built_in
from keqa.programs.shared_draws import DrawStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

EMBEDDER = "hashing-256"
"""The embedder that ships, with vectors as short as a few hundred quizzes can bear."""

FEWEST_QUIZZES = 20
"""So many quizzes are trained on at least."""
FEWEST_QUESTIONS = FOLDS
"""So many questions they are of at least: one for each fold."""
_PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0)
_SIGNALS_PENALTY = 0.1
_LONGEST = 200

M = TypeVar("M", LightModel, FinetunedModel, PromptedModel)


@dataclass(frozen=True)
class Trained(Generic[M]):
    """A model, and how it fares."""

    model: M
    held_out: Figures

    @classmethod
    def of(cls, model: M, held_out: Figures) -> Trained[M]:
        """Write the figures into the model."""
        about = {**model.about, "held_out": held_out.as_json()}
        return cls(model.model_copy(update={"about": about}), held_out)


def train_light(
    collected: Sequence[Collected], *, reads: Literal["quiz", "draft", "draws"] = "draft", embedder: str = EMBEDDER
) -> Trained[LightModel]:
    """Train a light boundary model."""
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
    said = {aspect: _first(seen, scores[aspect]) for aspect in heads}
    held_out = figures_of(quizzes, [readings(quiz, reads)[0] for quiz in quizzes], said["mastery"], said["certainty"])
    model = LightModel(
        reads=reads,
        embedder=embedder,
        heads=heads,
        roots=roots_of(quizzes),
        about=about_training(collected, quizzes),
    )
    return Trained.of(model, held_out)


def about_training(collected: Sequence[Collected], quizzes: Sequence[CollectedQuiz]) -> dict[str, Any]:
    """What a boundary model says about how it came to be."""
    return {
        "keqa": version("keqa"),
        "lm": collected[0].lm[:_LONGEST],
        "datasets": sorted({f"{one.dataset} {one.split}".strip()[:_LONGEST] for one in collected}),
        "quizzes": len(quizzes),
    }


def roots_of(quizzes: Sequence[CollectedQuiz]) -> list[str]:
    """The digests of the questions that quizzes are of."""
    return sorted({quiz.root for quiz in quizzes})


def checked_quizzes(collected: Sequence[Collected]) -> list[CollectedQuiz]:
    """The quizzes of what a boundary model may learn from, each once."""
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
    questions = len(roots_of(quizzes))
    if len(quizzes) < FEWEST_QUIZZES or questions < FEWEST_QUESTIONS:
        raise InputError(
            f"{len(quizzes)} quizzes of {questions} questions are too few to train on; collect {FEWEST_QUIZZES} of "
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
        order = {root: number % FOLDS for number, root in enumerate(roots_of(quizzes))}
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
    target = np.array([getattr(reading, aspect) for _, reading in seen])
    words, weight, fold = data.words[data.place], data.weight, data.fold
    found, scores = cross_validated(
        (raw - mean) / scale, words, target, weight, fold, tried=_PENALTIES, signals_penalty=_SIGNALS_PENALTY
    )
    calibrated = np.zeros(len(seen))
    for one in range(FOLDS):
        slope, offset = platt(scores, target, weight, fold != one)
        calibrated[fold == one] = slope * scores[fold == one] + offset
    slope, offset = platt(scores, target, weight, np.full(len(seen), True))
    return regression_of(found, names, mean, scale, slope, offset), sigmoid(calibrated)


def _first(seen: Sequence[tuple[int, Reading]], scores: Array) -> list[float]:
    """The score of the first reading of each quiz."""
    found: dict[int, float] = {}
    for (place, _), score in zip(seen, scores, strict=True):
        found.setdefault(place, float(score))
    return list(found.values())


def may_learn(program: Any) -> bool:
    """Whether a boundary model could decide for a program: one with KEQA's own gate, and not one that was chosen."""
    return isinstance(program, KEQA) and program.examine and type(program.examination.gate) is VoteGate


def learn(
    program: KEQA,
    train: Sequence[Example],
    val: Sequence[Example],
    *,
    tries: int,
    store: DrawStore,
    in_flight: int,
    progress: Progress,
) -> Trained[LightModel]:
    """Collect draws to the quizzes of training questions, and train a light model on them.

    By default it reads one draft where the language model gives the probabilities of its tokens, and else the draws.
    """
    if {one.id for one in train} & {one.id for one in val}:
        raise InputError("the training questions choose as well, so that a boundary model would be chosen by its own")
    left_out = {_asked(one) for one in quizzes_of(val)}
    left_out |= {
        (plain(str(demo.get("quiz", ""))), tuple(map(str, demo.get("choices") or ())))
        for demo in program.examination.quiz.demos
    }

    def wanted(one: GoldQuiz) -> bool:
        return _asked(one) not in left_out

    usable = [one for one in quizzes_of(train) if wanted(one)]
    if len(usable) < FEWEST_QUIZZES or len({one.root for one in usable}) < FEWEST_QUESTIONS:
        raise InputError(f"{len(usable)} quizzes are too few to train a boundary model on")
    collected = collect(
        program, train, tries=tries, store=store, in_flight=in_flight, split="train", wanted=wanted, progress=progress
    )
    likely = all(quiz.signals().has_probabilities for quiz in collected.quizzes)
    return train_light([collected], reads="draft" if likely else "draws")


def _asked(asked: GoldQuiz) -> tuple[str, tuple[str, ...]]:
    return plain(asked.quiz), asked.choices
