"""Boundary models that ask a language model: KBM's, fine-tuned on labels (section 2.3), and a prompted one.

A fifth of the questions, by the digests of their ids, is held out for the figures; no question is divided.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import dspy

from keqa.errors import ConfigurationError
from keqa.lms.local.training import Conversation, Progress, SoftChoice, TrainingOptions, fine_tune
from keqa.lms.local.weights import fingerprint
from keqa.optimize.boundary.check import check_model
from keqa.optimize.boundary.collect import Collected, CollectedQuiz
from keqa.optimize.boundary.train import M, Trained, about_training, checked_quizzes, roots_of
from keqa.programs.boundary.asked import FinetunedModel, KnownQuiz, PromptedModel, balanced
from keqa.programs.boundary.light import certainty
from keqa.signatures.boundary import Language, assessment_prompt, assessment_reply

TAU = 0.9
"""The share from which KBM takes a quiz for mastered, and for certain."""
KBM_TRAINING: Mapping[str, Any] = {
    "method": "full",
    "epochs": 3,
    "batch": 4,
    "rate": 1e-5,
    "warmup": 0.02,
    "longest": 1580,
}
"""KBM's way to train; LoRA is an extension."""
_HELD_OUT = 5
_LONGEST = 200


def train_finetuned(
    collected: Sequence[Collected],
    lm: str,
    folder: str | Path,
    *,
    language: Language = "en",
    threshold: float = TAU,
    soft_labels: bool = False,
    training: Mapping[str, Any] | None = None,
    progress: Progress = lambda step, steps, loss: None,
) -> Trained[FinetunedModel]:
    """Fine-tune a language model to say of a quiz whether it is mastered and certain, as KBM does."""
    if not 0 < threshold <= 1:
        raise ConfigurationError(f"the threshold must be above 0 and at most 1, not {threshold!r}")
    learned, rest = _divided(checked_quizzes(collected))
    own = dict(training or {})
    # KBM's rate is that for all weights.
    defaults = {name: one for name, one in KBM_TRAINING.items() if name != "rate" or own.get("method") != "lora"}
    options = TrainingOptions.of({**defaults, **own})
    shown = [_conversation(quiz, language, threshold, soft_labels) for quiz in learned]
    done = fine_tune(lm, shown, folder, options, progress=progress)
    model = FinetunedModel(
        language=language,
        weights=fingerprint(str(done.folder)),
        roots=roots_of(learned),
        about={
            **about_training(collected, learned),
            "base": lm[:_LONGEST],
            "threshold": threshold,
            "soft_labels": soft_labels,
            "training": options.spec(),
            "minutes": done.minutes,
        },
        lm=str(done.folder),
    )
    return _trained(model, rest, collected)


def train_prompted(
    collected: Sequence[Collected],
    lm: Any,
    *,
    show: Literal["balanced", "nearest"] = "balanced",
    k: int = 8,
    embedder: str = "hashing-256",
    threshold: float = TAU,
    seed: int = 0,
    reflection_lm: Any = None,
    budget: int = 200,
) -> Trained[PromptedModel]:
    """Choose examples for a prompted boundary model; a reflecting LM, where given, writes its instruction by GEPA."""
    learned, rest = _divided(checked_quizzes(collected))
    examples = [_known(quiz, threshold) for quiz in learned]
    random.Random(seed).shuffle(examples)
    model = PromptedModel(
        show=show,
        k=k,
        embedder=embedder,
        examples=balanced(examples, k) if show == "balanced" else examples,
        roots=roots_of(learned),
        about={**about_training(collected, learned), "threshold": threshold},
    )
    with dspy.context(lm=lm):
        if reflection_lm is not None:
            model = compile_prompted(model, examples, reflection_lm, budget=budget, seed=seed)
        return _trained(model, rest, collected)


