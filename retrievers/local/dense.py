"""A dense index: an embedded one, with the vectors of its passages beside it; searched, built and changed."""

import dataclasses
import json
import math
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from keqa.errors import RetrievalError
from keqa.retrievers.base import Hit, Notice, Passage, SharedRetriever, checked_k, default_notice, unpacked
from keqa.retrievers.embedding import LOCAL, Encoder, Vectors
from keqa.retrievers.intake import PassageIntake
from keqa.retrievers.local import vectors
from keqa.retrievers.local.build import (
    Row,
    TantivyChanger,
    building,
    check_place,
    disk_errors,
    entries,
    write_whole,
)
from keqa.retrievers.local.index import DATA, AnyManifest, Opened, open_checked, state_of, steady, stored_passage
from keqa.retrievers.local.vectors import FLAT_LIMIT, Found, VectorStore
from keqa.retrievers.manifest import IVF, DenseManifest, PlannedChange
from keqa.retrievers.text import clean_text

SHARD = 2048
"""So many passages are encoded between two writes: a kill loses no more."""

# Progress is reported after so many, which share the longest text of their own.
_PIECE = 256
# So many vectors more than are wanted are looked at first, as some of them may be of no passage any more.
_SPARE = 16
# Where more of the vectors than this are of no passage, those are thrown away.
_UNUSED, _UNUSED_SHARE = 100, 1.25
Progress = Callable[[int, int], None]
"""How many passages are encoded, and of how many."""


class DenseRetriever(SharedRetriever):
    """Passages by the likeness of their vectors to a question's, of the index as it was opened until :meth:`reload`."""

    def __init__(self, path: Path | str, model: str | None = None) -> None:
        """Open a finished index and the model of questions; see `keqa.retrievers.embedding.Encoder.recognised`."""
        self._folder, self._model = Path(path), model
        self._lock = threading.Lock()
        self.reload()

    @property
    def manifest(self) -> DenseManifest:
        return dense_manifest(self._opened[0])

    def reload(self) -> DenseManifest:
        with self._lock:
            opened, store = open_files(self._folder)
            about = dense_manifest(opened)
            encoder = Encoder.recognised(about.encoder, about.probe, self._folder, self._model)
            self._opened = opened, store, encoder
        return about

    def fresh(self) -> Self:
        return self if state_of(self._folder) == self._opened[0].state else super().fresh()

    def search_many(self, queries: Sequence[str], k: int = 10) -> list[list[Hit]]:
        """The hits of each query, none of one without a letter or digit; equal scores are ordered by id."""
        checked_k(k)
        opened, store, encoder = self._opened
        wanted, texts = min(k, opened.manifest.passages), [clean_text(query) for query in queries]
        asked = {place: text for place, text in enumerate(texts) if any(map(str.isalnum, text))}
        found: list[list[Hit]] = [[] for _ in texts]
        if not asked:
            return found
        opened.lengths.check()
        try:
            rows = encoder.queries(list(asked.values()))
            scores, keys = store.search(rows, min(wanted + _SPARE, len(store)))
            for row, place in enumerate(asked):
                found[place] = _hits(opened, store, rows[row : row + 1], (scores[row], keys[row]), wanted)
        except (RuntimeError, ValueError, OSError) as error:
            raise RetrievalError(f"searching the index in {self._folder} failed: {error}") from error
        return found


def _hits(opened: Opened, store: VectorStore, query: Vectors, first: Found, wanted: int) -> list[Hit]:
    """The passages that the best vectors are of; more vectors are looked at where some are of none."""
    (scores, keys), looked = first, len(first[1])
    while True:
        hits: dict[str, Hit] = {}
        last = -math.inf
        for score, key in zip(scores.tolist(), keys.tolist(), strict=True):
            # Of equal scores all are looked at, to put them into an order that does not depend on rows.
            if key < 0 or (len(hits) >= wanted and score < last):
                break
            last = score
            if not math.isfinite(score):
                raise ValueError("its vectors are damaged: they score nothing. Build it again")
            for document in opened.matching("vector", key):
                passage = stored_passage(document)
                hits.setdefault(passage.id, Hit(passage, score))
        if len(hits) >= wanted or looked >= len(store) or keys[-1] < 0:
            return sorted(hits.values(), key=lambda hit: (-hit.score, hit.passage.id))[:wanted]
        looked = min(4 * looked, len(store))
        (scores,), (keys,) = store.search(query, looked)


