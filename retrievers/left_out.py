"""What of the sources is not in an index, and why: counted, and named as far as a manifest has room for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from keqa.retrievers.files import path_of
from keqa.storage.terminal import visible_line

NAMED = 100
"""So many files that should have been read are named; the others are only counted."""

RECORD_SUFFIXES: Final = (".json", ".jsonl", ".ndjson", ".tsv")
"""Kinds of files that hold records, which are read where they are named and passed over in folders."""

_LONGEST_NAME = 300
# A folder may hold files of more kinds than anyone reads about.
_KINDS = 20
_OTHER_KINDS = "of further kinds"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What of the sources is not in an index.

    Attributes:
        passed_over: Files that nobody expects in an index, by kind, such as ``.png``, ``hidden`` or ``empty``.
        unread: What should have been read and was not, by reason, such as ``damaged``.
        names: What was unread, with the reason of each; the first hundred.
    """

    passed_over: Mapping[str, int] = field(default_factory=dict, hash=False)
    unread: Mapping[str, int] = field(default_factory=dict, hash=False)
    names: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.passed_over or self.unread)

    @property
    def unexpected(self) -> int:
        """How many files and folders should have been read and were not."""
        return sum(self.unread.values())

    def lines(self, named: int = NAMED, examples: Mapping[str, str] | None = None) -> list[str]:
        """What to say of it, one statement a line."""

        def counted(kinds: Mapping[str, int]) -> str:
            known = examples or {}
            named_kinds = {kind: f"{kind} ({known[kind]})" if kind in known else kind for kind in kinds}
            return ", ".join(f"{count} {named_kinds[kind]}" for kind, count in kinds.items())

        lines = []
        records = {kind: count for kind, count in self.passed_over.items() if kind in RECORD_SUFFIXES}
        others = {kind: count for kind, count in self.passed_over.items() if kind not in RECORD_SUFFIXES}
        if others:
            lines.append(f"passed over, as such files are not read: {counted(others)}")
        if records:
            lines.append(
                f"passed over in folders, as files of records are named one by one to be read: {counted(records)}"
            )
        if self.unread:
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.unread.items())
            lines.append(f"left out, although it should have been read: {reasons}")
        lines += [f"left out: {name}" for name in self.names[:named]]
        if (more := self.unexpected - len(self.names[:named])) > 0 and self.names:
            lines.append(f"left out: {more} more")
        return lines


class LeftOutCounter:
    """Counts what is left out while sources are read."""

    def __init__(self, named: Collection[str] = ()) -> None:
        """Start counting; files of the absolute paths that are named are read, and not passed over in a folder."""
        self._named = named
        self._passed_over: Counter[str] = Counter()
        self._unread: Counter[str] = Counter()
        self._names: list[str] = []
        self.examples: dict[str, str] = {}

    def pass_over(self, kind: str, path: Path | None = None) -> None:
        """Take note of a file that nobody expects in an index."""
        if path is not None and path_of(path) in self._named:
            return
        kind = visible_line(kind)[:_LONGEST_NAME]
        known = kind in self._passed_over or len(self._passed_over) < _KINDS
        kind = kind if known else _OTHER_KINDS
        self._passed_over[kind] += 1
        if path is not None and kind not in self.examples:
            self.examples[kind] = _short(visible_line(str(path)))

    def unread(self, path: Path, reason: str, why: str) -> None:
        """Take note of what should have been read."""
        self._unread[reason] += 1
        if len(self._names) < NAMED:
            name = visible_line(why if str(path) in why else f"{path}: {why}")
            self._names.append(_short(name))

    def result(self) -> LeftOut:
        """What was left out so far, what is most frequent first."""
        return LeftOut(dict(self._passed_over.most_common()), dict(self._unread.most_common()), tuple(self._names))


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
