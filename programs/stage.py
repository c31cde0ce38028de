"""What stages have in common, the record that they write, and those stages that are one prompt.

These are: follow-up, quizzes, document from memory, answer, summary.
"""

import copy
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, cast

import dspy
from pydantic import ConfigDict

from keqa.data.question import Question, Quiz, clean, numbered_quizzes
from keqa.errors import ConfigurationError
from keqa.metrics.answers import normalize
from keqa.programs.calls.ask import ANSWER, ask
from keqa.programs.calls.errors import CallError, UnansweredError
from keqa.programs.calls.predictor import Predictor, checked_states, detached
from keqa.programs.calls.probabilities import LOGPROBS, NoProbabilitiesError, model_of, tells_no_probabilities
from keqa.programs.calls.session import CallLimiter, Session, context, current, note, run_blocking
from keqa.programs.calls.texts import answer_of, text_of
from keqa.programs.declared import DeclaredKeqa
from keqa.programs.records import AnswerSource, QuestionRecord, QuizRecord
from keqa.programs.sentences import words_of
from keqa.programs.today import dated
from keqa.programs.unanswered import unanswered_of
from keqa.signatures.baselines import ReasonWithKnowledge
from keqa.signatures.keqa import AnswerWithKnowledge, DecomposeQuestion, RewriteFollowUp, Summarize
from keqa.signatures.ks_llm import GenerateDocument

_ALIKE, _LONGEST_ALIKE = 0.9, 500
"""From what likeness on two texts are all but the same, and up to how many characters: it takes the square of them."""


class RoleLMs(Protocol):
    """A language model for each role, such as `keqa.lms.Roles`: the paper's L, and its judges D_s and D_u."""

    @property
    def task(self) -> Any: ...
    @property
    def consistency(self) -> Any: ...
    @property
    def utility(self) -> Any: ...


class RecordBuilder(QuestionRecord):
    """A question's record while it is written."""

    model_config = ConfigDict(frozen=False)

    @property
    def answered(self) -> list[tuple[str, str]]:
        """The resolved quizzes that have an answer, with it."""
        return [(one.resolved, one.answer) for one in self.quizzes if one.resolved and one.answer and not one.abstained]

    def conclude(self, question: str, record: QuizRecord) -> None:
        """Take the answer to the question itself for the answer, or that the documents do not say it."""
        if record.missing is not None:
            self.unanswered = unanswered_of(question, self.quizzes, record)
            self.answer, self.answer_source = self.unanswered.message, "unanswered"
            return
        if record.answer is None:
            last = current().degradations[-1]
            raise UnansweredError(last.stage, last.cause, last.message)
        self.answer, self.explanation, self.guessed = record.answer, record.reasoning, record.is_guess
        self.answer_source = "fallback" if record is self.fallback else cast(AnswerSource, record.source)


