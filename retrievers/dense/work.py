"""A build of a dense index under way, as its folder records it, so that an interrupted one can be resumed."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keqa.errors import InputError, RetrievalError
from keqa.retrievers.base import Passage
from keqa.retrievers.dense.encoding import same_weights
from keqa.retrievers.dense.passages import write_passages
from keqa.retrievers.intake import Intake, Notice
from keqa.retrievers.layout import (
    BUILDING,
    DATA_PREFIX,
    MANIFEST,
    disk_errors,
    read_note,
    read_text,
    remove_if_unused,
    remove_stale,
    write_atomically,
)
from keqa.retrievers.manifest import parse

__all__ = ["Work", "begin", "clean_up"]


@dataclasses.dataclass(frozen=True)
class Work:
    """A build under way.

    Attributes:
        data: Its folder.
        started: When it was begun.
        count: How many passages it has.
        renamed: How many of them had an id that was taken.
        source_hash: Over them.
    """

    data: Path
    started: str
    count: int
    renamed: int
    source_hash: str


def begin(
    folder: Path, passages: Iterable[Passage], settings: Mapping[str, Any], probe: Sequence[float], report: Notice
) -> Work:
    """Write the passages, or find that an interrupted build has the same ones and resume it.

    Args:
        folder: Of the index.
        passages: Read once.
        settings: What the vectors depend on, as JSON.
        probe: A vector of the model, which may have become another under its name.
        report: Called with what the user should know.

    Raises:
        InputError: There are no passages, or one has no id.
        RetrievalError: They cannot be written.
    """
    before = _marker(folder)
    same = before.get("settings") == dict(settings) and same_weights(probe, before.get("probe"))
    earlier = before if same and _unfinished(folder, before) else None
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    data = folder / f"{DATA_PREFIX}{uuid.uuid4().hex[:12]}"
    marker: dict[str, Any] = {"format": "keqa-build", "pid": os.getpid(), "started": started, "data": data.name}
    if earlier is None:
        write_atomically(folder / BUILDING, json.dumps(marker) + "\n")
    intake = Intake(passages)
    with disk_errors(data):
        data.mkdir(mode=0o700)
        count = write_passages(data, intake)
    if not count:
        raise InputError("there are no passages to index: the corpus is empty")
    intake.report(report)
    work = Work(data, started, count, intake.renamed, intake.source_hash.hexdigest())
    if earlier is not None and earlier["source_hash"] == work.source_hash:
        shutil.rmtree(data, ignore_errors=True)
        work = dataclasses.replace(work, data=folder / earlier["data"], started=earlier["started"])
        report(f"an earlier build of {folder}, begun {work.started}, was interrupted: resuming it")
        return work
    if before:
        report(f"an earlier build of {folder}, begun {before.get('started')}, was interrupted: building again")
    marker |= {"settings": dict(settings), "probe": list(probe), "source_hash": work.source_hash}
    write_atomically(folder / BUILDING, json.dumps(marker) + "\n")
    return work


def _marker(folder: Path) -> dict[str, Any]:
    """The note of a build that did not end; empty where there is none."""
    marker = read_note(folder, BUILDING)
    return marker if marker.get("data") != _published(folder) else {}


def _unfinished(folder: Path, marker: dict[str, Any]) -> bool:
    """Whether the passages of an interrupted build were written, so that its shards can be used."""
    return {"source_hash", "started", "data"} <= set(marker) and (folder / str(marker.get("data"))).is_dir()


def _published(folder: Path) -> str | None:
    """The data folder of the index that is there, of whatever engine."""
    try:
        text = read_text(folder)
        return None if text is None else str(parse(text, str(folder))[1].get("data"))
    except RetrievalError:
        # A broken or foreign version is replaced by the new build; it is no reason to refuse one.
        return None


def clean_up(folder: Path) -> None:
    """Remove what neither the index nor a build that can be resumed needs."""
    published, marker = _published(folder), _marker(folder)
    kept = marker["data"] if _unfinished(folder, marker) else None
    if published is not None or not (folder / MANIFEST).exists():
        remove_stale(folder, published, kept)
    if kept is None:
        (folder / BUILDING).unlink(missing_ok=True)
    remove_if_unused(folder)