def dense_manifest(opened: Opened) -> DenseManifest:
    """The manifest of an index that has vectors; a RetrievalError says that it has none."""
    if not isinstance(opened.manifest, DenseManifest):
        raise RetrievalError(f"the index in {opened.folder} has no vectors: build it with --engine dense")
    return opened.manifest


def open_files(folder: Path) -> tuple[Opened, VectorStore]:
    """The files of a finished index, which are whole; no model is opened."""

    def opening(state: object) -> tuple[Opened, VectorStore]:
        opened = open_checked(folder)
        about = dense_manifest(opened)
        size = about.encoder.dimension, about.vectors, about.listed, about.rows
        return opened, VectorStore(folder / DATA, about.data, *size)

    return steady(folder, opening)


def build_dense(
    passages: Iterable[Any],
    out: Path | str,
    *,
    model: str = LOCAL,
    query_model: str | None = None,
    passage_prefix: str | None = None,
    query_prefix: str | None = None,
    separator: str = ": ",
    similarity: str | None = None,
    flat_limit: int = FLAT_LIMIT,
    progress: Progress | None = None,
    notice: Notice | None = None,
    sources: Sequence[str] = (),
    name: str | None = None,
    overwrite: bool = False,
) -> DenseManifest:
    """Build a dense index, and publish it only when it is finished.

    An index that is already there stays in place until then. The same call after a kill or a failure encodes only what
    was not encoded yet, where settings and model are the same.

    ``model`` encodes passages, and questions where no ``query_model`` does; prefixes are put before either, the models'
    own by default, and ``separator`` between title and text. ``similarity`` is ``"cosine"`` or ``"dot"``, by default
    dot for a pair of models and for one what it says. Above ``flat_limit`` passages, vectors are searched by lists of
    8-bit ones. ``progress`` is called with how many are encoded, and of how many; the other arguments are those of
    `keqa.build_index`.

    Raises:
        ConfigurationError: A model cannot be opened, or the two are no pair.
        MissingExtraError: A package is missing.
    """
    folder, report = Path(out), notice or default_notice
    # Before a model is opened, which takes long.
    check_place(folder, sources, overwrite=overwrite)
    encoder = Encoder.choose(model, query_model, passage_prefix, query_prefix, separator, similarity)
    with building(folder, sources, overwrite=overwrite) as data, tempfile.TemporaryFile(dir=data) as spool:
        intake, dimension = PassageIntake(passages), encoder.settings.dimension
        key_of, keys, size = encoder.settings.key_of, dict[int, None](), 0
        store_name, resumed = vectors.begun(data, encoder)
        there = set(VectorStore(data, store_name, dimension, vectors.settings_for(0, 0), 0, 0).keys.tolist())
        with disk_errors(data):
            for passage, file in intake.rows():
                row = [passage.id, passage.title, passage.text, passage.place.packed(), file]
                spool.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
                if (key := key_of(passage)) not in keys:
                    keys[key] = None
                    size += 0 if key in there else len(passage.text.encode())
        intake.report(report)
        missing = keys.keys() - there
        if resumed and len(missing) < len(keys):
            report(f"an earlier build of {folder} was interrupted, or is of the same passages: resuming it")
        if missing and (price := encoder.price(size)):
            report(f"{model} is asked for the vectors of {len(missing):,} passages: {price}")
        given = (passage for passage, _ in _spooled(spool))
        _encode(data, store_name, encoder, given, missing, intake.count, progress)
        settings = vectors.settings_for(len(keys), flat_limit)
        store = VectorStore(data, store_name, dimension, settings, 0, len(keys))
        if settings.kind == IVF or _is_wasteful(store, len(keys)):
            store = store.kept(keys.__contains__, settings)

        def manifest() -> DenseManifest:
            return DenseManifest(
                language=intake.language,
                encoder=encoder.settings,
                probe=tuple(encoder.query_probe().tolist()),
                vectors=settings,
                listed=store.listed,
                rows=len(store.keys),
                **entries(folder, name, intake, sources) | {"data": store.name},
            )

        built = write_whole(folder, intake, _spooled(spool), manifest, key=key_of)
        vectors.remove_others(data, {store.name})
    return built


