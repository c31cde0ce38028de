"""The quizzes of a run whose right answer is known: what a gate or a judge said of each can be checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from keqa.data.quiz_references import plain
from keqa.evaluation.reports.rows import Entry, Group
from keqa.evaluation.reports.summary import QuestionSummary
from keqa.metrics.answers import exact_match
from keqa.programs.gates import Golds
from keqa.programs.gates.votes import leader
from keqa.programs.records import QuizRecord

__all__ = ["Checked", "checked_quizzes", "golds_of_runs"]

TESTBED = "testbed"


@dataclass(frozen=True)
class Checked:
    """An examined quiz with its gold answers.

    Attributes:
        quiz: What was drawn, how it was clustered, and what the gate said.
        golds: Its gold answers.
        answer_type: What kind of answer it wants.
        choices: The options of a choice.
    """

    quiz: QuizRecord
    golds: tuple[str, ...]
    answer_type: str
    choices: tuple[str, ...]

    def right(self, answer: str | None) -> bool:
        """Whether an answer to it is right."""
        return exact_match(answer, self.golds, self.answer_type, self.choices)

    @property
    def answer(self) -> str | None:
        """The answer from memory: that of the largest cluster."""
        first = leader([cluster.size for cluster in self.quiz.clusters])
        return None if first is None else self.quiz.clusters[first].answer

    @property
    def score(self) -> float | None:
        """By what the gate ranks it, higher for better known; None for a gate that ranks nothing."""
        if self.quiz.certainty is not None:
            return self.quiz.certainty
        return self.quiz.consistency if self.quiz.threshold is not None else None


def golds_of_runs(entry: Entry) -> Golds | None:
    """The gold answers of the testbed's quizzes, which it knows whatever question they are of; None of other data.

    Of those each line has its own; see `keqa.evaluation.records.RunLine.quiz_golds`.
    """
    if {dataset for dataset, _, _ in entry.expected} != {TESTBED}:
        return None
    from keqa.evaluation.gold_quizzes import golds_of
    from keqa.testbed.testbed import Testbed

    world = Testbed()
    found = golds_of([*world.train, *world.dev, *world.test])
    # A quiz that no gold decomposition has is answered by the empty text there.
    return lambda quiz: found(quiz) if any(found(quiz)) else None


def checked_quizzes(entry: Entry, group: Group | None = None, golds: Golds | None = None) -> Iterator[Checked]:
    """The examined quizzes of a row whose gold answers are known, each text once and one in memory at a time.

    Args:
        entry: The row.
        group: Of these questions only.
        golds: Gold answers of quizzes, in the place of those in the lines. A quiz that is the question itself
            has the question's.
    """
    seen: set[str] = set()
    for line in entry.lines.values() if group is None else entry.within(group):
        for one in _checked(line, golds):
            text = plain(str(one.quiz.resolved))
            if text not in seen:
                seen.add(text)
                yield one


def _checked(line: QuestionSummary, golds: Golds | None) -> Iterator[Checked]:
    quizzes, own = line.examined
    for quiz in quizzes:
        if quiz.resolved is None or not quiz.samples:
            continue
        if plain(quiz.resolved) == plain(line.question):
            yield Checked(quiz, line.answers, line.answer_type, line.choices)
        else:
            if golds is None:
                known: Sequence[str] | None = own.get(quiz.resolved)
            else:
                known = golds(quiz.resolved) if callable(golds) else golds.get(plain(quiz.resolved))
            if known:
                yield Checked(quiz, tuple(known), "short", ())
