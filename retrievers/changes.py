"""What is done to an index at once, and what an engine offers so that it can be done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from keqa.retrievers.base import Passage
from keqa.retrievers.files import Changes, FileEntry
from keqa.retrievers.left_out import LeftOut


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
    """

    new: Sequence[Passage] = ()
    gone: Sequence[str] = ()
    kept: Sequence[Passage] = ()
    files: Changes = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    left_out: LeftOut = field(default_factory=LeftOut)


class Changer(Protocol):
    """An index that is open to be changed, by this process alone."""

    @property
    def manifest(self) -> Any:
        """What the index says about itself."""
        ...

    def files(self) -> Mapping[str, FileEntry] | None:
        """The files that its passages come from, by their paths; None where it does not know them."""
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
