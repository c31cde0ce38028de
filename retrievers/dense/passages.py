"""The passages of a dense index: a line of JSON each, found by row, read where they lie on the disk."""

from __future__ import annotations

import json
import mmap
import os
from array import array
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from keqa.errors import RetrievalError
from keqa.retrievers.base import Passage

__all__ = ["PassageFile", "write_passages"]

_PASSAGES, _OFFSETS = "passages.jsonl", "offsets.npy"


def write_passages(data: Path, passages: Iterable[Passage]) -> int:
    """Write the passages into a data folder, for good on return, and tell how many there are."""
    offsets, end = array("Q", [0]), 0
    with (data / _PASSAGES).open("wb") as stream:
        for passage in passages:
            line = json.dumps([passage.id, passage.title, passage.text], ensure_ascii=False).encode() + b"\n"
            stream.write(line)
            end += len(line)
            offsets.append(end)
        stream.flush()
        os.fsync(stream.fileno())
    with (data / _OFFSETS).open("wb") as stream:
        np.save(stream, np.frombuffer(offsets, np.uint64), allow_pickle=False)
        stream.flush()
        os.fsync(stream.fileno())
    return len(offsets) - 1


class PassageFile:
    """Passages by row. Memory-mapped, so that any number of them takes no memory; safe to use from many threads."""

    def __init__(self, data: Path) -> None:
        """Open what `write_passages` wrote.

        Raises:
            RetrievalError: It is not there, or not whole.
        """
        try:
            self._offsets = np.load(data / _OFFSETS, mmap_mode="r", allow_pickle=False)
            with (data / _PASSAGES).open("rb") as stream:
                self._bytes = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise RetrievalError(f"the passages in {data} cannot be read: {error}") from error
        if self._offsets.ndim != 1 or not len(self._offsets) or int(self._offsets[-1]) != len(self._bytes):
            raise RetrievalError(f"the passages in {data} are not whole")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, row: int) -> Passage:
        """The passage of a row.

        Raises:
            RetrievalError: The file was changed.
        """
        try:
            line = self._bytes[int(self._offsets[row]) : int(self._offsets[row + 1])]
            passage_id, title, text = json.loads(line)
        except ValueError as error:
            raise RetrievalError(f"passage {row} of the index is damaged: {error}; build the index again") from error
        return Passage(passage_id, title, text)
