"""The folder of an index: what is in it, how it changes atomically, and who may change it.

::

    index/
      manifest.json        names the data folder; replaced atomically, and only when that folder is finished
      manifest.next.json   present while passages are added or deleted: the manifest as it will be after the commit
      building.json        present while a build runs; found without a running build, it is that of an interrupted one
      lock                 held by the process that builds or changes
      data-3f2a…/          the engine's files

A reader trusts the manifest only. The one step that publishes an index is the replacement of one file, so a
process killed at any moment leaves either the index as it was or the new one, complete.
"""

from __future__ import annotations

import datetime
import errno
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from keqa.errors import InputError, RetrievalError
from keqa.retrievers.documents import is_documents
from keqa.retrievers.manifest import FORMAT, MANIFEST, IndexManifest, is_data_name, parse, read_text
from keqa.storage.folders import sync_folder
from keqa.storage.locking import open_locked
from keqa.storage.private import new_file, private_folder
from keqa.storage.terminal import visible_line
from keqa.storage.untrusted import MissingFileError, parse_json, read_file

NEXT_MANIFEST = "manifest.next.json"
BUILDING = "building.json"
LOCK = "lock"
DATA_PREFIX = "data-"
_REPLACED = (".json", ".sqlite", "-journal")
_REMOVED_PREFIX = ".removed-"
_BUILD = "keqa-build"
# Another process may be between its commit and its new manifest, or have just replaced the data folder.
_ATTEMPTS = 20
_PAUSE = 0.05

_M = TypeVar("_M", bound=IndexManifest)
_T = TypeVar("_T")


def read_bytes(data: Path, name: str, limit: int) -> bytes:
    """The content of a small file in a data folder, which must be there.

    Raises:
        RetrievalError: It is not there, is larger than it can be, or cannot be read.
    """
    try:
        return read_file(data, name, limit, error=RetrievalError)
    except MissingFileError as error:
        raise RetrievalError(f"{error}: the index is broken, build it again") from error


def open_current(folder: Path, kind: type[_M], open_data: Callable[[_M, Path], _T]) -> _T:
    """Open what a manifest names, again where another process replaces or changes the index meanwhile.

    Args:
        folder: Of the index.
        kind: Of manifests.
        open_data: From the manifest and the data folder, in which there are regular files only, to what is opened.

    Raises:
        RetrievalError: There is no finished index, it is truncated or broken, or this version cannot read it.
    """
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE)
        manifest = kind.read(folder)
        if manifest is None:
            raise no_index(folder)
        try:
            return open_data(manifest, _data_folder(folder, manifest.data))
        except RetrievalError as error:
            failure = error
        # Only a change under way is worth waiting for; without one, the index is as it will stay.
        if not (folder / NEXT_MANIFEST).exists() and kind.read(folder) == manifest:
            break
    raise failure


def _data_folder(folder: Path, name: str) -> Path:
    """The data folder of an index, which holds regular files and nothing else."""
    data = folder / name
    try:
        if data.is_symlink():
            raise RetrievalError(f"{data} is a link; an index keeps its files in its own folder")
        with os.scandir(data) as entries:
            odd = next((entry.name for entry in entries if not entry.is_file(follow_symlinks=False)), None)
    except OSError as error:
        raise RetrievalError(f"the index in {folder} is broken: {data} cannot be read: {error}") from error
    if odd is not None:
        raise RetrievalError(f"{data} holds {odd!r}, which is no regular file: the index is not opened")
    return data


