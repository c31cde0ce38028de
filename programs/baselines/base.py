"""What the methods that KEQA is compared with are made of; their settings are the fields of a dataclass."""

# Annotations are evaluated here: the modules of the methods, which inherit them, do not have the names in them.
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field, fields
from typing import Annotated, Any, ClassVar, Self

import dspy

from keqa.data.question import Question
from keqa.programs.arguments import LMS, RETRIEVER, Characters, Steps, TopK, Workers, check
from keqa.programs.baselines.reading import (
    Reply,
    asked_inputs,
    conclude,
    examined,
    first_sentence,
    from_memory,
    from_passages,
    rendered,
    unanswered,
)
from keqa.programs.calls.ask import ask, searched
from keqa.programs.calls.replies import text_of
from keqa.programs.calls.session import NoCopy
from keqa.programs.kept import become
from keqa.programs.predictor_state import Predictor
from keqa.programs.program import Program, RecordBuilder
from keqa.programs.records import AnswerSource, PassageVerdict
from keqa.programs.stages.stage import RoleLMs
from keqa.retrievers.base import Hit, Retriever
from keqa.signatures import AnswerQuestion, AnswerWithKnowledge, ExtendReasoning, ReasonFromMemory, ReasonWithKnowledge


@dataclass(kw_only=True, eq=False, repr=False)
class Baseline(Program):
    """A method that KEQA is compared with; the fields that it adds are its settings, and `set_up` makes its parts.

    Attributes:
        lms: An argument only: a language model for each role; ``dspy.settings.lm`` where None.
        max_question_chars: Longer questions are refused.
        demonstrations: Whether predictors that learned none show the fixed demonstrations that ship to any language
            model but the one that ships.
        workers: An argument only: how many calls may be in flight, over all questions.
    """

    lms: InitVar[Annotated[RoleLMs, LMS] | None] = None
    max_question_chars: Characters = 8000
    demonstrations: bool = True
    workers: InitVar[Workers] = 16

    def __post_init__(self, lms: Any, workers: int, *retriever: Any) -> None:
        """Set up.

        Raises:
            ConfigurationError: Settings that cannot work.
        """
        super().__init__(lms, workers, self.max_question_chars)
        if retriever:
            self._retriever = NoCopy(*retriever)
        self.set_up()
        self.bind_lms(lms)
        self._is_made = True

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; language models and a retriever are bound, and a setting changes the parts made from it."""
        if name == "retriever":
            self.bind_retriever(value)
        elif name == "lms":
            self.bind_lms(check(Baseline, {name: value}, type(self).__name__)[name])
        elif name == "workers":
            raise AttributeError("the number of workers is given to the constructor")
        elif "_is_made" in vars(self) and name in {one.name for one in fields(self)}:
            self._assign(name, value)
        else:
            super().__setattr__(name, value)

    def _assign(self, name: str, value: Any) -> None:
        """Give a setting another value, and the program the parts that it is then made of."""
        # A subclass may have a constructor without this argument.
        owner = next(one for one in type(self).__mro__ if name in vars(one).get("__annotations__", {}))
        read = check(owner, {name: value}, type(self).__name__)[name]
        before, after = self._made_anew(), self._made_anew({name: read})
        become(self, before, after)

    def _made_anew(self, changed: Mapping[str, Any] | None = None) -> Self:
        """The program with the parts that its settings ask for, and nothing that it learned or was given."""
        twin = object.__new__(type(self))
        kept = {name: value for name, value in vars(self).items() if not isinstance(value, dspy.Module)}
        twin.__dict__.update({**kept, **(changed or {})})
        del twin.__dict__["_is_made"]
        twin.set_up()
        return twin

    def set_up(self) -> None:
        """Make the predictors and stages that the settings ask for.

        Raises:
            ConfigurationError: Settings that cannot work.
        """
        raise NotImplementedError


@dataclass(kw_only=True, eq=False, repr=False)
class SearchingBaseline(Baseline):
    """A method that searches.

    Attributes:
        retriever: The first argument: where the passages come from; with None nothing can be asked.
        top_k: Passages to search for.
    """

    retriever: InitVar[Annotated[Retriever | None, RETRIEVER]] = field(kw_only=False)
    top_k: TopK = 10

    async def search(self, query: str, number: int) -> list[Hit]:
        """Search; a search that fails is not one that found nothing, and nothing replaces its passages.

        Args:
            query: What for.
            number: The number of the search, for degradations.

        Raises:
            UnansweredError: It failed.
        """
        with unanswered("retrieve"):
            return await searched(self._retriever.value, query, self.top_k, number)


@dataclass(kw_only=True, eq=False, repr=False)
class ChainBaseline(SearchingBaseline):
    """A method that reasons sentence by sentence, and has a reader with a chain of thought of its own.

    Attributes:
        max_steps: Sentences at most.
    """

    roles: ClassVar[Mapping[str, str]] = {"extend": "task", "answer": "task"}

    max_steps: Steps = 8

    def set_up(self) -> None:
        """See `Baseline.set_up`."""
        self.extend, self.answer = Predictor(ExtendReasoning), Predictor(ReasonWithKnowledge)

    async def thought(self, asked: Question, thoughts: Sequence[str], hits: Sequence[Hit], number: int) -> str:
        """The next sentence, from passages.

        Args:
            asked: The question.
            thoughts: The sentences so far.
            hits: The passages.
            number: The number of the step, for degradations.

        Raises:
            CallError: There is none.
        """
        inputs = asked_inputs(asked) | {"thoughts": list(thoughts)}
        said = await ask(self.extend, "reason", number, fitting=rendered(hits), **inputs)
        return first_sentence(text_of(said.thought))


@dataclass(kw_only=True, eq=False, repr=False)
class ExaminingBaseline(SearchingBaseline):
    """A method that decides of the whole question whether it is known, and answers from memory or from passages.

    Attributes:
        reason: Whether to reason step by step before answering, as the papers do on questions of several hops. `keqa
            compare` and `keqa evaluate` leave it out on benchmarks of one hop.
    """

    reason: bool = True

    def set_up(self) -> None:
        """Make the predictors that answer; see `Baseline.set_up`."""
        self.recall = Predictor(ReasonFromMemory if self.reason else AnswerQuestion)
        self.read = Predictor(ReasonWithKnowledge if self.reason else AnswerWithKnowledge)

    async def answered(self, asked: Question, hits: Sequence[Hit]) -> Reply:
        """The answer from passages, or from memory where there are none.

        Raises:
            UnansweredError: There is no answer.
        """
        with unanswered("answer"):
            if hits:
                return await from_passages(self.read, asked, hits)
            return await from_memory(self.recall, asked)

    def conclude(
        self,
        story: RecordBuilder,
        asked: Question,
        reply: Reply,
        source: AnswerSource,
        *,
        known: bool,
        passages: list[PassageVerdict],
        **measures: Any,
    ) -> None:
        """Write the answer into the record, and how it came about: the question is its own one quiz.

        Args:
            story: Is written to.
            asked: The question.
            reply: Its answer.
            source: Where that came from.
            known: Whether the method took it for known; it retrieves where not.
            passages: What became of those that were found.
            **measures: What decided, by the names of `QuizRecord`.
        """
        conclude(story, reply, source)
        found = {"known": known, "retrieved": not known, "passages": passages, **measures}
        story.quizzes = [examined(asked, gate=self.method, answer=reply.answer, source=source, **found)]
