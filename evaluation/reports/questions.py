"""The rows of all tables: the questions of runs, and their quizzes; with the measures over them.

Most of a line of a run file is the text of its passages. Here a question keeps its scores and costs as numbers, and its
quizzes packed, so that very many of them can be held at once.
"""

import math
import sys
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

from pydantic import TypeAdapter

from keqa.data.question import AnswerType, quiz_key
from keqa.evaluation.records import Run, RunLine
from keqa.evaluation.run_file import iter_lines, read_header
from keqa.metrics.answers import exact_match
from keqa.optimize.alignment import Settled
from keqa.programs.declared import Way
from keqa.programs.gate import leader
from keqa.programs.records import CallCost, Cost, QuestionRecord, QuizRecord
from keqa.retrievers.masking import MASK, naming

ROLES = ("task", "consistency", "utility", "boundary")
"""Whom calls are charged to; see `keqa.programs.records.Cost`."""

STEPS = ("quiz answering", "assessment", "everything else")
"""The steps whose time the KEQA paper reports (section 4.2, efficiency analysis)."""

NUMBERS = (
    *("f1", "em", "accuracy", "contains", "failed", "retrievals", "requests", "samples", "calls", "tokens", "seconds"),
    *("tokens read", "tokens written", "task tokens read", "question retrieval ratio"),
    *(f"settled by {way}" for way in get_args(Way)),
    *("citation recall", "citation precision", "answer contained", "list recall", "list precision"),
    *(f"{role} {what}" for role in ROLES for what in ("samples", "tokens")),
    *(f"{step} {what}" for step in STEPS for what in ("seconds", "samples")),
)
"""What is known of each question as a number, by name; `measure` has their means."""

UNREADABLE = frozenset({"AdapterParseError", "EmptyAnswerError", "TruncatedReplyError", "UnreadableConfidenceError"})
"""Causes of a reply that came and could not be used."""

NOT_COMPARABLE_ABOVE = Fraction(1, 10)
"""A method whose outputs did not parse more often than this was not measured, its prompts were."""

_PLACE = {name: place for place, name in enumerate(NUMBERS)}
_STEP_OF = {"examination.quiz": STEPS[0], "examination.same": STEPS[1]}
_EXAMINED = TypeAdapter(tuple[list[QuizRecord], dict[str, list[str]]])
_BRIEFLY: dict[str, Any] = {"exclude": {0: {"__all__": {"passages", "evidence", "triples"}}}, "exclude_defaults": True}
_AS_IN_FULL = ("answer_type", "right", "failed", "answered", "declined", "unanswered", "seconds")


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A row of the questions: one question and what became of it in a run; see `keqa.evaluation.records.RunLine`.

    Its `numbers` are in the order of `NUMBERS`, and its examined quizzes are `packed` with their gold answers. Of each
    quiz that was asked, `searched` has the resolved text, if any, and whether it was searched for. `oracle` says of a
    run with the oracle gate of how many quizzes that had the gold answer, and on how many it decided; `naming`, how
    many of the passages that an open question was answered from name a gold answer; `masked`, whether the answer is
    what replaces answers in masked passages.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    answer_type: AnswerType
    choices: tuple[str, ...]
    kind: str
    numbers: "array[float]"
    right: bool
    failed: bool
    answered: bool
    declined: bool
    unanswered: bool
    impaired: bool
    unreadable: int
    seconds: float
    searched: tuple[tuple[str, bool], ...]
    oracle: tuple[int, int] | None
    packed: bytes | None
    naming: int | None
    masked: bool

    def number(self, name: str) -> float | None:
        """One of `NUMBERS`; None where the question has none, such as the accuracy of an open one."""
        found = self.numbers[_PLACE[name]]
        return None if math.isnan(found) else found

    @property
    def quality(self) -> float:
        """F1, by which methods are compared question by question; of a failed question 0."""
        found = self.number("f1")
        return (self.number("accuracy") or 0.0) if found is None else found

    @property
    def timed(self) -> bool:
        """Whether no cache answered any of its calls, so that its seconds are those of the language model."""
        return self.number("calls") == self.number("requests")

    @property
    def touched(self) -> bool:
        """Whether a failure decided something: the question failed, or is impaired."""
        return self.failed or self.impaired

    @property
    def quizzes(self) -> list[QuizRecord]:
        """The examined quizzes, without their passages; unpacked each time."""
        return self._examined[0]

    @property
    def checked(self) -> "Iterator[QuizRow]":
        """The quizzes whose gold answers are known; one that is the question itself has the question's."""
        quizzes, golds = self._examined
        for quiz in (quiz for quiz in quizzes if quiz.resolved is not None and quiz.samples):
            if quiz_key(str(quiz.resolved)) == quiz_key(self.question) and self.answers:
                yield QuizRow(quiz, self.answers, self.answer_type, self.choices)
            elif found := golds.get(str(quiz.resolved)):
                yield QuizRow(quiz, tuple(found))

    @property
    def _examined(self) -> tuple[list[QuizRecord], dict[str, list[str]]]:
        return ([], {}) if self.packed is None else _EXAMINED.validate_json(zlib.decompress(self.packed))


