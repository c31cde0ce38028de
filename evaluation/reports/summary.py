"""Lines of run files, reduced to what tables and figures are drawn from, so that many of them can be held at once.

Most of a line is the text of its passages. Here a line keeps its scores and costs as numbers, and its quizzes packed;
100,000 questions of a row then take some ten megabytes instead of gigabytes.
"""

from __future__ import annotations

import math
import sys
import zlib
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from keqa.data.question import AnswerType
from keqa.evaluation.reading import lines_with_golds, read_header
from keqa.evaluation.records import RunOf
from keqa.programs.records import CallCost, Cost, QuestionRecord, QuizRecord
from keqa.retrievers.masking import MASK, naming

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from keqa.evaluation.records import RunLine

ROLES = ("task", "consistency", "utility")
"""Whom calls are charged to; see `keqa.programs.records.Cost`."""

STEPS = ("quiz answering", "assessment", "everything else")
"""The steps whose time the KEQA paper reports (section 4.2, efficiency analysis)."""

_SCORES = ("f1", "em", "accuracy", "contains")
NUMBERS = (
    *_SCORES,
    "failed",
    "retrievals",
    "requests",
    "samples",
    *(f"{role} samples" for role in ROLES),
    "calls",
    "tokens",
    *(f"{role} tokens" for role in ROLES),
    "tokens read",
    "tokens written",
    "seconds",
    *(f"{step} seconds" for step in STEPS),
    *(f"{step} samples" for step in STEPS),
    "question retrieval ratio",
)
"""What is known of each question as a number, by name; `keqa.evaluation.reports.measures` has their means."""

UNREADABLE = frozenset({"AdapterParseError", "EmptyAnswerError", "TruncatedReplyError", "UnreadableConfidenceError"})
"""Causes of a reply that came and could not be used: not in the format, empty, cut at the token limit, or without the
number that was asked for."""

_PLACE = {name: place for place, name in enumerate(NUMBERS)}
_STEP_OF = {"examination.quiz": STEPS[0], "examination.same": STEPS[1]}
_EXAMINED = TypeAdapter(tuple[list[QuizRecord], dict[str, list[str]]])
_BULK = {"passages", "evidence", "triples"}