class JudgeModule(dspy.Module):
    """A prompted boundary model as a module for DSPy's optimizers."""

    def __init__(self, model: PromptedModel) -> None:
        super().__init__()
        self.model = model
        self.judge = model.predictor()

    def forward(self, quiz: str, answer_type: str = "short", choices: Sequence[str] = ()) -> dspy.Prediction:
        """Judge a quiz by memory."""
        demos = [one.shown() for one in self.model.shown_to(quiz)]
        asked = {"quiz": quiz, "answer_type": answer_type, "choices": list(choices), "reference": []}
        return self.judge(demos=demos, **asked)

    def compiled(self) -> PromptedModel:
        """The model with the instruction that the predictor has by now."""
        return self.model.model_copy(update={"instruction": self.judge.signature.instructions})


def compile_prompted(
    model: PromptedModel, examples: Sequence[KnownQuiz], reflection_lm: Any, *, budget: int = 200, seed: int = 0
) -> PromptedModel:
    """Let GEPA write the instruction of a prompted boundary model; ``dspy.settings.lm`` is asked."""
    from keqa.optimize.dspy_optimizers import quiet

    wanted = [
        dspy.Example(**one.model_dump(exclude={"root"})).with_inputs("quiz", "answer_type", "choices")
        for one in examples
    ]
    half = len(wanted) // 2
    with quiet():
        optimizer = dspy.GEPA(_verdict, reflection_lm=reflection_lm, max_metric_calls=budget, num_threads=4, seed=seed)
        best: JudgeModule = optimizer.compile(JudgeModule(model), trainset=wanted[:half], valset=wanted[half:])
    return best.compiled()


def _verdict(gold: Any, pred: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None) -> Any:
    """How many of both verdicts are right, with what was wrong as feedback."""
    right = {name: bool(getattr(pred, name, None)) == bool(gold[name]) for name in ("mastery", "certainty")}
    wrong = [f"{name} is {gold[name]}" for name, good in right.items() if not good]
    feedback = "Both are right." if not wrong else f"For this quiz {' and '.join(wrong)}."
    return dspy.Prediction(score=sum(right.values()) / 2, feedback=feedback)


def labels(quiz: CollectedQuiz, threshold: float = TAU) -> tuple[bool, bool]:
    """Mastery and certainty of a quiz, by KBM's threshold."""
    return float(quiz.accuracy) >= threshold, certainty(quiz.signals()) >= threshold


def _conversation(quiz: CollectedQuiz, language: Language, threshold: float, soft: bool) -> Conversation:
    mastery, certain = labels(quiz, threshold)
    reply = assessment_reply(mastery, certain)
    prompt = assessment_prompt(quiz.quiz, quiz.choices, None, language)
    shares = {"mastery": float(quiz.accuracy), "certainty": certainty(quiz.signals())}
    places = [
        SoftChoice(reply.index(f'"{name}": "') + len(name) + 5, {"True": share, "False": 1 - share})
        for name, share in shares.items()
    ]
    return Conversation([{"role": "user", "content": prompt}], reply, places if soft else ())


def _known(quiz: CollectedQuiz, threshold: float) -> KnownQuiz:
    mastery, certain = labels(quiz, threshold)
    kind: Any = {"answer_type": quiz.answer_type, "choices": list(quiz.choices)}
    return KnownQuiz(quiz=quiz.quiz, mastery=mastery, certainty=certain, root=quiz.root, **kind)


def _divided(quizzes: Sequence[CollectedQuiz]) -> tuple[list[CollectedQuiz], list[CollectedQuiz]]:
    """The quizzes to learn from, and those of the questions held out."""
    held = {root for place, root in enumerate(roots_of(quizzes)) if place % _HELD_OUT == 0}
    return [one for one in quizzes if one.root not in held], [one for one in quizzes if one.root in held]


def _trained(model: M, rest: Sequence[CollectedQuiz], collected: Sequence[Collected]) -> Trained[M]:
    return Trained.of(model, check_model(model, [Collected(list(rest), lm=collected[0].lm)]))