@dataclass(frozen=True)
class QuizRow(Settled):
    """A row of the quizzes: an examined quiz with its gold answers, by which gates and judges are checked."""

    @property
    def text(self) -> str:
        """By what it is known to be the same in other runs."""
        return quiz_key(str(self.quiz.resolved))

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

    def right(self, answer: str | None) -> bool:
        return exact_match(answer, self.golds, self.answer_type, self.choices)


def read_brief(path: Path | str) -> Run[QuestionRow]:
    """Read a run file, finished or not, its lines in brief; no more than one is in memory in full."""
    return Run(read_header(path), list(map(brief_of, iter_lines(path))))


def brief_of(line: RunLine) -> QuestionRow:
    record = line.record
    quizzes = [] if record is None else [quiz for quiz in record.quizzes if quiz.samples or quiz.known is not None]
    decided = [str(one.resolved) in (line.golds or ()) for one in quizzes if one.known is not None]
    examined = (quizzes, line.quiz_golds or {})
    passages = [] if record is None else [f"{one.title}: {one.text}" for one in record.passages]
    pattern = naming(line.answers) if passages and line.answer_type == "short" else None
    return QuestionRow(
        # The runs of all methods have the same questions.
        id=sys.intern(line.id),
        question=sys.intern(line.question),
        answers=tuple(map(sys.intern, line.answers)),
        choices=tuple(line.choices),
        kind=sys.intern(line.kind),
        numbers=_numbers(line),
        impaired=bool(line.impairments),
        unreadable=0 if record is None else unreadable(record),
        searched=() if record is None else tuple(searched(record)),
        oracle=None if line.golds is None else (sum(decided), len(decided)),
        packed=zlib.compress(_EXAMINED.dump_json(examined, **_BRIEFLY)) if quizzes else None,
        naming=None if pattern is None else sum(map(bool, map(pattern.search, passages))),
        masked=line.answer is not None and line.answer.strip(" .") == MASK,
        **{name: getattr(line, name) for name in _AS_IN_FULL},
    )


def searched(record: QuestionRecord) -> list[tuple[str, bool]]:
    """The resolved text of each quiz of a question, and whether it was searched for.

    A quiz that was never asked, for it was blocked or skipped, does not count. A question answered by itself is a quiz
    without a text: that of a baseline, that of a fallback, and that of a cascade which went on to its quizzes.
    """
    asked = [quiz for quiz in record.quizzes if quiz.source not in ("blocked", "skipped")]
    found = [(sys.intern(quiz.resolved or ""), quiz.retrieved) for quiz in asked]
    found += [("", whole.retrieved) for whole in (record.fallback, record.whole) if whole is not None]
    return found or [("", record.cost.retrievals > 0)]


