"""The utility reference of a train split: passages labelled by the difference that they make (KEQA, section 3.4)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import dspy

from keqa.data.example import Example, as_examples
from keqa.data.question import Question, question_digest
from keqa.errors import ConfigurationError, InputError
from keqa.metrics.answers import f1, same_answer
from keqa.metrics.utility import Correctness, utility
from keqa.optimize.alignment import Settled, gold_quizzes
from keqa.optimize.asking import Asking
from keqa.programs.calls.ask import ask, search
from keqa.programs.calls.errors import CallError, is_transient
from keqa.programs.calls.predictor import asking_for
from keqa.programs.calls.session import Session, gather, run_blocking
from keqa.programs.calls.texts import answer_of, refusing_empty
from keqa.programs.keqa import KEQA
from keqa.programs.records import QuizRecord
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.stage import is_the_question
from keqa.retrievers.base import Passage
from keqa.signatures.baselines import ReasonFromMemory, ReasonWithKnowledge
from keqa.storage.redaction import without_secrets

_NAMED = 5
"""So many questions are named to a cause."""


@dataclass
class Labels:
    """What came of a training question, or of a part of it."""

    entries: list[UtilityEntry] = field(default_factory=list)
    # Passages without a label, by the error that their call failed with.
    lost: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    # Why another attempt may fare better.
    passing: str = ""
    calls: int = 0

    def failed(self, error: CallError, passages: int = 0) -> None:
        """Note a call that failed, and how many passages have no label for it."""
        self.lost += Counter({error.cause: passages})
        self.passing = self.passing or (str(error) if is_transient(error.cause) else "")


@dataclass(frozen=True)
class Target(Settled):
    """What is to be answered, and whether in one step."""

    name: str = ""
    one_hop: bool = False


class Labeller:
    """Answers a training question with and without passages and labels each passage by the difference it makes.

    Searches and answers are those of the program's own retriever, predictors and language models, with the
    demonstrations that the predictors have at the time.
    """

    def __init__(self, program: KEQA, *, correctness: Correctness = f1) -> None:
        retriever = program.retriever
        if retriever is None:
            raise ConfigurationError("the utility reference needs passages: give the program a retriever")
        self.program, self.retriever, self.correctness = program, retriever, correctness
        self.reason_from_memory = dspy.Predict(ReasonFromMemory)
        self.reason_with_knowledge = dspy.Predict(ReasonWithKnowledge)
        for predictor in (self.reason_from_memory, self.reason_with_knowledge):
            predictor.set_lm(program.answering.answer.lm)

    async def label(self, example: Example) -> Labels:
        try:
            targets = _targets(self.program, example)
        except InputError as error:
            return Labels(problems=[str(error)])
        with asking_for(example.question, example.choices):
            parts = await gather([self._labelled(target, example) for target in targets])
        return Labels(
            [entry for part in parts for entry in part.entries],
            sum((part.lost for part in parts), Counter[str]()),
            without_secrets([one for part in parts for one in part.problems], self.program.lms_asked()),
            next((part.passing for part in parts if part.passing), ""),
            sum(part.calls for part in parts),
        )

    async def _labelled(self, target: Target, example: Example) -> Labels:
        session = Session(self.program.bound, blocking=True)
        session.hides = partial(self._hides, str(target.quiz.resolved), example)
        labels = await session.run(self._label(target, example))
        labels.calls = session.cost().calls
        return labels

    def _hides(self, asked: str, example: Example, demo: Any, signature: Any) -> bool:
        """Demonstrations of the very question, or from it, would give away what passages are to show."""
        shown = dict(demo)
        own = self.program.learned.hides(example.question, example.choices, demo, signature)
        return own or asked in (shown.get("question"), shown.get("quiz"))

    async def _label(self, target: Target, example: Example) -> Labels:
        """Go through the candidates in descending relevance."""
        labels, asked = Labels(), str(target.quiz.resolved)
        try:
            hits = await search(self.retriever, asked, self.program.top_k)
        except CallError as error:
            labels.failed(error)
            labels.problems.append(f"{target.name}: the search failed ({error})")
            return labels
        candidates: dict[str, Passage] = {}
        for hit in hits:
            # A second passage that says the same would only repeat the label of the first.
            candidates.setdefault(hit.passage.rendered, hit.passage)
        if not candidates:
            return Labels(problems=[f"{target.name}: no passage was found"])
        without = await self._correctness(target, [])
        if isinstance(without, CallError):
            labels.failed(without, len(candidates))
            labels.problems.append(f"{target.name}: there is no answer without passages to compare with ({without})")
            return labels
        alone = await gather(self._correctness(target, [one]) for one in candidates.values()) if target.one_hop else []
        helpful: list[Passage] = []
        first: CallError | None = None
        for place, passage in enumerate(candidates.values()):
            score = alone[place] if target.one_hop else await self._correctness(target, [*helpful, passage])
            if isinstance(score, CallError):
                first = first or score
                labels.failed(score, 1)
                continue
            label = utility(score, without)
            if label != 0:
                digest = question_digest(example.question, example.choices)
                found = (example.id, asked, passage.rendered, label == 1, digest, passage.place.date)
                labels.entries.append(UtilityEntry(*found))
            if label == 1 and not target.one_hop:
                helpful.append(passage)
                without = score
        if labels.lost.total() == len(candidates):
            labels.problems.append(f"{target.name}: there is no answer with any passage ({first})")
        return labels

    async def _correctness(self, target: Target, passages: Sequence[Passage]) -> float | CallError:
        """Cor(Q, K*): how correct the answer from these passages is, or why there is none."""
        try:
            answer = await self._answer(target, [passage.rendered for passage in passages])
        except CallError as error:
            return error
        return float(target.correctness(self.correctness, answer))

    async def _answer(self, target: Target, passages: list[str]) -> str:
        """Ans(Q, K*, L); without passages, from memory."""
        # From all passages or not at all: leaving out those that exceed the context window, as the answering stage
        # does, would label a passage by an answer that it had no part in.
        program = self.program
        if not passages and target.one_hop:
            return await program.examination.recall(Question(*target.asked().values()))
        inputs: dict[str, Any] = {"passages": passages} if passages else {}
        if target.one_hop:
            predictor, inputs = program.answering.answer, inputs | {"evidence": [], "triples": []}
        else:
            predictor = self.reason_with_knowledge if passages else self.reason_from_memory
        inputs |= target.asked("question")
        usable = refusing_empty(target.choices, last=True)
        reply = await ask(predictor, "answer", usable=usable, **inputs)
        return answer_of(reply.answer, target.asked("question")["question"], target.choices)


def _targets(program: KEQA, example: Example) -> list[Target]:
    """The whole question, and its gold quizzes with gold answers in the places of references, each of one hop."""
    golds = example.answers

    def target(
        name: str, text: str, right: tuple[str, ...], kind: str = "short", choices: Sequence[str] = (), *, one_hop: bool
    ) -> Target:
        asked = Question.check(text, kind, choices, program.max_question_chars)
        quiz = QuizRecord(index=1, text=asked.question, resolved=asked.question)
        return Target(quiz, right, asked.answer_type, tuple(asked.choices), example.id, name, one_hop)

    # Where its data set does not say of how many hops a question is, one with a single gold quiz is of one.
    one_hop = (not program.decompose if example.one_hop is None else example.one_hop) or len(example.quizzes) == 1
    how = example.answer_type, example.choices
    found = [target("the question", example.question, golds, *how, one_hop=one_hop)]
    for number, (text, gold) in enumerate(gold_quizzes(example), start=1):
        if not is_the_question(text, example.question):
            # Where a quiz asks for the answer to the question, the aliases of that answer are right as well.
            right = (gold, *golds) if same_answer(gold, golds[0]) else (gold,)
            found.append(target(f"quiz {number}", text, tuple(dict.fromkeys(right)), one_hop=True))
    return found


def build_reference(program: KEQA, trainset: Iterable[Any], asking: Asking) -> tuple[list[UtilityEntry], list[str]]:
    """Label the passages that are found for training questions by their utility, and keep those that make a difference.

    For the whole question: candidates are retrieved, the question is answered without passages, and then, in descending
    relevance, with the helpful ones so far and the next candidate (K* ∪ {K'}); a passage is labelled by the equation of
    section 3.4. For a question of one hop each candidate is tried alone. Where the gold quizzes and their answers are
    given, the same is done for each quiz, references replaced by gold answers, each passage alone. What kept labels
    from being there is reported in words.
    """
    labeller, examples = Labeller(program, correctness=asking.metric), as_examples(trainset)
    watch = asking.failures.watch("labelling passages", len(examples))

    def label(example: Example) -> Labels:
        with asking.keeping():
            return run_blocking(lambda: labeller.label(example))

    def count(labels: Labels) -> None:
        watch.count(labels.passing.partition(":")[0] or None, labels.passing or None, fresh=labels.calls > 0)

    done = watch.each(examples, label, count, asking.in_flight, asking.progress)
    found = [(example.name, labels) for example, labels in zip(examples, done, strict=True)]
    return [entry for labels in done for entry in labels.entries], _problems(found)


def _problems(found: Sequence[tuple[str, Labels]]) -> list[str]:
    """Which questions gave less than they could, and how many passages have no label, and why."""
    problems = [f"training question {name}: {'; '.join(of.problems)}" for name, of in found if of.problems]
    for cause, count in sum((labels.lost for _, labels in found), Counter[str]()).items():
        names = [name for name, labels in found if labels.lost[cause]]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        problems.append(
            f"{count} passages have no label, since a call failed with {cause}: of training questions "
            f"{', '.join(names[:_NAMED])}{more}"
        )
    return problems