class Lengths:
    """How long the files of an index were when it was opened, which an engine maps into memory.

    Who cuts one off, as by copying another over it, ends every process that reads beyond its end. To look before each
    search leaves a moment only in which that can happen; no change that KEQA makes cuts a file off.
    """

    def __init__(self, data: Path) -> None:
        """Take note of the files of a data folder; those that a change replaces are not mapped."""
        self._files: list[tuple[str, int, int]] = []
        # What a rebuild removes meanwhile is mapped as it was.
        with suppress(FileNotFoundError), os.scandir(data) as entries:
            kept = [one for one in entries if not one.name.startswith(".") and not one.name.endswith(_REPLACED)]
            for one in kept:
                with suppress(FileNotFoundError):
                    found = one.stat()
                    self._files.append((one.path, found.st_ino, found.st_size))

    def check(self) -> None:
        """Make sure that no file is shorter by now; one that a change has removed is still there for this process.

        Raises:
            RetrievalError: One is.
        """
        for path, inode, size in self._files:
            with suppress(OSError):
                now = os.stat(path)
                if now.st_size < size and now.st_ino == inode:
                    raise RetrievalError(f"{path} was cut off while it was in use: build the index again")


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
    """Turn what the system raises while something is written into an error that says what to do.

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


def check_place(folder: Path, sources: Sequence[str] = (), *, overwrite: bool = False) -> None:
    """Make sure, before anything is done, that an index can be built in a folder. Nothing is created.

    Args:
        folder: Where the index is to be.
        sources: What it is to be made of.
        overwrite: Whether an index that was made of other sources may be replaced.

    Raises:
        InputError: The path is a file, a folder that cannot be written to, one with something else in it, an index of
            other sources, or one whose name would be the address of something else.
    """
    if is_documents(str(folder)):
        raise InputError(
            f"an index in {folder} could not be named afterwards: documents:FILE is a file of documents, one a "
            f"question. Name another folder, such as {str(folder).replace(':', '-')}"
        )
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: name a folder for the index")
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not there.is_dir():
        raise InputError(f"{folder} cannot be created: {there} is a file. Name another folder for the index")
    if not os.access(there, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise InputError(
            f"{there} cannot be written to: there are no rights to, or it is read-only. Name a folder for the index "
            "in which you may write"
        )
    if folder != there:
        return
    try:
        entries = {entry.name for entry in folder.iterdir()}
    except OSError as error:
        raise InputError(f"{folder} cannot be used for an index: {error}. Name another folder") from error
    ours = any(_note(folder, name).get("format") in (FORMAT, _BUILD) for name in (MANIFEST, BUILDING))
    if entries - {LOCK} and not ours:
        raise InputError(f"{folder} holds something that is not an index; it is left alone. Name another folder")
    earlier = _note(folder, MANIFEST).get("sources")
    if isinstance(earlier, list) and all(isinstance(one, str) for one in earlier) and not overwrite:
        refuse_other_sources(str(folder), earlier, sources)


def _note(folder: Path, name: str) -> dict[str, Any]:
    """The JSON object in a file of an index, whatever it says; empty where there is none.

    Raises:
        InputError: The file cannot be read, so that whether this is an index is unknown.
    """
    try:
        text = read_text(folder, name)
    except RetrievalError as error:
        raise InputError(f"whether {folder} holds an index is unknown: {error}. Name another folder") from error
    try:
        note = None if text is None else parse_json(text, folder / name, error=RetrievalError)
    except RetrievalError:
        return {}
    return note if isinstance(note, dict) else {}


def refuse_other_sources(place: str, earlier: Sequence[str], sources: Sequence[str]) -> None:
    """Refuse to replace an index by one of other files and folders; what is in them may have changed.

    Args:
        place: Where the index is.
        earlier: What it was made of.
        sources: What the new one is to be made of.

    Raises:
        InputError: These are others.
    """
    if {os.path.abspath(source) for source in earlier} == {os.path.abspath(source) for source in sources}:
        return
    more = f" and {len(earlier) - 3} more" if len(earlier) > 3 else ""
    of = ", ".join(visible_line(source)[:200] for source in earlier[:3]) + more
    raise InputError(
        f"{place} holds an index of other sources ({of or 'passages that a program gave'}); it is left alone. Name "
        "another place, or replace it with --force (in Python overwrite=True)"
    )


@contextmanager
def building(folder: Path, sources: Sequence[str], *, overwrite: bool) -> Iterator[dict[str, Any]]:
    """Hold the right to build an index in a folder, and clear away at the end what neither it nor a later build needs.

    Args:
        folder: See `check_place`; it is made where it is missing.
        sources: See `check_place`.
        overwrite: See `check_place`.

    Yields:
        The note of an earlier build that did not end; empty where there is none.

    Raises:
        InputError: See `check_place`.
        RetrievalError: See `exclusive`.
    """
    check_place(folder, sources, overwrite=overwrite)
    try:
        # An index holds passages; who wants others to read it gives them the right.
        private_folder(folder)
    except OSError as error:
        raise InputError(f"{folder} cannot be used for an index: {error}. Name another folder") from error
    with exclusive(folder):
        try:
            yield _interrupted(folder)
        finally:
            clean_up(folder)


def new_data(folder: Path, *, announce: bool = True) -> dict[str, Any]:
    """Make the data folder of a build, and write down that the build is under way.

    Args:
        folder: Of the index.
        announce: Whether it is written down at once, in the place of the note of an earlier build.

    Returns:
        The note: ``data`` names the folder, ``started`` the time.

    Raises:
        RetrievalError: It cannot be written.
    """
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    name = f"{DATA_PREFIX}{uuid.uuid4().hex[:12]}"
    note = {"format": _BUILD, "pid": os.getpid(), "started": started, "data": name}
    if announce:
        write_atomically(folder / BUILDING, json.dumps(note) + "\n")
    with disk_errors(folder / name):
        (folder / name).mkdir(mode=0o700)
    return note


def is_resumable(folder: Path, note: Mapping[str, Any]) -> bool:
    """Whether the passages of an interrupted build were written, so that what was made of them can be used."""
    return {"source_hash", "started", "data"} <= set(note) and (folder / str(note["data"])).is_dir()


def _interrupted(folder: Path) -> dict[str, Any]:
    """The note of a build that did not end; empty where there is none.

    It may come from anyone as the index may, so a data folder that it names is one inside the index.
    """
    try:
        note = _note(folder, BUILDING)
    except InputError:
        return {}
    named = note.get("data")
    return note if isinstance(named, str) and is_data_name(named) and named != _published(folder) else {}


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
    published, note = _published(folder), _interrupted(folder)
    kept = note["data"] if is_resumable(folder, note) else None
    # Where a manifest is there but cannot be read, which data is its own is unknown, and all of it stays.
    if published is not None or not (folder / MANIFEST).exists():
        _remove_data(folder, published, kept)
    if kept is None:
        (folder / BUILDING).unlink(missing_ok=True)
    if {entry.name for entry in folder.iterdir()} <= {LOCK}:
        with suppress(OSError):
            (folder / LOCK).unlink(missing_ok=True)
            folder.rmdir()


def _remove_data(folder: Path, *keep: str | None) -> None:
    """Remove the data folders but those that are named: the one of the manifest, and one that a build resumes.

    They are renamed first. The engine takes some missing files for empty ones, so a reader that opens a folder must
    be able to see that nothing was removed meanwhile: the folder still has its name.
    """
    for entry in list(folder.iterdir()):
        if entry.name.startswith(DATA_PREFIX) and entry.name not in keep and entry.is_dir():
            with suppress(OSError):
                entry = entry.rename(entry.with_name(f"{_REMOVED_PREFIX}{entry.name}"))
        if entry.name.startswith(_REMOVED_PREFIX):
            shutil.rmtree(entry, ignore_errors=True)


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the right to change an index. The system releases it when the process ends, however it ends.

    Raises:
        RetrievalError: Another process holds it, or the folder cannot be written to or locked.
    """
    holder = "another process, which is building or changing the index"
    try:
        lock = open_locked(folder / LOCK, holder, "end it", lock_only=True, error=RetrievalError)
    except OSError as error:
        raise RetrievalError(f"{folder} cannot be changed: {error}") from error
    with lock:
        yield
