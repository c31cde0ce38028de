"""Run files: what one method answered on one data set, a line a question.

::

    runs/keqa.jsonl
      {"header": {"format": 3, "method": "keqa", "label": "keqa", "dataset": "testbed", "ids": [...], ...}}
      {"id": "test-0", "question": "...", "answer": "...", "scores": {...}, "record": {...}, "error": null, ...}

Everything that compares methods reads these files alone, with `keqa.evaluation.reading`. Lines are in the order in
which questions finished while a run is on, and in the order of the header's ids once it has ended.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from keqa.data.question import AnswerType
from keqa.evaluation.run_settings import RunSettings
from keqa.metrics.answers import is_abstention
from keqa.programs.records import Failure, QuestionRecord

Line = TypeVar("Line")
"""A line of a run file, in full or in brief."""

FORMAT = 3
"""Version of the layout of a run file: 2 since language models are described with all their settings, 3 since each line
holds the gold answers of its quizzes."""

GOLDS_SINCE = 3
"""From this version on a line holds all gold answers of its quizzes that reports read."""

READABLE = (1, 2, FORMAT)
"""Versions that can be read; a file of an earlier one cannot be resumed."""

_SELDOM = (
    "choices",
    "golds",
    "quiz_golds",
    "compiled",
    "demonstrations",
    "left_out",
    "learned_from",
    "learned_unknown",
)


class _Written(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class RunHeader(_Written):
    """What was run.

    Attributes:
        format: `FORMAT` of the version that wrote it.
        method: The method's name, such as ``keqa`` or ``ircot``; see `keqa.programs.registry`.
        label: The name of this run among others, and of its file.
        dataset: The data set's name: ``testbed``, a benchmark, or the name of the user's own file.
        split: Which part of it; empty where it has none.
        seed: Of the sample.
        ids: The questions asked, in the order in which the finished file holds them.
        configuration: What the answers depend on. No key and no address is in it.
        fingerprint: A hash of all of that but the ids; a file is resumed under the same one only.
        command: How to run it again, without secrets and addresses.
        compiled: The method whose compiled program served, such as ``keqa``; empty where the method was used as it is.
        demonstrations: How many each predictor is shown, by its name; None in files that do not say.
        left_out: How many sound questions of the data were not asked, by reason, such as ``unanswerable``.
        learned_from: Those of the ids whose questions the program had learned from; see `keqa.evaluation.overlap`.
        learned_unknown: Whether the program was compiled and does not say what it learned from.
    """

    format: int = FORMAT
    method: str
    label: str
    dataset: str
    split: str = ""
    seed: int = 0
    ids: list[str]
    configuration: RunSettings
    fingerprint: str
    command: str = ""
    compiled: str = ""
    demonstrations: dict[str, Annotated[int, Field(ge=0)]] | None = None
    left_out: dict[str, Annotated[int, Field(ge=0)]] = {}
    learned_from: list[str] = []
    learned_unknown: bool = False


class RunLine(_Written):
    """One question and what became of it.

    Attributes:
        id: The question's, unique within the data set.
        question: Its text.
        answers: The gold answer first, then its aliases; none of a question that the documents do not answer.
        answer_type: ``short``, ``yes/no`` or ``choice``.
        kind: The question's shape where the data say: one hop, bridge, comparison and so on; else empty. One of
            several kinds names them all, such as ``fast-changing; one-hop``.
        answer: None exactly where the question failed, which is not the same as a wrong answer.
        scores: Of an answer: ``em``, ``f1``, ``contains``, and for yes/no questions and choices ``accuracy``, each
            from 0 to 1. To decline is right where there is no gold answer, and to say that the documents do not say it
            wrong where there is one. Of a failed question they are there and 0, so that it can be counted either way.
        record: Everything that happened, cost included; None where the question could not even be asked.
        error: Why there is no answer.
        seconds: Wall time of the question.
        choices: The options of a choice.
        golds: By resolved text, the gold answers of those of its quizzes for which the oracle gate had any; None where
            that gate did not decide.
        quiz_golds: By resolved text, the gold answers of its examined quizzes as far as the data have them, whatever
            gate decided; None where they have none. See `keqa.evaluation.gold_quizzes`.
    """

    id: str
    question: str
    answers: list[str]
    answer_type: AnswerType = "short"
    kind: str = ""
    answer: str | None = None
    scores: dict[str, Annotated[float, Field(ge=0, le=1)]]
    record: QuestionRecord | None = None
    error: Failure | None = None
    seconds: float = Field(0.0, ge=0)
    choices: list[str] = []
    golds: dict[str, list[str]] | None = None
    quiz_golds: dict[str, list[str]] | None = None

    @property
    def failed(self) -> bool:
        """Whether the question has no answer."""
        return self.error is not None

    @property
    def impairments(self) -> list[str]:
        """What failed on the way to its answer and decided something, by the class names of the errors.

        An outage, or a reply that could not be used; not what another attempt with the same request mended. A question
        without an answer has none, for it has failed.
        """
        if self.failed or self.record is None:
            return []
        return [note.cause for note in self.record.degradations if note.touches]

    @property
    def touched(self) -> bool:
        """Whether a failure decided something: the question has no answer, or one that is `impairments`' as well."""
        return self.failed or bool(self.impairments)

    @property
    def declined(self) -> bool:
        """Whether it was answered by saying that it is not known, or that the documents do not say it."""
        return self.answer is not None and (self.unanswered or is_abstention(self.answer, self.choices or self.answers))

    @property
    def unanswered(self) -> bool:
        """Whether the finding was that the documents do not say it."""
        return self.record is not None and self.record.unanswered is not None

    @property
    def content(self) -> int:
        """A hash that shows within a process whether a question is still the same; see `content_of`."""
        # Lines that do not have the choices by themselves have them in the record.
        choices = self.choices or (self.record.choices if self.record is not None else [])
        return content_of(self.question, self.answers, self.answer_type, choices)


def content_of(question: str, answers: Sequence[str], answer_type: str, choices: Sequence[str] = ()) -> int:
    """A hash of a question with its choices and gold answers, for this process only."""
    return hash((question, tuple(answers), answer_type, tuple(choices)))


@dataclass(frozen=True)
class RunOf(Generic[Line]):
    """A run file in memory.

    Attributes:
        header: What was run.
        lines: In the order of the file.
    """

    header: RunHeader
    lines: list[Line]


class Run(RunOf[RunLine]):
    """A run file in memory, with everything that it holds."""

    @property
    def finished(self) -> bool:
        """Whether every question was asked, with or without an answer."""
        return {line.id for line in self.lines} == set(self.header.ids)

    @property
    def failed(self) -> list[RunLine]:
        """The questions without an answer."""
        return [line for line in self.lines if line.failed]


def header_line(header: RunHeader) -> bytes:
    """The first line of a run file."""
    return _line({"header": _without_absent(header)})


def run_line(line: RunLine) -> bytes:
    """A further line of a run file."""
    return _line(_without_absent(line))


def _without_absent(written: _Written) -> dict[str, Any]:
    """As JSON; what most questions or runs do not have is left out where it is not there."""
    fields = type(written).model_fields
    absent = {name for name in _SELDOM if name in fields and getattr(written, name) == fields[name].default}
    return written.model_dump(mode="json", exclude=absent)


def _line(value: Any) -> bytes:
    # A language model may reply with half a surrogate pair, which no reader of the file would take.
    return json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
