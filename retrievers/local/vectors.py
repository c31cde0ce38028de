"""The vectors of a dense index, beside its passages: each is known by a hash of what was encoded, and written once.

The files of vectors are only added to, so it does not matter when a process is killed: what is of no passage is
passed over in a search, and the next build or change finds there what it need not encode again. A file ``….rows``
holds vectors and ``….keys`` their keys, plain numbers one after the other; ``….faiss`` lists of 8-bit vectors with
their keys, in which those of a large index are; ``….json`` says which model made them.
"""

import json
import math
import os
import struct
import uuid
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import faiss
import numpy as np
from numpy.typing import NDArray

from keqa.errors import KeqaError, RetrievalError
from keqa.retrievers.embedding import Encoder, Vectors, is_hosted, same_weights
from keqa.retrievers.local.build import disk_errors, write_text
from keqa.retrievers.local.index import VECTORS
from keqa.retrievers.manifest import FLAT, IVF, EncoderSettings, VectorSettings
from keqa.storage.untrusted import open_regular, read_json

FLAT_LIMIT = 100_000
"""Up to so many vectors a question is compared with every one of them."""

Keys = NDArray[np.int64]
Found = tuple[Vectors, Keys]
"""Scores and keys, best first, of one row a question; key -1 where there are no more."""

_LARGEST_NOTE = 4 << 20
# A table of the sizes of the lists is read at once.
_MOST_LISTS = 1 << 22
# FAISS warns below 39 training vectors a list; more than this many no longer move the centroids.
_SAMPLE = 64
_BLOCK = 65_536


