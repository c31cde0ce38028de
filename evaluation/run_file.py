"""Run files on the disk, which are only appended to: read, begun, and resumed after a kill."""

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from keqa.errors import InputError
from keqa.evaluation.records import FORMAT, Content, Run, RunHeader, RunLine, differences, header_line, run_line
from keqa.storage.files import Closing, append, open_locked, private_folder
from keqa.storage.untrusted import open_regular, reasons

_MAGIC = b'{"header": '
_NAMED = 8
_HEADER = re.compile(rb'\{"header": ?\{')
_ID = re.compile(rb'\{"id": ?("(?:[^"\\]|\\.)*")')


def run_files(
    places: Iterable[Path | str],
    *,
    key: Callable[[Path], Any] = lambda file: file,
    passed_over: Callable[[Path], None] = lambda file: None,
) -> list[Path]:
    """The run files that are named, by themselves or by their folder, each once; those of a folder in an order."""
    found: list[Path] = []
    for place in map(Path, places):
        inside = [place]
        if place.is_dir():
            inside = sorted(place.glob("*.jsonl"), key=key)
            # Such as the questions, where run files were written beside them.
            for other in [file for file in inside if not _begins_as_run(file)]:
                inside.remove(other)
                passed_over(other)
        if not (inside and place.exists()):
            why = "is not there" if inside else "holds no run file: keqa evaluate and keqa compare write them, to --out"
            raise InputError(f"{place} {why}")
        found += inside
    return list(dict.fromkeys(found))


def _begins_as_run(path: Path) -> bool:
    """Whether a file is a run file as far as its first letters say."""
    try:
        with open_regular(path, links=True, error=InputError) as stream:
            return stream.read(len(_MAGIC) - 1) == _MAGIC[:-1]
    except (OSError, InputError):
        return False


def read_header(path: Path | str) -> RunHeader:
    return _scan(Path(path))[0]


def read_run(path: Path | str) -> Run[RunLine]:
    """Read a run file, finished or not."""
    return Run(read_header(path), list(iter_lines(path)))


def iter_lines(path: Path | str) -> Iterator[RunLine]:
    """Read the questions of a run file one by one, in the order of the header; of two lines of one the later stands."""
    return (line for _, line in placed_lines(path))


def placed_lines(path: Path | str) -> Iterator[tuple[range, RunLine]]:
    """The same with their places, as ranges of bytes."""
    path = Path(path)
    places = _scan(path)[1]
    with _naming(path, "read"), path.open("rb") as stream:
        for number, place in places.values():
            stream.seek(place.start)
            try:
                yield place, RunLine.model_validate_json(stream.read(len(place)))
            except ValidationError as error:
                raise _damaged(path, number, reasons(error)) from error


def _scan(path: Path) -> tuple[RunHeader, dict[str, tuple[int, range]], int]:
    """The header, by id the number and place of each question's line in the header's order, and the end of the last."""
    header, places, end = None, {}, 0
    with _naming(path, "read"), path.open("rb") as stream:
        for number, data in enumerate(stream, start=1):
            if header is not None and not data.endswith(b"\n"):
                break
            if header is None or _HEADER.match(data):
                header = _header(path, number, data)
            elif found := _ID.match(data):
                places[json.loads(found[1])] = number, range(end, end + len(data))
            else:
                raise _damaged(path, number, "it does not begin with its id")
            end += len(data)
    if header is None:
        raise InputError(f"{path} is no run file: its first line holds no header")
    order = {name: place for place, name in enumerate(header.ids)}
    return header, dict(sorted(places.items(), key=lambda one: order.get(one[0], len(order)))), end


def _header(path: Path, number: int, data: bytes) -> RunHeader:
    try:
        written = json.loads(data)["header"]
        version = written["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path} is no run file: its first line holds no header") from error
    if version != FORMAT:
        raise InputError(f"{path} has format {version!r}, and this version of KEQA reads {FORMAT}: run it again")
    try:
        return RunHeader.model_validate(written)
    except ValidationError as error:
        raise InputError(f"{path}, line {number}: the header is damaged: {reasons(error)}") from error


