"""The folder of an index: what is in it, how it changes atomically, and who may change it.

::

    index/
      manifest.json        names the data folder; replaced atomically, and only when that folder is finished
      manifest.next.json   present while passages are added or deleted: the manifest as it will be after the commit
      building.json        present while a build runs; found without a running build, it tells of an interrupted one
      lock                 held by the process that builds or changes
      data-3f2a…/          the engine's files

A reader trusts the manifest only. The one step that publishes an index is the replacement of one file, so a
process killed at any moment leaves either the index as it was or the new one, complete.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from keqa.errors import InputError, RetrievalError
from keqa.private import new_file, private_folder
from keqa.retrievers.manifest import Manifest

MANIFEST = "manifest.json"
NEXT_MANIFEST = "manifest.next.json"
BUILDING = "building.json"
LOCK = "lock"
DATA_PREFIX = "data-"
_REMOVED_PREFIX = ".removed-"


def read_manifest(folder: Path, name: str = MANIFEST) -> Manifest | None:
    """Return the manifest in a folder, or None where there is no such file.

    Raises:
        RetrievalError: The file cannot be read or is no manifest.
    """
    text = read_text(folder, name)
    return None if text is None else Manifest.from_json(text, str(folder / name))


def read_text(folder: Path, name: str = MANIFEST) -> str | None:
    """Return the text of a manifest of any engine, or None where there is no such file.

    Raises:
        RetrievalError: The file cannot be read.
    """
    path = folder / name
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise RetrievalError(f"{path} cannot be read: {error}") from error


def no_index(folder: Path) -> RetrievalError:
    """Why a folder without a manifest cannot be opened."""
    if (folder / BUILDING).exists():
        return RetrievalError(
            f"the index in {folder} is not finished: its build is still running, or was interrupted. "
            "Run `keqa index` again to build it"
        )
    if not folder.exists():
        return RetrievalError(f"there is no index at {folder}. Build one with `keqa index SOURCE --out {folder}`")
    return RetrievalError(f"{folder} is not an index: it has no manifest.json")


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn what the system raises while something is written into an error that tells what to do.

    Args:
        path: What is written.

    Raises:
        RetrievalError: It cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise cannot_be_written(path, error) from error


def cannot_be_written(path: Path, error: Exception) -> RetrievalError:
    """The error of what could not be written, from that of the system or of a library that knows its words only."""
    full = any(os.strerror(number) in str(error) for number in (errno.ENOSPC, errno.EDQUOT))
    hint = "; free space and run the same again" if full else ""
    return RetrievalError(f"{path} cannot be written: {error}{hint}")


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that, whatever happens, either the old or the new content is there.

    Raises:
        RetrievalError: It cannot be written.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    with disk_errors(path):
        try:
            with new_file(temporary) as stream:
                stream.write(text.encode())
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        except OSError:
            # A folder with such a rest in it would be no index, nor an empty folder.
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the entries of a folder survive a power cut, where the system can."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def claim(folder: Path) -> None:
    """Create the folder of an index, or make sure that an existing one may be replaced.

    Raises:
        InputError: The path is a file, or a folder with something else in it.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: name a folder for the index")
    try:
        private_folder(folder)
        entries = {entry.name for entry in folder.iterdir()}
    except OSError as error:
        raise InputError(f"{folder} cannot be used for an index: {error}") from error
    if entries - {LOCK} and not _is_ours(folder):
        raise InputError(f"{folder} holds something that is not an index; it is left alone. Name another folder")


def _is_ours(folder: Path) -> bool:
    """Tell an index, finished or not, from anything else, by content rather than by the name of a file."""
    for name in (MANIFEST, BUILDING):
        try:
            values = json.loads((folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(values, dict) and values.get("format") in ("keqa-index", "keqa-build"):
            return True
    return False


def remove_stale(folder: Path, *keep: str | None) -> None:
    """Remove the data folders but those that are named: the one of the manifest, and one that a build goes on with.

    They are renamed first. The engine takes some missing files for empty ones, so a reader that opens a folder must
    be able to tell that nothing was removed meanwhile: the folder still has its name.
    """
    for entry in list(folder.iterdir()):
        if entry.name.startswith(DATA_PREFIX) and entry.name not in keep and entry.is_dir():
            with suppress(OSError):
                entry = entry.rename(entry.with_name(f"{_REMOVED_PREFIX}{entry.name}"))
        if entry.name.startswith(_REMOVED_PREFIX):
            shutil.rmtree(entry, ignore_errors=True)


def remove_if_unused(folder: Path) -> None:
    """Remove a folder in which a failed build left nothing."""
    if {entry.name for entry in folder.iterdir()} <= {LOCK}:
        with suppress(OSError):
            (folder / LOCK).unlink(missing_ok=True)
            folder.rmdir()


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the right to change an index. The system releases it when the process ends, however it ends.

    Raises:
        RetrievalError: Another process holds it.
    """
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise RetrievalError(f"{folder} cannot be changed: {error}") from error
    try:
        try:
            _lock(descriptor)
        except OSError as error:
            raise RetrievalError(f"another process is building or changing {folder}: wait for it, or end it") from error
        yield
    finally:
        os.close(descriptor)


if sys.platform == "win32":

    def _lock(descriptor: int) -> None:
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:

    def _lock(descriptor: int) -> None:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
