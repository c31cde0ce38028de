"""Abstention: a program that says "I do not know" where its answer is too probably wrong for the risk it may take.

What a record says of the chance that its answer is right, signals and words of its question, goes into a logistic
regression: the same in calibration and in use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keqa.metrics.accuracy import contains_answer
from keqa.metrics.answers import is_abstention, same_answer, tokens
from keqa.programs.boundary.light import Regression, masked
from keqa.programs.records import PassageVerdict, QuestionRecord, QuizRecord
from keqa.programs.reference.embedding import open_built_in

EMBEDDER = "hashing-256"
"""Of the words of questions and quizzes: as few places as some hundred questions can bear."""

WITHHELD = "I do not know"
"""What replaces an answer that is withheld."""

_UNSUPPORTED = frozenset({"closed_book", "largest_cluster", "blocked", "skipped", "failed"})


def record_signals(record: QuestionRecord) -> dict[str, float]:
    """The signals of a question that has an answer, by name; the same names for every method.

    How firmly what came from memory is held, how far what came from passages is in them and agrees with the draws from
    memory, how many quizzes there were and what became of them, and the answer's length.
    """
    answer = record.answer or ""
    steps = [record.fallback] if record.fallback is not None else record.quizzes
    remembered = [_held(quiz) for quiz in steps if quiz.source == "memory"]
    read = [quiz for quiz in steps if quiz.source == "passages"]
    stated = [_stated(quiz.answer, quiz.passages) for quiz in read]
    stated += [_stated(answer, record.passages)] if record.passages else []
    agreed = [_agreed(quiz) for quiz in read if quiz.samples]
    kept = [
        sum(passage.kept for passage in passages) for passages in (*(quiz.passages for quiz in read), record.passages)
    ]
    return {
        "memory, least": min(remembered, default=1.0),
        "memory, mean": _mean(remembered, 1.0),
        "stated in passages, least": min(stated, default=1.0),
        "stated in passages, mean": _mean(stated, 1.0),
        "agrees with memory": _mean(agreed, 0.5),
        "passages kept": math.log1p(max(kept, default=0)),
        "from passages": _mean([float(quiz.source == "passages") for quiz in steps], float(bool(record.passages))),
        "unsupported": _mean([float(quiz.source in _UNSUPPORTED) for quiz in steps], 0.0),
        "quizzes": math.log1p(len(record.quizzes)),
        "fell back": float(record.fallback is not None),
        "a quiz unanswered": float(any(quiz.answer is None or quiz.abstained for quiz in record.quizzes)),
        "degraded": float(record.touched),
        "length": math.log1p(len(tokens(answer, record.answer_type, record.choices))),
    }


def abstained(record: QuestionRecord) -> bool:
    """Whether the answer itself says that it does not know."""
    declined = record.answer is None or record.unanswered is not None
    return declined or is_abstention(record.answer or "", record.choices)


def _held(quiz: QuizRecord) -> float:
    """How firmly memory holds the answer to a quiz: what its gate measured, else the share of equal draws."""
    measure = quiz.certainty if quiz.certainty is not None else quiz.consistency
    return 0.5 if measure is None else min(max(measure, 0.0), 1.0)


def _stated(answer: str | None, passages: Sequence[PassageVerdict]) -> float:
    """The share of the passages kept in which the answer stands."""
    kept = [passage for passage in passages if passage.kept]
    if not kept or not answer:
        return 0.0
    return sum(contains_answer(passage.text, [answer]) for passage in kept) / len(kept)


def _agreed(quiz: QuizRecord) -> float:
    """The share of the draws from memory that the answer from passages equals."""
    if not quiz.answer:
        return 0.0
    return sum(sample.text is not None and same_answer(sample.text, quiz.answer) for sample in quiz.samples) / len(
        quiz.samples
    )


def _mean(values: Sequence[float], without: float) -> float:
    return sum(values) / len(values) if values else without


def words_of(record: QuestionRecord) -> str:
    """What a question and its quizzes ask, without the names in them: some kinds of facts are known less well."""
    return " ".join([masked(record.standalone or record.question), *(masked(quiz.text) for quiz in record.quizzes)])


@dataclass(frozen=True)
class Confidence:
    """Says how probably the answer to a question is right; `keqa.optimize.abstention` learns one."""

    regression: Regression

    def of(self, record: QuestionRecord) -> float:
        """From 0 to 1; of a record whose answer says that it does not know 0."""
        if abstained(record):
            return 0.0
        embedding = open_built_in(EMBEDDER).embed([words_of(record)])[0]
        return self.regression.probability(record_signals(record), embedding)


@dataclass(frozen=True)
class Abstention:
    """Withholds answers whose confidence does not reach a calibrated threshold.

    Attributes:
        confidence: How probably an answer is right.
        threshold: Answers of less confidence are withheld.
        risk: The share of the given answers that may be wrong.
        delta: The chance that the threshold does not hold the risk.
        calibrated_on: A digest of what the threshold was calibrated on.
    """

    confidence: Confidence
    threshold: float
    risk: float
    delta: float
    calibrated_on: str

    def applied(self, record: QuestionRecord) -> QuestionRecord:
        """The record with its confidence, and with "I do not know" in the place of an answer that is withheld.

        An answer that says so itself stays as it is. The explanation of one that is withheld would give it away, and is
        left out.
        """
        confidence = self.confidence.of(record)
        if confidence >= self.threshold or abstained(record):
            return record.model_copy(update={"confidence": confidence})
        # "I do not know" is no guess.
        withheld = {"answer": WITHHELD, "answer_source": "withheld", "withheld": record.answer, "guessed": False}
        return record.model_copy(update={"confidence": confidence, "explanation": "", **withheld})

    def spec(self) -> Mapping[str, Any]:
        """What answers depend on, for fingerprints and the headers of run files."""
        return {name: value for name, value in vars(self).items() if name != "confidence"}