@dataclass(frozen=True, slots=True)
class QuestionSummary:
    """One question and what became of it, in brief; see `keqa.evaluation.records.RunLine`.

    Attributes:
        id: The question's.
        question: Its text.
        answers: The gold answers; none of a question that the documents do not answer.
        answer_type: What kind of answer it wants.
        choices: The options of a choice.
        kind: Its shape; may be empty.
        content: A hash, which shows whether it is still the same question.
        numbers: In the order of `NUMBERS`; see `number`.
        seconds: Wall time, whether a cache answered or not.
        failed: Whether it has no answer.
        answered: Whether it has one that does not say that it is not known.
        impaired: Whether it has one although a failure decided something on the way; see `RunLine.impairments`.
        unreadable: Outputs that did not parse.
        searched: Quizzes that were searched for.
        asked: Quizzes that were asked.
        oracle: Of a run with the oracle gate: quizzes whose gold answer that had, and quizzes that it decided on.
        packed: The examined quizzes with their gold answers.
        decisions: The resolved text of each quiz that was asked, and whether it was searched for.
        declined: Whether its answer says that it is not known, or that the documents do not say it.
        unanswered: Whether it is the latter, as a finding.
        naming: Of the passages that an open question was answered from, how many name a gold answer; None where there
            are none, and of methods that keep passages by quiz.
        masked: Whether the answer is the mask that replaces answers in masked passages.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    answer_type: AnswerType
    choices: tuple[str, ...]
    kind: str
    content: int
    numbers: array[float]
    seconds: float
    failed: bool
    answered: bool
    impaired: bool
    unreadable: int
    searched: int
    asked: int
    oracle: tuple[int, int] | None
    packed: bytes | None
    decisions: tuple[tuple[str, bool], ...] = ()
    declined: bool = False
    unanswered: bool = False
    naming: int | None = None
    masked: bool = False

    def number(self, name: str) -> float | None:
        """One of `NUMBERS`; None where the question has none, such as the accuracy of an open one."""
        found = self.numbers[_PLACE[name]]
        return None if math.isnan(found) else found

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
        return self.examined[0]

    @property
    def examined(self) -> tuple[list[QuizRecord], dict[str, list[str]]]:
        """The same, and by resolved text the gold answers that the line has of them."""
        return ([], {}) if self.packed is None else _EXAMINED.validate_json(zlib.decompress(self.packed))


class RunSummary(RunOf[QuestionSummary]):
    """A run file in memory, its lines in brief."""


def read_brief(path: Path | str) -> RunSummary:
    """Read a run file, finished or not; no more than one of its lines is in memory in full.

    Raises:
        InputError: The file cannot be read or is no run file, or a line is damaged.
    """
    header = read_header(path)
    lines = {line.id: brief_of(line) for line in lines_with_golds(path, header)}
    return RunSummary(header, list(lines.values()))


def brief_of(line: RunLine) -> QuestionSummary:
    """A line in brief."""
    record = line.record
    quizzes = [] if record is None else [quiz for quiz in record.quizzes if quiz.samples or quiz.known is not None]
    found = [] if record is None else searched(record)
    return QuestionSummary(
        # The runs of all methods have the same questions.
        id=sys.intern(line.id),
        question=sys.intern(line.question),
        answers=tuple(map(sys.intern, line.answers)),
        answer_type=line.answer_type,
        choices=tuple(line.choices or (record.choices if record is not None else ())),
        kind=sys.intern(line.kind),
        content=line.content,
        numbers=_numbers(line),
        seconds=line.seconds,
        failed=line.failed,
        answered=line.answer is not None and not line.declined,
        declined=line.declined,
        unanswered=line.unanswered,
        impaired=bool(line.impairments),
        unreadable=0 if record is None else unreadable(record),
        searched=sum(found),
        asked=len(found),
        oracle=_oracle_counts(line.golds, quizzes),
        packed=_packed(quizzes, line.quiz_golds or {}) if quizzes else None,
        decisions=() if record is None else _decisions(record),
        naming=_naming(line),
        masked=line.answer is not None and line.answer.strip(" .") == MASK,
    )


def searched(record: QuestionRecord) -> list[bool]:
    """Whether each quiz of a question was searched for.

    A quiz that was never asked, for it was blocked or skipped, does not count. A question answered by itself is a quiz:
    that of a baseline, and that of a fallback.
    """
    quizzes = [quiz for quiz in record.quizzes if quiz.source not in ("blocked", "skipped")]
    quizzes += [record.fallback] if record.fallback is not None else []
    return [quiz.retrieved for quiz in quizzes] or [record.cost.retrievals > 0]


def unreadable(record: QuestionRecord) -> int:
    """How many outputs of a question did not parse.

    Each one is a degradation in its record, except one that nothing stood in for, which is the failure of its question.
    """
    noted = [(note.stage, note.cause) for note in record.degradations if note.cause in UNREADABLE]
    end = record.failure
    alone = end is not None and end.cause in UNREADABLE and (end.stage, end.cause) not in noted
    return len(noted) + alone


def _numbers(line: RunLine) -> array[float]:
    """What is known of a question, in the order of `NUMBERS`, and NaN for what it has not."""
    cost = Cost() if line.record is None else line.record.cost
    roles = {name: cost.by_role.get(name, CallCost()) for name in ROLES}
    read = sum(role.prompt_tokens for role in cost.by_role.values())
    written = sum(role.completion_tokens for role in cost.by_role.values())
    timed = cost.calls == cost.lm_requests
    seconds, samples = _by_step(cost)
    found = {
        **{name: line.scores[name] for name in _SCORES if name in line.scores},
        "failed": line.failed,
        "retrievals": cost.retrievals,
        "requests": cost.lm_requests,
        "samples": cost.samples,
        **{f"{name} samples": role.samples for name, role in roles.items()},
        "calls": cost.calls,
        "tokens": read + written,
        **{f"{name} tokens": role.prompt_tokens + role.completion_tokens for name, role in roles.items()},
        "tokens read": read,
        "tokens written": written,
        **({"seconds": line.seconds} if timed else {}),
        **({f"{step} seconds": spent for step, spent in seconds.items()} if timed else {}),
        **{f"{step} samples": count for step, count in samples.items()},
        **({} if line.record is None else {"question retrieval ratio": cost.retrievals > 0}),
    }
    return array("d", (found.get(name, math.nan) for name in NUMBERS))


def _by_step(cost: Cost) -> tuple[dict[str, float], dict[str, int]]:
    """Seconds and LM calls of each of `STEPS`; none where the record has none."""
    if not cost.by_step:
        return {}, {}
    seconds, samples = dict.fromkeys(STEPS, 0.0), dict.fromkeys(STEPS, 0)
    seconds[STEPS[-1]] = cost.retrieval_seconds
    for name, step in cost.by_step.items():
        place = _STEP_OF.get(name, STEPS[-1])
        seconds[place] += step.seconds
        samples[place] += step.samples
    return seconds, samples


def _oracle_counts(golds: Mapping[str, list[str]] | None, quizzes: Sequence[QuizRecord]) -> tuple[int, int] | None:
    if golds is None:
        return None
    decided = [str(quiz.resolved) in golds for quiz in quizzes if quiz.known is not None]
    return sum(decided), len(decided)


def _decisions(record: QuestionRecord) -> tuple[tuple[str, bool], ...]:
    """Each quiz that was asked, with whether it was searched for; the texts are those of all methods' runs."""
    asked = [quiz for quiz in record.quizzes if quiz.source not in ("blocked", "skipped")]
    return tuple((sys.intern(quiz.resolved), quiz.retrieved) for quiz in asked if quiz.resolved)


def _naming(line: RunLine) -> int | None:
    """How many of the passages of an open question name a gold answer."""
    passages = [] if line.record is None else line.record.passages
    pattern = naming(line.answers) if passages and line.answer_type == "short" else None
    if pattern is None:
        return None
    return sum(pattern.search(f"{one.title}: {one.text}") is not None for one in passages)


def _packed(quizzes: list[QuizRecord], golds: dict[str, list[str]]) -> bytes:
    written = _EXAMINED.dump_json((quizzes, golds), exclude={0: {"__all__": _BULK}}, exclude_defaults=True)
    return zlib.compress(written)