def _is_wasteful(store: VectorStore, used: int) -> bool:
    return len(store) > _UNUSED_SHARE * used + _UNUSED


def _spooled(stream: BinaryIO) -> Iterator[Row]:
    """Passages that are read again, since they are written only when their vectors are there."""
    stream.seek(0)
    for line in stream:
        own, title, text, place, file = json.loads(line)
        yield Passage(own, title, text, unpacked(place)), file


def _encode(
    data: Path,
    name: str,
    encoder: Encoder,
    passages: Iterable[Passage],
    missing: Iterable[int],
    count: int,
    progress: Progress | None = None,
) -> None:
    """Encode the passages of some keys, each once, and add their vectors shard by shard."""
    left, tell = set(missing), progress or (lambda done, of: None)
    done, batch = count - len(left), dict[int, Passage]()
    tell(done, count)
    for passage in passages if left else ():
        if (key := encoder.settings.key_of(passage)) not in left:
            continue
        left.discard(key)
        batch[key] = passage
        if left and len(batch) < SHARD:
            continue
        # Texts of like length together: a model works on all texts of a batch as on its longest.
        order = sorted(batch, key=lambda key: -len(batch[key].text))
        places = {key: place for place, key in enumerate(batch)}
        rows: Vectors = np.empty((len(batch), encoder.settings.dimension), np.float32)
        for first in range(0, len(batch), _PIECE):
            some = order[first : first + _PIECE]
            rows[[places[key] for key in some]] = encoder.passages([batch[key] for key in some])
            tell(done + first + len(some), count)
        vectors.append(data, name, list(batch), rows)
        done, batch = done + len(batch), {}


class DenseChanger(TantivyChanger):
    """A dense index that is open to be changed; only what is new is encoded."""

    def __init__(self, folder: Path, model: str | None) -> None:
        super().__init__(folder)
        self._model, self._store = model, open_files(folder)[1]
        self._data = folder / DATA
        vectors.remove_others(self._data, {self._store.name})

    def key(self, passage: Passage) -> int | None:
        return dense_manifest(self._opened).encoder.key_of(passage)

    def prepared(self, change: PlannedChange, after: AnyManifest) -> AnyManifest:
        about, store = dense_manifest(self._opened), self._store
        new = {about.encoder.key_of(passage): passage for passage in change.new}
        there = set(store.keys.tolist())
        missing = {key: one for key, one in new.items() if key not in there and not self._is_used(key)}
        if missing:
            is_same = partial(vectors.is_of, self._data, store.name)
            encoder = Encoder.for_more(about.encoder, self._folder, self._model, is_same)
            _encode(self._data, store.name, encoder, missing.values(), missing, len(missing))
        rows: dict[str, Any] = {"listed": store.listed, "rows": len(store.keys) + len(missing)}
        return dataclasses.replace(after, data=store.name, **rows)

    def apply(self, change: PlannedChange) -> AnyManifest:
        """Write vectors, commit, and throw away vectors where many are of no passage any more."""
        super().apply(change)
        self._store = open_files(self._folder)[1]
        store, about = self._store, dense_manifest(self._opened)
        if _is_wasteful(store, about.passages) or (store.listed and len(store.keys) > FLAT_LIMIT):
            self._store = store.kept(self._is_used, about.vectors)
            super().apply(PlannedChange(sources=about.sources, left_out=about.left_out, removed=about.removed))
            vectors.remove_others(self._data, {self._store.name})
        return self.manifest

    def _is_used(self, key: int) -> bool:
        return self._opened.count("vector", key) > 0
