"""What is done to an index at once, and what an engine offers so that it can be done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from keqa.retrievers.base import Passage
from keqa.retrievers.files import Changes, FileEntry
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
        """The files that its passages come from, by their paths; None where it does not know them."""
        ...

    def ids_of(self, path: str) -> list[str]:
        """The ids of the passages of a file, in their order."""
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


def manifest_after(
    before: _M, change: Change, replaced: Collection[str], leaving: Iterable[Passage], /, **entries: Any
) -> _M:
    """The manifest of an index after a change, the same in every engine."""
    source_hash = before.source_hash
    if change.new or change.gone:
        running = SourceHash(source_hash)
        for passage_id in (*change.gone, *sorted(replaced)):
            running.delete(passage_id)
        for passage in change.new:
            running.add(passage)
        source_hash = running.hexdigest()
    languages: Counter[str] = Counter(before.languages)
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
