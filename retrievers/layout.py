"""The folder of an index: what is in it, how it changes at once, and who may change it.

::

    index/
      lock                 held by the process that builds or changes
      data/
        meta.json, …       the engine's files: one commit is the whole index
        manifest-7.json    what the first commit after the stamp 7 says about itself, and the digests of its files
        checksums.json     by which a byte that a disk has changed is found
        vectors-3f2a….*    of a dense index, the vectors of its passages by what was encoded

A manifest is written before its commit, and is true once the engine has replaced ``meta.json``: a process killed at any
moment leaves the index as it was or as it should be, complete. The engine counts what it does in stamps that only rise,
so the manifest of a commit is the one with the highest number below the stamp of the commit.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from keqa.errors import InputError, RetrievalError
from keqa.retrievers.manifest import parse, read_lines
from keqa.storage.folders import sync_folder
from keqa.storage.locking import open_locked
from keqa.storage.private import new_file, private_folder
from keqa.storage.terminal import visible_line
from keqa.storage.untrusted import MissingFileError, parse_json, read_file

LOCK: Final = "lock"
DATA: Final = "data"
META: Final = "meta.json"
VECTORS: Final = "vectors-"
_MANIFEST: Final = re.compile(r"manifest-([0-9]{1,18})\.json")
# An entry for each segment; an index has dozens.
_LARGEST_META: Final = 16 << 20


class State(NamedTuple):
    """What is published in the folder of an index.

    Attributes:
        stamp: Of the engine's commit.
        manifest: Name of the file that describes it.
        files: What differs when the engine's record or the manifest is another file.
    """

    stamp: int
    manifest: str
    files: tuple[tuple[int, int], ...]


def state_of(folder: Path) -> State:
    """What is published in a folder; a RetrievalError says that there is no finished index, or what is wrong."""
    data = folder / DATA
    if data.is_symlink():
        raise RetrievalError(f"{data} is a link; an index keeps its files in its own folder")
    try:
        with os.scandir(data) as entries:
            there = {entry.name: entry.is_file(follow_symlinks=False) for entry in entries}
    except (FileNotFoundError, NotADirectoryError):
        raise _no_index(folder) from None
    except OSError as error:
        raise RetrievalError(f"the index in {folder} is broken: {data} cannot be read: {error}") from error
    if odd := next((name for name, regular in there.items() if not regular), None):
        raise RetrievalError(f"{data} holds {odd!r}, which is no regular file: the index is not opened")
    stamp = stamp_of(data) if META in there else 0
    before = {int(found[1]): name for name in there if (found := _MANIFEST.fullmatch(name)) and int(found[1]) < stamp}
    if not before:
        raise _no_index(folder)
    name = before[max(before)]
    with suppress(OSError):
        stats = [os.stat(data / one) for one in (META, name)]
        return State(stamp, name, tuple((one.st_ino, one.st_mtime_ns) for one in stats))
    raise RetrievalError(f"the index in {folder} is being changed")


def stamp_of(data: Path) -> int:
    """The operation stamp of the last commit, by the engine's own record."""
    try:
        record = parse_json(
            read_file(data, META, _LARGEST_META, error=RetrievalError), data / META, error=RetrievalError
        )
    except (RetrievalError, MissingFileError) as error:
        raise RetrievalError(f"the index in {data} is broken: {error}") from error
    stamp = record.get("opstamp") if isinstance(record, dict) else None
    if type(stamp) is not int:
        raise RetrievalError(f"the index in {data} is broken: meta.json has no operation stamp")
    return stamp


def manifest_name(stamp: int) -> str:
    """The file of the manifest that the first commit after a stamp will have."""
    return f"manifest-{stamp}.json"


def remove_manifests(data: Path, but: str) -> None:
    """Remove the manifests of other states: of earlier ones, and of changes that were killed."""
    for path in data.iterdir():
        if _MANIFEST.fullmatch(path.name) and path.name != but:
            path.unlink(missing_ok=True)


class Lengths:
    """How long the files of an index were when it was opened, which an engine maps into memory.

    Who cuts one off, as by copying another over it, ends every process that reads beyond its end. To look before each
    search leaves a moment only in which that can happen; no change that KEQA makes cuts a file off.
    """

    def __init__(self, data: Path) -> None:
        self._files: list[tuple[str, int, int]] = []
        # What a change removes meanwhile is mapped as it was; what is replaced is not mapped.
        with suppress(FileNotFoundError), os.scandir(data) as entries:
            for one in entries:
                if not one.name.startswith(".") and not one.name.endswith(".json"):
                    with suppress(FileNotFoundError):
                        found = one.stat()
                        self._files.append((one.path, found.st_ino, found.st_size))

    def check(self) -> None:
        """Make sure that no file is shorter by now; one that a change has removed is still there for this process."""
        for path, inode, size in self._files:
            with suppress(OSError):
                now = os.stat(path)
                if now.st_size < size and now.st_ino == inode:
                    raise RetrievalError(f"{path} was cut off while it was in use: build the index again")


