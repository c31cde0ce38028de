"""Building a dense index: hours of encoding, of which a kill loses one shard."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keqa.errors import InputError
from keqa.retrievers import checksums
from keqa.retrievers.base import Notice, default_notice
from keqa.retrievers.dense.encoding import Encoder, same_weights
from keqa.retrievers.dense.hosted import is_hosted
from keqa.retrievers.dense.index import DenseManifest
from keqa.retrievers.dense.models import LOCAL, Vectors
from keqa.retrievers.dense.passages import PassageFile, write_passages
from keqa.retrievers.dense.vectors import VectorFile, drop_unused, finish, settings_for
from keqa.retrievers.files import FileTable
from keqa.retrievers.intake import Intake
from keqa.retrievers.layout import (
    BUILDING,
    building,
    check_place,
    disk_errors,
    is_resumable,
    new_data,
    write_atomically,
)
from keqa.retrievers.manifest import MANIFEST

FLAT_LIMIT = 100_000
"""Up to so many passages a question is compared with every one of them."""

SHARD = 2048
"""So many passages are encoded between two notes of how far the build has come."""

# Progress is reported after so many, which share the longest text of their own.
_PIECE = 256

Progress = Callable[[int, int], None]
"""How many passages are encoded, and of how many."""


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
        passages: See `keqa.retrievers.build_index`.
        out: Likewise.
        model: See `keqa.retrievers.dense.encoding.Encoder.choose`.
        query_model: Likewise.
        passage_prefix: Likewise.
        query_prefix: Likewise.
        separator: Likewise.
        similarity: Likewise.
        flat_limit: Above so many passages, vectors are searched by lists of 8-bit ones.
        shard: Passages encoded between two notes.
        progress: Called with how many passages are encoded, and of how many.
        notice: See `keqa.retrievers.build_index`, as for all that follow.
        sources: Likewise.
        name: Likewise.
        overwrite: Likewise.

    Returns:
        The manifest of the finished index.

    Raises:
        InputError: See `keqa.retrievers.build_index`.
        ConfigurationError: A model cannot be opened, or the two are no pair.
        RetrievalError: Another process works on the index, or it cannot be written.
        MissingExtraError: A package is missing.
    """
    if shard < 1:
        raise InputError(f"a shard holds at least one passage, not {shard}")
    folder, report = Path(out), notice or default_notice
    # Before a model is opened, which takes long.
    check_place(folder, sources, overwrite=overwrite)
    encoder = Encoder.choose(model, query_model, passage_prefix, query_prefix, separator, similarity)
    # Shards stay in the folder for the next call whatever ends this one.
    with building(folder, sources, overwrite=overwrite) as earlier:
        intake = Intake(passages)
        settings = {**dataclasses.asdict(encoder.settings), "shard": shard}
        note = _begin(folder, intake, settings, encoder.passage_probe(), earlier, report)
        data = folder / note["data"]
        _encode(data, encoder, intake.count, shard, progress or (lambda done, of: None), report)
        manifest = DenseManifest(
            name=name or folder.resolve().name,
            encoder=encoder.settings,
            vectors=settings_for(intake.count, flat_limit),
            created=note["started"],
            data=note["data"],
            **intake.entries(sources),
        )
        finish(data, manifest.vectors)
        encoder.save_probe(data)
        checksums.note(folder, manifest)
        write_atomically(folder / MANIFEST, manifest.to_json())
        drop_unused(data, manifest.vectors)
    return manifest


def _begin(
    folder: Path,
    intake: Intake,
    settings: Mapping[str, Any],
    probe: Sequence[float],
    earlier: Mapping[str, Any],
    report: Notice,
) -> Mapping[str, Any]:
    """Write the passages, or find that an interrupted build has the same ones and resume it.

    The model is recognised by the probe, as it may have become another under its name. The note of this build is
    returned, and written.
    """
    hosted = is_hosted(str(settings["model"]))
    same = earlier.get("settings") == settings and same_weights(probe, earlier.get("probe"), hosted=hosted)
    resumed = same and is_resumable(folder, earlier)
    # The note of what may be resumed stays until the passages turn out to be others.
    note = new_data(folder, announce=not resumed)
    data = folder / note["data"]
    with disk_errors(data), FileTable.begin(data) as intake.table:
        write_passages(data, intake)
        intake.table.finish()
    source_hash = intake.source_hash.hexdigest()
    intake.report(report)
    if resumed and earlier["source_hash"] == source_hash:
        shutil.rmtree(data, ignore_errors=True)
        report(f"an earlier build of {folder}, begun {earlier['started']}, was interrupted: resuming it")
        return earlier
    if earlier:
        report(f"an earlier build of {folder}, begun {earlier.get('started')}, was interrupted: building again")
    note |= {"settings": dict(settings), "probe": list(probe), "source_hash": source_hash}
    write_atomically(folder / BUILDING, json.dumps(note) + "\n")
    return note


def _encode(data: Path, encoder: Encoder, count: int, shard: int, progress: Progress, report: Notice) -> None:
    passages = PassageFile(data)
    vectors = VectorFile(data, count, encoder.settings.dimension)
    if vectors.done < count and (price := encoder.price(passages.size(vectors.done))):
        report(f"{encoder.settings.model} is asked for the vectors of {count - vectors.done:,} passages: {price}")
    progress(vectors.done, count)
    for start in range(vectors.done, count, shard):
        batch = [passages[row] for row in range(start, min(start + shard, count))]
        # Texts of like length together: a model works on all texts of a batch as on its longest.
        order = sorted(range(len(batch)), key=lambda place: -len(batch[place].text))
        rows: Vectors = np.empty((len(batch), encoder.settings.dimension), np.float32)
        for first in range(0, len(batch), _PIECE):
            places = order[first : first + _PIECE]
            rows[places] = encoder.passages([batch[place] for place in places])
            progress(start + first + len(places), count)
        vectors.append(rows)
