"""A cache of calls that the rows of a comparison share, so that none pays for what another has asked.

Cached are calls whose answer is settled: those at temperature 0, and draws, which carry an identity (DSPy's
``rollout_id``) under which each of N samples is a call of its own. Any other call is made anew each time, so that two
samples never become equal by being one. Answers are kept as JSON in an SQLite file; a kill loses none.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import dspy

from keqa.errors import InputError, StorageError
from keqa.runs.anew import is_asked_anew, standing_in
from keqa.runs.calls import as_dspy_reads, as_kept, key_of, settled

__all__ = ["CallCache", "Draws"]


class CallCache:
    """Answers of language models by what was asked. Safe to use from many threads.

    It stands in for `dspy.cache` while it is `installed`, and keeps draws that gates share as
    `keqa.programs.draws.DrawStore`.

    Attributes:
        path: The file; None where no call is kept, so that each is made, and shared draws last as long as the process.
        hits: Calls answered from it.
        misses: Calls that it could have answered, had they been made before.
    """

    def __init__(self, path: Path | str | None) -> None:
        """Open a cache, or begin one.

        Args:
            path: See above; its folder is made where it is missing.

        Raises:
            InputError: The file is something else, or cannot be used.
        """
        self.path = None if path is None else Path(path)
        self.hits = self.misses = 0
        self._lock = threading.Lock()
        self._file = _opened(":memory:" if self.path is None else self.path)

    @contextmanager
    def installed(self) -> Iterator[CallCache]:
        """Within this context it is DSPy's cache, for all threads of the process."""
        with standing_in(self):
            yield self

    # DSPy's side. A hit tells of no usage, so that it is counted as a call answered by a cache; its tokens are told to
    # the meter of the call, as they are what the answer takes.

    def get(self, request: dict[str, Any], ignored_args_for_cache_key: Sequence[str] = ()) -> Any:
        """The answer to a request as DSPy reads it, or None.

        Raises:
            StorageError: The file cannot be read.
        """
        if self.path is None or is_asked_anew() or not settled(request):
            return None
        kept = self._read(key_of(request, ignored_args_for_cache_key))
        if kept is None:
            self.misses += 1
            return None
        self.hits += 1
        replayed = getattr(dspy.settings.usage_tracker, "add_replayed", None)
        if replayed is not None:
            replayed(kept["usage"])
        return as_dspy_reads(kept)

    def put(
        self,
        request: dict[str, Any],
        value: Any,
        ignored_args_for_cache_key: Sequence[str] = (),
        enable_memory_cache: bool = True,
    ) -> None:
        """Keep the answer to a request.

        Raises:
            StorageError: The file cannot be written. What was kept before stays.
        """
        if self.path is not None and settled(request):
            kept = as_kept(value)
            if kept is not None:
                self._write(key_of(request, ignored_args_for_cache_key), kept)

    def draws(self) -> Draws:
        """The same file as a place where gates keep the draws that they share."""
        return Draws(self)

    def _read(self, key: str) -> Any:
        row = self._execute("read", "SELECT value FROM calls WHERE key = ?", (key,))
        return None if row is None else json.loads(row[0])

    def _write(self, key: str, value: Any) -> None:
        self._execute("written", "INSERT OR REPLACE INTO calls VALUES (?, ?)", (key, json.dumps(value)))

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

    def __enter__(self) -> CallCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Draws:
    """Draws that gates share, in a cache's file: a `keqa.programs.draws.DrawStore`."""

    def __init__(self, cache: CallCache) -> None:
        self._cache = cache

    def get(self, key: str) -> dict[str, Any] | None:
        """What was put under a key."""
        value: dict[str, Any] | None = self._cache._read(key)
        return value

    def put(self, key: str, value: dict[str, Any]) -> None:
        """Keep a JSON value under a key."""
        self._cache._write(key, value)


def _opened(path: Path | str) -> sqlite3.Connection:
    try:
        if isinstance(path, Path):
            path.parent.mkdir(parents=True, exist_ok=True)
        file = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30.0)
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA synchronous = NORMAL")
        file.execute("CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
        file.execute("SELECT key, value FROM calls LIMIT 1").fetchone()
    except (sqlite3.Error, OSError) as error:
        raise InputError(f"{path} cannot be used as a cache of calls: {error}; name another, or delete it") from error
    return file
