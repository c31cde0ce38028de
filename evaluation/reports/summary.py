"""Lines of run files, reduced to what tables and figures are drawn from, so that many of them can be held at once.

Most of a line is the text of its passages. Here a line keeps its scores and sums of its cost, and its quizzes packed;
100,000 questions of a row then take some ten megabytes instead of gigabytes.
"""

from __future__ import annotations

import sys
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from keqa.data.question import AnswerType
from keqa.evaluation.costs import searched
from keqa.evaluation.parsing import unreadable
from keqa.evaluation.reading import iter_lines, read_header
from keqa.programs.records import CallCost, Cost, QuizRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from keqa.evaluation.records import RunHeader, RunLine

__all__ = ["ROLES", "STEPS", "QuestionCost", "QuestionSummary", "RunSummary", "brief_of", "read_brief"]

ROLES = ("task", "consistency", "utility")
"""Whom calls are charged to; see `keqa.programs.records.Cost`."""

STEPS = ("quiz answering", "assessment", "everything else")
"""The steps whose time the KEQA paper reports (section 4.2, efficiency analysis)."""

_STEP_OF = {"examination.quiz": STEPS[0], "examination.same": STEPS[1]}
_EXAMINED = TypeAdapter(tuple[list[QuizRecord], dict[str, list[str]]])
_BULK = {"passages", "evidence", "triples"}


@dataclass(frozen=True, slots=True)
class QuestionCost:
    """What a question cost.

    Attributes:
        retrievals: Searches.
        requests: Requests to language models: what the answer takes.
        calls: Those that no cache answered.
        samples: LM calls as the papers count them, of which one request may carry several.
        asked: The same by role, in the order of `ROLES`.
        tokens: Read and written, by role.
        step_seconds: Time of the calls and searches of each of `STEPS`, added up; empty where the record has none.
        step_samples: LM calls of each of them; as empty.
        read: Tokens of prompts.
        written: Tokens of replies.
    """

    retrievals: int = 0
    requests: int = 0
    calls: int = 0
    samples: int = 0
    asked: tuple[int, ...] = (0,) * len(ROLES)
    tokens: tuple[int, ...] = (0,) * len(ROLES)
    step_seconds: tuple[float, ...] = ()
    step_samples: tuple[int, ...] = ()
    read: int = 0
    written: int = 0


@dataclass(frozen=True, slots=True)
class QuestionSummary:
    """One question and what became of it, in brief; see `keqa.evaluation.records.RunLine`.

    Attributes:
        id: The question's.
        question: Its text.
        answers: The gold answers.
        answer_type: What kind of answer it wants.
        choices: The options of a choice.
        kind: Its shape; may be empty.
        content: A hash, which shows whether it is still the same question.
        scores: Of its answer.
        seconds: Wall time.
        failed: Whether it has no answer.
        impaired: Whether it has one although a failure decided something on the way; see `RunLine.impairments`.
        story: Whether there is a record of it.
        paid: What it cost.
        unreadable: Outputs that did not parse.
        searched: Quizzes that were searched for.
        asked: Quizzes that were asked.
        oracle: Of a run with the oracle gate: quizzes whose gold answer that had, and quizzes that it decided on.
        packed: The examined quizzes with their gold answers.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    answer_type: AnswerType
    choices: tuple[str, ...]
    kind: str
    content: int
    scores: Mapping[str, float]
    seconds: float
    failed: bool
    impaired: bool
    story: bool
    paid: QuestionCost
    unreadable: int
    searched: int
    asked: int
    oracle: tuple[int, int] | None
    packed: bytes | None

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


@dataclass(frozen=True)
class RunSummary:
    """A run file in memory, its lines in brief.

    Attributes:
        header: What was run.
        lines: In the order of the file.
    """

    header: RunHeader
    lines: list[QuestionSummary]


def read_brief(path: Path | str) -> RunSummary:
    """Read a run file, finished or not; no more than one of its lines is in memory in full.

    Raises:
        InputError: The file cannot be read or is no run file, or a line is damaged.
    """
    header = read_header(path)
    return RunSummary(header, list({line.id: brief_of(line) for line in iter_lines(path)}.values()))


def brief_of(line: RunLine) -> QuestionSummary:
    """A line in brief."""
    record = line.record
    quizzes = [] if record is None else [quiz for quiz in record.quizzes if quiz.samples or quiz.known is not None]
    found = [] if record is None else searched(record)
    return QuestionSummary(
        # The same questions stand in the runs of all methods.
        id=sys.intern(line.id),
        question=sys.intern(line.question),
        answers=tuple(map(sys.intern, line.answers)),
        answer_type=line.answer_type,
        choices=tuple(line.choices or (record.choices if record is not None else ())),
        kind=sys.intern(line.kind),
        content=line.content,
        scores=_scores(tuple(line.scores.items())),
        seconds=line.seconds,
        failed=line.failed,
        impaired=bool(line.impairments),
        story=record is not None,
        paid=QuestionCost() if record is None else _paid(record.cost),
        unreadable=0 if record is None else unreadable(record),
        searched=sum(found),
        asked=len(found),
        oracle=_oracle_counts(line.golds, quizzes),
        packed=_packed(quizzes, (line.golds or {}) | (line.quiz_golds or {})) if quizzes else None,
    )


@lru_cache(maxsize=4096)
def _scores(items: tuple[tuple[str, float], ...]) -> Mapping[str, float]:
    # Most answers are right or wrong, and have the same scores as others.
    return MappingProxyType(dict(items))


def _paid(cost: Cost) -> QuestionCost:
    of_roles = [cost.by_role.get(role, CallCost()) for role in ROLES]
    step_seconds, step_samples = _by_step(cost)
    return QuestionCost(
        retrievals=cost.retrievals,
        requests=cost.lm_requests,
        calls=cost.calls,
        samples=cost.samples,
        asked=tuple(role.samples for role in of_roles),
        tokens=tuple(role.prompt_tokens + role.completion_tokens for role in of_roles),
        step_seconds=step_seconds,
        step_samples=step_samples,
        read=sum(role.prompt_tokens for role in cost.by_role.values()),
        written=sum(role.completion_tokens for role in cost.by_role.values()),
    )


def _by_step(cost: Cost) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Seconds and LM calls of each of `STEPS`."""
    if not cost.by_step:
        return (), ()
    seconds, samples = dict.fromkeys(STEPS, 0.0), dict.fromkeys(STEPS, 0)
    seconds[STEPS[-1]] = cost.retrieval_seconds
    for name, step in cost.by_step.items():
        place = _STEP_OF.get(name, STEPS[-1])
        seconds[place] += step.seconds
        samples[place] += step.samples
    return tuple(seconds.values()), tuple(samples.values())


def _oracle_counts(golds: Mapping[str, list[str]] | None, quizzes: Sequence[QuizRecord]) -> tuple[int, int] | None:
    if golds is None:
        return None
    decided = [str(quiz.resolved) in golds for quiz in quizzes if quiz.known is not None]
    return sum(decided), len(decided)


def _packed(quizzes: list[QuizRecord], golds: dict[str, list[str]]) -> bytes:
    written = _EXAMINED.dump_json((quizzes, golds), exclude={0: {"__all__": _BULK}}, exclude_defaults=True)
    return zlib.compress(written)
