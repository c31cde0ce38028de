"""Reading run files, finished or not; see `keqa.evaluation.records`.

A run file may come from a stranger, in a folder with others. What its tables are made of is checked here: types and
ranges, sizes, the kind of the file, that it lies in its folder, and that its parts fit each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, count
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel, ValidationError

from keqa.errors import InputError
from keqa.evaluation.gold_quizzes import with_golds
from keqa.evaluation.records import GOLDS_SINCE, READABLE, Run, RunHeader, RunLine
from keqa.programs.records import QuizRecord
from keqa.storage.untrusted import MissingFileError, open_regular, parse_json, reasons

LONGEST_LINE = 64 << 20
"""The most bytes of a line."""


def read_header(path: Path | str) -> RunHeader:
    """Read the first line of a run file.

    Raises:
        InputError: There is no such file, it is no run file, or another version wrote it.
    """
    path = Path(path)
    with _opened(path) as stream:
        first = _line(path, stream, 1)
    try:
        value = parse_json(first, "it", error=InputError)
        written = value["header"]
        version = written["format"]
        if value.keys() != {"header"}:
            raise ValueError
    except (InputError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is no run file: its first line holds no header") from error
    if version not in READABLE:
        raise InputError(
            f"{path} has format {version!r}, this version of KEQA reads {', '.join(map(str, READABLE))}; use the "
            "version that wrote it"
        )
    try:
        header = RunHeader.model_validate(written, strict=True)
    except ValidationError as error:
        raise InputError(f"{path}, line 1: the header is damaged: {reasons(error)}") from error
    if len(set(header.ids)) < len(header.ids):
        raise InputError(f"{path}, line 1: the header is damaged: ids: one of them is there twice")
    return header


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
    asked_again: dict[str, bool] = {}
    with _opened(path) as stream:
        start = len(_line(path, stream, 1))
        for number in count(2):
            data = _line(path, stream, number)
            if not data.endswith(b"\n"):
                return
            try:
                line = RunLine.model_validate_json(data, strict=True)
                problem = next(_problems(line), None)
                # A question is asked again where it failed or something failed on its way, and not otherwise.
                if not asked_again.get(line.id, True):
                    problem = f"id: the question {line.id!r} is there twice"
            except ValidationError as error:
                problem = reasons(error)
            if problem is not None:
                raise InputError(
                    f"{path}, line {number}: the line is damaged ({problem}); delete it, and the run asks its question "
                    "again"
                )
            asked_again[line.id] = line.failed or line.record is None or bool(line.record.degradations)
            yield range(start, start + len(data)), line
            start += len(data)


def read_run(path: Path | str) -> Run:
    """Read a run file, finished or not.

    Raises:
        InputError: The file cannot be read or is no run file, or a line is damaged.
    """
    header = read_header(path)
    return Run(header, list({line.id: line for line in lines_with_golds(path, header)}.values()))


def lines_with_golds(path: Path | str, header: RunHeader) -> Iterator[RunLine]:
    """The same as `iter_lines`, with the gold answers of quizzes in lines of earlier versions as well.

    Args:
        path: The file.
        header: Its header.

    Raises:
        InputError: The file cannot be read, or a line is damaged.
    """
    if header.format >= GOLDS_SINCE:
        return iter_lines(path)
    return (with_golds(line, header.dataset) for line in iter_lines(path))


def _opened(path: Path) -> BinaryIO:
    try:
        if path.is_symlink() and not path.resolve().is_relative_to(path.parent.resolve()):
            raise InputError(f"{path} is a link to a file outside its folder: name that file itself")
        return open_regular(path, links=True, error=InputError)
    except MissingFileError as error:
        raise InputError(f"{path} cannot be read: it is missing") from error
    except (OSError, RuntimeError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _line(path: Path, stream: BinaryIO, number: int) -> bytes:
    try:
        line = stream.readline(LONGEST_LINE + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(line) > LONGEST_LINE:
        raise InputError(f"{path}, line {number}: it has more than {LONGEST_LINE:,} bytes, which no run writes")
    return line


def _problems(line: RunLine) -> Iterator[str]:
    """What no run writes into a line, though each value by itself could be there."""
    if (line.answer is None) != line.failed:
        yield "answer: either an answer or an error is expected"
    if line.record is None:
        return
    cost = line.record.cost
    spent: Iterable[BaseModel] = (cost, *cost.by_role.values(), *cost.by_step.values())
    for name, value in chain.from_iterable(part.__dict__.items() for part in spent):
        if isinstance(value, int | float) and value < 0:
            yield f"record.cost: {name} is below 0"
    for quiz in (*line.record.quizzes, line.record.fallback):
        yield from () if quiz is None else (f"quiz {quiz.index}: {problem}" for problem in _problems_of_quiz(quiz))


def _problems_of_quiz(quiz: QuizRecord) -> Iterator[str]:
    if quiz.tries < 0:
        yield "tries is below 0"
    if quiz.consistency is not None and not 0 <= quiz.consistency <= 1:
        yield "consistency is a share, from 0 to 1"
    samples, clusters = range(len(quiz.samples)), range(len(quiz.clusters))
    if not all(sample.cluster is None or sample.cluster in clusters for sample in quiz.samples):
        yield "a sample is in a cluster that is not there"
    for cluster in quiz.clusters:
        if cluster.size < 1 or not all(member in samples for member in cluster.members):
            yield "a cluster has members that are not there"
