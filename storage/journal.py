"""A journal of finished work, so that a compilation that was killed resumes where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from keqa.errors import InputError, StorageError
from keqa.storage.sqlite_store import SqliteStore
from keqa.storage.untrusted import reasons

T = TypeVar("T")

_FINGERPRINT = "\0fingerprint"


class Journal(SqliteStore):
    """Finished pieces of work by key, for one process at a time; what was put is on the disk when `put` returns."""

    path: Path

    @classmethod
    def open(cls, path: Path | str, fingerprint: Mapping[str, Any]) -> Self:
        """Open a journal, or begin one, of work that depends on what the fingerprint says."""
        journal = cls(Path(path), "journal", "a journal of a compilation", exclusive=True)
        try:
            now = json.loads(json.dumps(dict(fingerprint)))
            before = journal.get(_FINGERPRINT)
            if before is None and not len(journal):
                journal.put(_FINGERPRINT, now)
            elif before is None:
                raise InputError(f"{path} is no journal of a compilation; choose another folder")
            elif before != now:
                changed = sorted(name for name in {**before, **now} if _short(before, name) != _short(now, name))
                was = "; ".join(f"{name} was {_short(before, name)}, now {_short(now, name)}" for name in changed)
                raise InputError(
                    f"{path} was begun with other settings ({was}). Use those, choose another folder, or delete the "
                    "file to start over"
                )
        except BaseException:
            journal.close()
            raise
        return journal

    def get(self, key: str) -> dict[str, Any] | None:
        """A finished piece of work, or None."""
        found = super().get(key)
        return found if isinstance(found, dict) else None

    def get_as(self, key: str, read: Callable[[Any], T]) -> T | None:
        """A finished piece of work as what it must be, for the file may come from elsewhere; None where there is none.

        Raises:
            StorageError: It is something else, as `read` says by a ValueError.
        """
        value = self.get(key)
        try:
            return None if value is None else read(value)
        except ValueError as error:
            told = f"{self.path}: the journal is damaged at {key[:100]!a} ({reasons(error)})"
            raise StorageError(f"{told}; delete the file to start over") from error

    def put(self, key: str, value: Mapping[str, Any]) -> None:
        """Keep a finished piece of work, a JSON object; it is on the disk on return."""
        json.dumps(value, allow_nan=False)
        super().put(key, dict(value))

    def __iter__(self) -> Iterator[str]:
        found = self._execute("read", "SELECT json_group_array(key) FROM journal WHERE key != ?", (_FINGERPRINT,))
        return iter(json.loads(found[0]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, key: object) -> bool:
        return self.get(str(key)) is not None


def _short(fingerprint: Mapping[str, Any], name: str) -> str:
    if name not in fingerprint:
        return "absent"
    text = json.dumps(fingerprint[name], ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
