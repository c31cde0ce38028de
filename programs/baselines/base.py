"""What the methods that KEQA is compared with are made of; their settings are the fields of a dataclass."""

# Annotations are evaluated here: the modules of the methods, which inherit them, do not have the names in them.
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import dspy
from dspy.primitives.module import set_attribute_by_name

from keqa.data.question import Question
from keqa.programs.arguments import Steps, TopK
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
from keqa.programs.predictor import Predictor, prompt_of
from keqa.programs.program import Program, RecordBuilder
from keqa.programs.records import AnswerSource, PassageVerdict
from keqa.programs.settings import Settings
from keqa.retrievers.base import Hit
from keqa.signatures import AnswerQuestion, AnswerWithKnowledge, ExtendReasoning, ReasonFromMemory, ReasonWithKnowledge


class Baseline(Program):
    """A method that KEQA is compared with; `set_up` makes its parts.

    Attributes:
        Settings: Its settings are the annotated fields of a class ``Settings(Baseline.Settings)`` in its own.
    """

    class Settings(Settings):
        """Those of every method."""

    def __init__(self, *, lms: Any = None, **settings: Any) -> None:
        """Set up.

        Raises:
            ConfigurationError: Settings that cannot work.
        """
        super().__init__(lms=lms, **settings)
        self.set_up()
        self.bind_lms(lms)

    def set_up(self) -> None:
        """Make the predictors and stages that the settings ask for.

        Raises:
            ConfigurationError: Settings that cannot work.
        """
        raise NotImplementedError

    def fit(self, before: Any) -> None:
        """Make the parts anew; a predictor whose prompt is the same stays the same object, with what it learned."""
        then, now = self._fresh(before), self._fresh(self.settings)
        had, prompts = dict(self.named_predictors()), dict(then.named_predictors())
        lms = {id(one.lm): one.lm for one in had.values()}
        for name in then.__dict__.keys() - now.__dict__.keys():
            self.__dict__.pop(name, None)
        self.__dict__.update(now.__dict__)
        for name, new in self.named_predictors():
            if name in had and name in prompts and prompt_of(prompts[name].signature) == prompt_of(new.signature):
                set_attribute_by_name(self, name, had[name])
            elif name in had:
                new.lm = had[name].lm
            elif self.lms is None and len(lms) == 1:
                (new.lm,) = lms.values()
        if self.lms is not None and dict(self.named_predictors()).keys() - had.keys():
            self.bind_lms(self.lms)

    def _fresh(self, settings: Any) -> Self:
        """The program with the parts that some settings ask for, and nothing that it learned."""
        twin = object.__new__(type(self))
        own = {name: value for name, value in self.__dict__.items() if not isinstance(value, dspy.Module)}
        twin.__dict__.update({**own, "settings": settings})
        twin.set_up()
        return twin


class SearchingBaseline(Baseline):
    """A method that searches.

    Attributes:
        top_k: Passages to search for.
    """

    class Settings(Baseline.Settings):
        """Those of every method that searches."""

        top_k: TopK = 10

    def __init__(self, retriever: Any, *, lms: Any = None, **settings: Any) -> None:
        """Set up.

        Args:
            retriever: Where the passages come from; with None nothing can be asked.
            lms: A language model for each role; ``dspy.settings.lm`` where None.
            **settings: See `Settings`.
        """
        self.bind_retriever(retriever)
        super().__init__(lms=lms, **settings)

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


class ChainBaseline(SearchingBaseline):
    """A method that reasons sentence by sentence, and has a reader with a chain of thought of its own.

    Attributes:
        max_steps: Sentences at most.
    """

    roles: ClassVar[Mapping[str, str]] = {"extend": "task", "answer": "task"}

    class Settings(SearchingBaseline.Settings):
        """Those of every chain."""

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


class ExaminingBaseline(SearchingBaseline):
    """A method that decides of the whole question whether it is known, and answers from memory or from passages.

    Attributes:
        reason: Whether to reason step by step before answering, as the papers do on questions of several hops. `keqa
            compare` and `keqa evaluate` leave it out on benchmarks of one hop.
    """

    class Settings(SearchingBaseline.Settings):
        """Those of every method that examines."""

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
