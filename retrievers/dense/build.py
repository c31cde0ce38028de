"""Building a dense index: hours of encoding, of which a kill loses one shard."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from keqa.errors import InputError
from keqa.retrievers.base import Passage
from keqa.retrievers.dense.encoding import Encoder
from keqa.retrievers.dense.manifest import DenseManifest
from keqa.retrievers.dense.models import LOCAL, Vectors
from keqa.retrievers.dense.passages import PassageFile
from keqa.retrievers.dense.vectors import VectorFile, drop_unused, finish, settings_for
from keqa.retrievers.dense.work import Work, begin, clean_up
from keqa.retrievers.intake import Notice
from keqa.retrievers.layout import MANIFEST, check_place, claim, exclusive, write_atomically
from keqa.retrievers.left_out import left_out_of
from keqa.retrievers.manifest import SCHEMA_VERSION

__all__ = ["FLAT_LIMIT", "SHARD", "build_dense"]

_LOG = logging.getLogger("keqa.retrievers")

FLAT_LIMIT = 100_000
"""Up to so many passages a question is compared with every one of them."""

SHARD = 2048
"""So many passages are encoded between two notes of how far the build has come."""

# Progress is reported after so many, which share the longest text of their own.
_PIECE = 256

Progress = Callable[[int, int], None]
"""How many passages are encoded, and of how many."""


def build_dense(
    passages: Iterable[Passage],
    out: Path | str,
    *,
    model: str = LOCAL,
    query_model: str | None = None,
    passage_prefix: str | None = None,
    query_prefix: str | None = None,
    separator: str = ": ",
    similarity: str | None = None,
    flat_limit: int = FLAT_LIMIT,
    shard: int = SHARD,
    progress: Progress | None = None,
    notice: Notice | None = None,
    sources: Sequence[str] = (),
    name: str | None = None,
    overwrite: bool = False,
) -> DenseManifest:
    """Build a dense index, and publish it only when it is finished.

    An index that is already there stays in place until then. The same call after a kill or a failure resumes at the
    first shard that was not finished, where passages, settings and model are the same, and ends in the same index.

    Args:
        passages: The passages, read once and never held in memory.
        out: Folder of the index; new, empty, or an index to be replaced.
        model: Encodes passages, and questions too where there is no ``query_model``.
        query_model: Encodes questions, where a pair of models was trained for the two.
        passage_prefix: Put before each passage; what the model itself says by default.
        query_prefix: Put before each question; what the model itself says by default.
        separator: Between title and text of a passage.
        similarity: ``"cosine"`` or ``"dot"``; see `keqa.retrievers.dense.encoding.Encoder.choose`.
        flat_limit: Above so many passages, vectors are searched by lists of 8-bit ones.
        shard: Passages encoded between two notes.
        progress: Called with how many passages are encoded, and of how many.
        notice: Called with what the user should know; logged by default.
        sources: Where the passages come from, for the manifest.
        name: Name of the index; the folder's name by default.
        overwrite: Whether an index of other ``sources`` may be replaced; one of the same always is.

    Returns:
        The manifest of the finished index. Where the passages are those of `read_corpus`, its ``left_out`` says what
        of the sources is not in it.

    Raises:
        InputError: There are no passages, one has no id, or ``out`` cannot be written to or holds something that is not
            an index, or one of other sources.
        ConfigurationError: A model cannot be opened, or the two are no pair.
        RetrievalError: Another process works on the index, or it cannot be written.
        MissingExtraError: A package is missing.
    """
    if shard < 1:
        raise InputError(f"a shard holds at least one passage, not {shard}")
    folder, report = Path(out), notice or _LOG.warning
    check_place(folder, sources, overwrite=overwrite)
    encoder = Encoder.choose(
        model,
        query_model=query_model,
        passage_prefix=passage_prefix,
        query_prefix=query_prefix,
        separator=separator,
        similarity=similarity,
    )
    claim(folder, sources, overwrite=overwrite)
    with exclusive(folder):
        try:
            settings = {**dataclasses.asdict(encoder.settings), "shard": shard}
            work = begin(folder, passages, settings, encoder.passage_probe(), report)
            _encode(work, encoder, shard, progress or (lambda done, of: None))
            manifest = dataclasses.replace(
                _manifest(work, encoder, flat_limit),
                name=name or folder.resolve().name,
                sources=tuple(sources),
                left_out=left_out_of(passages),
            )
            _publish(folder, work, encoder, manifest)
        finally:
            # Encoded shards stay for the next call; all else that a failure left goes.
            clean_up(folder)
    return manifest


def _encode(work: Work, encoder: Encoder, shard: int, progress: Progress) -> None:
    passages = PassageFile(work.data)
    vectors = VectorFile(work.data, work.count, encoder.settings.dimension)
    progress(vectors.done, work.count)
    for start in range(vectors.done, work.count, shard):
        batch = [passages[row] for row in range(start, min(start + shard, work.count))]
        # Texts of like length together: a model works on all texts of a batch as on its longest.
        order = sorted(range(len(batch)), key=lambda place: -len(batch[place].text))
        rows: Vectors = np.empty((len(batch), encoder.settings.dimension), np.float32)
        for first in range(0, len(batch), _PIECE):
            places = order[first : first + _PIECE]
            rows[places] = encoder.passages([batch[place] for place in places])
            progress(start + first + len(places), work.count)
        vectors.append(rows)


def _manifest(work: Work, encoder: Encoder, flat_limit: int) -> DenseManifest:
    """The manifest of what was encoded, before it has a name."""
    return DenseManifest(
        schema_version=SCHEMA_VERSION,
        name="",
        encoder=encoder.settings,
        vectors=settings_for(work.count, flat_limit),
        passages=work.count,
        renamed=work.renamed,
        source_hash=work.source_hash,
        sources=(),
        created=work.started,
        data=work.data.name,
    )


def _publish(folder: Path, work: Work, encoder: Encoder, manifest: DenseManifest) -> None:
    finish(work.data, manifest.vectors)
    encoder.save_probe(work.data)
    write_atomically(folder / MANIFEST, manifest.to_json())
    drop_unused(work.data, manifest.vectors)
