"""The prompted boundary model: a language model is asked what it knows, with examples of what it knew and did not.

It is asked by `keqa.signatures.JudgeKnowledge`, before any draw. The examples are quizzes that were collected: a
balanced few, the same for every quiz, or those that are most like it. Its instruction may be another one, which GEPA
writes (`keqa.optimize.boundary.compile_prompted`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import dspy
from dspy.utils.exceptions import DSPyError
from pydantic import Field

from keqa.data.question import AnswerType
from keqa.errors import ConfigurationError
from keqa.lms.outside import Guarded
from keqa.programs.boundary.features import masked
from keqa.programs.boundary.model import BoundaryError, Judgement, Signals
from keqa.programs.boundary.saved import ROLE, AskedModel, Root, Strict, digest, refuse_unknown, shared_embedder
from keqa.programs.runtime.asides import counted, lm_of_role
from keqa.programs.stages.probabilities import LOGPROBS, first_token_probability, tells_no_probabilities, tokens_of
from keqa.signatures import JudgeKnowledge

_MOST_EXAMPLES, _LONGEST = 5000, 4000

Text = Annotated[str, Field(max_length=_LONGEST)]


class KnownQuiz(Strict):
    """A quiz of which it is known whether the language model knows it."""

    quiz: Text
    answer_type: AnswerType = "short"
    choices: list[Text] = Field(default=[], max_length=100)
    mastery: bool
    certainty: bool
    root: Root

    def shown(self) -> dspy.Example:
        """As a demonstration."""
        return dspy.Example(reference=[], **self.model_dump(exclude={"root"}))


class PromptedModel(AskedModel):
    """A prompted boundary model; see `keqa.optimize.boundary.train_prompted`, which makes one."""

    kind: Literal["prompted"] = "prompted"
    show: Literal["balanced", "nearest"] = "balanced"
    k: Annotated[int, Field(ge=0, le=64)] = 8
    embedder: Annotated[str, Field(max_length=100)] = "hashing-256"
    examples: list[KnownQuiz] = Field(default=[], max_length=_MOST_EXAMPLES)
    instruction: Text | None = None

    def model_post_init(self, context: Any) -> None:
        """Refuse what is well-formed and cannot judge."""
        refuse_unknown(self.embedder)

    def judge(self, quiz: str, signals: Signals, reference: str | None = None) -> Judgement:
        """Judge a quiz; see `keqa.programs.boundary.BoundaryModel`.

        The language model is that of role ``boundary`` of the program that asks, else that of its task. Where it gives
        token probabilities they say how sure its verdict is; otherwise a verdict is 0 or 1.
        """
        lm = lm_of_role(ROLE)
        if lm is None:
            raise ConfigurationError("No language model is set: pass lms=... or call dspy.configure(lm=...)")
        predictor = self.predictor()
        predictor.demos = [one.shown() for one in self.shown_to(quiz)]
        passages = [] if reference is None else [reference]
        kind = {"answer_type": signals.answer_type, "choices": list(signals.choices)}

        def asked() -> Judgement:
            try:
                with _adapted():
                    return _asked(predictor, lm, quiz=quiz, reference=passages, **kind)
            except DSPyError as error:
                raise BoundaryError(f"the boundary model's language model failed: {error}") from error

        return counted(ROLE, (id(lm), quiz, reference, signals.choices), asked)

    def predictor(self) -> dspy.Predict:
        """What asks, without examples."""
        signature = JudgeKnowledge
        return dspy.Predict(signature if self.instruction is None else signature.with_instructions(self.instruction))

    def shown_to(self, quiz: str) -> Sequence[KnownQuiz]:
        """The examples that a quiz is shown, the most alike last; never itself."""
        others = [one for one in self.examples if one.quiz != quiz]
        if self.show == "balanced" or len(others) <= self.k:
            return others[: self.k]
        import numpy as np

        vectors = shared_embedder(self.embedder).embed([masked(quiz), *(masked(one.quiz) for one in others)])
        order = np.argsort(-(vectors[1:] @ vectors[0]), kind="stable")[: self.k]
        return [others[place] for place in reversed(order)]

    def spec(self) -> dict[str, Any]:
        """Kind, what it reads, how it shows examples, and a digest of these and the instruction."""
        shown = {name: self.written()[name] for name in ("examples", "instruction", "embedder")}
        return {"kind": self.kind, "reads": self.reads, "show": self.show, "k": self.k, "prompt": digest(shown)}


def _asked(predictor: dspy.Predict, lm: Any, **inputs: Any) -> Judgement:
    """Ask with token probabilities, and without where the language model gives none."""
    try:
        said = predictor(lm=lm, config=dict(LOGPROBS), **inputs)
        (tokens,) = tokens_of(said, 1, str(lm.model), "a boundary model", "its verdicts")
    except Exception as error:
        if not (tells_no_probabilities(error) or isinstance(error, dspy.LMUnsupportedFeatureError)):
            raise
        said = predictor(lm=lm, **inputs)
        return Judgement(float(bool(said.mastery)), float(bool(said.certainty)))
    return Judgement(*(_share(bool(getattr(said, name)), tokens, name) for name in ("mastery", "certainty")))


def _share(verdict: bool, tokens: Sequence[tuple[str, float]], name: str) -> float:
    """How probable True is, from how probable what was said is."""
    said = first_token_probability(tokens, name)
    if said is None:
        return float(verdict)
    return min(1.0, said) if verdict else max(0.0, 1 - said)


@contextmanager
def _adapted() -> Iterator[None]:
    """With the adapter of programs, which writes no text from outside that could pass for structure."""
    from keqa.lms.adapter import adapter

    with dspy.context(adapter=Guarded(dspy.settings.adapter or adapter())):
        yield


def balanced(examples: Sequence[KnownQuiz], k: int) -> list[KnownQuiz]:
    """As many of what is mastered as of what is not, in turns."""
    kinds: Mapping[bool, list[KnownQuiz]] = {True: [], False: []}
    for one in examples:
        kinds[one.mastery].append(one)
    each = min(k // 2, *map(len, kinds.values()))
    return [one for pair in zip(kinds[True][:each], kinds[False][:each], strict=True) for one in pair]