def _no_index(folder: Path) -> RetrievalError:
    if (folder / DATA).exists() and (folder / LOCK).exists():
        return RetrievalError(
            f"the index in {folder} is not finished: its build is still running, or was interrupted. "
            "Run `keqa index` again to build it"
        )
    if not folder.exists():
        return RetrievalError(f"there is no index at {folder}. Build one with `keqa index SOURCE --out {folder}`")
    if (folder / "manifest.json").is_file() and (folder / LOCK).exists():
        return RetrievalError(
            f"{folder} is an index of an earlier version, which this one cannot read. "
            "Index its documents again, into another folder"
        )
    return RetrievalError(f"{folder} is not an index: it has no manifest")


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn what the system raises while something is written into an error that says what to do."""
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
    """Write a file so that, whatever happens, either the old or the new content is there."""
    temporary = path.with_name(f".{path.name}.tmp")
    with disk_errors(path):
        try:
            with new_file(temporary) as stream:
                stream.write(text.encode())
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def check_place(folder: Path, sources: Sequence[str] = (), *, overwrite: bool = False) -> None:
    """Make sure, before anything is done, that an index of some sources can be built in a folder; nothing is created.

    An index that was made of other sources may be replaced with ``overwrite`` only.
    """
    if str(folder).startswith("documents:"):
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
    # The lock is made before anything else.
    if entries - {LOCK, DATA} or entries == {DATA}:
        raise InputError(f"{folder} holds something that is not an index; it is left alone. Name another folder")
    earlier: object = None
    with suppress(RetrievalError):
        name = state_of(folder).manifest
        earlier = parse(read_lines(folder / DATA, name)[0], name)[1].get("sources")
    if isinstance(earlier, list) and all(isinstance(one, str) for one in earlier) and not overwrite:
        refuse_other_sources(str(folder), earlier, sources)


@contextmanager
def building(folder: Path, sources: Sequence[str], *, overwrite: bool) -> Iterator[Path]:
    """Hold the right to build an index in a folder, which gives the folder of its data; see `check_place`.

    What a first build that failed leaves is removed, but for vectors, with which the same build goes on.
    """
    check_place(folder, sources, overwrite=overwrite)
    data = folder / DATA
    try:
        # An index holds passages; who wants others to read it gives them the right.
        private_folder(folder)
    except OSError as error:
        raise InputError(f"{folder} cannot be used for an index: {error}. Name another folder") from error
    with exclusive(folder):
        with disk_errors(data):
            if data.is_symlink():
                data.unlink()
            private_folder(data)
            # Somebody else may have made the folder, and nothing is written through a link of theirs.
            for path in data.iterdir():
                if path.is_symlink():
                    path.unlink()
        try:
            yield data
        finally:
            _clear_away(folder)


def _clear_away(folder: Path) -> None:
    with suppress(RetrievalError):
        state_of(folder)
        return
    data = folder / DATA
    if any(one.name.startswith(VECTORS) for one in data.iterdir()) or ((data / META).exists() and stamp_of(data)):
        return
    with suppress(OSError):
        remove_engine(data)
        data.rmdir()
        (folder / LOCK).unlink(missing_ok=True)
        folder.rmdir()


def remove_engine(data: Path) -> None:
    """Remove all but the vectors: nothing that is there can be opened."""
    for path in data.iterdir():
        if not path.name.startswith(VECTORS):
            path.unlink()


def refuse_other_sources(place: str, earlier: Sequence[str], sources: Sequence[str]) -> None:
    """Refuse to replace an index by one of other files and folders; what is in them may have changed."""
    if {os.path.abspath(source) for source in earlier} == {os.path.abspath(source) for source in sources}:
        return
    more = f" and {len(earlier) - 3} more" if len(earlier) > 3 else ""
    of = ", ".join(visible_line(source)[:200] for source in earlier[:3]) + more
    raise InputError(
        f"{place} holds an index of other sources ({of or 'passages that a program gave'}); it is left alone. Name "
        "another place, or replace it with --force (in Python overwrite=True)"
    )


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the right to change an index. The system releases it when the process ends, however it ends."""
    holder = "another process, which is building or changing the index"
    try:
        lock = open_locked(folder / LOCK, holder, "end it", lock_only=True, error=RetrievalError)
    except OSError as error:
        raise RetrievalError(f"{folder} cannot be changed: {error}") from error
    with lock:
        yield
