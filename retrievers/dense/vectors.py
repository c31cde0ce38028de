"""The vectors of a dense index: written shard by shard, then searched by FAISS where they lie on the disk."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from keqa.errors import KeqaError, RetrievalError
from keqa.retrievers.dense.faiss_file import check_file
from keqa.retrievers.dense.models import Vectors
from keqa.retrievers.dense.passages import open_rows
from keqa.retrievers.layout import cannot_be_written, disk_errors, write_atomically
from keqa.storage.untrusted import MissingFileError, read_json

FLAT, IVF = "flat", "ivf-sq8"

Search = Callable[[Vectors, int], tuple[Vectors, NDArray[np.int64]]]
"""From one row a question to the scores and rows of the k best vectors; row -1 where there are no more."""

_LARGEST_NOTE = 4096
_VECTORS, _ENCODED, _FAISS = "vectors.npy", "encoded.json", "index.faiss"
# FAISS warns below 39 training vectors a list; more than this many no longer move the centroids.
_SAMPLE = 64
_BLOCK = 65_536


@dataclass(frozen=True, slots=True)
class VectorSettings:
    """How the vectors of an index are searched; kept in the manifest.

    Attributes:
        kind: ``"flat"`` compares a question with every vector; ``"ivf-sq8"`` with those of the lists that are closest
            to it, each number of a vector in 8 bits.
        lists: How many lists there are.
        nprobe: How many of them are searched.
    """

    kind: str
    lists: int = 0
    nprobe: int = 0

    def problems(self, rows: int) -> Iterator[str]:
        """What is wrong with settings that were read from the manifest of so many vectors."""
        if self.kind not in (FLAT, IVF):
            yield f"vectors.kind must be {FLAT} or {IVF}, found {self.kind!r}"
        elif self.kind == IVF and not 1 <= self.nprobe <= self.lists <= max(rows, 1):
            yield f"vectors.lists and nprobe must be from 1 to {rows}, found {self.lists} and {self.nprobe}"


def settings_for(count: int, flat_limit: int) -> VectorSettings:
    """What suits so many vectors: about √n lists, an eighth of them searched (1024 and 128 at a million).

    Of the ten passages nearest to a question, of 20,000 real ones in 128 lists, an eighth of the lists held .91, a
    sixteenth .80 (`benchmarks/scale.py --part encoding`). Made vectors, which fall into clusters, flatter a sixteenth.
    """
    if count <= flat_limit:
        return VectorSettings(FLAT)
    lists = 2 ** round(math.log2(math.sqrt(count)))
    return VectorSettings(IVF, lists, max(lists // 8, min(lists, 8)))


class VectorFile:
    """The vectors of an index while it is built: a NumPy file of known size, and a note of how many rows are there.

    A kill loses the rows after the last note, which are then written again.

    Attributes:
        done: How many rows are there for good.
    """

    def __init__(self, data: Path, rows: int, dimension: int) -> None:
        """Begin, or resume where it was left."""
        self._data, self._shape = data, (rows, dimension)
        self.done = 0
        try:
            note = read_json(data, _ENCODED, _LARGEST_NOTE, error=RetrievalError)
            self.done = min(int(note["rows"]), rows)
        except (RetrievalError, MissingFileError, ValueError, KeyError, TypeError):
            with disk_errors(data / _VECTORS), (data / _VECTORS).open("wb") as stream:
                header = {"descr": "<f4", "fortran_order": False, "shape": self._shape}
                npy.write_array_header_1_0(stream, header)

    def append(self, vectors: Vectors) -> None:
        """Write a shard, for good on return.

        Raises:
            RetrievalError: It cannot be written; what was before it stays.
        """
        rows, dimension = self._shape
        # By writing, and not through a memory map: on a full disk that would end the process without a word.
        file = self._data / _VECTORS
        try:
            with disk_errors(file), file.open("r+b") as stream:
                npy.read_magic(stream)
                npy.read_array_header_1_0(stream)
                stream.seek(self.done * dimension * 4, os.SEEK_CUR)
                stream.write(vectors.astype("<f4").tobytes())
                stream.flush()
                os.fsync(stream.fileno())
        except ValueError as error:
            raise RetrievalError(f"{file} is damaged: {error}") from error
        self.done += len(vectors)
        write_atomically(self._data / _ENCODED, json.dumps({"rows": self.done, "of": rows}) + "\n")


def finish(data: Path, settings: VectorSettings) -> None:
    """Make what is searched from the vectors, where it is not they themselves.

    Raises:
        RetrievalError: It cannot be written.
    """
    if settings.kind == FLAT:
        return
    import faiss

    vectors = np.load(data / _VECTORS, mmap_mode="r", allow_pickle=False)
    count, dimension = vectors.shape
    index: Any = faiss.index_factory(dimension, f"IVF{settings.lists},SQ8", faiss.METRIC_INNER_PRODUCT)
    # What is here was chosen for the size of the corpus; a warning about it would help nobody.
    index.cp.min_points_per_centroid = 1
    size = min(count, max(_SAMPLE * settings.lists, 1024))
    chosen = np.sort(np.random.default_rng(0).choice(count, size, replace=False))
    index.train(np.ascontiguousarray(vectors[chosen], np.float32))
    for start in range(0, count, _BLOCK):
        index.add(np.ascontiguousarray(vectors[start : start + _BLOCK], np.float32))
    file = data / _FAISS
    try:
        faiss.write_index(index, str(file))
    except RuntimeError as error:
        raise cannot_be_written(file, error) from error
    with disk_errors(file), file.open("rb") as stream:
        os.fsync(stream.fileno())


def drop_unused(data: Path, settings: VectorSettings) -> None:
    """Remove what a finished index does not need: full vectors where smaller ones are searched, four times as large."""
    (data / _ENCODED).unlink(missing_ok=True)
    if settings.kind != FLAT:
        (data / _VECTORS).unlink(missing_ok=True)


def open_search(data: Path, settings: VectorSettings, rows: int, dimension: int) -> Search:
    """Open the vectors of a finished index, memory-mapped.

    Raises:
        RetrievalError: They are not there, or not those of the manifest.
    """
    try:
        shape, search = _flat(data) if settings.kind == FLAT else _ivf(data, settings, rows, dimension)
    except (OSError, ValueError, RuntimeError, KeqaError) as error:
        raise RetrievalError(f"the vectors in {data} cannot be read: {error}") from error
    if shape != (rows, dimension):
        raise RetrievalError(
            f"the index in {data.parent} is not complete: its manifest says {rows} vectors of length {dimension}, "
            f"it holds {shape[0]} of {shape[1]}. Build it again"
        )
    return search


def _flat(data: Path) -> tuple[tuple[int, int], Search]:
    import faiss

    vectors = open_rows(data, _VECTORS)
    if vectors.ndim != 2 or vectors.dtype != np.dtype("<f4") or not vectors.flags.c_contiguous:
        raise ValueError(f"{_VECTORS} is no table of 32-bit numbers, row by row")

    def search(queries: Vectors, k: int) -> tuple[Vectors, NDArray[np.int64]]:
        found: tuple[Vectors, NDArray[np.int64]] = faiss.knn(queries, vectors, k, metric=faiss.METRIC_INNER_PRODUCT)
        # All vectors are compared, so the best are there, unless their numbers are none.
        if (found[1] < 0).any():
            raise ValueError("the vectors are damaged; build the index again")
        return found

    return vectors.shape, search


def _ivf(data: Path, settings: VectorSettings, rows: int, dimension: int) -> tuple[tuple[int, int], Search]:
    import faiss

    check_file(data / _FAISS, rows, dimension, settings.lists)
    index: Any = faiss.read_index(str(data / _FAISS), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
    index.nprobe = settings.nprobe

    def search(queries: Vectors, k: int) -> tuple[Vectors, NDArray[np.int64]]:
        found: tuple[Vectors, NDArray[np.int64]] = index.search(queries, k)
        return found

    return (index.ntotal, index.d), search
