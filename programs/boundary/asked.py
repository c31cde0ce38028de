"""Boundary models that ask a language model before any draw: KBM's, fine-tuned (KBM, section 3.1), and a prompted one.

The *fine-tuned* one is asked in KBM's words, and replies with JSON, of which the probability counts: P(True) / (P(True)
+ P(False)) at each field. Its file names a folder of weights beside it, and their fingerprint. It judges whatever LM
answers.

The *prompted* one is asked by `JudgeKnowledge`, with examples of what was known and what was not: a balanced few, the
same for every quiz, or those that are most like it.
"""

import math
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

import dspy
from dspy import lm15
from dspy.utils.exceptions import DSPyError
from pydantic import Field

from keqa.data.question import AnswerType
from keqa.errors import ConfigurationError
from keqa.programs.boundary.light import (
    ROLE,
    BoundaryError,
    EmbedderName,
    Judgement,
    Reads,
    Root,
    SavedModel,
    Strict,
    masked,
    shared_embedder,
)
from keqa.programs.calls.ask import counted, lm_of_role
from keqa.programs.calls.probabilities import LOGPROBS, first_tokens, likelihood, tells_no_probabilities
from keqa.programs.calls.texts import Guarded
from keqa.programs.gate import Draws
from keqa.programs.records import digest
from keqa.retrievers.text import is_chinese
from keqa.signatures.boundary import JudgeKnowledge, Language, assessment_prompt

MASTERY = '{"mastery": "'
"""How every reply begins; the probability of its next token is what is read."""
_ALTERNATIVES, _LONGEST_REPLY = 1000, 48
_VERDICTS = ("True", "False")

PromptLanguage = Language | Literal["auto"]
"""Which of KBM's prompts is asked; ``auto`` asks each question in the one of its own language, as the paper does."""


class AskedModel(SavedModel):
    """A boundary model that asks a language model before any draw, and so reads the quiz alone."""

    reads: ClassVar[Reads] = "quiz"
    uses_probabilities: ClassVar[bool] = False
    waits: ClassVar[bool] = True

    def judge(self, quiz: str, draws: Draws, reference: str | None = None) -> Judgement:
        lm = self._asked()

        def asked() -> Judgement:
            try:
                return self._judged(lm, quiz, draws, reference)
            except DSPyError as error:
                raise BoundaryError(f"the boundary model's language model failed: {error}") from error

        return counted(ROLE, (id(lm), quiz, reference, draws.answer_type, draws.choices), asked)

    @abstractmethod
    def _asked(self) -> Any:
        """The language model that is asked."""

    @abstractmethod
    def _judged(self, lm: Any, quiz: str, draws: Draws, reference: str | None) -> Judgement:
        """What it says."""


class FinetunedModel(AskedModel):
    """A fine-tuned boundary model; see `keqa.optimize.boundary.train.train_finetuned`, which makes one."""

    kind: Literal["finetuned"] = "finetuned"
    language: PromptLanguage = "en"
    weights: Annotated[str, Field(max_length=100)]
    # Where its language model is, is not written.
    lm: Annotated[str, Field(max_length=4096)] | None = Field(default=None, exclude=True)

    def _judged(self, lm: Any, quiz: str, draws: Draws, reference: str | None) -> Judgement:
        prompt = assessment_of(self.language, quiz, draws.choices, reference)
        scored = _reply_tokens(lm, prompt, MASTERY)
        mastery, certainty = (_probability(scored, name) for name in ("mastery", "certainty"))
        if certainty is None:
            # A model that was trained little may write something else than the rest of its reply.
            first = mastery is not None and mastery >= 0.5
            certainty = _probability(_reply_tokens(lm, prompt, f'{MASTERY}{first}", "certainty": "'), "certainty")
        if mastery is None or certainty is None:
            raise BoundaryError("the boundary model's language model takes neither True nor False for likely")
        return Judgement(mastery, certainty)

    def _asked(self) -> Any:
        lm = lm_of_role(ROLE, own=True) or (None if self.lm is None else _opened(self.lm))
        if lm is None:
            raise ConfigurationError(
                "the program's boundary model was fine-tuned, and programs hold no language model: name it with "
                "--boundary-lm transformers/FOLDER, or boundary_lm of keqa.build_roles"
            )
        path = getattr(getattr(lm, "engine", None), "path", None)
        if not isinstance(path, str) or _weights(path) != self.weights:
            raise ConfigurationError(
                f"the language model {lm.model} is not the one that the boundary model was trained as: name that with "
                "--boundary-lm transformers/FOLDER"
            )
        return lm

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "reads": self.reads, "language": self.language, "weights": self.weights}


def assessment_of(
    language: PromptLanguage, quiz: str, choices: Sequence[str] = (), reference: str | None = None
) -> str:
    own: Language = "zh" if is_chinese(quiz) else "en"
    return assessment_prompt(quiz, choices, reference, own if language == "auto" else language)


