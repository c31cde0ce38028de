"""Training boundary models: light ones in seconds, KBM's by fine-tuning (section 3.1), and prompted ones.

A light one is a logistic regression with Platt's calibration. The penalty on its weights is chosen by folds that divide
no question; its calibration, and the figures on held-out questions, are of what the regressions of other folds say. Of
those that ask a language model, the figures are on a fifth of the questions. Wherever draws come from, a model is
trained on them as `Collected`.
"""

import random
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import dspy
import numpy as np
from scipy.special import expit

from keqa.data.example import Example
from keqa.data.question import quiz_key
from keqa.errors import InputError
from keqa.lms.local.training import Progress, SoftChoice, TrainingConversation, TrainingOptions, fine_tune
from keqa.lms.local.weights import fingerprint
from keqa.optimize.alignment import Settled
from keqa.optimize.asking import Asking
from keqa.optimize.boundary.check import Figures, check_model, figures_of, readings
from keqa.optimize.boundary.collect import Collected, CollectedQuiz, collect, from_memory, quizzes_of
from keqa.optimize.logistic import FOLDS, Fit
from keqa.programs.boundary import FinetunedModel, LightModel, PromptedModel
from keqa.programs.boundary.asked import MOST_EXAMPLES, KnownQuiz, PromptLanguage, assessment_of, balanced
from keqa.programs.boundary.light import Aspect, CertaintyTarget, Regression, Variant, certainty, masked, signal_values
from keqa.programs.gates import VoteGate
from keqa.programs.keqa import KEQA
from keqa.programs.reference.embedding import open_built_in
from keqa.signatures.boundary import assessment_reply

EMBEDDER = "hashing-256"
"""The embedder that ships, with vectors as short as a few hundred quizzes can bear."""
FEWEST_QUIZZES, FEWEST_QUESTIONS = 20, FOLDS
"""So many quizzes are trained on at least, of so many questions: one for each fold."""
TAU = 0.9
"""The share from which KBM takes a quiz for mastered, and for certain."""
KBM_TRAINING = {"method": "full", "epochs": 3, "batch": 4, "rate": 1e-5, "warmup": 0.02, "longest": 1580}
"""KBM's way to train; LoRA is an extension."""
_PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0)
_SIGNALS_PENALTY = 0.1
_HELD_OUT = 5
_LONGEST = 200

M = TypeVar("M", LightModel, FinetunedModel, PromptedModel)


class Trained(NamedTuple, Generic[M]):
    """A model, and how it fares."""

    model: M
    held_out: Figures


def _trained(model: M, held_out: Figures) -> Trained[M]:
    """A model with its figures written into it."""
    about = {**model.about, "held_out": held_out.as_json()}
    return Trained(model.model_copy(update={"about": about}), held_out)


def _about(collected: Sequence[Collected], quizzes: Sequence[CollectedQuiz], **more: Any) -> dict[str, Any]:
    """What a boundary model says about how it came to be."""
    return {
        "keqa": version("keqa"),
        "lm": collected[0].lm[:_LONGEST],
        "datasets": sorted({f"{one.dataset} {one.split}".strip()[:_LONGEST] for one in collected}),
        "quizzes": len(quizzes),
        **more,
    }


def roots_of(quizzes: Sequence[CollectedQuiz]) -> list[str]:
    return sorted({quiz.root for quiz in quizzes})


def _learned(quizzes: Sequence[CollectedQuiz]) -> dict[str, Any]:
    """What a model says of the quizzes that it learned from."""
    return {"roots": roots_of(quizzes), "quizzes": sorted({quiz.digest for quiz in quizzes})}


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
    quizzes = [*{(one.digest, one.reference): one for some in collected for one in some.quizzes}.values()]
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


