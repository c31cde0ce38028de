"""What is done to an index at once, and what an engine offers so that it can be done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from keqa.retrievers.base import Passage
from keqa.retrievers.files import Changes, FileEntry, FileTable
from keqa.retrievers.languages import by_frequency, language_of_text
from keqa.retrievers.left_out import LeftOut
from keqa.retrievers.manifest import IndexManifest, SourceHash

_M = TypeVar("_M", bound=IndexManifest)


@dataclass(frozen=True, slots=True)
class Change:
    """What is done to an index at once.

    Attributes:
        new: Passages that are added; one of an id that is there takes its place.
        gone: The ids of passages that are removed.
        kept: Passages of changed files that stay as they are.
        files: What becomes of the files.
        sources: What the index is made of afterwards.
        left_out: What of that is not in it.
        removed: What is taken out, as it was named, where nothing else is done.
    """

    new: Sequence[Passage] = ()
    gone: Sequence[str] = ()
    kept: Sequence[Passage] = ()
    files: Changes = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    left_out: LeftOut = field(default_factory=LeftOut)
    removed: tuple[str, ...] = ()


class Changer(Protocol):
    """An index that is open to be changed, by this process alone."""

    @property
    def manifest(self) -> Any:
        """What the index says about itself."""
        ...

    def files(self, tops: Sequence[str] | None = None) -> Mapping[str, FileEntry] | None:
        """The files that its passages come from, by their paths; None where it does not know them.

        Args:
            tops: Files and folders: no others, and what is in no such folder, need be among them; by default all are.
        """
        ...

    def ids_of(self, path: str) -> list[str]:
        """The ids of the passages of a file, in their order."""
        ...

    def holders(self, ids: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """The files that some passages come from, each with the ids of these."""
        ...

    def held(self, ids: Sequence[str]) -> set[str]:
        """Which ids are those of passages in the index."""
        ...

    def stored(self, ids: Sequence[str]) -> dict[str, Passage]:
        """The passages of some ids; what is not there is left out."""
        ...

    def pieces(self, document: str) -> list[str]:
        """The ids of the passages of a document, ``document#n``."""
        ...

    def apply(self, change: Change) -> Any:
        """Make a change, all of it or nothing, and return the new manifest."""
        ...


class FolderChanger(Changer):
    """What the engines have in common whose indexes are folders: the table of files, beside the engine's own."""

    def __init__(self, table: FileTable | None) -> None:
        """Take the table of the index, where it has one."""
        self._table = table

    def settle(self) -> None:
        """Carry out in the table what a change announced, or a killed process left; or forget it."""
        if self._table is not None:
            self._table.settle(self.manifest.source_hash)

    def announce(self, change: Change, source_hash: str, data: Path) -> None:
        """Write a change into the table before the index is changed.

        Args:
            change: The change.
            source_hash: What the manifest will have.
            data: The data folder, where the table is begun in an index that a program made of passages of its own.
        """
        if self._table is None and change.files:
            FileTable.begin(data).finish()
            self._table = FileTable.open(data)
        if self._table is not None:
            self._table.announce(source_hash, change.files)

    def files(self, tops: Sequence[str] | None = None) -> dict[str, FileEntry] | None:
        """All files that its passages come from, whichever are asked for; None where it does not know them."""
        return None if self._table is None else self._table.entries(self.manifest.source_hash)

    def ids_of(self, path: str) -> list[str]:
        """The ids of the passages of a file."""
        return [] if self._table is None else self._table.ids(path)

    def holders(self, ids: Iterable[str]) -> dict[str, list[str]]:
        """The files that some passages come from, each with the ids of these."""
        return {} if self._table is None else self._table.holders(ids)

    def close(self) -> None:
        """Close the table."""
        if self._table is not None:
            self._table.close()


def manifest_after(
    before: _M, change: Change, replaced: Collection[str], leaving: Iterable[Passage], /, **entries: Any
) -> _M:
    """The manifest of an index after a change, the same in every engine.

    Args:
        before: The manifest until then.
        change: The change.
        replaced: The ids of passages that others take the place of.
        leaving: The passages that go, those that are replaced among them.
        **entries: What the engine itself says.
    """
    source_hash = before.source_hash
    if change.new or change.gone:
        running = SourceHash(source_hash)
        for passage_id in (*change.gone, *sorted(replaced)):
            running.delete(passage_id)
        for passage in change.new:
            running.add(passage)
        source_hash = running.hexdigest()
    languages: Counter[str] = Counter(before.languages)
    if languages:
        # An index of an earlier version knows none.
        languages.update(language_of_text(one.text, before.main_language) for one in change.new)
        languages.subtract(language_of_text(one.text, before.main_language) for one in leaving)
    return replace(
        before,
        languages=by_frequency(languages),
        passages=before.passages + len(change.new) - len(replaced) - len(change.gone),
        source_hash=source_hash,
        sources=change.sources,
        left_out=change.left_out,
        removed=change.removed,
        **entries,
    )