def _reply_tokens(lm: Any, prompt: str, begun: str) -> list[lm15.TokenLogprob]:
    """The reply to a prompt, which has begun already; what it begins with is its first token."""
    config = lm15.Config(max_tokens=_LONGEST_REPLY, temperature=0.0, logprobs=_ALTERNATIVES)
    messages = (lm15.Message.user(prompt), lm15.Message.assistant(begun))
    drawn = lm(lm15.Request(model=lm.model, messages=messages, config=config)).logprobs or ()
    return [lm15.TokenLogprob(token=begun, logprob=0.0), *drawn]


def _probability(tokens: Sequence[lm15.TokenLogprob], name: str) -> float | None:
    """P(True) / (P(True) + P(False)) where the value of a field begins; None where there is none."""
    text = "".join(token.token for token in tokens)
    field = re.search(rf'"{name}"\s*:\s*"?', text)
    if field is None:
        return None
    place = 0
    for token in tokens:
        if place + len(token.token) > field.end():
            break
        place += len(token.token)
    else:
        return None
    # What the token holds before the value, such as the quotation mark, every alternative has to hold as well.
    before = token.token[: max(0, field.end() - place)]
    masses = dict.fromkeys(_VERDICTS, 0.0)
    for text, score in {token.token: token.logprob, **{one.token: one.logprob for one in token.top}}.items():
        value = text[len(before) :]
        for verdict in _VERDICTS if text.startswith(before) and value else ():
            if value.startswith(verdict) or verdict.startswith(value):
                masses[verdict] += math.exp(score)
    total = sum(masses.values())
    return masses["True"] / total if total > 0 else None


@cache
def _opened(folder: str) -> dspy.LM:
    from keqa.lms import build_lm

    return build_lm(f"transformers/{folder}", cache=False)


@cache
def _weights(path: str) -> str:
    from keqa.lms.local.weights import fingerprint

    return fingerprint(path)


MOST_EXAMPLES, _LONGEST = 5000, 100_000

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
        return dspy.Example(reference=[], **self.model_dump(exclude={"root"}))


class PromptedModel(AskedModel):
    """A prompted boundary model; see `keqa.optimize.boundary.train.train_prompted`, which makes one."""

    kind: Literal["prompted"] = "prompted"
    show: Literal["balanced", "nearest"] = "balanced"
    k: Annotated[int, Field(ge=0, le=64)] = 8
    embedder: EmbedderName = "hashing-256"
    examples: list[KnownQuiz] = Field(default=[], max_length=MOST_EXAMPLES)
    instruction: Text | None = None

    def _asked(self) -> Any:
        """That of role ``boundary`` of the program that asks, else that of its task."""
        lm = lm_of_role(ROLE)
        if lm is None:
            raise ConfigurationError("No language model is set: pass lms=... or call dspy.configure(lm=...)")
        return lm

    def _judged(self, lm: Any, quiz: str, draws: Draws, reference: str | None) -> Judgement:
        """Where the language model gives token probabilities they say how sure a verdict is; else it is 0 or 1."""
        from keqa.signatures.chat_format import adapter

        predictor = self.predictor()
        predictor.demos = [one.shown() for one in self.shown_to(quiz)]
        passages = [] if reference is None else [reference]
        kind = {"answer_type": draws.answer_type, "choices": list(draws.choices)}
        # It writes no text from outside that could pass for structure.
        with dspy.context(adapter=Guarded(dspy.settings.adapter or adapter())):
            return _verdicts(predictor, lm, quiz=quiz, reference=passages, **kind)

    def predictor(self) -> dspy.Predict:
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
        shown = {name: self.written()[name] for name in ("examples", "instruction", "embedder")}
        return {"kind": self.kind, "reads": self.reads, "show": self.show, "k": self.k, "prompt": digest(shown)}


def _verdicts(predictor: dspy.Predict, lm: Any, **inputs: Any) -> Judgement:
    try:
        reply = predictor(lm=lm, config=dict(LOGPROBS), **inputs)
    except Exception as error:
        if not (tells_no_probabilities(error) or isinstance(error, dspy.LMUnsupportedFeatureError)):
            raise
        reply = predictor(lm=lm, **inputs)
    tokens = first_tokens(reply)
    return Judgement(*(_share(bool(getattr(reply, name)), tokens, name) for name in ("mastery", "certainty")))


def _share(verdict: bool, tokens: Sequence[tuple[str, float]], name: str) -> float:
    """How probable True is, from how probable what was said is."""
    _, probability = likelihood(tokens, name)
    if probability is None:
        return float(verdict)
    return min(1.0, probability) if verdict else max(0.0, 1 - probability)


def balanced(examples: Sequence[KnownQuiz], k: int) -> list[KnownQuiz]:
    """As many of what is mastered as of what is not, in turns."""
    kinds: Mapping[bool, list[KnownQuiz]] = {True: [], False: []}
    for one in examples:
        kinds[one.mastery].append(one)
    each = min(k // 2, *map(len, kinds.values()))
    return [one for pair in zip(kinds[True][:each], kinds[False][:each], strict=True) for one in pair]
