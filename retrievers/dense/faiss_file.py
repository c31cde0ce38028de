"""The file of FAISS in a dense index, checked before FAISS reads it.

FAISS takes what a file says for true: how long an array is, of what kind the index is, and even in which other file its
lists lie. So the one kind that `keqa.retrievers.dense.vectors.finish` writes is read here first, field by field.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO

from keqa.errors import RetrievalError
from keqa.storage.untrusted import open_regular

__all__ = ["check_file"]

_INNER_PRODUCT = 0
_EIGHT_BITS = 0
# A table of the sizes of the lists is read at once.
_MOST_LISTS = 1 << 22


def check_file(path: Path, rows: int, dimension: int, lists: int) -> None:
    """Make sure that a file is a whole index of 8-bit vectors in lists.

    Args:
        path: The file.
        rows: How many vectors it must have.
        dimension: How long each must be.
        lists: How many lists there must be.

    Raises:
        RetrievalError: It is something else, or not whole.
    """
    with open_regular(path, error=RetrievalError) as stream:
        try:
            _check(_Fields(stream), rows, dimension, lists)
        except (ValueError, struct.error, OSError) as error:
            raise RetrievalError(
                f"{path} cannot be read: it is no file of vectors as KEQA writes it ({error}). Build the index again"
            ) from error


class _Fields:
    """The fields of a file, one after the other."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.left = os.fstat(stream.fileno()).st_size

    def take(self, form: str) -> tuple[int | float | bytes, ...]:
        """The next fields, in little-endian order and without gaps."""
        size = struct.calcsize(f"<{form}")
        self.left -= size
        return struct.unpack(f"<{form}", self._stream.read(size))

    def expect(self, what: str, form: str, *expected: int | bytes) -> None:
        """Take fields that have one possible content."""
        found = self.take(form)
        if found != expected:
            raise ValueError(f"{what} {found} in the place of {expected}")

    def skip(self, what: str, size: int) -> None:
        """Pass over so many bytes."""
        if size > self.left:
            raise ValueError(f"it ends within {what}")
        self.left -= size
        self._stream.seek(size, os.SEEK_CUR)


def _check(fields: _Fields, rows: int, dimension: int, lists: int) -> None:
    if not 1 <= lists <= _MOST_LISTS:
        raise ValueError(f"{lists} lists")
    fields.expect("the kind", "4s", b"IwSq")
    _head(fields, rows, dimension)
    fields.expect("the number of lists", "Q", lists)
    fields.skip("its head", 8)
    fields.expect("the kind of centroids", "4s", b"IxFI")
    _head(fields, lists, dimension)
    fields.expect("the numbers in centroids", "Q", lists * dimension)
    fields.skip("the centroids", 4 * lists * dimension)
    fields.expect("the map of rows", "BQ", 0, 0)
    fields.expect("the quantizer", "i", _EIGHT_BITS)
    fields.skip("the quantizer", 8)
    fields.expect("the quantizer", "QQQ", dimension, dimension, 2 * dimension)
    fields.skip("the quantizer", 8 * dimension)
    fields.expect("the size of a vector", "Q", dimension)
    fields.skip("the quantizer", 1)
    fields.expect("the lists", "4sQQ", b"ilar", lists, dimension)
    total = _listed(fields, lists)
    if total != rows:
        raise ValueError(f"{total} vectors in lists, {rows} are expected")
    # Of each vector a byte a number, and its row.
    if fields.left != rows * (dimension + 8):
        raise ValueError(f"{fields.left} bytes of lists, {rows * (dimension + 8)} are expected")


def _head(fields: _Fields, rows: int, dimension: int) -> None:
    fields.expect("the shape", "iq", dimension, rows)
    fields.skip("its head", 16)
    fields.expect("the metric", "Bi", 1, _INNER_PRODUCT)


def _listed(fields: _Fields, lists: int) -> int:
    """How many vectors the lists have, as their table says: of each its size, or of those with any number and size."""
    (kind, length) = fields.take("4sQ")
    if kind == b"full" and length == lists:
        return sum(int(size) for size in fields.take(f"{lists}Q"))
    if kind == b"sprs" and isinstance(length, int) and length % 2 == 0 and length <= 2 * lists:
        pairs = [int(number) for number in fields.take(f"{length}Q")]
        numbers = pairs[::2]
        if numbers != sorted(set(numbers)) or any(number >= lists for number in numbers):
            raise ValueError("a list that is not there")
        return sum(pairs[1::2])
    raise ValueError(f"a table of lists {kind!r} of {length!r}")