def settings_for(count: int, flat_limit: int) -> VectorSettings:
    """What suits so many vectors: about √n lists, an eighth of them searched (1024 and 128 at a million).

    Of the ten passages nearest to a question, of 20,000 real ones in 128 lists, an eighth of the lists held .91, a
    sixteenth .80. Made vectors, which fall into clusters, flatter a sixteenth.
    """
    if count <= flat_limit:
        return VectorSettings(FLAT)
    lists = 2 ** round(math.log2(math.sqrt(count)))
    return VectorSettings(IVF, lists, max(lists // 8, min(lists, 8)))


class VectorStore:
    """Vectors by their keys, as they were when it was opened."""

    def __init__(self, data: Path, name: str, dimension: int, settings: VectorSettings, listed: int, rows: int) -> None:
        """Open what is there, memory-mapped, with at least so many rows; a RetrievalError says that it is not whole."""
        self.name, self.listed = name, listed
        self._data, self._settings, self._dimension = data, settings, dimension
        try:
            self.keys: Keys = _mapped(data / f"{name}.keys", np.dtype("<i8"), 1)[:, 0]
            self.rows: Vectors = _mapped(data / f"{name}.rows", np.dtype("<f4"), dimension)[: len(self.keys)]
            self._lists = self._opened_lists() if listed else None
        except (OSError, ValueError, RuntimeError, KeqaError) as error:
            raise RetrievalError(f"the vectors in {data} cannot be read: {error}") from error
        if not rows <= len(self.keys) == len(self.rows):
            raise RetrievalError(
                f"the index in {data.parent} is not complete: its manifest says {rows} vectors of length {dimension}, "
                f"it holds {len(self.rows)}. Build it again"
            )

    def __len__(self) -> int:
        return len(self.keys) + self.listed

    def _opened_lists(self, *, mapped: bool = True) -> Any:
        path = self._data / f"{self.name}.faiss"
        check_file(path, self.listed, self._dimension, self._settings.lists)
        found: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY if mapped else 0)
        found.nprobe = self._settings.nprobe
        return found

    def search(self, queries: Vectors, k: int) -> Found:
        """The ``k`` best vectors of all; some may be of no passage."""
        parts: list[Found] = []
        if self._lists is not None:
            parts.append(self._lists.search(queries, k))
        if count := len(self.keys):
            scores, places = faiss.knn(queries, self.rows, min(k, count), metric=faiss.METRIC_INNER_PRODUCT)
            # All vectors are compared, so the best are there, unless their numbers are none.
            if (places < 0).any():
                raise ValueError("the vectors are damaged; build the index again")
            parts.append((scores, self.keys[places]))
        scores, keys = (np.concatenate(one, axis=1) for one in zip(*parts, strict=True))
        best = np.argsort(-np.where(keys < 0, -np.inf, scores), axis=1, kind="stable")[:, :k]
        return np.take_along_axis(scores, best, 1), np.take_along_axis(keys, best, 1)

    def kept(self, is_wanted: Callable[[int], bool], settings: VectorSettings) -> "VectorStore":
        """A store of those vectors only that are wanted, searched as the settings say; its files have another name."""
        chosen = np.array([place for place, key in enumerate(self.keys.tolist()) if is_wanted(key)], np.int64)
        name = begin(self._data, read_json(self._data, f"{self.name}.json", _LARGEST_NOTE, error=RetrievalError))
        if settings.kind == FLAT:
            for start in range(0, len(chosen), _BLOCK):
                some = chosen[start : start + _BLOCK]
                append(self._data, name, self.keys[some], self.rows[some])
            return VectorStore(self._data, name, self._dimension, settings, 0, len(chosen))
        if self._lists is None:
            index: Any = faiss.index_factory(self._dimension, f"IVF{settings.lists},SQ8", faiss.METRIC_INNER_PRODUCT)
            # What is here was chosen for the size of the corpus; a warning about it would help nobody.
            index.cp.min_points_per_centroid = 1
            size = min(len(chosen), max(_SAMPLE * settings.lists, 1024))
            sample = np.sort(np.random.default_rng(0).choice(len(chosen), size, replace=False))
            index.train(np.ascontiguousarray(self.rows[chosen[sample]], np.float32))
        else:
            index = self._opened_lists(mapped=False)
            lists = index.invlists
            parts = [faiss.rev_swig_ptr(lists.get_ids(n), lists.list_size(n)).tolist() for n in range(index.nlist)]
            index.remove_ids(np.array([key for part in parts for key in part if not is_wanted(key)], np.int64))
        for start in range(0, len(chosen), _BLOCK):
            some = chosen[start : start + _BLOCK]
            index.add_with_ids(np.ascontiguousarray(self.rows[some], np.float32), self.keys[some])
        file = self._data / f"{name}.faiss"
        with disk_errors(file, RuntimeError):
            faiss.write_index(index, str(file))
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
        return VectorStore(self._data, name, self._dimension, settings, int(index.ntotal), 0)


def _mapped(path: Path, kind: np.dtype[Any], width: int) -> NDArray[Any]:
    """The whole rows of a file of plain numbers."""
    with open_regular(path, error=RetrievalError) as stream:
        count = os.fstat(stream.fileno()).st_size // (kind.itemsize * width)
    # An empty file cannot be mapped.
    return np.memmap(path, kind, "r", shape=(count, width)) if count else np.empty((0, width), kind)


def begin(data: Path, note: object) -> str:
    """Begin a store without any vectors, and return its name."""
    name = f"{VECTORS}{uuid.uuid4().hex[:12]}"
    with disk_errors(data / name):
        for suffix in (".rows", ".keys"):
            (data / f"{name}{suffix}").touch(mode=0o600)
    write_text(data / f"{name}.json", json.dumps(note) + "\n")
    return name


def append(data: Path, name: str, keys: Sequence[int] | Keys, rows: Vectors) -> None:
    """Add vectors, for good on return; what a killed process had half written is written over."""
    parts = ((".rows", np.ascontiguousarray(rows, "<f4")), (".keys", np.asarray(keys, "<i8").reshape(-1, 1)))
    done = (data / f"{name}.keys").stat().st_size // 8
    for suffix, part in parts:
        # By writing, and not through a memory map: on a full disk that would end the process without a word.
        file = data / f"{name}{suffix}"
        with disk_errors(file), file.open("r+b") as stream:
            stream.seek(done * part.itemsize * part.shape[1])
            stream.write(part.tobytes())
            stream.flush()
            os.fsync(stream.fileno())


def begun(data: Path, encoder: Encoder) -> tuple[str, bool]:
    """The store that vectors of an encoder are added to, and whether another build has begun it."""
    for path in sorted(data.glob(f"{VECTORS}*.json")):
        name = path.name.removesuffix(".json")
        is_open = (data / f"{name}.keys").is_file() and not (data / f"{name}.faiss").exists()
        if is_open and is_of(data, name, encoder, hosted=is_hosted(encoder.settings.model)):
            return name, True
    return begin(data, {"settings": _made_by(encoder.settings), "probe": encoder.passage_probe()}), False


def is_of(data: Path, name: str, encoder: Encoder, *, hosted: bool = True) -> bool:
    """Whether an encoder gives the vectors of a store: a model may have become another under its name."""
    try:
        note = read_json(data, f"{name}.json", _LARGEST_NOTE, error=RetrievalError)
    except KeqaError:
        return False
    if not isinstance(note, dict) or note.get("settings") != _made_by(encoder.settings):
        return False
    return same_weights(encoder.passage_probe(), note.get("probe"), hosted=hosted)


def _made_by(settings: EncoderSettings) -> dict[str, Any]:
    names = ("model", "passage_prefix", "separator", "similarity", "dimension")
    return {name: getattr(settings, name) for name in names}


def remove_others(data: Path, keep: Collection[str]) -> None:
    for path in data.glob(f"{VECTORS}*"):
        if path.name.partition(".")[0] not in keep:
            path.unlink(missing_ok=True)


def check_file(path: Path, rows: int, dimension: int, lists: int) -> None:
    """Make sure, field by field, that a file is one that `VectorStore.kept` writes: FAISS believes what it says."""
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
    shape, metric, numbers = "iq16x", "Bi", "the numbers in centroids"
    # What comes before the sizes of the lists: of each field its form, and the one content that it can have. An inner
    # product is 0, and so is a quantizer of eight bits.
    head: list[tuple[Any, ...]] = [
        ("the kind", "4s", b"IwSq"),
        ("the shape", shape, dimension, rows),
        ("the metric", metric, 1, 0),
        ("the number of lists", "Q8x", lists),
        ("the kind of centroids", "4s", b"IxFI"),
        ("the shape of centroids", shape, dimension, lists),
        ("the metric of centroids", metric, 1, 0),
        (numbers, "Q", lists * dimension),
        ("the map of rows", "BQ", 0, 0),
        ("the quantizer", f"i8xQQQ{8 * dimension}x", 0, dimension, dimension, 2 * dimension),
        ("the size of a vector", "Qx", dimension),
        ("the lists", "4sQQ", b"ilar", lists, dimension),
    ]
    for what, form, *expected in head:
        if (found := list(_take(stream, form))) != expected:
            raise ValueError(f"{what} {found} in the place of {expected}")
        if what == numbers:
            stream.seek(4 * lists * dimension, os.SEEK_CUR)
    total = _listed(stream, lists)
    if total != rows:
        raise ValueError(f"{total} vectors in lists, {rows} are expected")
    # Of each vector a byte a number, and its row.
    left = os.fstat(stream.fileno()).st_size - stream.tell()
    if left != rows * (dimension + 8):
        raise ValueError(f"{left} bytes of lists, {rows * (dimension + 8)} are expected")


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
