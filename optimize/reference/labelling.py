"""Utility labels of the passages found for one training question (KEQA, section 3.4, utility reference)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import dspy

from keqa.data.example import Example
from keqa.data.question import Question, question_digest
from keqa.data.quiz_references import parse, resolve
from keqa.errors import ConfigurationError, InputError
from keqa.metrics.answers import f1, same_answer
from keqa.metrics.utility import Correctness, Utility, gain, utility
from keqa.optimize.demos.candidate import DemoProvenance, without_demos
from keqa.optimize.journal_keys import example_key
from keqa.optimize.reference.entries import Basis, Labelled, UtilityEntry
from keqa.programs.fingerprint import digest, function_fingerprint, lm_spec, program_fingerprint, retriever_spec
from keqa.programs.keqa import KEQA
from keqa.programs.prompts import whole_prompt
from keqa.programs.record_redaction import lms_asked
from keqa.programs.runtime.answered import refusing_empty
from keqa.programs.runtime.attempts import ask
from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.failures import is_transient
from keqa.programs.runtime.session import Session, text_of
from keqa.programs.stages.decomposition import is_the_question
from keqa.retrievers.base import Passage
from keqa.signatures import ReasonFromMemory, ReasonWithKnowledge
from keqa.storage.redaction import without_secrets


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

    def __init__(self, program: KEQA, *, correctness: Correctness = f1, origins: DemoProvenance | None = None) -> None:
        """Set up."""
        retriever = program._retriever.value
        if retriever is None:
            raise ConfigurationError("the utility reference needs passages: give the program a retriever")
        self.program, self.retriever = program, retriever
        self.correctness, self.origins = correctness, origins or DemoProvenance()
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
            # Journals that were begun when these three could be chosen name them.
            "rule": "auto",
            "reason": "auto",
            "quiz_level": True,
            "correctness": function_fingerprint(self.correctness),
            "decompose": program.decompose,
            "model": lm_spec(program.answering.answer.lm or dspy.settings.lm),
            "prompts": digest([whole_prompt(predictor) for predictor in predictors]),
            "retriever": retriever_spec(self.retriever),
        }

    def key(self, example: Example) -> str:
        """A training question in a journal; what it is shown is a part of it where that is less than others are."""
        shown = self.shown(example)
        key = example_key(example)
        return key if shown is self.program else f"{key} {program_fingerprint(shown)}"

    async def label(self, example: Example) -> Labelled:
        """Label the passages of a training question."""
        session = Session(self.program.bound, blocking=True)
        try:
            targets = self._targets(example)
        except InputError as error:
            return Labelled(root=example.id, problems=(str(error),))
        program = self.shown(example)
        labels = await session.gather([self._label(session, target, program) for target in targets])
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
            problems=tuple(without_secrets([one.problem for one in labels if one.problem], lms_asked(self.program))),
            passing=next((str(error) for one in labels for error in one.errors if is_transient(error.cause)), ""),
        )

    def shown(self, example: Example) -> KEQA:
        """The program without demonstrations that come from a training question."""
        return self.origins.without(self.program, example.id)

    def _targets(self, example: Example) -> list[Target]:
        one_hop, most = not self.program.decompose, self.program.max_question_chars
        return [question_target(example, one_hop=one_hop, max_chars=most), *quiz_targets(example, max_chars=most)]

    async def _label(self, session: Session, target: Target, program: KEQA) -> _Labels:
        """Go through the candidates in descending relevance."""
        labels, program = _Labels(), _unprompted(program, target.asked.question)
        try:
            hits = await session.search(self.retriever, target.asked.question, self.program.top_k)
        except CallError as error:
            return _Labels(errors=[error], problem=f"{target.name}: the search failed ({error})")
        candidates = _each_once([hit.passage for hit in hits])
        if not candidates:
            return _Labels(problem=f"{target.name}: no passage was found")
        without = await self._correctness(session, target, program, [])
        if isinstance(without, CallError):
            message = f"{target.name}: there is no answer without passages to compare with ({without})"
            return _Labels(errors=[without], lost=Counter({without.cause: len(candidates)}), problem=message)
        if target.one_hop:
            each = [self._correctness(session, target, program, [one]) for one in candidates]
            scores = await session.gather(each)
            for candidate, score in zip(candidates, scores, strict=True):
                labels.add(candidate, score, without)
        else:
            helpful: list[Passage] = []
            for candidate in candidates:
                score = await self._correctness(session, target, program, [*helpful, candidate])
                if labels.add(candidate, score, without) and not isinstance(score, CallError):
                    helpful.append(candidate)
                    without = score
        if labels.lost.total() == len(candidates):
            labels.problem = f"{target.name}: there is no answer with any passage ({labels.errors[0]})"
        return labels

    async def _correctness(
        self, session: Session, target: Target, program: KEQA, passages: Sequence[Passage]
    ) -> float | CallError:
        """Cor(Q, K*): how correct the answer from these passages is, or why there is none."""
        asked = target.asked
        try:
            answer = await self._answer(session, target, program, [passage.rendered for passage in passages])
        except CallError as error:
            return error
        return float(self.correctness(answer, target.golds, asked.answer_type, asked.choices))

    async def _answer(self, session: Session, target: Target, program: KEQA, passages: list[str]) -> str:
        """Ans(Q, K*, L); without passages, from memory.

        From all passages or not at all: leaving out those that exceed the context window, as the answering stage does,
        would label a passage by an answer that it had no part in.
        """
        asked = target.asked
        if not passages and target.one_hop:
            return await program.examination.recall(session, asked.question, asked.answer_type, asked.choices)
        inputs: dict[str, Any] = {"passages": passages} if passages else {}
        if target.one_hop:
            predictor, inputs = program.answering.answer, inputs | {"evidence": [], "triples": []}
        else:
            predictor = self.reason_with_knowledge if passages else self.reason_from_memory
        prediction = await ask(
            session,
            predictor,
            "task",
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

    def excluded(demo: Any) -> bool:
        return question in (dict(demo).get("question"), dict(demo).get("quiz"))

    return without_demos(program, excluded)


def _each_once(passages: Sequence[Passage]) -> list[Passage]:
    """The passages without those that say the same: a second one would only repeat the label of the first."""
    found: dict[str, Passage] = {}
    for passage in passages:
        found.setdefault(passage.rendered, passage)
    return list(found.values())


def question_target(example: Example, *, one_hop: bool, max_chars: int) -> Target:
    """The whole question."""
    one_hop = one_hop if example.one_hop is None else example.one_hop
    return Target(
        name="the question",
        asked=Question.check(example.question, example.answer_type, example.choices, max_chars),
        golds=example.answers,
        basis="question",
        one_hop=one_hop or len(example.quizzes) == 1,
    )


def quiz_targets(example: Example, *, max_chars: int) -> list[Target]:
    """The gold quizzes with gold answers in the places of references, each of one hop."""
    if not example.quiz_answers:
        return []
    golds: dict[int, str | None] = dict(enumerate(example.quiz_answers, start=1))
    targets = []
    for quiz in parse(example.quizzes):
        text, gold = resolve(quiz, golds), str(golds[quiz.index])
        if text is None or is_the_question(text, example.question):
            continue
        # Where a quiz asks for the answer to the question, the aliases of that answer are right as well.
        aliases = example.answers if same_answer(gold, example.answers[0]) else ()
        targets.append(
            Target(
                name=f"quiz {quiz.index}",
                asked=Question.check(text, "short", (), max_chars),
                golds=tuple(dict.fromkeys((gold, *aliases))),
                basis="quiz",
                one_hop=True,
            )
        )
    return targets
