"""Which files the passages of an index come from: of each a digest, by which a change is found, and its passages' ids.

The table lies beside the engine's files, in SQLite. It changes together with the index although the two are written
one after the other: a change is announced in the table with the hash that the manifest will have, then the engine and
the manifest are written, then the table settles. Whoever finds an announcement takes it for true where the manifest has
that hash, and for nothing where it has another.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from keqa.errors import KeqaError, RetrievalError
from keqa.storage.closing import Closing
from keqa.storage.locking import refuse_special
from keqa.storage.private import private_file
from keqa.storage.untrusted import open_regular, parse_json

FILES: Final = "files.sqlite"
"""Name of the table in a data folder."""

# So many ids are kept together, compressed: those of 21 million records would otherwise take a gigabyte.
_PART = 10_000
_LARGEST = 64 << 20
_LARGEST_PART = 256 << 20
_COLUMNS: Final = {
    "files": ["path", "digest", "passages"],
    "ids": ["path", "part", "ids"],
    "announced": ["state", "changes"],
}
_SCHEMA: Final = (
    "CREATE TABLE files (path TEXT PRIMARY KEY, digest TEXT NOT NULL, passages INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE ids (path TEXT NOT NULL, part INTEGER NOT NULL, ids BLOB NOT NULL, PRIMARY KEY (path, part))",
    "CREATE TABLE announced (state TEXT NOT NULL, changes BLOB NOT NULL)",
)


@dataclass(frozen=True, slots=True)
class Origin:
    """The file that a passage comes from.

    Attributes:
        path: Its absolute path.
        digest: SHA-256 of its bytes, as they were before it was read.
    """

    path: str
    digest: str

    @classmethod
    def of(cls, path: Path) -> Origin:
        """Take note of a file that is about to be read; the digest of one that cannot be is empty."""
        digest = ""
        with suppress(OSError, KeqaError), open_regular(path, links=True, error=RetrievalError) as stream:
            digest = hashlib.file_digest(cast(io.BufferedReader, stream), "sha256").hexdigest()
        return cls(path_of(path), digest)


def path_of(path: Path | str) -> str:
    """The absolute path of a file as tables and manifests can hold it: a name may have bytes that are no text."""
    return os.fsencode(os.path.abspath(path)).decode(errors="backslashreplace")


def each_path(named: Path | str | Iterable[Path | str]) -> list[Path | str]:
    """What a caller names: several files and folders, or a single one, whose characters are no names.

    Args:
        named: One path, or several.
    """
    return [named] if isinstance(named, Path | str) else list(named)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of an index.

    Attributes:
        digest: See `Origin`.
        passages: How many passages of the index come from it.
    """

    digest: str
    passages: int


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file as it is after a change.

    Attributes:
        digest: See `Origin`.
        ids: Of its passages, in their order.
    """

    digest: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileLess:
    """A file of which some passages are taken out of an index.

    Attributes:
        ids: Of these passages.
    """

    ids: tuple[str, ...]


Changes = Mapping[str, FileChange | FileLess | None]
"""By path, the files that are new or changed; None for one that is gone."""


class FileTable(Closing):
    """The files of an index, in its data folder."""

    def __init__(self, file: sqlite3.Connection, path: Path) -> None:
        """Use `begin` or `open`."""
        self._file, self._path = file, path
        self._origin: Origin | None = None
        self._ids: list[str] = []
        self._part = self._count = 0

    @classmethod
    def begin(cls, data: Path) -> FileTable:
        """Begin the table of an index that is built.

        Raises:
            RetrievalError: It cannot be written.
        """
        path = data / FILES
        with _errors(path):
            path.unlink(missing_ok=True)
            private_file(path)
            # What a kill leaves of a build is thrown away, so nothing is kept to undo it by.
            file = sqlite3.connect(path, isolation_level=None)
            file.execute("PRAGMA journal_mode = OFF")
            file.execute("PRAGMA synchronous = OFF")
            for statement in _SCHEMA:
                file.execute(statement)
            file.execute("BEGIN")
        return cls(file, path)

    @classmethod
    def open(cls, data: Path) -> FileTable | None:
        """Open the table of a finished index; None where the index has none, as before there were any.

        Raises:
            RetrievalError: It is damaged, or something else.
        """
        path = data / FILES
        if not os.path.lexists(path):
            return None
        with _errors(path):
            refuse_special(path)
            file = sqlite3.connect(path, isolation_level=None, timeout=30.0)
            try:
                _check(file)
            except BaseException:
                file.close()
                raise
        return cls(file, path)

    def add(self, origin: Origin, passage_id: str) -> None:
        """Take note of the next passage; those of a file come one after the other."""
        if origin != self._origin:
            self._flush()
            self._origin, self._part, self._count = origin, 0, 0
        self._ids.append(passage_id)
        if len(self._ids) == _PART:
            self._flush(ended=False)

    def _flush(self, *, ended: bool = True) -> None:
        origin = self._origin
        if origin is None:
            return
        with _errors(self._path):
            if self._ids:
                self._file.execute(
                    "INSERT OR REPLACE INTO ids VALUES (?, ?, ?)", (origin.path, self._part, _packed(self._ids))
                )
            self._part, self._count = self._part + 1, self._count + len(self._ids)
            self._ids = []
            if ended:
                row = (origin.path, origin.digest, self._count)
                self._file.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", row)

    def finish(self) -> None:
        """End the table of an index that was built: it is on the disk on return.

        Raises:
            RetrievalError: It cannot be written.
        """
        self._flush()
        with _errors(self._path):
            self._file.execute("COMMIT")
            self._file.close()
            with self._path.open("rb") as stream:
                os.fsync(stream.fileno())

    def copy(self, data: Path) -> None:
        """Copy the table, which must have settled, into another data folder: it is on the disk there on return.

        Raises:
            RetrievalError: It cannot be written.
        """
        with _errors(data / FILES):
            private_file(data / FILES)
            copied = sqlite3.connect(data / FILES)
            try:
                self._file.backup(copied)
            finally:
                copied.close()

    def entries(self, state: str) -> dict[str, FileEntry]:
        """The files by their paths, in the order of these.

        Args:
            state: The hash in the manifest, by which an announced change counts or does not.

        Raises:
            RetrievalError: The table is damaged.
        """
        with _errors(self._path):
            rows = self._file.execute("SELECT path, digest, passages FROM files ORDER BY path").fetchall()
        found = {str(path): FileEntry(str(digest), int(passages)) for path, digest, passages in rows}
        for path, change in self._announced(state).items():
            before = found.pop(path, None)
            if isinstance(change, FileChange):
                found[path] = FileEntry(change.digest, len(change.ids))
            elif change is not None and before is not None:
                found[path] = FileEntry(before.digest, before.passages - len(change.ids))
        return dict(sorted(found.items()))

    def ids(self, path: str) -> list[str]:
        """The ids of the passages of a file, in their order; the table must have settled.

        Raises:
            RetrievalError: The table is damaged.
        """
        with _errors(self._path):
            parts = self._file.execute("SELECT ids FROM ids WHERE path = ? ORDER BY part", (path,)).fetchall()
        return [one for (part,) in parts for one in self._unpacked(part)]

    def holders(self, ids: Iterable[str]) -> dict[str, list[str]]:
        """The files that some passages come from, each with the ids of these; the table must have settled.

        Raises:
            RetrievalError: The table is damaged.
        """
        wanted = set(ids)
        found: dict[str, list[str]] = {}
        with _errors(self._path):
            for path, part in self._file.execute("SELECT path, ids FROM ids"):
                if held := wanted.intersection(self._unpacked(part)):
                    found.setdefault(str(path), []).extend(sorted(held))
        return found

    def announce(self, state: str, changes: Changes) -> None:
        """Write down a change before the index is changed.

        Args:
            state: The hash that the manifest will have.
            changes: What it does to the files.

        Raises:
            RetrievalError: It cannot be written.
        """
        described = {path: _described(one) for path, one in changes.items()}
        with _errors(self._path):
            self._file.execute("BEGIN IMMEDIATE")
            self._file.execute("DELETE FROM announced")
            self._file.execute("INSERT INTO announced VALUES (?, ?)", (state, _packed(described)))
            self._file.execute("COMMIT")

    def settle(self, state: str) -> None:
        """Carry out what was announced, or forget it, by the hash that the manifest has.

        Raises:
            RetrievalError: The table cannot be written.
        """
        changes = self._announced(state)
        with _errors(self._path):
            if not changes and self._file.execute("SELECT 1 FROM announced").fetchone() is None:
                return
            self._file.execute("BEGIN IMMEDIATE")
            for path, change in changes.items():
                if isinstance(change, FileLess):
                    self._take_out(path, set(change.ids))
                else:
                    self._replace(path, change)
            self._file.execute("DELETE FROM announced")
            self._file.execute("COMMIT")

    def _replace(self, path: str, change: FileChange | None) -> None:
        self._file.execute("DELETE FROM files WHERE path = ?", (path,))
        self._file.execute("DELETE FROM ids WHERE path = ?", (path,))
        if change is None:
            return
        self._file.execute("INSERT INTO files VALUES (?, ?, ?)", (path, change.digest, len(change.ids)))
        for part, start in enumerate(range(0, len(change.ids), _PART)):
            row = (path, part, _packed(change.ids[start : start + _PART]))
            self._file.execute("INSERT INTO ids VALUES (?, ?, ?)", row)

    def _take_out(self, path: str, gone: set[str]) -> None:
        parts = self._file.execute("SELECT part, ids FROM ids WHERE path = ?", (path,)).fetchall()
        taken = 0
        for part, packed in parts:
            ids = self._unpacked(packed)
            left = [one for one in ids if one not in gone]
            taken += len(ids) - len(left)
            if len(left) < len(ids):
                where = (_packed(left), path, part)
                self._file.execute("UPDATE ids SET ids = ? WHERE path = ? AND part = ?", where)
        self._file.execute("UPDATE files SET passages = passages - ? WHERE path = ?", (taken, path))

    def _announced(self, state: str) -> dict[str, FileChange | FileLess | None]:
        with _errors(self._path):
            row = self._file.execute("SELECT changes FROM announced WHERE state = ?", (state,)).fetchone()
        if row is None:
            return {}
        described = _parsed(row[0], self._path)
        if not isinstance(described, dict):
            raise _damaged(self._path, "what was announced is no object")
        return {path: self._change(one) for path, one in described.items()}

    def _change(self, described: Any) -> FileChange | FileLess | None:
        if described is None:
            return None
        if not isinstance(described, list) or len(described) != 2 or not isinstance(described[0], str | None):
            raise _damaged(self._path, "what was announced is no list of digest and ids")
        digest, ids = described[0], tuple(self._texts(described[1]))
        return FileLess(ids) if digest is None else FileChange(digest, ids)

    def _unpacked(self, part: Any) -> list[str]:
        return self._texts(_parsed(part, self._path))

    def _texts(self, found: Any) -> list[str]:
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise _damaged(self._path, "ids that are no texts")
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _described(change: FileChange | FileLess | None) -> list[Any] | None:
    if change is None:
        return None
    return [change.digest if isinstance(change, FileChange) else None, list(change.ids)]


def _packed(value: Mapping[str, Any] | Sequence[str]) -> bytes:
    return zlib.compress(json.dumps(value).encode(), 1)


def _parsed(packed: Any, path: Path) -> Any:
    if not isinstance(packed, bytes):
        raise _damaged(path, "ids that are not packed")
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(packed, _LARGEST_PART)
    except zlib.error as error:
        raise _damaged(path, error) from error
    if not unpacking.eof:
        raise _damaged(path, "ids that are cut off, or more than there can be")
    return parse_json(text, str(path), error=RetrievalError)


def _check(file: sqlite3.Connection) -> None:
    """Refuse a file of something else before anything of it is used; it may come from anyone as the index may."""
    file.execute("PRAGMA trusted_schema = OFF")
    file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
    found = file.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'").fetchall()
    if {kind for kind, _ in found} != {"table"} or {name for _, name in found} != set(_COLUMNS):
        raise sqlite3.DatabaseError("it is a database of something else")
    for table, columns in _COLUMNS.items():
        if [column[1] for column in file.execute(f"PRAGMA table_xinfo({table})")] != columns:
            raise sqlite3.DatabaseError(f"its table {table} is that of something else")


def _damaged(path: Path, why: object) -> RetrievalError:
    return RetrievalError(f"the table of files {path} cannot be used: {why}. Build the index again")


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except KeqaError as error:
        if isinstance(error, RetrievalError):
            raise
        raise _damaged(path, error) from error
    except (sqlite3.Error, OSError, ValueError) as error:
        raise _damaged(path, error) from error
