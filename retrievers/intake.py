"""Passages on their way into an index: cleaned, each with an id of its own, counted and hashed."""

import dataclasses
import itertools
import os
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keqa.errors import ConfigurationError, InputError
from keqa.retrievers.adapters import as_passage, text_expected
from keqa.retrievers.base import Notice, Origin, Passage, cleaned, path_of
from keqa.retrievers.manifest import LeftOut, SourceHash
from keqa.retrievers.text import LANGUAGES, by_frequency, described, language_of, language_of_text
from keqa.storage.redaction import visible_line

HEAD = 1000
"""So many of the first passages are looked at before any is indexed."""

_OFTEN = 10


class PassageIntake:
    """Goes through passages once, and knows afterwards what an index of them says about itself."""

    def __init__(self, passages: Iterable[Any], language: str = "auto", languages: Collection[str] = LANGUAGES) -> None:
        self.count = self.renamed = 0
        self.source_hash = SourceHash()
        self.origin: Origin | None = None
        self.files: dict[str, str] = {}
        self._given, self._passages = passages, _with_origins(passages)
        self._head = list(itertools.islice(self._passages, HEAD))
        self.head = [passage for passage, _ in self._head]
        if not self.head:
            raise InputError("there are no passages to index: the corpus is empty")
        self.language = language_of(language, [passage.text for passage in self.head], languages)
        self._ids = SeenIds()
        self._languages: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Passage]:
        for given, origin in itertools.chain(self._head, self._passages):
            passage, self.origin = cleaned(given), origin
            unique = self._ids.unique(passage.id)
            if unique != passage.id:
                self.renamed += 1
                passage = dataclasses.replace(passage, id=unique)
            self.source_hash.add(passage)
            self.count += 1
            self._languages[language_of_text(passage.text, self.language)] += 1
            if origin is not None:
                self.files[origin.path] = origin.digest
            yield passage

    def rows(self) -> Iterator[tuple[Passage, str]]:
        """The passages, each with the file that it comes from."""
        for passage in self:
            yield passage, self.origin.path if self.origin else ""

    def entries(self, sources: Iterable[str]) -> dict[str, Any]:
        """What a manifest says of the passages, which have all been read."""
        left_out = getattr(self._given, "left_out", None)
        return {
            "passages": self.count,
            "renamed": self.renamed,
            "source_hash": self.source_hash.hexdigest(),
            # Files and folders are found again from any other folder.
            "sources": tuple(path_of(source) if os.path.exists(source) else source for source in sources),
            # Passages of a program need not know what they leave out.
            "left_out": left_out if isinstance(left_out, LeftOut) else LeftOut(),
            "languages": by_frequency(self._languages),
        }

    def report(self, notice: Notice) -> None:
        if self.renamed:
            notice(f"{self.renamed} passages had an id that was taken and got a suffix such as ~2")
        if self._languages.keys() - {"en"}:
            notice(f"languages of the passages: {described(self._languages)}")


def _with_origins(passages: Iterable[Any]) -> Iterator[tuple[Passage, Origin | None]]:
    if isinstance(passages, str | Path | Mapping):
        raise InputError(f"passages are expected, not {passages!r:.80}: keqa.read_corpus reads those of files")
    for number, given in enumerate(passages, start=1):
        try:
            passage = as_passage(given)
        except ConfigurationError:
            raise InputError(f"passage {number}, {given!r:.80}, has no text{text_expected()}") from None
        origin = getattr(passages, "origin", None)
        yield passage, origin if isinstance(origin, Origin) else None


class SeenIds:
    """The ids so far, as 64-bit hashes in a flat table: 21 million of them take 270 MB, a set of text 2 GB."""

    # Two different ids with the same hash (one chance in 80,000 at 21 million) cost one of them a suffix, nothing else.

    def __init__(self) -> None:
        self._size = 0
        self._table = array("Q", bytes(8 * 1024))
        # Of ids that come often, the last suffix: to count up to it each time takes the square of how often.
        self._last: dict[str, int] = {}

    def unique(self, passage_id: str) -> str:
        """Return the id, or the id with the first suffix that makes it new, and remember it."""
        candidate, number = passage_id, self._last.get(passage_id, 1)
        while not _insert(self._table, hash(candidate) & 0xFFFFFFFFFFFFFFFF or 1):
            number += 1
            candidate = f"{passage_id}~{number}"
        if number > _OFTEN:
            self._last[passage_id] = number
        self._size += 1
        if self._size * 3 > len(self._table) * 2:
            larger = array("Q", [0]) * (2 * len(self._table))
            for old in filter(None, self._table):
                _insert(larger, old)
            self._table = larger
        return candidate


def _insert(table: "array[int]", key: int) -> bool:
    """Insert a key into an open-addressing table whose length is a power of two; False if it is there."""
    mask = len(table) - 1
    slot = key & mask
    while table[slot]:
        if table[slot] == key:
            return False
        slot = (slot + 1) & mask
    table[slot] = key
    return True


def refuse_other_sources(place: str, earlier: Sequence[str], sources: Sequence[str]) -> None:
    """Refuse to replace an index by one of other files and folders; what is in them may have changed."""
    if {*map(path_of, earlier)} == {*map(path_of, sources)}:
        return
    more = f" and {len(earlier) - 3} more" if len(earlier) > 3 else ""
    of = ", ".join(visible_line(source)[:200] for source in earlier[:3]) + more
    raise InputError(
        f"{place} holds an index of other sources ({of or 'passages that a program gave'}); it is left alone. Name "
        "another place, or replace it with --force (in Python overwrite=True)"
    )
