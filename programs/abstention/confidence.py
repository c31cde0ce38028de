"""How probably an answer is right: signals of its record and words of its question, in a logistic regression."""

from __future__ import annotations

from dataclasses import dataclass

from keqa.programs.abstention.signals import abstained, record_signals
from keqa.programs.boundary.features import masked
from keqa.programs.boundary.light import Regression
from keqa.programs.records import QuestionRecord
from keqa.programs.reference.embedding import open_built_in

EMBEDDER = "hashing-256"
"""Of the words of questions and quizzes: as few places as some hundred questions can bear."""


def words_of(record: QuestionRecord) -> str:
    """What a question and its quizzes ask, without the names in them: some kinds of facts are known less well."""
    return " ".join([masked(record.standalone or record.question), *(masked(quiz.text) for quiz in record.quizzes)])


@dataclass(frozen=True)
class Confidence:
    """Says how probably the answer to a question is right; `keqa.optimize.abstention` learns one.

    Attributes:
        regression: What weighs signals and words.
    """

    regression: Regression

    def of(self, record: QuestionRecord) -> float:
        """From 0 to 1; of a record whose answer says that it does not know 0.

        Args:
            record: Of a question that has an answer.
        """
        if abstained(record):
            return 0.0
        embedding = open_built_in(EMBEDDER).embed([words_of(record)])[0]
        return self.regression.probability(record_signals(record), embedding)
