"""A journal of finished work, so that a compilation that was killed resumes where it was."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

from keqa.errors import InputError, StorageError
from keqa.storage.appending import append
from keqa.storage.closing import Closing
from keqa.storage.locking import open_locked
from keqa.storage.private import private_folder
from keqa.storage.untrusted import parse_json, reasons

T = TypeVar("T")

_MAGIC = b'{"keqa_journal": 1, '
_LONGEST = 64 << 20
_DEEPEST = 100


class Journal(Closing):
    """Finished pieces of work by key, in a JSONL file that is only ever appended to.

    The first line says what the work depends on, each further line holds one piece. A line is on the disk when `put`
    returns. A last line that was cut off by a kill is dropped on opening; its piece of work was not finished.
    """

    def __init__(self, path: Path, stream: FileIO, entries: dict[str, dict[str, Any]], lines: dict[str, int]) -> None:
        """Use `open` instead."""
        self.path = path
        self._stream, self._entries, self._lines = stream, entries, lines
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: Path | str, fingerprint: Mapping[str, Any]) -> Journal:
        """Open a journal, or begin one."""
        path = Path(path)
        header = _line({"keqa_journal": 1, "fingerprint": dict(fingerprint)})
        try:
            private_folder(path.parent)
            stream = open_locked(path, "another compilation", "choose another folder")
            try:
                stream.seek(0)
                entries, lines = cls._read(path, stream, header)
            except BaseException:
                stream.close()
                raise
        except OSError as error:
            raise InputError(f"{path} cannot be opened as a journal: {error.strerror or error}") from error
        return cls(path, stream, entries, lines)

    @staticmethod
    def _read(path: Path, stream: FileIO, header: bytes) -> tuple[dict[str, dict[str, Any]], dict[str, int]]:
        """Check the header, or write it into a new file, and read what is finished, with the number of each line."""
        data = stream.readall()
        first, found, rest = data.partition(b"\n")
        if not found and (first.startswith(_MAGIC) or _MAGIC.startswith(first)):
            stream.truncate(0)
            append(stream, header, sync=True)
            return {}, {}
        _compare(path, first[:_LONGEST], header)
        entries: dict[str, dict[str, Any]] = {}
        places: dict[str, int] = {}
        end = len(first) + 1
        lines = rest.splitlines(keepends=True)
        for number, line in enumerate(lines, start=2):
            try:
                key, value = _entry(line)
            except ValueError as error:
                if number - 1 == len(lines):
                    break
                raise InputError(_damaged(path, number, error)) from error
            entries[key], places[key] = value, number
            end += len(line)
        stream.truncate(end)
        return entries, places

    def get(self, key: str) -> dict[str, Any] | None:
        """Return a finished piece of work, or None."""
        with self._lock:
            return self._entries.get(key)

    def get_as(self, key: str, read: Callable[[Any], T]) -> T | None:
        """Return a finished piece of work as what it must be: the file may come from elsewhere."""
        value = self.get(key)
        try:
            return None if value is None else read(value)
        except ValueError as error:
            if key not in self._lines:
                # This process put it there itself.
                raise
            raise StorageError(_damaged(self.path, self._lines[key], error)) from error

    def put(self, key: str, value: Mapping[str, Any]) -> None:
        """Keep a finished piece of work; it is on the disk on return. Safe to call from many threads."""
        line = _line({"key": key, "value": dict(value)})
        with self._lock:
            try:
                append(self._stream, line, sync=True)
            except OSError as error:
                raise StorageError(f"{self.path} cannot be written: {error.strerror or error}") from error
            # As it would be read from the file: nothing that the caller changes later gets in.
            self._entries[key] = json.loads(line)["value"]

    def __len__(self) -> int:
        with self._lock:
            return len(self._entries)

    def __contains__(self, key: object) -> bool:
        with self._lock:
            return key in self._entries

    def close(self) -> None:
        """Close the file, so that it can be opened again."""
        self._stream.close()


def _damaged(path: Path, number: int, error: ValueError) -> str:
    return (
        f"{path}, line {number}: the journal is damaged ({reasons(error)}); delete this line, and the work that it "
        "held is done again"
    )


def _line(value: Mapping[str, Any]) -> bytes:
    # Escaped to ASCII, so that no character in it can pass for a line break and any text can be written.
    return json.dumps(value, allow_nan=False).encode("ascii") + b"\n"


def _entry(line: bytes) -> tuple[str, dict[str, Any]]:
    """Key and value of a line."""
    if len(line) > _LONGEST:
        raise ValueError(f"it has more than {_LONGEST:,} bytes")
    entry = _object(line)
    if not line.endswith(b"\n"):
        raise ValueError("it was cut off")
    key, value = entry.get("key"), entry.get("value")
    if entry.keys() != {"key", "value"} or not isinstance(key, str) or not isinstance(value, dict):
        raise ValueError("a key and a value are expected")
    return key, value


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = parse_json(line, "it", max_depth=_DEEPEST, error=InputError)
    except InputError as error:
        raise ValueError(str(error)) from error
    if not isinstance(value, dict):
        raise ValueError("an object is expected")
    return value


def _compare(path: Path, first: bytes, header: bytes) -> None:
    """Refuse a file that is no journal, or one of other work."""
    try:
        then = _object(first)
        if type(then.get("keqa_journal")) is not int or not isinstance(then.get("fingerprint"), dict):
            raise ValueError("its first line is no header")
        before = then["fingerprint"]
    except ValueError as error:
        raise InputError(f"{path} is no journal of a compilation; choose another folder") from error
    now = json.loads(header)
    if then["keqa_journal"] != now["keqa_journal"]:
        raise InputError(
            f"{path} was written by another version of KEQA; choose another folder, or delete it to start over"
        )
    current = now["fingerprint"]
    changed = [name for name in {**before, **current} if before.get(name) != current.get(name)]
    if changed or before.keys() != current.keys():
        named = sorted({*changed, *(before.keys() ^ current.keys())})
        differences = "; ".join(f"{name} was {_short(before, name)}, now {_short(current, name)}" for name in named)
        raise InputError(
            f"{path} was begun with other settings ({differences}). Use those, choose another folder, or delete the "
            "file to start over"
        )


def _short(fingerprint: Mapping[str, Any], name: str) -> str:
    if name not in fingerprint:
        return "absent"
    text = json.dumps(fingerprint[name], ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
