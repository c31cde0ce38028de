"""The utility reference of a train split: passages labelled by the difference that they make (KEQA, section 3.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import dspy
from pydantic import Field

from keqa.data.example import Example, as_examples
from keqa.data.question import Question, question_digest
from keqa.errors import ConfigurationError, InputError
from keqa.metrics.answers import f1, same_answer
from keqa.metrics.utility import Correctness, Utility, gain, utility
from keqa.optimize.alignment import gold_quizzes
from keqa.optimize.asking import Asking, state_of, without_demos, without_own
from keqa.optimize.journal_keys import example_key
from keqa.programs.calls.ask import ask, search
from keqa.programs.calls.batch import in_parallel
from keqa.programs.calls.errors import CallError, is_transient
from keqa.programs.calls.replies import refusing_empty, text_of
from keqa.programs.calls.session import Session, gather, run_blocking
from keqa.programs.fingerprint import digest, function_fingerprint, lm_spec, retriever_spec
from keqa.programs.keqa import KEQA
from keqa.programs.predictor import whole_prompt
from keqa.programs.records import Record
from keqa.programs.stages.answering import is_the_question
from keqa.retrievers.base import Passage
from keqa.signatures import ReasonFromMemory, ReasonWithKnowledge
from keqa.storage.redaction import without_secrets

Basis = Literal["question", "quiz"]


class UtilityEntry(Record):
    """A passage that helped or harmed: an element of R."""

    root: str
    quiz: str
    passage: str
    passage_id: str
    helpful: bool
    gain: float
    basis: Basis
    question: str = ""
    date: str = ""


class Labelled(Record):
    """What came of one training question."""

    root: str
    entries: tuple[UtilityEntry, ...] = ()
    of_no_consequence: int = 0
    left_out: int = 0
    lost: dict[str, int] = Field(default_factory=dict)
    problems: tuple[str, ...] = ()
    passing: str = ""


class UtilityEntries(list[UtilityEntry]):
    """The utility reference R of a train split: its entries, in the order of the training questions."""

    def __init__(self, questions: Iterable[Labelled]) -> None:
        self.questions = list(questions)
        super().__init__(entry for question in self.questions for entry in question.entries)

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        """By id, the training questions that gave less than they could, such as those without a passage, and why."""
        return {question.root: question.problems for question in self.questions if question.problems}

    @property
    def left_out(self) -> int:
        """Passages without a label because a call failed."""
        return sum(question.left_out for question in self.questions)

    @property
    def lost(self) -> dict[str, dict[str, int]]:
        """By the error that calls failed with, the training questions and how many passages of each have no label."""
        found: dict[str, dict[str, int]] = {}
        for question in self.questions:
            for cause, count in question.lost.items():
                found.setdefault(cause, {})[question.root] = count
        return found

    def counts(self) -> dict[bool, int]:
        """How many entries are helpful (True) and harmful (False)."""
        helpful = sum(entry.helpful for entry in self)
        return {True: helpful, False: len(self) - helpful}


@dataclass(frozen=True)
class Target:
    """What is to be answered, and how."""

    name: str
    asked: Question
    golds: tuple[str, ...]
    basis: Basis
    one_hop: bool


@dataclass
class _Labels:
    """What came of a target: each passage with its gain and label, and the errors of calls."""

    found: list[tuple[Passage, float, Utility]] = field(default_factory=list)
    errors: list[CallError] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)
    problem: str | None = None

    def add(self, passage: Passage, score: float | CallError, without: float) -> bool:
        """Label a passage by the equation, or count it as left out, and return whether it helped."""
        if isinstance(score, CallError):
            self.errors.append(score)
            self.lost[score.cause] += 1
            return False
        label = utility(score, without)
        self.found.append((passage, gain(score, without), label))
        return label == 1


class Labeller:
    """Answers a training question with and without passages and labels each passage by the difference it makes.

    Searches and answers are those of the program's own retriever, predictors and language models, with the
    demonstrations that the predictors have at the time.
    """

    def __init__(self, program: KEQA, *, correctness: Correctness = f1) -> None:
        """Set up."""
        retriever = program._retriever.value
        if retriever is None:
            raise ConfigurationError("the utility reference needs passages: give the program a retriever")
        self.program, self.retriever = program, retriever
        self.correctness = correctness
        self.reason_from_memory = dspy.Predict(ReasonFromMemory)
        self.reason_with_knowledge = dspy.Predict(ReasonWithKnowledge)
        for predictor in (self.reason_from_memory, self.reason_with_knowledge):
            predictor.set_lm(program.answering.answer.lm)

    def fingerprint(self) -> dict[str, Any]:
        """What the labels depend on, for `keqa.storage.journal.Journal.open`; no key or endpoint is in it.

        The training questions are not in it: the journal keeps each under its content, so a train split may grow.
        """
        program = self.program
        predictors = [
            program.examination.quiz,
            program.answering.answer,
            self.reason_from_memory,
            self.reason_with_knowledge,
        ]
        return {
            "task": "utility reference",
            "top_k": program.top_k,
            "correctness": function_fingerprint(self.correctness),
            "decompose": program.decompose,
            "model": lm_spec(program.answering.answer.lm or dspy.settings.lm),
            "prompts": digest([whole_prompt(predictor) for predictor in predictors]),
            "retriever": retriever_spec(self.retriever),
        }

    def key(self, example: Example) -> str:
        """A training question in a journal; what it is shown is a part of it where that is less than others are."""
        shown = without_own(self.program, example)
        key = example_key(example)
        return key if shown is self.program else f"{key} {state_of(shown)}"

    async def label(self, example: Example) -> Labelled:
        """Label the passages of a training question."""
        session = Session(self.program.bound, blocking=True)
        try:
            targets = _targets(self.program, example)
        except InputError as error:
            return Labelled(root=example.id, problems=(str(error),))
        program = without_own(self.program, example)
        labels = await session.run(gather([self._label(target, program) for target in targets]))
        lost = sum((one.lost for one in labels), Counter[str]())
        return Labelled(
            root=example.id,
            entries=tuple(
                UtilityEntry(
                    root=example.id,
                    quiz=target.asked.question,
                    passage=passage.rendered,
                    passage_id=passage.id,
                    helpful=label == 1,
                    gain=difference,
                    basis=target.basis,
                    question=question_digest(example.question, example.choices),
                    date=passage.place.date,
                )
                for target, one in zip(targets, labels, strict=True)
                for passage, difference, label in one.found
                if label != 0
            ),
            of_no_consequence=sum(label == 0 for one in labels for _, _, label in one.found),
            left_out=lost.total(),
            lost=dict(lost),
            problems=tuple(without_secrets([one.problem for one in labels if one.problem], self.program.lms_asked())),
            passing=next((str(error) for one in labels for error in one.errors if is_transient(error.cause)), ""),
        )

    async def _label(self, target: Target, program: KEQA) -> _Labels:
        """Go through the candidates in descending relevance."""
        labels, program = _Labels(), _unprompted(program, target.asked.question)
        try:
            hits = await search(self.retriever, target.asked.question, self.program.top_k)
        except CallError as error:
            return _Labels(errors=[error], problem=f"{target.name}: the search failed ({error})")
        candidates = _each_once([hit.passage for hit in hits])
        if not candidates:
            return _Labels(problem=f"{target.name}: no passage was found")
        without = await self._correctness(target, program, [])
        if isinstance(without, CallError):
            message = f"{target.name}: there is no answer without passages to compare with ({without})"
            return _Labels(errors=[without], lost=Counter({without.cause: len(candidates)}), problem=message)
        if target.one_hop:
            each = [self._correctness(target, program, [one]) for one in candidates]
            scores = await gather(each)
            for candidate, score in zip(candidates, scores, strict=True):
                labels.add(candidate, score, without)
        else:
            helpful: list[Passage] = []
            for candidate in candidates:
                score = await self._correctness(target, program, [*helpful, candidate])
                if labels.add(candidate, score, without) and not isinstance(score, CallError):
                    helpful.append(candidate)
                    without = score
        if labels.lost.total() == len(candidates):
            labels.problem = f"{target.name}: there is no answer with any passage ({labels.errors[0]})"
        return labels

    async def _correctness(self, target: Target, program: KEQA, passages: Sequence[Passage]) -> float | CallError:
        """Cor(Q, K*): how correct the answer from these passages is, or why there is none."""
        asked = target.asked
        try:
            answer = await self._answer(target, program, [passage.rendered for passage in passages])
        except CallError as error:
            return error
        return float(self.correctness(answer, target.golds, asked.answer_type, asked.choices))

    async def _answer(self, target: Target, program: KEQA, passages: list[str]) -> str:
        """Ans(Q, K*, L); without passages, from memory.

        From all passages or not at all: leaving out those that exceed the context window, as the answering stage does,
        would label a passage by an answer that it had no part in.
        """
        asked = target.asked
        if not passages and target.one_hop:
            return await program.examination.recall(asked.question, asked.answer_type, asked.choices)
        inputs: dict[str, Any] = {"passages": passages} if passages else {}
        if target.one_hop:
            predictor, inputs = program.answering.answer, inputs | {"evidence": [], "triples": []}
        else:
            predictor = self.reason_with_knowledge if passages else self.reason_from_memory
        prediction = await ask(
            predictor,
            "answer",
            usable=refusing_empty(asked.choices, last=True),
            question=asked.question,
            answer_type=asked.answer_type,
            choices=list(asked.choices),
            **inputs,
        )
        return text_of(prediction.answer)


def _unprompted(program: KEQA, question: str) -> KEQA:
    """A program without demonstrations of this very question: they would give away what passages are to show."""

    def excluded(demo: Any, signature: Any) -> bool:
        return question in (dict(demo).get("question"), dict(demo).get("quiz"))

    return without_demos(program, excluded)


def _each_once(passages: Sequence[Passage]) -> list[Passage]:
    """The passages without those that say the same: a second one would only repeat the label of the first."""
    found: dict[str, Passage] = {}
    for passage in passages:
        found.setdefault(passage.rendered, passage)
    return list(found.values())


def _targets(program: KEQA, example: Example) -> list[Target]:
    """The whole question, and its gold quizzes with gold answers in the places of references, each of one hop.

    Raises:
        InputError: One of them cannot be asked.
    """
    longest, golds = program.max_question_chars, example.answers
    # Where its data set does not say of how many hops a question is, one with a single gold quiz is of one.
    one_hop = (not program.decompose if example.one_hop is None else example.one_hop) or len(example.quizzes) == 1
    asked = Question.check(example.question, example.answer_type, example.choices, longest)
    found = [Target("the question", asked, golds, "question", one_hop)]
    for number, (text, gold) in enumerate(gold_quizzes(example), start=1):
        if not is_the_question(text, example.question):
            # Where a quiz asks for the answer to the question, the aliases of that answer are right as well.
            right = (gold, *golds) if same_answer(gold, golds[0]) else (gold,)
            asked = Question.check(text, "short", (), longest)
            found.append(Target(f"quiz {number}", asked, tuple(dict.fromkeys(right)), "quiz", one_hop=True))
    return found


def build_reference(
    labeller: Labeller,
    trainset: Iterable[Any],
    asking: Asking,
) -> UtilityEntries:
    """Label the passages that are found for training questions by their utility, and keep those that make a difference.

    For the whole question: candidates are retrieved, the question is answered without passages, and then, in descending
    relevance, with the helpful ones so far and the next candidate (K* ∪ {K'}); a passage is labelled by the equation of
    section 3.4. For a question of one hop each candidate is tried alone. Where the gold quizzes and their answers are
    given, the same is done for each quiz, references replaced by gold answers, each passage alone.
    """
    from keqa.lms.adapter import adapter

    examples, journal, step = as_examples(trainset), asking.journal, "labelling passages"
    kept = ((one.id, journal.get_as(labeller.key(one), Labelled.model_validate)) for one in examples)
    done = {root: labelled for root, labelled in kept if labelled is not None}
    missing = [example for example in examples if example.id not in done]
    watch = asking.failures.watch(step, len(examples))

    def label(example: Example) -> tuple[Example, Labelled]:
        return example, run_blocking(lambda: labeller.label(example))

    asking.progress(step, len(done), len(examples))
    # A trace of all calls would keep every passage in memory, and nothing is bootstrapped from these.
    with dspy.context(adapter=dspy.settings.adapter or adapter(), trace=None):
        for example, labelled in in_parallel(label, watch.until(missing), asking.in_flight):
            if not labelled.passing:
                journal.put(labeller.key(example), labelled.model_dump(mode="json"))
            else:
                watch.count(labelled.passing.partition(":")[0], labelled.passing)
            done[example.id] = labelled
            asking.progress(step, len(done), len(examples))
    watch.refuse()
    return UtilityEntries(done[example.id] for example in examples)
