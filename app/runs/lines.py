"""Run files: what one method answered on one data set, a line a question.

::

    runs/keqa.jsonl
      {"header": {"format": 1, "method": "keqa", "label": "keqa", "dataset": "testbed", "ids": [...], ...}}
      {"id": "test-0", "question": "...", "answer": "...", "scores": {...}, "record": {...}, "error": null, ...}

Everything that compares methods reads these files alone. Lines are in the order in which questions finished while a run
is on, and in the order of the header's ids once it has ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from keqa.errors import InputError
from keqa.programs.records import AnswerType, Failure, QuestionRecord

__all__ = [
    "FORMAT",
    "Run",
    "RunHeader",
    "RunLine",
    "content_of",
    "header_line",
    "iter_lines",
    "places",
    "read_header",
    "read_run",
    "run_line",
]

FORMAT = 1
"""Version of the layout of a run file."""

_LONGEST_TOLD = 3


class _Written(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RunHeader(_Written):
    """What was run.

    Attributes:
        format: `FORMAT` of the version that wrote it.
        method: The method's name, such as ``keqa`` or ``ircot``; see `keqa.runs.methods`.
        label: The name of this run among others, and of its file.
        dataset: The data set's name: ``testbed``, a benchmark, or the name of the user's own file.
        split: Which part of it; empty where it has none.
        seed: Of the sample.
        ids: The questions asked, in the order in which the finished file holds them.
        configuration: What the answers depend on, as plain JSON: models by name, settings, index, data. No key and no
            address is in it.
        fingerprint: A hash of all of that but the ids; a file goes on under the same one only.
        command: How to run it again, without addresses.
    """

    format: int = FORMAT
    method: str
    label: str
    dataset: str
    split: str = ""
    seed: int = 0
    ids: list[str]
    configuration: dict[str, Any]
    fingerprint: str
    command: str = ""


class RunLine(_Written):
    """One question and what became of it.

    Attributes:
        id: The question's, unique within the data set.
        question: Its text.
        answers: The gold answer first, then its aliases.
        answer_type: ``short``, ``yes/no`` or ``choice``.
        kind: The question's shape where the data tell: one hop, bridge, comparison and so on; else empty.
        answer: None exactly where the question failed, which is not the same as a wrong answer.
        scores: Of an answer: ``em``, ``f1``, ``contains``, and for yes/no questions and choices ``accuracy``, each
            from 0 to 1. Of a failed question they are there and 0, so that it can be counted either way.
        record: The whole story, cost included; None where the question could not even be asked.
        error: Why there is no answer.
        seconds: Wall time of the question.
    """

    id: str
    question: str
    answers: list[str]
    answer_type: AnswerType = "short"
    kind: str = ""
    answer: str | None = None
    scores: dict[str, float]
    record: QuestionRecord | None = None
    error: Failure | None = None
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether the question has no answer."""
        return self.error is not None

    @property
    def content(self) -> int:
        """Tells within a process whether a question is still the same; see `content_of`."""
        return content_of(self.question, self.answers, self.answer_type)


def content_of(question: str, answers: Sequence[str], answer_type: str) -> int:
    """A hash of a question and its gold answers, for this process only."""
    return hash((question, tuple(answers), answer_type))


@dataclass(frozen=True)
class Run:
    """A run file in memory.

    Attributes:
        header: What was run.
        lines: In the order of the file.
    """

    header: RunHeader
    lines: list[RunLine]

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
    return _line({"header": header.model_dump(mode="json")})


def run_line(line: RunLine) -> bytes:
    """A further line of a run file."""
    return _line(line.model_dump(mode="json"))


def read_header(path: Path | str) -> RunHeader:
    """Read the first line of a run file.

    Raises:
        InputError: There is no such file, it is no run file, or another version wrote it.
    """
    path = Path(path)
    try:
        with path.open("rb") as stream:
            first = stream.readline()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        value = json.loads(first)["header"]
        version = value["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is no run file: its first line holds no header") from error
    if version != FORMAT:
        raise InputError(
            f"{path} has format {version!r}, this version of KEQA reads {FORMAT}; use the version that wrote it"
        )
    try:
        return RunHeader.model_validate(value)
    except ValidationError as error:
        raise InputError(f"{path}, line 1: the header is damaged: {_told(error)}") from error


def iter_lines(path: Path | str) -> Iterator[RunLine]:
    """Read the lines of a run file one by one.

    A last line without an end was cut off by a kill, and is left out. Where a question was asked again, the later line
    is yielded as well as the earlier one; a finished file holds the later one alone.

    Raises:
        InputError: The file cannot be read, or a line is damaged.
    """
    for _, line in places(path):
        yield line


def places(path: Path | str) -> Iterator[tuple[range, RunLine]]:
    """Read the lines of a run file with their places, as ranges of bytes; see `iter_lines`.

    Raises:
        InputError: The file cannot be read, or a line is damaged.
    """
    path = Path(path)
    try:
        with path.open("rb") as stream:
            start = len(stream.readline())
            for number, line in enumerate(stream, start=2):
                if not line.endswith(b"\n"):
                    return
                try:
                    yield range(start, start + len(line)), RunLine.model_validate_json(line)
                except ValidationError as error:
                    raise InputError(
                        f"{path}, line {number}: the line is damaged ({_told(error)}); delete it, and the run asks "
                        "its question again"
                    ) from error
                start += len(line)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def read_run(path: Path | str) -> Run:
    """Read a run file, finished or not.

    Raises:
        InputError: The file cannot be read or is no run file, or a line is damaged.
    """
    header = read_header(path)
    return Run(header, list({line.id: line for line in iter_lines(path)}.values()))


def _line(value: Any) -> bytes:
    # A language model may reply with half a surrogate pair, which no reader of the file would take.
    return json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _told(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False)
    told = [f"{'.'.join(map(str, problem['loc'])) or 'line'}: {problem['msg']}" for problem in problems]
    return "; ".join(told[:_LONGEST_TOLD])
