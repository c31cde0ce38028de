"""Abstention: a program that says "I do not know" where its answer is too probably wrong for the risk it may take.

Signals of a record and words of its question go into a logistic regression: the same in calibration and in use.
"""

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
    answer = record.answer or ""
    steps = [record.fallback] if record.fallback is not None else record.quizzes
    remembered = [_held(quiz) for quiz in steps if quiz.source == "memory"]
    read = [quiz for quiz in steps if quiz.source == "passages"]
    stated = [_stated(quiz.answer, quiz.passages) for quiz in read]
    stated += [_stated(answer, record.passages)] if record.passages else []
    agreed = [_agreed(quiz) for quiz in read if quiz.samples]
    shown = [record.passages, *(quiz.passages for quiz in read)]
    kept = [sum(passage.kept for passage in passages) for passages in shown]
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
    declined = record.answer is None or record.unanswered is not None
    return declined or is_abstention(record.answer or "", record.choices)


def _held(quiz: QuizRecord) -> float:
    """How firmly memory holds the answer to a quiz: what its gate measured, else the share of equal draws."""
    measure = quiz.certainty if quiz.certainty is not None else quiz.consistency
    return 0.5 if measure is None else min(max(measure, 0.0), 1.0)


def _stated(answer: str | None, passages: Sequence[PassageVerdict]) -> float:
    kept = [passage.text for passage in passages if passage.kept]
    return _mean([float(contains_answer(text, [answer])) for text in kept], 0.0) if answer else 0.0


def _agreed(quiz: QuizRecord) -> float:
    if not quiz.answer:
        return 0.0
    return _mean([float(one.text is not None and same_answer(one.text, quiz.answer)) for one in quiz.samples], 0.0)


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
        if abstained(record):
            return 0.0
        embedding = open_built_in(EMBEDDER).embed([words_of(record)])[0]
        return self.regression.probability(record_signals(record), embedding)


@dataclass(frozen=True)
class Abstention:
    """Withholds answers whose confidence does not reach a threshold.

    It was calibrated: with a chance of delta at most, the share of the given answers that are wrong is above the risk.
    """

    confidence: Confidence
    threshold: float
    risk: float
    delta: float
    calibrated_on: str

    def applied(self, record: QuestionRecord) -> QuestionRecord:
        """The record with its confidence, and with "I do not know" in the place of an answer that is withheld."""
        confidence = self.confidence.of(record)
        if confidence >= self.threshold or abstained(record):
            return record.model_copy(update={"confidence": confidence})
        # "I do not know" is no guess.
        withheld = {"answer": WITHHELD, "answer_source": "withheld", "withheld": record.answer, "guessed": False}
        withheld["written"] = None
        return record.model_copy(update={"confidence": confidence, "explanation": "", **withheld})

    def spec(self) -> Mapping[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "confidence"}
