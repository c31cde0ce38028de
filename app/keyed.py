"""JSON by key in an SQLite file, which any number of threads and processes share; a kill loses nothing."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from keqa.errors import InputError, StorageError

__all__ = ["KeyedFile"]

_WAIT = 30.0
_PAUSE = 0.05


class KeyedFile:
    """JSON values by key.

    Attributes:
        path: The file; None where values last as long as the process.
    """

    def __init__(self, path: Path | str | None, table: str, what: str) -> None:
        """Open a file, or begin one.

        Args:
            path: See above; its folder is made where it is missing.
            table: Name of the table, so that a file of something else is told from this one.
            what: What the file is, as a message tells it.

        Raises:
            InputError: The file is something else, or cannot be used.
        """
        self.path = None if path is None else Path(path)
        self._table = table
        self._lock = threading.Lock()
        try:
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(
                self.path or ":memory:", isolation_level=None, check_same_thread=False, timeout=_WAIT
            )
            _set_up(self._file, table)
        except (sqlite3.Error, OSError) as error:
            raise InputError(f"{path} cannot be used as {what}: {error}; name another, or delete it") from error

    def get(self, key: str) -> Any:
        """The value of a key, or None.

        Raises:
            StorageError: The file cannot be read.
        """
        row = self._execute("read", f"SELECT value FROM {self._table} WHERE key = ?", (key,))
        return None if row is None else json.loads(row[0])

    def put(self, key: str, value: Any) -> None:
        """Keep a value, in the place of an earlier one.

        Raises:
            StorageError: The file cannot be written. What was kept before stays.
        """
        self._execute("written", f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?)", (key, json.dumps(value)))

    def drop(self, key: str) -> None:
        """Forget a value, if there is one.

        Raises:
            StorageError: The file cannot be written.
        """
        self._execute("written", f"DELETE FROM {self._table} WHERE key = ?", (key,))

    def _execute(self, what: str, statement: str, values: tuple[str, ...]) -> Any:
        with self._lock:
            try:
                return self._file.execute(statement, values).fetchone()
            except sqlite3.Error as error:
                # A full disk or a lock that stays is met by every question, and must not be taken for a failed call.
                raise StorageError(f"{self.path} cannot be {what}: {error}") from error

    def close(self) -> None:
        """Close the file, so that it can be opened again."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> KeyedFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _set_up(file: sqlite3.Connection, table: str) -> None:
    end = time.monotonic() + _WAIT
    while True:
        try:
            file.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            # Of several processes that begin one file, SQLite lets one change its mode and does not let others wait.
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(_PAUSE)
    file.execute("PRAGMA synchronous = NORMAL")
    file.execute(f"CREATE TABLE IF NOT EXISTS {table} (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
    file.execute(f"SELECT key, value FROM {table} LIMIT 1").fetchone()
