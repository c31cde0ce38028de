"""Several retrievers as one: reciprocal rank fusion.

Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods",
SIGIR 2009: a passage scores the sum over retrievers of 1 / (k + its rank).
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keqa.errors import InputError
from keqa.retrievers.base import Hit, Passage, Retriever, SharedRetriever, checked_k
from keqa.retrievers.documents import scope_of

CONSTANT = 2
"""k: how little the first ranks stand out. The paper's 60 is for many runs, a thousand deep.

With two retrievers and five passages wanted, 60 puts what both know faintly before what one of them is sure of, and
finds up to three points of recall@5 less than the better of the two. Of 0, 1, 2, 3, 5, 10, 20 and 60, this one is the
best on every second question of four corpora, and better than 60 on the others of each.
"""

DEPTH = 100
"""So many passages of each retriever are ranked together, at least."""

# The passages that are ranked, many times those that are returned, are kept for so many queries at a time.
_SLICE = 100


@dataclass(frozen=True, slots=True)
class HybridManifest:
    """What the fused indexes say about themselves."""

    name: str
    passages: int
    source_hash: str
    constant: int
    depth: int
    parts: tuple[Any, ...]


class HybridRetriever(SharedRetriever):
    """Passages by their ranks in the lists of several retrievers. Safe to use from many threads where those are."""

    def __init__(self, retrievers: Sequence[Retriever], *, constant: int = CONSTANT, depth: int = DEPTH) -> None:
        if len(retrievers) < 2:
            raise InputError("a hybrid needs two retrievers or more")
        if constant < 0 or depth < 1:
            raise InputError(
                f"the constant of a fusion is at least 0 and its depth at least 1, not {constant}, {depth}"
            )
        self.retrievers = tuple(retrievers)
        self.own_documents = any(getattr(retriever, "own_documents", True) for retriever in retrievers)
        self.settings = {"constant": constant, "depth": depth}

    @property
    def manifest(self) -> HybridManifest | None:
        """What the parts say about themselves; None where one of them says nothing."""
        parts: tuple[Any, ...] = tuple(getattr(retriever, "manifest", None) for retriever in self.retrievers)
        if any(part is None for part in parts):
            return None
        hashes = [part.source_hash for part in parts]
        together = hashlib.sha256("+".join(hashes).encode()).hexdigest()
        return HybridManifest(
            name=" + ".join(part.name for part in parts),
            passages=max(part.passages for part in parts),
            source_hash=hashes[0] if len(set(hashes)) == 1 else together,
            **self.settings,
            parts=parts,
        )

    def scope_of_documents(self) -> str:
        """What the searches of the parts depend on besides the query; see `keqa.retrievers.documents.scope_of`."""
        return "\0".join(filter(None, map(scope_of, self.retrievers)))

    def search_many(self, queries: Sequence[str], k: int = 10) -> list[list[Hit]]:
        """Return one list of hits per query, with the fused scores; each retriever gets many queries at once."""
        depth = max(checked_k(k), self.settings["depth"])
        found: list[list[Hit]] = []
        for start in range(0, len(queries), _SLICE):
            some = queries[start : start + _SLICE]
            parts = [retriever.search_many(some, depth) for retriever in self.retrievers]
            found += [fused(lists, self.settings["constant"])[:k] for lists in zip(*parts, strict=True)]
        return found


def fused(lists: Sequence[Sequence[Hit]], constant: int = CONSTANT) -> list[Hit]:
    """Fuse ranked lists into one.

    A passage is the same in two lists where its id, title and text are. Of passages that score the same, the one that
    is higher in the first list comes first, then in the second, and so on.
    """
    ranks: dict[Passage, dict[int, int]] = {}
    for number, hits in enumerate(lists):
        for rank, hit in enumerate(hits, start=1):
            ranks.setdefault(hit.passage, {}).setdefault(number, rank)

    def order(hit: Hit) -> tuple[float, ...]:
        own = ranks[hit.passage]
        return (-hit.score, *(own.get(number, math.inf) for number in range(len(lists))))

    # fsum is exact, so that the order of the lists makes no difference to a score.
    scored = (Hit(one, math.fsum(1 / (constant + rank) for rank in own.values())) for one, own in ranks.items())
    return sorted(scored, key=order)
