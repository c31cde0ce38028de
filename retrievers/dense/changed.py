"""What was changed in a dense index since it was built: rows that are gone, and passages that were added.

The files of the build stay as they are. Beside them lie those of the last change, under names that the manifest says;
each change rewrites them, with what the changes before had in them.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from keqa.errors import KeqaError, RetrievalError
from keqa.retrievers.base import Passage
from keqa.retrievers.dense.models import Vectors
from keqa.retrievers.dense.passages import PassageFile, open_rows, write_passages, write_rows
from keqa.retrievers.dense.vectors import Search
from keqa.retrievers.layout import disk_errors

CHANGE_LENGTH: Final = 12
_VECTORS, _GONE = "-added.npy", "-gone.npy"
# So many vectors more than are wanted are looked at first, as some of them may be gone.
_SPARE = 16


def is_change(name: str) -> bool:
    """Whether a name can be that of a change."""
    return re.fullmatch(f"[0-9a-f]{{{CHANGE_LENGTH}}}", name) is not None


@dataclass(frozen=True)
class Changed:
    """What was changed since an index was built.

    Attributes:
        passages: Those that were added, and are still there.
        vectors: Theirs.
        gone: The rows of the build that are no longer there, in their order.
    """

    passages: PassageFile
    vectors: Vectors
    gone: NDArray[np.int64]

    @classmethod
    def open(cls, data: Path, name: str, rows: int, dimension: int) -> Changed:
        """Open what `write` wrote.

        Args:
            data: The data folder.
            name: Of the change.
            rows: How many the build has.
            dimension: Length of the vectors.

        Raises:
            RetrievalError: It is not there, or not whole.
        """
        try:
            vectors, gone = open_rows(data, name + _VECTORS), open_rows(data, name + _GONE)
        except (OSError, ValueError, KeqaError) as error:
            raise RetrievalError(f"what was changed in {data} cannot be read: {error}") from error
        passages = PassageFile(data, f"{name}-")
        whole = vectors.shape == (len(passages), dimension) and vectors.dtype == np.dtype("<f4")
        if not whole or gone.ndim != 1 or gone.dtype != np.int64 or not _ascends(gone, rows):
            raise RetrievalError(f"what was changed in {data} is not whole: build the index again")
        return cls(passages, np.ascontiguousarray(vectors), np.asarray(gone))

    @staticmethod
    def write(data: Path, passages: Sequence[Passage], vectors: Vectors, gone: Sequence[int]) -> str:
        """Write a change, for good on return, and give its name.

        Raises:
            RetrievalError: It cannot be written.
        """
        name = uuid.uuid4().hex[:CHANGE_LENGTH]
        with disk_errors(data):
            write_passages(data, passages, f"{name}-")
            write_rows(data, name + _VECTORS, vectors.astype("<f4"))
            write_rows(data, name + _GONE, np.array(sorted(gone), np.int64))
        return name

    @staticmethod
    def remove_others(data: Path, name: str) -> None:
        """Remove the files of all changes but one."""
        for file in data.iterdir():
            before, found, _ = file.name.partition("-")
            if found and is_change(before) and before != name:
                file.unlink(missing_ok=True)

    def search(self, search: Search, rows: int) -> Search:
        """A search in the vectors of the build, less those that are gone, and in those that were added.

        Args:
            search: In the vectors of the build.
            rows: How many these are; the first row that was added follows them.
        """

        def both(queries: Vectors, k: int) -> tuple[Vectors, NDArray[np.int64]]:
            scores, found = self._kept(search, rows, queries, k)
            if len(self.passages):
                import faiss

                least = min(k, len(self.passages))
                added, places = faiss.knn(queries, self.vectors, least, metric=faiss.METRIC_INNER_PRODUCT)
                scores = np.concatenate([scores, added], axis=1)
                found = np.concatenate([found, np.where(places < 0, -1, places + rows)], axis=1)
            scores = np.where(found < 0, -np.inf, scores)
            best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
            return np.take_along_axis(scores, best, 1), np.take_along_axis(found, best, 1)

        return both

    def _kept(self, search: Search, rows: int, queries: Vectors, k: int) -> tuple[Vectors, NDArray[Any]]:
        """Scores and rows of the build; -1 for a row that is gone."""
        wanted, fetched = min(k, rows - len(self.gone)), min(rows, k + _SPARE)
        while True:
            scores, found = search(queries, fetched)
            kept = np.where(np.isin(found, self.gone), -1, found)
            # Where the search itself found no more, more cannot be asked for.
            enough = ((kept >= 0).sum(axis=1) >= wanted) | (found[:, -1] < 0)
            if enough.all() or fetched == rows:
                return scores, kept
            fetched = min(rows, 4 * fetched)


def _ascends(rows: NDArray[Any], end: int) -> bool:
    return not len(rows) or (rows[0] >= 0 and rows[-1] < end and bool((np.diff(rows) > 0).all()))
