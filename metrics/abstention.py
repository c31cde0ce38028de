"""Answers beside "I do not know", where silence is neither right nor wrong; and what was searched for in vain."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self


@dataclass(slots=True)
class Declining:
    """How a method fares that may decline, on questions of which some have no answer; counted one by one.

    Declined are those that it says it does not know or the documents do not say, `found` the latter, `rightly` those
    that have no answer. A question that failed was neither answered nor declined.
    """

    questions: int = 0
    answered: int = 0
    right: int = 0
    declined: int = 0
    found: int = 0
    unanswerable: int = 0
    rightly: int = 0

    @classmethod
    def of(cls, lines: Iterable[Any]) -> Self:
        """Count lines of a run file, in full or in brief."""
        found = cls()
        for line in lines:
            found.add(line)
        return found

    def add(self, line: Any) -> None:
        self.questions += 1
        self.answered += line.answered
        self.right += line.answered and line.right
        self.declined += line.declined
        self.found += line.unanswered
        self.unanswerable += not line.answers
        self.rightly += line.declined and not line.answers

    @property
    def shown(self) -> bool:
        """Whether there is anything to say of it: a finding, or a question that has no answer."""
        return bool(self.found or self.unanswerable)

    @property
    def coverage(self) -> float | None:
        return _share(self.answered, self.questions)

    @property
    def right_of_answered(self) -> float | None:
        return _share(self.right, self.answered)

    @property
    def risk(self) -> float | None:
        """The share of the answers that are wrong."""
        return 1 - self.right / self.answered if self.answered else None

    @property
    def right_to_decline(self) -> float | None:
        """The share of the declined questions that have no answer."""
        return _share(self.rightly, self.declined)

    @property
    def unanswered_ratio(self) -> float | None:
        """The share of the questions without an answer that were declined (UAEval4RAG, Peng et al., 2024)."""
        return _share(self.rightly, self.unanswerable)

    def credit(self, target: float) -> float:
        """The mean of 1 for a right answer, 0 for none, and -t / (1 - t) for a wrong one (Kalai et al., 2025).

        By it an answer is worth giving exactly where its chance to be right exceeds the target t, which is from 0, by
        which silence is never worth more than a guess, to below 1.
        """
        wrong = self.answered - self.right
        return (self.right - wrong * target / (1 - target)) / self.questions


class SearchRates(NamedTuple):
    """Over-search of quizzes that memory answers rightly, under-search of others; None where there are none."""

    known: int
    unknown: int
    over: float | None
    under: float | None

    @classmethod
    def of(cls, decisions: Iterable[tuple[bool, bool]]) -> Self:
        """Count, of each quiz, whether memory knows it, and whether it was searched for."""
        pairs = list(decisions)
        over = [searched for known, searched in pairs if known]
        under = [not searched for known, searched in pairs if not known]
        return cls(len(over), len(under), _share(sum(over), len(over)), _share(sum(under), len(under)))


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
