"""A run file while it is written: begun, resumed after a kill, and put into order at the end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from keqa.errors import InputError
from keqa.evaluation.configuration import differences
from keqa.evaluation.reading import LONGEST_LINE, iter_lines, places, read_header
from keqa.evaluation.records import RunHeader, RunLine, header_line, run_line
from keqa.storage.appending import append
from keqa.storage.closing import Closing
from keqa.storage.folders import sync_folder
from keqa.storage.locking import open_locked
from keqa.storage.private import new_file, private_folder

_MAGIC = b'{"header": '


class RunFile(Closing):
    """Keeps each question's line as soon as it is there; of what it holds, only the place of each line is in memory.

    Attributes:
        path: The file.
        header: What is run.
    """

    def __init__(self, path: Path, header: RunHeader, stream: FileIO) -> None:
        """Use `open` instead."""
        self.path, self.header = path, header
        self._stream = stream
        self._places: dict[str, range] = {}
        self._open_again: set[str] = set()
        self._failed: set[str] = set()
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        path: Path,
        header: RunHeader,
        asked: Mapping[str, int],
        *,
        retry_failed: bool = False,
        found: Callable[[RunLine], None] = lambda line: None,
    ) -> RunFile:
        """Begin a file, or resume one.

        Args:
            path: The file; its folder is made where it is missing.
            header: What is run; the file must have been begun under the same fingerprint.
            asked: By id, `RunLine.content` of every question, so that one that has changed since is not passed over.
            retry_failed: Whether failed questions count as not asked, and impaired ones (`RunLine.impairments`) too.
            found: Called with each line that stands.

        Raises:
            InputError: The file is no run file, is that of another run, is damaged, in use or cannot be written.
        """
        with _writing(path):
            private_folder(path.parent)
            file = cls(path, header, _held(path))
            try:
                file._read(asked, retry_failed, found)
            except BaseException:
                file.close()
                raise
        return file

    def _read(self, asked: Mapping[str, int], retry_failed: bool, found: Callable[[RunLine], None]) -> None:
        with self.path.open("rb") as stream:
            first = stream.readline(LONGEST_LINE)
        if not first.endswith(b"\n"):
            if not (first.startswith(_MAGIC) or _MAGIC.startswith(first)):
                raise InputError(f"{self.path} is no run file; name another folder or label")
            self._stream.truncate(0)
            append(self._stream, header_line(self.header))
            return
        before = read_header(self.path)
        self._compare(before)
        amiss: dict[str, range] = {}
        end = len(first)
        for place, line in places(self.path):
            self._check(line, asked)
            self._places[line.id] = place
            end = place.stop
            self._failed.discard(line.id)
            # Such a question may have been asked again, and then the later line stands.
            if line.failed or line.impairments:
                amiss[line.id] = place
                self._failed |= {line.id} if line.failed else set()
            else:
                amiss.pop(line.id, None)
                found(line)
        self._stream.truncate(end)
        if retry_failed:
            self._open_again = set(amiss)
        else:
            for line in self._lines_at(amiss.values()):
                found(line)
        now = self.header
        if (before.ids, before.learned_from, before.learned_unknown) != (
            now.ids,
            now.learned_from,
            now.learned_unknown,
        ):
            self._rewrite()

    def _check(self, line: RunLine, asked: Mapping[str, int]) -> None:
        if line.id not in asked:
            raise InputError(
                f"{self.path} holds questions that are not asked now, such as {line.id!r}: it is that of another "
                "sample. Name another folder or label, or ask the same questions and more"
            )
        if line.content != asked[line.id]:
            raise InputError(
                f"{self.path}: the question {line.id!r}, its choices or its answers have changed since it was asked; "
                "name another folder or label"
            )

    def _lines_at(self, places: Iterable[range]) -> Iterator[RunLine]:
        with self.path.open("rb") as stream:
            for place in places:
                stream.seek(place.start)
                yield RunLine.model_validate_json(stream.read(len(place)))

    def _compare(self, before: RunHeader) -> None:
        if before.format != self.header.format:
            raise InputError(
                f"{self.path} was written by an earlier version of KEQA, whose files hold less of what answers depend "
                "on, or of quizzes. It can be read and compared, and is resumed by that version only: name another "
                "folder or label"
            )
        if before.fingerprint == self.header.fingerprint:
            return
        changed = "; ".join(differences(before, self.header)) or "it was written by another version of KEQA"
        raise InputError(
            f"{self.path} was begun with another configuration ({changed}). Resume that one, name another folder or "
            "label, or delete the file to start over"
        )

    def __contains__(self, name: str) -> bool:
        """Whether a question needs not to be asked any more."""
        return name in self._places and name not in self._open_again

    def again(self, name: str) -> bool:
        """Whether a question has failed before and is asked again.

        One that was impaired has not: what it was answered by is sound, and no cache keeps what failed, so that only
        that is asked again.
        """
        return name in self._open_again and name in self._failed

    def add(self, line: RunLine) -> None:
        """Keep a question's line; a kill does not take it any more. Safe to call from many threads.

        Raises:
            InputError: The file cannot be written. What was kept before stays.
        """
        data = run_line(line)
        with self._lock:
            with _writing(self.path):
                start = append(self._stream, data)
            self._places[line.id] = range(start, start + len(data))
            self._open_again.discard(line.id)

    def finish(self) -> None:
        """Put the lines into the order of the ids, once all questions were asked.

        Raises:
            InputError: The file cannot be written. The lines stay as they are.
        """
        if len(self._places) < len(self.header.ids):
            return
        end = len(header_line(self.header))
        for name in self.header.ids:
            if self._places[name].start != end:
                break
            end = self._places[name].stop
        else:
            # Nothing to move, and no line of an earlier attempt to drop.
            if end == self._stream.seek(0, os.SEEK_END):
                os.fsync(self._stream.fileno())
                return
        with _writing(self.path):
            self._rewrite()

    def _rewrite(self) -> None:
        """Replace the file by one with this header and the standing lines in order, whole or not at all."""
        temporary = self.path.with_name(f".{self.path.name}.new")
        moved: dict[str, range] = {}
        with self.path.open("rb") as old, new_file(temporary) as new:
            new.write(header_line(self.header))
            for name in self.header.ids:
                if name in self._places:
                    place = self._places[name]
                    old.seek(place.start)
                    start = new.tell()
                    moved[name] = range(start, start + new.write(old.read(len(place))))
            new.flush()
            os.fsync(new.fileno())
        self._stream.close()
        temporary.replace(self.path)
        sync_folder(self.path.parent)
        self._stream, self._places = _held(self.path), moved

    def close(self) -> None:
        """Close the file, so that it can be opened again."""
        self._stream.close()


def empty(path: Path) -> None:
    """Take everything out of a run file, so that it begins again.

    Raises:
        InputError: It is in use, or cannot be written.
    """
    with _writing(path), _held(path) as stream:
        stream.truncate(0)


def forget_unasked(path: Path) -> None:
    """Remove a run file that holds no question, so that nobody takes it for a run.

    Raises:
        InputError: It is in use, or cannot be written.
    """
    if not path.exists():
        return
    with _writing(path), _held(path):
        if next(iter_lines(path), None) is None:
            path.unlink()


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error


def _held(path: Path) -> FileIO:
    return open_locked(path, "another run", "name another label")
