"""What the methods that KEQA is compared with have in common: settings, searches, answers, how these are recorded."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Self, get_origin

import dspy
from dspy.primitives.module import set_attribute_by_name
from pydantic import create_model

from keqa.data.question import Question
from keqa.errors import ConfigurationError
from keqa.programs.arguments import TopK
from keqa.programs.calls.ask import ask, searched
from keqa.programs.calls.errors import CallError, UnansweredError
from keqa.programs.calls.predictor import Predictor, prompt_of
from keqa.programs.program import Program
from keqa.programs.records import AnswerSource, PassageVerdict, QuizRecord, fraction_text
from keqa.programs.stage import RecordBuilder, Reply, asked_inputs, reply_from
from keqa.programs.stages.picking import unjudged
from keqa.retrievers.base import Hit
from keqa.signatures.baselines import AnswerQuestion, ReasonFromMemory, ReasonWithKnowledge
from keqa.signatures.keqa import AnswerWithKnowledge


@contextmanager
def unanswered(stage: str) -> Iterator[None]:
    """Within it a call that fails leaves the question without an answer, an `UnansweredError`: nothing replaces it."""
    try:
        yield
    except CallError as error:
        raise UnansweredError.at(stage, error) from error


async def from_memory(predictor: dspy.Predict, asked: Question, *, question: str | None = None) -> Reply:
    """Answer closed-book, in one call, and again where that fails; maybe another question than the one asked."""
    asked = asked if question is None else replace(asked, question=question)
    return Reply.of(await ask(predictor, "answer", for_answer=True, **asked_inputs(asked, predictor)), asked)


async def from_passages(predictor: dspy.Predict, asked: Question, hits: Sequence[Hit]) -> Reply:
    """Answer from as many of the best passages as fit the context window, and again where that fails."""
    if hits and "passages" not in predictor.signature.input_fields:
        prompt = predictor.signature.__name__
        raise ConfigurationError(f"{prompt} has no input passages: what was found would not be read; see from_memory")
    return await reply_from(predictor, asked, [hit.passage.rendered for hit in hits])


async def answer_from(predictor: dspy.Predict, asked: Question, hits: Sequence[Hit], story: RecordBuilder) -> None:
    """Write the answer to the whole question, and the passages that it was drawn from, into its record; see `Reply`."""
    with unanswered("answer"):
        reply = await from_passages(predictor, asked, hits)
    story.passages = verdicts(hits, reply.read)
    conclude(story, reply, "passages" if hits else "closed_book")


def conclude(story: RecordBuilder, reply: Reply, source: AnswerSource) -> None:
    """Write an answer into the record, with its reasoning where there is some; an empty one is none."""
    if not reply.answer:
        raise UnansweredError("answer", "EmptyAnswerError", "the answer was empty")
    story.answer, story.explanation, story.answer_source = reply.answer, reply.reasoning, source


def verdicts(hits: Sequence[Hit], read: int | None = None) -> list[PassageVerdict]:
    """Every passage as kept, but those after the first `read`, which did not fit; where none was read, none is kept."""
    if read == 0:
        return unjudged(hits, "gave no answer", kept=False)
    fitting = len(hits) if read is None else read
    return unjudged(hits[:fitting], "every passage found is kept") + unjudged(hits[fitting:], "did not fit", kept=False)


def examined(asked: Question, **fields: Any) -> QuizRecord:
    """The record of a question of which a method decides as a whole whether it is known: it is its own one quiz."""
    return QuizRecord(index=1, text=asked.question, resolved=asked.question, **fields)


def search_record(number: int, query: str, hits: Sequence[Hit], answer: str | None) -> QuizRecord:
    """A search as a quiz, of which the answer is what was concluded from the passages; without one it failed."""
    source = "failed" if answer is None else "passages" if hits else "closed_book"
    found: dict[str, Any] = {"passages": verdicts(hits), "answer": answer, "source": source}
    return QuizRecord(index=number, text=query, resolved=query, retrieved=True, **found)


class Baseline(Program):
    """A method that KEQA is compared with; `set_up` makes its parts.

    What its class annotates and gives a default, such as ``top_k: TopK = 10``, is a setting.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        of_class: Any = ClassVar
        own: dict[str, Any] = {
            name: (hint, vars(cls)[name])
            for name, hint in inspect.get_annotations(cls, eval_str=True).items()
            if name in vars(cls) and get_origin(hint) is not of_class
        }
        if "Settings" not in vars(cls):
            bases = tuple(dict.fromkeys(base.Settings for base in cls.__bases__ if issubclass(base, Program)))
            cls.Settings = create_model(f"{cls.__name__}Settings", __base__=bases, __module__=cls.__module__, **own)
            for name in own:
                delattr(cls, name)
        super().__init_subclass__(**kwargs)

    def __init__(self, *, lms: Any = None, **settings: Any) -> None:
        super().__init__(lms=lms, **settings)
        self.set_up()
        self.bind_lms(lms)

    def set_up(self) -> None:
        """Make the predictors and stages that the settings ask for; a ConfigurationError where they cannot work."""

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
    """A method that searches a retriever, its first argument, for `top_k` passages."""

    top_k: TopK = 10

    def __init__(self, retriever: Any, *, lms: Any = None, **settings: Any) -> None:
        self.bind_retriever(retriever)
        super().__init__(lms=lms, **settings)

    async def search(self, query: str, number: int) -> list[Hit]:
        """Search, as the search of a number; one that fails is an `UnansweredError`, for nothing replaces passages."""
        with unanswered("retrieve"):
            return await searched(self.retriever, query, self.top_k, number)


class ExaminingBaseline(SearchingBaseline):
    """A method that decides of the whole question whether it is known, and answers from memory or from passages.

    `reason` is whether it reasons step by step before answering, as the papers do on questions of several hops; `keqa
    compare` and `keqa evaluate` leave it out on benchmarks of one hop.
    """

    roles: ClassVar[Mapping[str, str]] = {"recall": "task", "read": "task"}

    reason: bool = True

    def set_up(self) -> None:
        self.recall = Predictor(ReasonFromMemory if self.reason else AnswerQuestion)
        self.read = Predictor(ReasonWithKnowledge if self.reason else AnswerWithKnowledge)

    async def answered(self, asked: Question, hits: Sequence[Hit]) -> Reply:
        with unanswered("answer"):
            if hits:
                return await from_passages(self.read, asked, hits)
            return await from_memory(self.recall, asked)

    def conclude(
        self,
        story: RecordBuilder,
        asked: Question,
        reply: Reply,
        passages: list[PassageVerdict],
        *,
        known: bool,
        source: AnswerSource | None = None,
        threshold: Fraction | None = None,
        **measures: Any,
    ) -> None:
        """Write the answer into the record, and how it came about: the question is its own one quiz.

        `known` says what the method took it for; it retrieves where not. `measures` are what decided, against the
        threshold, by the names of `QuizRecord`. The source is what was read, or the memory, if no other is said.
        """
        conclude(story, reply, source or ("passages" if reply.read else "memory" if known else "closed_book"))
        if threshold is not None:
            measures |= {"threshold": float(threshold), "threshold_exact": fraction_text(threshold)}
        measures |= {"known": known, "retrieved": not known, "passages": passages}
        source = story.answer_source
        story.quizzes = [examined(asked, gate=self.method, answer=reply.answer, source=source, **measures)]
