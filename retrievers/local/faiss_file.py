"""The file of FAISS in a dense index, checked before FAISS reads it.

FAISS takes what a file says for true: how long an array is, of what kind the index is, and even in which other file its
lists lie. So the one kind that `VectorStore.kept` writes is read here first, field by field.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from keqa.errors import RetrievalError
from keqa.storage.untrusted import open_regular

_INNER_PRODUCT = 0
_EIGHT_BITS = 0
_NUMBERS = "the numbers in centroids"
# A table of the sizes of the lists is read at once.
_MOST_LISTS = 1 << 22


def check_file(path: Path, rows: int, dimension: int, lists: int) -> None:
    """Make sure that a file is a whole index of 8-bit vectors in lists."""
    with open_regular(path, error=RetrievalError) as stream:
        try:
            _check(stream, rows, dimension, lists)
        except (ValueError, struct.error, OSError) as error:
            raise RetrievalError(
                f"{path} cannot be read: it is no file of vectors as KEQA writes it ({error}). Build the index again"
            ) from error


def _check(stream: BinaryIO, rows: int, dimension: int, lists: int) -> None:
    if not 1 <= lists <= _MOST_LISTS:
        raise ValueError(f"{lists} lists")
    for what, form, *expected in _head(rows, dimension, lists):
        found = _take(stream, form)
        if list(found) != expected:
            raise ValueError(f"{what} {found} in the place of {expected}")
        if what == _NUMBERS:
            stream.seek(4 * lists * dimension, os.SEEK_CUR)
    total = _listed(stream, lists)
    if total != rows:
        raise ValueError(f"{total} vectors in lists, {rows} are expected")
    # Of each vector a byte a number, and its row.
    left = os.fstat(stream.fileno()).st_size - stream.tell()
    if left != rows * (dimension + 8):
        raise ValueError(f"{left} bytes of lists, {rows * (dimension + 8)} are expected")


def _head(rows: int, dimension: int, lists: int) -> Iterator[tuple[Any, ...]]:
    """What comes before the sizes of the lists: of each field what it is, its form and the one content it can have."""
    shape, metric = "iq16x", "Bi"
    yield "the kind", "4s", b"IwSq"
    yield "the shape", shape, dimension, rows
    yield "the metric", metric, 1, _INNER_PRODUCT
    yield "the number of lists", "Q8x", lists
    yield "the kind of centroids", "4s", b"IxFI"
    yield "the shape of centroids", shape, dimension, lists
    yield "the metric of centroids", metric, 1, _INNER_PRODUCT
    yield _NUMBERS, "Q", lists * dimension
    yield "the map of rows", "BQ", 0, 0
    yield "the quantizer", f"i8xQQQ{8 * dimension}x", _EIGHT_BITS, dimension, dimension, 2 * dimension
    yield "the size of a vector", "Qx", dimension
    yield "the lists", "4sQQ", b"ilar", lists, dimension


def _take(stream: BinaryIO, form: str) -> tuple[Any, ...]:
    """The next fields of a file, in little-endian order and without gaps but those of the form."""
    return struct.unpack(f"<{form}", stream.read(struct.calcsize(f"<{form}")))


def _listed(stream: BinaryIO, lists: int) -> int:
    """How many vectors the lists have, as their table says: of each its size, or of those with any number and size."""
    kind, length = _take(stream, "4sQ")
    if kind == b"full" and length == lists:
        return sum(_take(stream, f"{lists}Q"))
    if kind == b"sprs" and length % 2 == 0 and length <= 2 * lists:
        pairs = _take(stream, f"{length}Q")
        numbers = list(pairs[::2])
        if numbers != sorted(set(numbers)) or any(number >= lists for number in numbers):
            raise ValueError("a list that is not there")
        return sum(pairs[1::2])
    raise ValueError(f"a table of lists {kind!r} of {length!r}")
