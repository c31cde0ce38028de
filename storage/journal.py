"""JSON by key in an SQLite file, which any number of threads and processes share; a kill loses nothing.

A journal of finished work, so that a compilation that was killed resumes where it was.
"""

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

from keqa.errors import InputError, StorageError
from keqa.storage.files import Closing, private_file, private_folder, refuse_special
from keqa.storage.untrusted import parse_json, reasons

_WAIT = 30.0
_LARGEST = 64 << 20
_DEEPEST = 100
_PAUSE = 0.05


class SqliteStore(Closing):
    """JSON values by key; without a path they last as long as the process."""

    def __init__(
        self,
        path: Path | str | None,
        table: str,
        what: str,
        sound: Callable[[str, Any], bool] = lambda key, value: True,
        *,
        exclusive: bool = False,
    ) -> None:
        """Open a file, or begin one.

        A value that is not `sound` for its key is passed over: the file may come from elsewhere. An `exclusive` file is
        this process's alone until it is closed, and each value is on the disk when it has been put.
        """
        self.path = None if path is None else Path(path)
        self._table, self._sound, self._lock = table, sound, threading.Lock()
        try:
            if self.path is not None:
                private_folder(self.path.parent)
                refuse_special(self.path, links=False)
                # SQLite gives the files beside it (-wal, -shm) the mode of this one.
                private_file(self.path)
            wait = 0.0 if exclusive else _WAIT
            where = self.path or ":memory:"
            self._file = sqlite3.connect(where, isolation_level=None, check_same_thread=False, timeout=wait)
            with ExitStack() as stack:
                stack.callback(self._file.close)
                if exclusive:
                    self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._check()
                self._set_up(wait, "FULL" if exclusive else "NORMAL")
                stack.pop_all()
        except (sqlite3.Error, OSError) as error:
            if exclusive and getattr(error, "sqlite_errorcode", 0) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                advice = f"{path} is in use by another compilation; wait for its end, or choose another folder"
                raise InputError(advice) from error
            raise InputError(f"{path} cannot be used as {what}: {error}; name another, or delete it") from error

    def get(self, key: str) -> Any:
        """The value of a key, or None; a damaged one is none."""
        row = self._execute("read", f"SELECT value FROM {self._table} WHERE key = ?", (key,))
        try:
            value = None if row is None else parse_json(row[0], str(self.path), max_depth=_DEEPEST, error=InputError)
        except (InputError, AttributeError, TypeError):
            # Neither text nor bytes, or not JSON.
            return None
        return value if value is not None and self._sound(key, value) else None

    def put(self, key: str, value: Any) -> None:
        self._execute("written", f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?)", (key, json.dumps(value)))

    def drop(self, key: str) -> None:
        """Forget a value, if there is one."""
        self._execute("written", f"DELETE FROM {self._table} WHERE key = ?", (key,))

    def _execute(self, what: str, statement: str, values: tuple[str, ...]) -> Any:
        with self._lock:
            try:
                return self._file.execute(statement, values).fetchone()
            except sqlite3.Error as error:
                # A full disk or a lock that stays is met by every question, and must not be taken for a failed call.
                raise StorageError(f"{self.path} cannot be {what}: {error}") from error

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def _check(self) -> None:
        """Refuse a file of something else before anything in it is changed."""
        file, table = self._file, self._table
        # What a stranger's file defines (views, triggers, generated columns) must not run anything.
        file.execute("PRAGMA trusted_schema = OFF")
        file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
        there = file.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
        found = there.fetchall()
        if found and (table not in {name for _, name in found} or {kind for kind, _ in found} != {"table"}):
            raise sqlite3.DatabaseError("it is a database of something else")
        columns = [column[1] for column in file.execute(f"PRAGMA table_xinfo({table})").fetchall()]
        if columns not in ([], ["key", "value"]):
            raise sqlite3.DatabaseError(f"its table {table} is that of something else")

    def _set_up(self, wait: float, synchronous: str) -> None:
        file, table, end = self._file, self._table, time.monotonic() + wait
        while True:
            # Of several processes that begin one file, SQLite lets one change its mode and lets no others wait.
            try:
                file.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(_PAUSE)
        file.execute(f"PRAGMA synchronous = {synchronous}")
        file.execute(f"CREATE TABLE IF NOT EXISTS {table} (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
        file.execute(f"SELECT key, value FROM {table} LIMIT 1").fetchone()


T = TypeVar("T")
_FINGERPRINT = "\0fingerprint"


class Journal(SqliteStore):
    """Finished pieces of work by key, for one process at a time; what was put is on the disk when `put` returns."""

    path: Path

    @classmethod
    def open(cls, path: Path | str, fingerprint: Mapping[str, Any]) -> Self:
        """Open a journal, or begin one, of work that depends on what the fingerprint says."""
        journal = cls(Path(path), "journal", "a journal of a compilation", exclusive=True)
        with ExitStack() as stack:
            stack.callback(journal.close)
            now = json.loads(json.dumps(dict(fingerprint)))
            before = journal.get(_FINGERPRINT)
            if before is None and any(journal):
                raise InputError(f"{path} is no journal of a compilation; choose another folder")
            if before is None:
                journal.put(_FINGERPRINT, now)
            elif before != now:
                instead = "Use those, choose another folder, or delete the file to start over"
                changed = "; ".join(changes(before, now))
                raise InputError(f"{path} was begun with other settings ({changed}). {instead}")
            stack.pop_all()
        return journal

    def get(self, key: str) -> dict[str, Any] | None:
        found = super().get(key)
        return found if isinstance(found, dict) else None

    def get_as(self, key: str, read: Callable[[Any], T]) -> T | None:
        """A finished piece of work as `read` makes it, by a ValueError says what it is no such; None without any."""
        value = self.get(key)
        try:
            return None if value is None else read(value)
        except ValueError as error:
            advice = f"{self.path}: the journal is damaged at {key[:100]!a} ({reasons(error)})"
            raise StorageError(f"{advice}; delete the file to start over") from error

    def put(self, key: str, value: Mapping[str, Any]) -> None:
        """Keep a finished piece of work, a JSON object; it is on the disk on return."""
        json.dumps(value, allow_nan=False)
        super().put(key, dict(value))

    def __iter__(self) -> Iterator[str]:
        found = self._execute("read", "SELECT json_group_array(key) FROM journal WHERE key != ?", (_FINGERPRINT,))
        return iter(json.loads(found[0]))


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Where two objects of JSON differ, such as ``settings.top_k was 10, now 5``."""
    there, here = dict(_leaves(before)), dict(_leaves(now))
    # Of JSON nothing is a tuple. What is empty on one side is said by what it holds on the other.
    changed = [name for name in {**there, **here} if there.get(name, ()) != here.get(name, ())]
    changed = [name for name in changed if not any(other.startswith(f"{name}.") for other in changed)]
    return ["{} was {}, now {}".format(name, *_differing(name, there, here)) for name in changed]


def _leaves(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if inner and isinstance(inner, Mapping):
            yield from _leaves(inner, f"{before}{name}.")
        else:
            yield f"{before}{name}", inner


def _differing(name: str, *sides: Mapping[str, Any]) -> list[str]:
    """What two objects have under a name; of what is long, the part where they begin to differ."""
    texts = [json.dumps(one[name], ensure_ascii=False) if name in one else "absent" for one in sides]
    same = next((place for place, (one, other) in enumerate(zip(*texts, strict=False)) if one != other), 0)
    begin = max(0, same - 40) if max(map(len, texts)) > 80 else 0
    shown = ["..." * (begin > 0) + text[begin:] for text in texts]
    return [text if len(text) <= 80 else text[:77] + "..." for text in shown]
