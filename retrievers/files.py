"""Which files the passages of an index come from."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from keqa.errors import KeqaError, RetrievalError
from keqa.storage.untrusted import open_regular


@dataclass(frozen=True, slots=True)
class Origin:
    """The file that a passage comes from.

    Attributes:
        path: Its absolute path.
        digest: SHA-256 of its bytes, as they were before it was read.
    """

    path: str
    digest: str

    @classmethod
    def of(cls, path: Path) -> Origin:
        """Take note of a file that is about to be read; the digest of one that cannot be is empty."""
        digest = ""
        with suppress(OSError, KeqaError), open_regular(path, links=True, error=RetrievalError) as stream:
            digest = hashlib.file_digest(cast(io.BufferedReader, stream), "sha256").hexdigest()
        return cls(path_of(path), digest)


def path_of(path: Path | str) -> str:
    """The absolute path of a file as indexes can hold it: a name may have bytes that are no text."""
    return os.fsencode(os.path.abspath(path)).decode(errors="backslashreplace")


def each_path(named: Path | str | Iterable[Path | str]) -> list[Path | str]:
    """What a caller names: several files and folders, or a single one, whose characters are no names."""
    return [named] if isinstance(named, Path | str) else list(named)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of an index.

    Attributes:
        digest: See `Origin`.
        passages: How many passages of the index come from it, where they were counted.
    """

    digest: str
    passages: int = 0


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file as it is after a change.

    Attributes:
        digest: See `Origin`.
        ids: Of its passages, in their order.
    """

    digest: str
    ids: tuple[str, ...]


Changes = Mapping[str, FileChange | None]
"""By path, the files that are new or changed; None for one that is gone."""
