"""The passages of a dense index: a line of JSON each, found by row, read where they lie on the disk."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keqa.errors import KeqaError, RetrievalError
from keqa.retrievers.base import Passage
from keqa.retrievers.place import NOWHERE, unpacked
from keqa.retrievers.text import clean_text
from keqa.storage.untrusted import open_regular

_PASSAGES, _OFFSETS, _IDS = "passages.jsonl", "offsets.npy", "ids.npy"
# The most bytes of a passage, which escapes make a few times as long as a line of a corpus may be.
_LONGEST = 256 << 20


def write_passages(data: Path, passages: Iterable[Passage], before: str = "") -> None:
    """Write the passages into a data folder, on the disk on return.

    Args:
        data: The folder.
        passages: The passages.
        before: What the names of the files begin with.
    """
    offsets, end, hashes = array("Q", [0]), 0, array("Q")
    with (data / f"{before}{_PASSAGES}").open("wb") as stream:
        for passage in passages:
            fields = [passage.id, passage.title, passage.text]
            if passage.place:
                fields.append(passage.place.packed())
            line = json.dumps(fields, ensure_ascii=False).encode() + b"\n"
            stream.write(line)
            end += len(line)
            offsets.append(end)
            hashes.append(_hashed(passage.id))
        stream.flush()
        os.fsync(stream.fileno())
    write_rows(data, f"{before}{_OFFSETS}", np.frombuffer(offsets, np.uint64))
    write_rows(data, f"{before}{_IDS}", np.array(hashes, np.uint64))


def write_rows(data: Path, name: str, rows: NDArray[Any]) -> None:
    """Write an array into a data folder, on the disk on return; `open_rows` opens it."""
    with (data / name).open("wb") as stream:
        np.save(stream, rows, allow_pickle=False)
        stream.flush()
        os.fsync(stream.fileno())


def _hashed(passage_id: str) -> int:
    return int.from_bytes(hashlib.blake2b(passage_id.encode(), digest_size=8).digest(), "big")


class PassageFile:
    """Passages by row. Memory-mapped, so that any number of them takes no memory; safe to use from many threads."""

    def __init__(self, data: Path, before: str = "") -> None:
        """Open what `write_passages` wrote; a RetrievalError says that it is not there, or not whole."""
        self._data, self._before = data, before
        try:
            self._offsets = open_rows(data, f"{before}{_OFFSETS}")
            with open_regular(data / f"{before}{_PASSAGES}", error=RetrievalError) as stream:
                # An empty file cannot be mapped.
                empty = not os.fstat(stream.fileno()).st_size
                self._bytes = b"" if empty else mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError, KeqaError) as error:
            raise RetrievalError(f"the passages in {data} cannot be read: {error}") from error
        offsets = self._offsets
        if offsets.ndim != 1 or offsets.dtype != np.uint64 or not len(offsets) or int(offsets[-1]) != len(self._bytes):
            raise RetrievalError(f"the passages in {data} are not whole")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def size(self, start: int = 0) -> int:
        """How many bytes the passages from a row on have."""
        return int(self._offsets[-1]) - int(self._offsets[start])

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """The rows of the passages of some ids; what is not there is left out.

        Raises:
            RetrievalError: The files were changed.
        """
        wanted = {_hashed(one): one for one in ids}
        if not wanted:
            return {}
        rows = np.flatnonzero(np.isin(self._hashes(), np.array(list(wanted), np.uint64)))
        found = {self[row].id: row for row in rows.tolist()}
        return {one: found[one] for one in wanted.values() if one in found}

    def _hashes(self) -> NDArray[Any]:
        try:
            hashes = open_rows(self._data, f"{self._before}{_IDS}")
        except KeqaError:
            # As in an index that an earlier version built.
            return np.array([_hashed(self[row].id) for row in range(len(self))], np.uint64)
        except (OSError, ValueError) as error:
            raise RetrievalError(f"the ids in {self._data} cannot be read: {error}") from error
        if hashes.shape != (len(self),) or hashes.dtype != np.uint64:
            raise RetrievalError(f"the ids in {self._data} are not whole: build the index again")
        return hashes

    def __getitem__(self, row: int) -> Passage:
        """The passage of a row.

        Raises:
            RetrievalError: The file was changed.
        """
        try:
            start, end = int(self._offsets[row]), int(self._offsets[row + 1])
            if not 0 <= end - start <= _LONGEST:
                raise ValueError(f"it has {end - start:,} bytes")
            fields = json.loads(self._bytes[start:end])
            known = isinstance(fields, list) and len(fields) in (3, 4)
            if not known or not all(isinstance(one, str) for one in fields):
                raise ValueError("it is no list of id, title and text")
        except (ValueError, RecursionError) as error:
            raise RetrievalError(f"passage {row} of the index is damaged: {error}; build the index again") from error
        own, title, text = map(clean_text, fields[:3])
        return Passage(own, title, text, unpacked(fields[3]) if len(fields) > 3 else NOWHERE)


def open_rows(data: Path, name: str) -> NDArray[Any]:
    """The array of a file in a data folder, memory-mapped, of whatever shape and type it is.

    Raises:
        KeqaError: The file is not there, or no regular one.
        OSError: It cannot be read.
        ValueError: It is no array, or is cut off.
    """
    with open_regular(data / name, error=RetrievalError):
        # Not `np.load`, which opens archives and objects as well.
        try:
            return np.lib.format.open_memmap(data / name, mode="r")
        except (TypeError, OverflowError, MemoryError, RecursionError, SyntaxError) as error:
            raise ValueError(f"{name} is no array: {error}") from error