class Stage(dspy.Module):
    """A part of the program with a logic of its own, written once as the coroutine `run`."""

    # By attribute name the role of each predictor, and the signature of each that it has whatever its settings, whose
    # role is the task's if nothing else is said; and the settings of a program that attributes of this name follow,
    # with their defaults until then.
    roles: ClassVar[Mapping[str, str]] = {}
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {}
    follows: ClassVar[tuple[str, ...]] = ()

    # The language model that was found to give no token probabilities.
    _gives_none: str | None = None

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.roles = {**dict.fromkeys(cls.signatures, "task"), **cls.roles}
        for name in (one for one in cls.follows if not hasattr(cls, one)):
            setattr(cls, name, getattr(DeclaredKeqa, name))

    def __init__(self, bound: CallLimiter | None = None) -> None:
        super().__init__()
        self.bound = bound or CallLimiter(16)
        for name, signature in self.signatures.items():
            setattr(self, name, Predictor(signature))

    def like(self, **predictors: Predictor) -> Self:
        """Ask the language models of other predictors, and show fixed demonstrations where these do."""
        for name, other in predictors.items():
            asked = getattr(self, name)
            asked.lm, asked.fixed = other.lm, other.fixed
        return self

    def follow(self, settings: Any) -> Self:
        for name in self.follows:
            setattr(self, name, getattr(settings, name))
        return self

    @property
    def optional(self) -> Mapping[str, type[dspy.Signature]]:
        """The predictors that it has with some settings only, and their signatures."""
        return {}

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def likely(
        self,
        asking: Callable[..., Awaitable[dspy.Prediction]],
        predictor: dspy.Predict,
        config: Mapping[str, Any] | None = None,
        *,
        needed: bool = False,
    ) -> dspy.Prediction:
        """Call a predictor with the probabilities of tokens; without, where its LM gives none and none are `needed`."""
        model = model_of(predictor)
        if self._gives_none != model:
            try:
                return await asking(config={**(config or {}), **LOGPROBS})
            except (CallError, ConfigurationError) as error:
                if not tells_no_probabilities(error):
                    raise
                if needed:
                    raise NoProbabilitiesError(str(error)) from error
                self._gives_none = model
        return await asking(config=config)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the stage by itself, blocking; see `run` for the arguments."""
        return run_blocking(lambda: Session(self.bound, blocking=True).run(self.run(*args, **kwargs)))

    async def aforward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the stage; within a question, through its calls."""
        work = self.run(*args, **kwargs)
        return await (work if context().session else Session(self.bound, blocking=False).run(work))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.roles and isinstance(value, dspy.Module):
            if not isinstance(value, dspy.Predict):
                made = type(value).__name__
                raise ConfigurationError(f"{type(self).__name__}.{name} is one call: a dspy.Predict, and no {made}")
            value.role = self.roles[name]
        super().__setattr__(name, value)

    def named_parameters(self) -> list[tuple[str, Any]]:
        """As DSPy's, which looks for parameters in the history of calls as well, for longer with each call."""
        without_history: list[tuple[str, Any]] = super(Stage, copy.copy(self)).named_parameters()
        return without_history

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """The state that DSPy saves, without endpoints and keys."""
        return {name: detached(part).dump_state(json_mode=json_mode) for name, part in self.named_parameters()}

    def load_state(self, state: Mapping[str, Any], *, allow_unsafe_lm_state: bool = False) -> None:
        """Load a saved state, which may come from a stranger; the language models stay as they are bound."""
        self.load_parts(state, dict(self.named_parameters()))

    def load_parts(self, state: Mapping[str, Any], parts: Mapping[str, Any]) -> None:
        """Load the states of some parts; an optional predictor that nothing is said about starts empty."""
        empty = {name: dspy.Predict(signature).dump_state() for name, signature in self.optional.items()}
        checked = checked_states({**empty, **state}, parts, self.optional, type(self).__name__)
        with keeping_lms(self):
            for name, part in parts.items():
                part.load_state(checked[name])

    def bind_lms(self, lms: RoleLMs | None) -> None:
        """Give each predictor the language model of its role; None leaves them to ``dspy.settings.lm``."""
        for name, role in self.roles.items():
            getattr(self, name).set_lm(None if lms is None else getattr(lms, role))


@contextmanager
def keeping_lms(module: dspy.Module) -> Iterator[None]:
    """Give each predictor back the language model that it had, even one that is no `Predictor` of KEQA's."""
    bound = [(predictor, predictor.lm) for predictor in module.predictors()]
    try:
        yield
    finally:
        for predictor, lm in bound:
            predictor.lm = lm


class FollowUp(Stage):
    """Rewrites a follow-up question to stand alone; where that fails, it is asked as it stands."""

    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"rewrite": RewriteFollowUp}

    async def run(self, question: str, history: Sequence[str], max_chars: int) -> str:
        """The question alone, in so many characters at most; earlier ones come in their order, each with its answer."""
        as_it_stands = "asked the question as it stands"
        try:
            # No part of the program that optimizers know of, so that its calls are none of the traces that they read.
            with dspy.context(trace=None):
                found = await ask(self.rewrite, "rewrite", question=question, history=list(history))
        except CallError as error:
            note("rewrite", error.cause, error.message, as_it_stands)
            return question
        standalone = clean(text_of(found.standalone))
        if standalone and len(standalone) <= max_chars:
            return standalone
        message = "no question was written" if not standalone else f"a question of {len(standalone):,} characters"
        note("rewrite", "NoRephrasing", message, as_it_stands)
        return question


def is_the_question(quiz: str, question: str) -> bool:
    """Whether a quiz is the question itself, or all but that: language models mend its spelling, or change a word.

    One that leaves words out may be a part of it, such as that of the first of two years.
    """
    first, second = normalize(quiz), normalize(question)
    if first == second or max(len(first), len(second)) > _LONGEST_ALIKE:
        return first == second
    alike = SequenceMatcher(None, first, second, autojunk=False).ratio() >= _ALIKE
    return alike and len(words_of(first)) >= len(words_of(second))


def written_quizzes(prediction: dspy.Prediction, question: str, most: int) -> list[Quiz]:
    """The quizzes that a call wrote, so many at most. A single one that is the question has none of its references."""
    quizzes = numbered_quizzes([str(quiz) for quiz in prediction.quizzes or []], question)
    if len(quizzes) > most:
        note("decompose", "TooManyQuizzes", f"{len(quizzes)} quizzes, more than {most}", f"kept the first {most}")
        quizzes = quizzes[:most]
    return [Quiz(1, question)] if len(quizzes) == 1 and is_the_question(quizzes[0].text, question) else quizzes


def not_decomposed(question: str, error: CallError | None = None) -> list[Quiz]:
    cause, message = ("EmptyDecomposition", "no quiz was written") if error is None else (error.cause, error.message)
    note("decompose", cause, message, "took the question for the single quiz")
    return [Quiz(1, question)]


