"""Checksums of the files of an index, by which a byte that a disk has changed is found: an engine may not notice.

They lie beside the engine's files, whose names are never used again for other content, so a change computes those of
new files only; its own record and the manifest are replaced. What is missing is reported where an index is opened.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from keqa.errors import RetrievalError
from keqa.retrievers.layout import DATA, manifest_name, stamp_of, write_atomically
from keqa.storage.untrusted import MissingFileError, open_regular, read_json

CHECKSUMS: Final = "checksums.json"
_LARGEST: Final = 16 << 20
# What is written again under its name: the engine's record, manifests, and vectors, which are added to.
_REPLACED: Final = (".json", ".rows", ".keys")


@dataclass(frozen=True, slots=True)
class Verified:
    """What a comparison of an index with its checksums has found.

    Attributes:
        files: How many files are as they were written.
        damaged: Those that are not.
        unknown: Those without a checksum, where a process was killed; the next change writes it.
    """

    files: int
    damaged: tuple[str, ...]
    unknown: tuple[str, ...]


def note(data: Path) -> None:
    """Write down the checksums of an index; of what may have been replaced only where a commit was made since."""
    known, stamp, now = *_noted(data), stamp_of(data)
    found = {}
    for path in _files(data):
        old = known.get(path.name)
        # What is only added to has a size beside its checksum.
        kept = old is not None and (not path.name.endswith(_REPLACED) or stamp == now)
        size = path.stat().st_size
        found[path.name] = old if kept and old is not None and old[1] == size else [_digest(path, size), size]
    if (found, now) != (known, stamp):
        write_atomically(data / CHECKSUMS, json.dumps({"stamp": now, "files": found}) + "\n")


def verify(folder: Path) -> Verified:
    """Compare an index with its checksums; all of its files are read."""
    data = folder / DATA
    known, stamp = _noted(data)
    # A process was killed between its commit and the checksums, or right before the one.
    changed = (data / manifest_name(stamp)).exists()
    good, damaged, unknown = 0, [], []
    for path in _files(data):
        expected = known.get(path.name)
        if expected is None or (changed and path.name.endswith(_REPLACED)):
            unknown.append(path.name)
        elif path.stat().st_size >= expected[1] and _digest(path, expected[1]) == expected[0]:
            good += 1
        else:
            damaged.append(path.name)
    return Verified(good, tuple(damaged), tuple(unknown))


def _files(data: Path) -> list[Path]:
    return sorted(one for one in data.iterdir() if one.name != CHECKSUMS and not one.name.startswith("."))


def _digest(path: Path, size: int) -> str:
    """The checksum of the beginning of a file, which something may have been added to."""
    digest = hashlib.sha256()
    with open_regular(path, error=RetrievalError) as stream:
        while size > 0 and (chunk := stream.read(min(size, 1 << 20))):
            digest.update(chunk)
            size -= len(chunk)
    return digest.hexdigest()


def _noted(data: Path) -> tuple[dict[str, list[Any]], int]:
    try:
        found = read_json(data, CHECKSUMS, _LARGEST, error=RetrievalError)
    except MissingFileError:
        return {}, -1
    files, stamp = (found.get("files"), found.get("stamp")) if isinstance(found, dict) else (None, None)
    sound = isinstance(files, dict) and all(
        isinstance(one, list) and len(one) == 2 and type(one[1]) is int for one in files.values()
    )
    if not isinstance(files, dict) or not sound or type(stamp) is not int:
        raise RetrievalError(f"{data / CHECKSUMS} holds no checksums: the index is damaged, build it again")
    return files, stamp