def unreadable(record: QuestionRecord) -> int:
    """How many outputs of a question did not parse: those noted, and its failure where that was not noted."""
    noted = [(note.stage, note.cause) for note in record.degradations if note.cause in UNREADABLE]
    end = record.failure
    alone = end is not None and end.cause in UNREADABLE and (end.stage, end.cause) not in noted
    return len(noted) + alone


def unparsed(lines: Sequence[QuestionRow]) -> Fraction:
    """The share of outputs that did not parse: a method whose format is unknown to the LM has not been compared."""
    outputs = int(sum(_known("samples", lines)))
    return Fraction(min(sum(line.unreadable for line in lines), outputs), outputs) if outputs else Fraction(0)


def measure(name: str, lines: Sequence[QuestionRow]) -> float | None:
    """One of `MEASURES` over lines of one run; None where no line has it, such as the accuracy of open questions."""
    return MEASURES[name](lines) if lines else None


def mean(values: Sequence[float]) -> float | None:
    # As sum adds, tables of two versions of Python would differ in their last digits.
    return fmean(values) if values else None


def _mean_of(name: str, lines: Sequence[QuestionRow]) -> float | None:
    return mean(_known(name, lines))


def _known(name: str, lines: Sequence[QuestionRow]) -> list[float]:
    return [found for line in lines if (found := line.number(name)) is not None]


def _percentile(percent: int, lines: Sequence[QuestionRow]) -> float | None:
    import numpy as np

    found = _known("seconds", lines)
    return float(np.percentile(found, percent)) if found else None


MEASURES: dict[str, Callable[[Sequence[QuestionRow]], float | None]] = {
    **{name: partial(_mean_of, name) for name in NUMBERS},
    "seconds p50": partial(_percentile, 50),
    "seconds p95": partial(_percentile, 95),
    "total seconds": lambda lines: math.fsum(line.seconds for line in lines),
    "parse failures": lambda lines: float(unparsed(lines)),
    "quiz retrieval ratio": lambda lines: mean([one for line in lines for _, one in line.searched]),
}
"""By name. Costs are for one question: ``samples`` are the LM calls that the answers take, as the papers count them,
``task samples`` and so on those of a role, ``requests`` what they were asked in, of which one may carry several,
``calls`` the requests that no cache answered, ``seconds`` those of questions whose calls no cache answered, ``quiz
answering seconds`` and so on those of the calls of a step, added up, and ``total seconds`` the sum over all questions
as they were asked."""


def _numbers(line: RunLine) -> "array[float]":
    """What is known of a question, in the order of `NUMBERS`, and NaN for what it has not."""
    cost = Cost() if line.record is None else line.record.cost
    total = cost.total
    found: dict[str, float] = {
        **line.scores,
        "failed": line.failed,
        "retrievals": cost.retrievals,
        "requests": cost.lm_requests,
        "samples": total.samples,
        "calls": total.calls,
        "tokens": total.tokens,
        "tokens read": total.prompt_tokens,
        "tokens written": total.completion_tokens,
        "task tokens read": cost.by_role.get(ROLES[0], CallCost()).prompt_tokens,
    }
    for role in ROLES:
        spent = cost.by_role.get(role, CallCost())
        found |= {f"{role} samples": spent.samples, f"{role} tokens": spent.tokens}
    seconds = {"seconds": line.seconds}
    for step in STEPS if cost.by_step else ():
        calls = [spent for name, spent in cost.by_step.items() if _STEP_OF.get(name, STEPS[-1]) == step]
        searching = cost.retrieval_seconds if step == STEPS[-1] else 0.0
        found[f"{step} samples"] = sum(spent.samples for spent in calls)
        seconds[f"{step} seconds"] = sum((spent.seconds for spent in calls), searching)
    if cost.calls == cost.lm_requests:
        found |= seconds
    if line.record is not None:
        found["question retrieval ratio"] = cost.retrievals > 0
        if line.record.settled_by is not None:
            found |= {f"settled by {way}": float(way == line.record.settled_by) for way in get_args(Way)}
    return array("d", (found.get(name, math.nan) for name in NUMBERS))