def train_light(
    collected: Sequence[Collected],
    *,
    reads: Literal["quiz", "draft", "draws"] = "draft",
    embedder: str = EMBEDDER,
    target: CertaintyTarget = "by_samples",
) -> Trained[LightModel]:
    """Train a light boundary model; it reads no passages, and learns of draws from memory alone.

    `target` is the certainty that it learns to tell: KBM's, ``by_types``, or ``by_samples``.
    """
    quizzes = checked_quizzes([from_memory(one) for one in collected])
    seen = [(place, reading) for place, quiz in enumerate(quizzes) for reading in readings(quiz, reads, target)]
    place = np.array([place for place, _ in seen])
    first = np.unique(place, return_index=True)[1]
    words = np.asarray(open_built_in(embedder).embed([masked(quiz.quiz) for quiz in quizzes]), np.float64)
    # The digests of questions are in no order that has to do with them.
    order = {root: number % FOLDS for number, root in enumerate(roots_of(quizzes))}
    fold = np.array([order[quizzes[one].root] for one in place])
    # All readings of a quiz count as much as the one of another.
    weight = 1 / np.bincount(place)[place]
    how: dict[str, Any] = {"tried": _PENALTIES, "signals_penalty": _SIGNALS_PENALTY, "least_scale": 1e-3}

    def fitted(aspect: Aspect, variant: Variant) -> tuple[Regression, list[float]]:
        """The regression, and what regressions of the other folds say of the first reading of each quiz."""
        values = [signal_values(reads, reading.signals, variant == "probabilities") for _, reading in seen]
        target = np.array([getattr(reading, aspect) for _, reading in seen])
        fit = Fit(values, words[place], target, weight, fold, **how)
        calibrated = np.zeros(len(seen))
        for one in range(FOLDS):
            slope, offset = fit.platt(fold != one)
            calibrated[fold == one] = slope * fit.scores[fold == one] + offset
        return fit.calibrated()[0], expit(calibrated[first]).tolist()

    likely = reads != "quiz" and all(reading.signals.has_probabilities for _, reading in seen)
    variants: list[Variant] = ["texts", "probabilities"] if likely else ["texts"]
    heads: dict[Aspect, dict[Variant, Regression]] = {"mastery": {}, "certainty": {}}
    held: dict[Aspect, list[float]] = {}
    for aspect in heads:
        for variant in variants:
            heads[aspect][variant], held[aspect] = fitted(aspect, variant)
    held_out = figures_of(quizzes, [seen[one][1] for one in first], held["mastery"], held["certainty"])
    made: dict[str, Any] = {"reads": reads, "embedder": embedder, "certainty": target}
    made["about"] = _about(collected, quizzes)
    return _trained(LightModel(heads=heads, **_learned(quizzes), **made), held_out)


def may_learn(program: Any) -> bool:
    """Whether a boundary model could decide for a program: one with KEQA's own gate, and not one that was chosen."""
    return isinstance(program, KEQA) and program.examine and type(program.examination.gate) is VoteGate


def learn(
    program: KEQA, train: Sequence[Example], val: Sequence[Example], asking: Asking, tries: int
) -> Trained[LightModel]:
    """Collect draws to the quizzes of training questions, and train a light model on them."""
    if {*train} & {*val}:
        raise InputError("the training questions choose as well, so that a boundary model would be chosen by its own")
    shown = [(str(demo.get("quiz", "")), demo.get("choices") or ()) for demo in program.examination.quiz.demos]
    left_out = {(quiz_key(quiz), tuple(map(str, choices))) for quiz, choices in shown}
    left_out |= set(map(_asked, quizzes_of(val)))
    usable = [one for one in quizzes_of(train) if _asked(one) not in left_out]
    if len(usable) < FEWEST_QUIZZES or len({one.root for one in usable}) < FEWEST_QUESTIONS:
        raise InputError(f"{len(usable)} quizzes are too few to train a boundary model on")
    how: dict[str, Any] = {"store": asking.journal, "in_flight": asking.in_flight, "progress": asking.progress}
    collected = collect(program, quizzes=usable, tries=tries, split="train", **how)
    # Without the probabilities of its tokens one draft says too little.
    likely = all(quiz.signals().has_probabilities for quiz in collected.quizzes)
    return train_light([collected], reads="draft" if likely else "draws")


def _asked(asked: Settled) -> tuple[str, tuple[str, ...]]:
    return quiz_key(str(asked.quiz.resolved)), asked.choices


# Models that ask a language model.


def shares(quiz: CollectedQuiz) -> tuple[float, float]:
    """Accuracy and certainty of a quiz: the latter is 1 - H / log k, by its k types of answers (equation 2)."""
    return float(quiz.accuracy), certainty(quiz.signals(), "by_types")


def labels(quiz: CollectedQuiz) -> tuple[bool, bool]:
    mastery, certain = shares(quiz)
    return mastery >= TAU, certain >= TAU


def _divided(quizzes: Sequence[CollectedQuiz]) -> tuple[list[CollectedQuiz], list[CollectedQuiz]]:
    """The quizzes to learn from, and those of the questions held out."""
    held = {root for place, root in enumerate(roots_of(quizzes)) if place % _HELD_OUT == 0}
    return [one for one in quizzes if one.root not in held], [one for one in quizzes if one.root in held]


