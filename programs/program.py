"""What KEQA and the methods it is compared with have in common: one way to ask, one kind of answer."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import dspy

from keqa.data.question import AnswerType, Question
from keqa.errors import StageError
from keqa.programs.arguments import LMS, Characters, Workers, checked
from keqa.programs.predictor_state import Predictor, named_values
from keqa.programs.records import AnswerSource, Failure, PassageVerdict, QuestionRecord, QuizRecord
from keqa.programs.runtime.batch import Outcome, answer_many
from keqa.programs.runtime.concurrency import CallLimiter, NoCopy, reached, run_blocking
from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.session import Session
from keqa.programs.stages.stage import RoleLMs, Stage


class UnansweredError(StageError):
    """A question that has no answer.

    Attributes:
        record: What became of it, with the failure and the cost in it; None only before it is written.
    """

    def __init__(self, stage: str, cause: str, message: str, record: QuestionRecord | None = None) -> None:
        super().__init__(stage, cause, message)
        self.record = record

    @classmethod
    def at(cls, stage: str, error: CallError) -> UnansweredError:
        """The failure of a stage for which nothing stands in."""
        return cls(stage, error.cause, error.message)

    def __reduce__(self) -> Any:
        return (type(self), (self.stage, self.cause, self.message, self.record))


@dataclass
class RecordBuilder:
    """A question's record while it is written; see `QuestionRecord`."""

    quizzes: list[QuizRecord] = field(default_factory=list)
    fallback: QuizRecord | None = None
    passages: list[PassageVerdict] = field(default_factory=list)
    explanation: str = ""
    answer: str | None = None
    answer_source: AnswerSource = "failed"


@dataclass(frozen=True)
class _OneLM:
    """The same language model in all roles."""

    task: Any
    consistency: Any
    utility: Any


@checked
class Program(Stage):
    """Answers questions; subclasses say how in `solve`. Safe to call from many threads at once.

    Attributes:
        method: Its name in records.
        demonstrations: Whether predictors without demonstrations of their own show the fixed ones, see
            `keqa.programs.demonstrations`; `bind_lms` passes it on to them.
    """

    method: ClassVar[str]
    demonstrations: bool = True

    def __init__(self, lms: Annotated[RoleLMs, LMS] | None, workers: Workers, max_question_chars: Characters) -> None:
        super().__init__(CallLimiter(workers))
        self.max_question_chars = max_question_chars
        self._lms = NoCopy(lms)

    async def solve(self, session: Session, asked: Question, story: RecordBuilder) -> None:
        """Answer a question by writing its story.

        Raises:
            UnansweredError: There is no answer.
            ConfigurationError: No question could be answered.
        """
        raise NotImplementedError

    def forward(self, question: str, answer_type: AnswerType = "short", choices: Sequence[str] = ()) -> dspy.Prediction:
        """Answer a question.

        Args:
            question: Its text. Lone surrogates and control characters in it are dropped.
            answer_type: ``short``, ``yes/no`` or ``choice``.
            choices: The options of a choice.

        Returns:
            A prediction with `answer`, `explanation` (may be empty) and `record`, a `QuestionRecord`.

        Raises:
            InputError: The question cannot be asked.
            UnansweredError: It has no answer; the error carries its record.
            ConfigurationError: A key, model or setting is wrong, which no other question would escape.
        """
        asked = Question.check(question, answer_type, choices, self.max_question_chars)
        return run_blocking(lambda: self.run(Session(self.bound, blocking=True), asked))

    async def aforward(  # type: ignore[override]
        self, question: str, answer_type: AnswerType = "short", choices: Sequence[str] = ()
    ) -> dspy.Prediction:
        """Answer a question from within an event loop; see `forward`."""
        asked = Question.check(question, answer_type, choices, self.max_question_chars)
        return await self.run(Session(self.bound, blocking=False), asked)

    def answer_many(self, questions: Iterable[Any], *, in_flight: int = 8) -> Iterator[Outcome]:
        """Answer many questions side by side and yield each as it finishes.

        Args:
            questions: Texts, mappings or objects with `question` and, where wanted, `answer_type` and `choices`.
            in_flight: How many questions are in work at once; their calls share the program's bound.

        Returns:
            Outcomes, in the order in which they finish. A failed question is an outcome with an error.

        Raises:
            ConfigurationError: As in `forward`; it ends the batch.
            Exception: A part of the program has a fault; it ends the batch as well.
            InputError: What is given is no list of questions, such as the text of one.
            ConfigurationError: `in_flight` is out of its range; or as in `forward`, and it ends the batch.
        """
        return answer_many(self, questions, in_flight)

    async def run(self, session: Session, asked: Question) -> dspy.Prediction:
        """Answer a checked question through a session's calls."""
        from keqa.lms.adapter import adapter

        story, failure = RecordBuilder(), None
        # What the caller asked before, in the same context, is of another question.
        reached.set(frozenset())
        session.tell_apart(self.named_predictors())
        with dspy.context(adapter=dspy.settings.adapter or adapter()):
            try:
                await self.solve(session, asked, story)
            except UnansweredError as error:
                failure = error
        record = self._record(session, asked, story, failure)
        if failure is not None:
            failure.record = record
            raise failure
        return dspy.Prediction(answer=record.answer, explanation=record.explanation, record=record)

    def _record(
        self, session: Session, asked: Question, story: RecordBuilder, failure: UnansweredError | None
    ) -> QuestionRecord:
        failed = None
        if failure is not None:
            failed = Failure(stage=failure.stage, cause=failure.cause, message=failure.message)
        return QuestionRecord(
            question=asked.question,
            answer_type=asked.answer_type,
            choices=asked.choices,
            method=self.method,
            quizzes=story.quizzes,
            fallback=story.fallback,
            passages=story.passages,
            degradations=list(session.degradations),
            explanation=story.explanation,
            answer=None if failed else story.answer,
            answer_source="failed" if failed else story.answer_source,
            failure=failed,
            cost=session.ledger.cost(),
        )

    # Language models belong to the machine that a program runs on, not to the program: they are bound by role, survive
    # what optimizers do to a program, and are neither copied nor saved with it.

    def bind_lms(self, lms: RoleLMs | None) -> None:
        """Give each predictor the language model of its role; None leaves them to ``dspy.settings.lm``."""
        self._lms = NoCopy(lms)
        for _, stage in self.named_sub_modules(Stage):
            Stage.bind_lms(stage, lms)
        for predictor in self.predictors():
            if isinstance(predictor, Predictor):
                predictor.fixed = self.demonstrations

    def set_lm(self, lm: Any) -> None:
        """Use one language model in all roles."""
        self.bind_lms(None if lm is None else _OneLM(lm, lm, lm))

    def reset_copy(self) -> Program:
        """A copy without what an optimizer added, on the same language models."""
        new: Program = super().reset_copy()
        new.bind_lms(self._lms.value)
        return new

    def __deepcopy__(self, memo: dict[int, Any]) -> Program:
        for predictor in self.predictors():
            memo[id(predictor.lm)] = predictor.lm
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        new.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return new

    def load_state(self, state: Mapping[str, Any], *, allow_unsafe_lm_state: bool = False) -> None:
        """Load a saved state; see `Stage.load_state`.

        An optional predictor that it says nothing about starts empty.
        """
        empty = {name: dspy.Predict(signature).dump_state() for name, signature in self.optional.items()}
        super().load_state({**empty, **named_values(state, f"the state of {type(self).__name__}")})
        if self._lms.value is not None:
            self.bind_lms(self._lms.value)
