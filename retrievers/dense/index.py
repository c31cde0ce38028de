"""The dense retriever: embedding models of sentence-transformers, vectors searched by FAISS."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from keqa.errors import RetrievalError
from keqa.retrievers.base import Hit, Passage, SharedRetriever, checked_k
from keqa.retrievers.dense.changed import CHANGE_LENGTH, Changed, is_change
from keqa.retrievers.dense.encoding import Encoder, EncoderSettings
from keqa.retrievers.dense.passages import PassageFile
from keqa.retrievers.dense.vectors import Search, VectorSettings, open_search
from keqa.retrievers.layout import Lengths, open_current
from keqa.retrievers.manifest import DENSE, IndexManifest
from keqa.retrievers.text import clean_text

_LARGEST_ROW = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseManifest(IndexManifest):
    """What a dense index says about itself; see also `IndexManifest`.

    Its ``source_hash`` is the same as that of an embedded index of the same passages.

    Attributes:
        encoder: The models, and how texts are given to them.
        vectors: How the vectors are searched.
        change: What the names of the files begin with that hold what was changed since the index was built; empty where
            nothing was.
    """

    ENGINE: ClassVar[str] = DENSE

    encoder: EncoderSettings
    vectors: VectorSettings
    change: str = ""

    def problems(self) -> Iterator[str]:
        """What is wrong with entries that are of the right type."""
        yield from IndexManifest.problems(self)
        yield from self.encoder.problems()
        yield from self.vectors.problems(_LARGEST_ROW if self.change else self.passages)
        if self.change and not is_change(self.change):
            yield f"change must be {CHANGE_LENGTH} hexadecimal digits, found {self.change!r}"


class Files(NamedTuple):
    """The files of an index and the manifest that is true of them.

    Attributes:
        manifest: The manifest.
        passages: As they were when the index was built.
        search: Finds rows of these, and after them of those that were added since.
        changed: What was changed since.
        lengths: Of the files, when they were opened.
    """

    manifest: DenseManifest
    passages: PassageFile
    search: Search
    changed: Changed | None
    lengths: Lengths

    def __len__(self) -> int:
        """How many rows there are, with those that are gone."""
        return len(self.passages) + (len(self.changed.passages) if self.changed else 0)

    def passage(self, row: int) -> Passage:
        """The passage of a row."""
        if row < len(self.passages) or self.changed is None:
            return self.passages[row]
        return self.changed.passages[row - len(self.passages)]


class DenseRetriever(SharedRetriever):
    """Passages by the likeness of their vectors to a question's.

    Safe to use from many threads. It shows the index as it was when it was opened, until :meth:`reload`.
    """

    def __init__(self, folder: Path, opened: tuple[Files, Encoder], model: str | None = None) -> None:
        """Take over an opened index and the model of questions; use :meth:`open`."""
        self._folder = folder
        self._model = model
        self._opened = opened
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: Path | str, model: str | None = None) -> DenseRetriever:
        """Open a finished index and the model that encodes questions.

        Args:
            path: Folder of the index.
            model: The model that encodes questions, by name or folder; needed where it is not the one that comes as a
                package, as an index may come from anyone.

        Raises:
            RetrievalError: There is no finished index, it is truncated or broken, this version cannot read it, or the
                model is not the one that it was built with.
            ConfigurationError: The model cannot be opened, or was not named.
            MissingExtraError: A package is missing.
        """
        folder = Path(path)
        return cls(folder, _open(folder, model), model)

    @property
    def manifest(self) -> DenseManifest:
        """What the index says about itself."""
        return self._opened[0].manifest

    def reload(self) -> DenseManifest:
        """See the index as it is now; searches under way finish on the old one."""
        with self._lock:
            self._opened = _open(self._folder, self._model)
        return self._opened[0].manifest

    def search_many(self, queries: Sequence[str], k: int = 10) -> list[list[Hit]]:
        """Return one list of hits per query; the queries are encoded and compared together.

        A query without a letter or digit finds nothing.
        """
        wanted = checked_k(k)
        files, encoder = self._opened
        texts = [clean_text(query) for query in queries]
        places = [place for place, text in enumerate(texts) if any(map(str.isalnum, text))]
        found: list[list[Hit]] = [[] for _ in texts]
        if not places:
            return found
        files.lengths.check()
        try:
            vectors = encoder.queries([texts[place] for place in places])
            scores, rows = files.search(vectors, min(wanted, files.manifest.passages))
        except (RuntimeError, ValueError, OSError) as error:
            raise RetrievalError(f"searching the index in {self._folder} failed: {error}") from error
        for place, some_scores, some_rows in zip(places, scores.tolist(), rows.tolist(), strict=True):
            best = sorted((-score, row) for score, row in zip(some_scores, some_rows, strict=True) if row >= 0)
            if any(row >= len(files) or not math.isfinite(score) for score, row in best):
                raise RetrievalError(
                    f"the vectors of the index in {self._folder} are damaged: they lead beyond its passages, or score "
                    "nothing. Build it again"
                )
            found[place] = [Hit(files.passage(row), -score) for score, row in best]
        return found


def open_files(folder: Path) -> Files:
    """The files of a finished index, which are whole; no model is opened.

    Raises:
        RetrievalError: There is none.
    """
    return open_current(folder, DenseManifest, _files)


def _open(folder: Path, model: str | None) -> tuple[Files, Encoder]:
    files = open_files(folder)
    return files, Encoder.open(files.manifest.encoder, folder / files.manifest.data, model)


def _files(manifest: DenseManifest, data: Path) -> Files:
    passages, dimension = PassageFile(data), manifest.encoder.dimension
    changed = Changed.open(data, manifest.change, len(passages), dimension) if manifest.change else None
    count = len(passages) if changed is None else len(passages) - len(changed.gone) + len(changed.passages)
    # First, as vectors are compared with it.
    if changed is None:
        search = open_search(data, manifest.vectors, manifest.passages, dimension)
    else:
        search = changed.search(open_search(data, manifest.vectors, len(passages), dimension), len(passages))
    manifest.check_count(count, f"the index in {data.parent}")
    return Files(manifest, passages, search, changed, Lengths(data))
