"""A cache of retrievals that runs share, so that a query is searched for once in an index."""

import dataclasses
import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from keqa.errors import ConfigurationError
from keqa.retrievers.base import Hit, Passage, Retriever, SharedRetriever, checked_k, unpacked
from keqa.retrievers.documents import scope_of
from keqa.storage.files import Closing
from keqa.storage.journal import SqliteStore

_FORMAT = "keqa-retrievals-2"


class KeptHits(list[Hit]):
    """Hits that a cache gave, and no search; otherwise a list as any other."""

    def __init__(self, hits: Iterable[Hit], seconds: float) -> None:
        super().__init__(hits)
        self.seconds = seconds


class CachingRetriever(SharedRetriever, Closing):
    """Finds what another retriever found before, in an index of the same manifest, and lets it search for the rest."""

    passes_on = True
    """What it finds is what the retriever behind it finds."""

    def __init__(self, retriever: Retriever, path: Path | str) -> None:
        self.retriever = retriever
        self.own_documents = getattr(retriever, "own_documents", True)
        self._known: tuple[Any, str] = (None, "")
        self._manifest_digest()
        self._file = SqliteStore(path, "retrievals", "a cache of retrievals", _is_sound)

    @property
    def manifest(self) -> Any:
        return getattr(self.retriever, "manifest", None)

    def search_many(self, queries: Sequence[str], k: int = 10) -> list[list[Hit]]:
        """Return one list of hits per query; those that are not kept are searched for together, each once."""
        wanted = checked_k(k)
        before = self._manifest_digest() + scope_of(self.retriever)
        found: dict[str, list[Hit]] = {}
        for query in dict.fromkeys(queries):
            if (kept := self._file.get(_key(before, query, wanted))) is not None:
                found[query] = KeptHits(map(_hit, kept["hits"]), kept["seconds"])
        if missing := [query for query in dict.fromkeys(queries) if query not in found]:
            started = time.perf_counter()
            made = dict(zip(missing, self.retriever.search_many(missing, wanted), strict=True))
            seconds = (time.perf_counter() - started) / len(missing)
            found |= made
            # An engine may turn to a new state of its index while it searches: which one was searched is unknown then.
            if self._manifest_digest() + scope_of(self.retriever) == before:
                for query, hits in made.items():
                    kept = {"hits": list(map(_row, hits)), "seconds": seconds}
                    self._file.put(_key(before, query, wanted), kept)
        return [found[query] for query in queries]

    def _manifest_digest(self) -> str:
        manifest = self.manifest
        known, digest = self._known
        if manifest is None or not dataclasses.is_dataclass(manifest):
            raise ConfigurationError(
                f"a {type(self.retriever).__name__} has no manifest that says what it searches, so nothing can be "
                "kept: give it one, a dataclass with passages and source_hash, or ask with --no-cache"
            )
        if manifest != known:
            # The vectors of an index and its words have one manifest.
            parts = getattr(self.retriever, "retrievers", (self.retriever,))
            kept = [_FORMAT, *(type(one).__name__ for one in parts), dataclasses.asdict(manifest)]  # type: ignore[arg-type]
            digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
            self._known = (manifest, digest)
        return digest

    def close(self) -> None:
        self._file.close()


def _key(index: str, query: str, k: int) -> str:
    return hashlib.sha256(json.dumps([index, query, k]).encode()).hexdigest()


def _row(hit: Hit) -> list[Any]:
    passage = hit.passage
    return [passage.id, passage.title, passage.text, hit.score, passage.place.packed()]


def _hit(row: list[Any]) -> Hit:
    own, title, text, score, place = row
    return Hit(Passage(own, title, text, unpacked(place)), score)


def _is_sound(key: str, kept: Any) -> bool:
    if not isinstance(kept, dict) or kept.keys() != {"hits", "seconds"} or not isinstance(kept["hits"], list):
        return False
    for row in kept["hits"]:
        if not isinstance(row, list) or len(row) != 5 or type(row[3]) not in (int, float):
            return False
        if not all(isinstance(text, str) for text in (*row[:3], row[4])):
            return False
    return type(kept["seconds"]) in (int, float) and kept["seconds"] >= 0