def train_finetuned(
    collected: Sequence[Collected],
    lm: str,
    folder: str | Path,
    *,
    language: PromptLanguage = "auto",
    soft_labels: bool = False,
    training: Mapping[str, Any] | None = None,
    progress: Progress = lambda step, steps, loss: None,
) -> Trained[FinetunedModel]:
    """Fine-tune a language model to say of a quiz whether it is mastered and certain, as KBM does."""
    learned, rest = _divided(checked_quizzes(collected))
    own = dict(training or {})
    # KBM's rate is that for all weights.
    defaults = {name: one for name, one in KBM_TRAINING.items() if name != "rate" or own.get("method") != "lora"}
    options = TrainingOptions.of({**defaults, **own})
    shown = [_conversation(quiz, language, soft_labels) for quiz in learned]
    done = fine_tune(lm, shown, folder, options, progress=progress)
    how = {"threshold": TAU, "soft_labels": soft_labels, "training": options.spec()}
    how |= {"minutes": done.minutes, "left_out": done.left_out}
    place, about = str(done.folder), _about(collected, learned, base=lm[:_LONGEST], **how)
    weights = fingerprint(place)
    made: dict[str, Any] = {"language": language, "weights": weights, "certainty": "by_types"}
    model = FinetunedModel(**_learned(learned), about=about, lm=place, **made)
    return _trained(model, check_model(model, [Collected(rest)]))


def _conversation(quiz: CollectedQuiz, language: PromptLanguage, soft: bool) -> TrainingConversation:
    reply = assessment_reply(*labels(quiz))
    prompt = assessment_of(language, quiz.quiz, quiz.choices, quiz.reference)
    places = [
        SoftChoice(reply.index(f'"{name}": "') + len(name) + 5, {"True": share, "False": 1 - share})
        for name, share in zip(("mastery", "certainty"), shares(quiz), strict=True)
    ]
    return TrainingConversation([{"role": "user", "content": prompt}], reply, places if soft else ())


def train_prompted(
    collected: Sequence[Collected],
    lm: Any,
    *,
    show: Literal["balanced", "nearest"] = "balanced",
    k: int = 8,
    embedder: str = EMBEDDER,
    reflection_lm: Any = None,
) -> Trained[PromptedModel]:
    """Choose examples for a prompted boundary model; a reflecting LM, where given, writes its instruction by GEPA."""
    learned, rest = _divided(checked_quizzes([from_memory(one) for one in collected]))
    examples = list(map(_known, learned))
    random.Random(0).shuffle(examples)
    shown = balanced(examples, k) if show == "balanced" else examples[:MOST_EXAMPLES]
    about = _about(collected, learned, threshold=TAU)
    made: dict[str, Any] = {"show": show, "k": k, "embedder": embedder, "certainty": "by_types"}
    model = PromptedModel(examples=shown, **_learned(learned), about=about, **made)
    with dspy.context(lm=lm):
        if reflection_lm is not None:
            model = compile_prompted(model, examples, reflection_lm)
        return _trained(model, check_model(model, [Collected(rest)]))


def _known(quiz: CollectedQuiz) -> KnownQuiz:
    mastery, certain = labels(quiz)
    asked = quiz.model_dump(include={"quiz", "answer_type", "choices", "root"})
    return KnownQuiz(mastery=mastery, certainty=certain, **asked)


class JudgeModule(dspy.Module):
    """A prompted boundary model as a module for DSPy's optimizers."""

    def __init__(self, model: PromptedModel) -> None:
        super().__init__()
        self.model = model
        self.judge = model.predictor()

    def forward(self, quiz: str, answer_type: str = "short", choices: Sequence[str] = ()) -> dspy.Prediction:
        demos = [one.shown() for one in self.model.shown_to(quiz)]
        asked = {"quiz": quiz, "answer_type": answer_type, "choices": list(choices), "reference": []}
        return self.judge(demos=demos, **asked)

    def compiled(self) -> PromptedModel:
        """The model with the instruction that the predictor has by now."""
        return self.model.model_copy(update={"instruction": self.judge.signature.instructions})


def compile_prompted(
    model: PromptedModel, examples: Sequence[KnownQuiz], reflection_lm: Any, *, budget: int = 200
) -> PromptedModel:
    """Let GEPA write the instruction of a prompted boundary model; ``dspy.settings.lm`` is asked."""
    from keqa.optimize.dspy_optimizers import quiet

    shown = [dspy.Example(**one.model_dump(exclude={"root"})) for one in examples]
    wanted = [one.with_inputs("quiz", "answer_type", "choices") for one in shown]
    half = len(wanted) // 2
    with quiet():
        optimizer = dspy.GEPA(_verdict, reflection_lm=reflection_lm, max_metric_calls=budget, num_threads=4, seed=0)
        best: JudgeModule = optimizer.compile(JudgeModule(model), trainset=wanted[:half], valset=wanted[half:])
    return best.compiled()


def _verdict(gold: Any, pred: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None) -> Any:
    """How many of both verdicts are right, with what was wrong as feedback."""
    right = {name: bool(getattr(pred, name, None)) == bool(gold[name]) for name in ("mastery", "certainty")}
    wrong = [f"{name} is {gold[name]}" for name, good in right.items() if not good]
    feedback = "Both are right." if not wrong else f"For this quiz {' and '.join(wrong)}."
    return dspy.Prediction(score=sum(right.values()) / 2, feedback=feedback)
