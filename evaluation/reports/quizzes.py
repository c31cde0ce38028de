"""The quizzes of a run whose right answer is known: what a gate or a judge said of each can be checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from keqa.data.quiz_references import plain
from keqa.evaluation.reports.rows import Entry, Group
from keqa.evaluation.reports.summary import QuestionSummary
from keqa.metrics.answers import exact_match
from keqa.optimize.alignment import Settled
from keqa.programs.gates.votes import leader


@dataclass(frozen=True)
class Checked(Settled):
    """An examined quiz with its gold answers."""

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


def checked_quizzes(entry: Entry, group: Group | None = None) -> Iterator[Checked]:
    """The examined quizzes of a row whose gold answers are known, each text once and one in memory at a time.

    A quiz that is the question itself has the question's gold answers.

    Args:
        entry: The row.
        group: Of these questions only.
    """
    seen: set[str] = set()
    for line in entry.within(group):
        for one in _checked(line):
            text = plain(str(one.quiz.resolved))
            if text not in seen:
                seen.add(text)
                yield one


def _checked(line: QuestionSummary) -> Iterator[Checked]:
    quizzes, golds = line.examined
    for quiz in quizzes:
        if quiz.resolved is None or not quiz.samples:
            continue
        if plain(quiz.resolved) == plain(line.question) and line.answers:
            yield Checked(quiz, line.answers, line.answer_type, line.choices)
        elif golds.get(quiz.resolved):
            yield Checked(quiz, tuple(golds[quiz.resolved]))
