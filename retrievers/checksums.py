"""Checksums of the files of an index, by which a byte that a disk has changed is found: an engine may not notice.

They lie beside the engine's files, whose names are never used again for other content; so a change computes those of
new files only. Of the manifest, and of the engine's own record of what is in the index, the last two count: a process
may be killed before the second takes the place of the first. What is missing is reported where an index is opened.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from keqa.errors import RetrievalError
from keqa.retrievers.files import FILES
from keqa.retrievers.layout import NEXT_MANIFEST, read_bytes, write_atomically
from keqa.retrievers.manifest import MANIFEST, IndexManifest, parse, read_text
from keqa.storage.untrusted import open_regular, parse_json

CHECKSUMS: Final = "checksums.json"
"""Name of the file in a data folder."""

_LARGEST: Final = 16 << 20
# What says what is in an index, and is replaced by a change.
_RECORDS: Final = (MANIFEST, "meta.json")
# The table of files is checked by itself, where it is read.
_OTHERS: Final = (*_RECORDS, FILES, CHECKSUMS)


@dataclass(frozen=True, slots=True)
class Verified:
    """What a comparison of an index with its checksums has found.

    Attributes:
        files: How many files are as they were written.
        damaged: Those that are not.
        unknown: Those without a checksum, as in an index of an earlier version, or where a process was killed; the
            next change writes it.
    """

    files: int
    damaged: tuple[str, ...]
    unknown: tuple[str, ...]


def note(folder: Path, manifest: IndexManifest) -> None:
    """Write down the checksums of an index, right before its manifest is published.

    Raises:
        RetrievalError: A file cannot be read or written.
    """
    data = folder / manifest.data
    known, records = _noted(data)
    found = {path.name: known.get(path.name) or _digest(path) for path in _files(data)}
    now = {MANIFEST: hashlib.sha256(manifest.to_json().encode()).hexdigest()}
    now |= {name: _digest(data / name) for name in _RECORDS if (data / name).exists()}
    both = {name: [*records.get(name, [])[-1:], digest] for name, digest in now.items()}
    write_atomically(data / CHECKSUMS, json.dumps({"files": found, "records": both}) + "\n")


def verify(folder: Path) -> Verified:
    """Compare an index with its checksums; all of its files are read.

    Raises:
        RetrievalError: It cannot be read.
    """
    _, values = parse(read_text(folder) or "", str(folder / MANIFEST))
    data = folder / str(values.get("data"))
    known, records = _noted(data)
    expected = {**{name: [digest] for name, digest in known.items()}, **records}
    if (folder / NEXT_MANIFEST).exists():
        # Whether the engine's record is that before the change or after it, nobody knows.
        expected |= {name: [] for name in _RECORDS[1:]}
    records_there = [path for path in (folder / MANIFEST, *(data / name for name in _RECORDS[1:])) if path.exists()]
    good, damaged, unknown = 0, [], []
    for path in (*_files(data), *records_there):
        if not (wanted := expected.get(path.name)):
            unknown.append(path.name)
        elif _digest(path) in wanted:
            good += 1
        else:
            damaged.append(path.name)
    return Verified(good, tuple(damaged), tuple(unknown))


def _files(data: Path) -> list[Path]:
    return sorted(one for one in data.iterdir() if one.name not in _OTHERS and not one.name.startswith("."))


def _digest(path: Path) -> str:
    with open_regular(path, error=RetrievalError) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]


def _noted(data: Path) -> tuple[dict[str, str], dict[str, list[str]]]:
    if not (data / CHECKSUMS).exists():
        return {}, {}
    found: Any = parse_json(read_bytes(data, CHECKSUMS, _LARGEST), data / CHECKSUMS, error=RetrievalError)
    files, records = (found.get(name) if isinstance(found, dict) else None for name in ("files", "records"))
    if not isinstance(files, dict) or not isinstance(records, dict):
        raise RetrievalError(f"{data / CHECKSUMS} holds no checksums: the index is damaged, build it again")
    return files, {name: one for name, one in records.items() if isinstance(one, list)}