class Decomposition(Stage):
    """Breaks a question into the quizzes that settle it (KEQA, section 3.3, GenQ); further ones are left out."""

    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"decompose": DecomposeQuestion}
    follows = ("max_quizzes",)

    async def run(self, question: str, *, own: bool = False) -> list[Quiz]:
        """At least one; with `own`, quizzes that were copied from a demonstration are refused."""
        try:
            reply = await ask(self.decompose, "decompose", uncopied="quizzes" if own else None, question=question)
        except CallError as error:
            return not_decomposed(question, error)
        return written_quizzes(reply, question, self.max_quizzes) or not_decomposed(question)


class Generation(Stage):
    """Writes an evidence document from memory, in place of retrieved ones (GenRead; KS-LLM, section 4.1)."""

    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"write": GenerateDocument}

    async def run(self, question: str) -> tuple[str, str]:
        """Its title, which may be empty, and its text; a CallError where there is none."""
        from keqa.signatures.chat_format import adapter

        with dspy.context(adapter=dspy.settings.adapter or adapter()):
            prediction = await ask(self.write, "document", draws=ANSWER, usable=_has_text, question=question)
        return text_of(prediction.title), text_of(prediction.document)


def _has_text(prediction: Any) -> None:
    if not any(char.isalnum() for char in text_of(prediction.document)):
        raise CallError("EmptyDocumentError", "the document was empty", unusable=True)


@dataclass(frozen=True)
class Reply:
    """An answer, its reasoning where some was asked for, and how many of the passages fitted the context window."""

    answer: str
    reasoning: str = ""
    read: int = 0

    @classmethod
    def of(cls, prediction: dspy.Prediction, asked: Question, read: int = 0) -> Self:
        return cls(
            answer_of(prediction.answer, asked.question, asked.choices), text_of(prediction.get("reasoning")), read
        )


def asked_inputs(asked: Question, predictor: dspy.Predict | None = None) -> dict[str, Any]:
    """The question as prompts take it; without its kind of answer where a predictor's prompt has no place for that."""
    fields = asked.kind if predictor is None else predictor.signature.input_fields
    return {"question": asked.question, **{name: value for name, value in asked.kind.items() if name in fields}}


async def reply_from(
    predictor: dspy.Predict,
    asked: Question,
    passages: Sequence[str],
    number: int | None = None,
    *,
    evidence: Sequence[str] = (),
    triples: Sequence[str] = (),
    **how: Any,
) -> Reply:
    """Answer from passages, best first, sentences and triples; of too many passages from the better half."""
    shown, fields = list(passages), predictor.signature.input_fields
    beside = {"evidence": list(evidence), "triples": list(triples)}
    inputs = asked_inputs(asked, predictor) | {name: some for name, some in beside.items() if name in fields}
    inputs["question"] = dated(asked.question, predictor)
    # Nothing was found for a prompt without a place for it, of which DSPy would warn in each call.
    how["fitting"] = shown if shown or "passages" in fields else None
    prediction = await ask(predictor, "answer", number, for_answer=True, **how, **inputs)
    return Reply.of(prediction, asked, len(shown))


class Answering(Stage):
    """Answers from picked knowledge (KEQA, section 3.4, RAG; KS-LLM, section 3.3)."""

    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"answer": AnswerWithKnowledge}

    async def run(
        self,
        asked: Question,
        passages: Sequence[str],
        *,
        predictor: dspy.Predict | None = None,
        streamed: bool = False,
        **how: Any,
    ) -> Reply:
        """Answer from what `reply_from` takes, by another predictor than its own where one is given."""
        # The papers' prompts are asked as their papers do.
        how["uncopied"] = None if predictor is None else "answer"
        how["streamed"] = "answer" if streamed else None
        return await reply_from(predictor or self.answer, asked, passages, **how)


class Reasoning(Answering):
    """Answers after a chain of thought over the passages; it takes no sentences and triples beside them."""

    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"answer": ReasonWithKnowledge}


class Summarizing(Stage):
    """Concludes from quizzes and their answers (KEQA, Algorithm 2, line 20)."""

    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"summarize": Summarize}

    async def run(self, asked: Question, answered: Sequence[tuple[str, str]]) -> tuple[str, str]:
        """Explanation and answer, from resolved quizzes with their answers; a CallError where there is none."""
        prediction = await ask(
            self.summarize,
            "summarize",
            for_answer=True,
            numbered=True,
            streamed="answer",
            question=dated(asked.question, self.summarize),
            answered_quizzes=[f"{quiz} {answer}" for quiz, answer in answered],
            **asked.kind,
        )
        return text_of(prediction.get("explanation")), answer_of(prediction.answer, asked.question, asked.choices)