def _damaged(path: Path, number: int, reason: str) -> InputError:
    return InputError(
        f"{path}, line {number}: the line is damaged ({reason}); delete it, and the run asks its question again"
    )


@contextmanager
def _naming(path: Path, what: str) -> Iterator[None]:
    """Says of a file that it cannot be read, or written."""
    try:
        yield
    except OSError as error:
        reason = "it is missing" if isinstance(error, FileNotFoundError) else error.strerror or error
        raise InputError(f"{path} cannot be {what}: {reason}") from error


def _held(path: Path) -> FileIO:
    return open_locked(path, "another run", "name another label")


class RunFile(Closing):
    """A run file while it is written: keeps each question's line as soon as it is there. Use `open`."""

    def __init__(self, path: Path, header: RunHeader, stream: FileIO) -> None:
        self.path, self.header = path, header
        self._stream = stream
        self._done: set[str] = set()
        self._failed: set[str] = set()
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        path: Path,
        header: RunHeader,
        asked: Mapping[str, Content],
        *,
        retry_failed: bool = False,
        found: Callable[[RunLine], None] = lambda line: None,
    ) -> "RunFile":
        """Begin a file, or resume one."""
        with _naming(path, "written"):
            private_folder(path.parent)
            with ExitStack() as failed:
                file = cls(path, header, _held(path))
                failed.callback(file.close)
                file._resume(asked, retry_failed, found)
                failed.pop_all()
        return file

    def _resume(self, asked: Mapping[str, Content], retry_failed: bool, found: Callable[[RunLine], None]) -> None:
        now = self.header
        with self.path.open("rb") as stream:
            first = stream.readline()
        if not first.endswith(b"\n"):
            if not (first.startswith(_MAGIC) or _MAGIC.startswith(first)):
                raise InputError(f"{self.path} is no run file; name another folder or label")
            self._stream.truncate(0)
            append(self._stream, header_line(now))
            return
        before, _, end = _scan(self.path)
        if before.fingerprint != now.fingerprint:
            changes = differences(before, now) or ["it was written by another version of KEQA"]
            further = [f"{len(changes) - _NAMED} more"] * (len(changes) > _NAMED)
            changed = "; ".join([*changes[:_NAMED], *further])
            raise InputError(
                f"{self.path} was begun with another configuration ({changed}). Resume that one, name another folder "
                "or label, or delete the file to start over"
            )
        for line in iter_lines(self.path):
            if line.id not in asked:
                raise InputError(
                    f"{self.path} holds questions that are not asked now, such as {line.id!r}: it is that of another "
                    "sample. Name another folder or label, or ask the same questions and more"
                )
            if line.content != asked[line.id]:
                raise InputError(
                    f"{self.path}: the question {line.id!r}, its choices or its answers have changed since it was "
                    "asked; name another folder or label"
                )
            if not (retry_failed and line.touched):
                self._done.add(line.id)
                found(line)
            elif line.failed:
                self._failed.add(line.id)
        self._stream.truncate(end)
        if any(getattr(before, name) != getattr(now, name) for name in ("ids", "learned_from", "learned_unknown")):
            append(self._stream, header_line(now))

    def __contains__(self, name: str) -> bool:
        return name in self._done

    def again(self, name: str) -> bool:
        """Whether a question has failed before and is asked again; the calls of one that was impaired are sound."""
        return name in self._failed and name not in self._done

    def add(self, line: RunLine) -> None:
        """Keep a question's line; a kill does not take it any more. Safe to call from many threads."""
        with self._lock, _naming(self.path, "written"):
            append(self._stream, run_line(line))
            self._done.add(line.id)

    def close(self) -> None:
        self._stream.close()


def forget_unasked(path: Path) -> None:
    """Remove a run file that holds no question, so that nobody takes it for a run."""
    if path.exists():
        with _naming(path, "written"), _held(path):
            if next(iter_lines(path), None) is None:
                path.unlink()
