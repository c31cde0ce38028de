"""Files and folders for their owner alone: what holds questions, answers or passages is nobody else's to read.

New files get the mode 0600 and new folders 0700, whatever the umask says. A file that was there is narrowed when it is
opened for writing; a folder stays as it is, for it may be shared on purpose.
"""

import os
import secrets
import shutil
import stat
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO, Self

from keqa.errors import InputError, KeqaError

_FILE, _FOLDER = 0o600, 0o700
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def private_folder(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=_FOLDER)
    except FileExistsError:
        if not folder.is_dir():
            raise


def opener(path: str, flags: int) -> int:
    """Open a file, for `open` and its like: a new one is the owner's alone, and one that is there becomes so."""
    descriptor = os.open(path, flags, _FILE)
    _narrow(descriptor)
    return descriptor


def _unlinked(path: str, flags: int) -> int:
    return opener(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def new_file(path: Path) -> BinaryIO:
    """Begin a file whose name others may know beforehand; what lies there is removed, and no link is followed."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, _FILE), "wb")


def private_file(path: Path) -> None:
    """Make an empty file, or narrow the one that is there, unopened: closing it would end this process's locks."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE))
    except FileExistsError:
        _narrow(path)


def _narrow(file: int | Path) -> None:
    """Take away what others may do with a file, where it is this user's."""
    found = os.stat(file)
    # Windows knows no such modes, as some file systems do not.
    mine = hasattr(os, "geteuid") and found.st_uid == os.geteuid()
    if mine and stat.S_ISREG(found.st_mode) and found.st_mode & _OTHERS:
        with suppress(OSError):
            os.chmod(file, stat.S_IMODE(found.st_mode) & ~_OTHERS)


def check_writable(folder: Path, option: str) -> None:
    """Refuse a folder that cannot be written to, before work is put into what it shall hold."""
    folder = folder.resolve()
    there = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        Path(tempfile.mkdtemp(prefix=".keqa.", dir=there)).rmdir()
    except OSError as error:
        why = f"{there}: {error.strerror or error}. Name with {option} a folder that you may write to"
        raise InputError(f"{folder} cannot be written: {why}") from error


def atomic_write(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read; whatever happens, the old content is there or the new."""
    new = path.with_name(f".{path.name}.new")
    try:
        _write(new, content)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _write(path: Path, content: bytes) -> None:
    with new_file(path) as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def check_replaceable(folder: Path, owned: AbstractSet[str]) -> Path:
    """Refuse what is no folder, or one that holds other names than `owned` ones; gives its whole path."""
    folder = folder.resolve()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder")
    if others := sorted({entry.name for entry in folder.iterdir()} - owned) if folder.exists() else []:
        raise InputError(f"{folder} holds other files ({', '.join(others[:3])}); name a new folder")
    return folder


def publish(folder: Path, files: Mapping[str, bytes], owned: AbstractSet[str]) -> None:
    """Write a private folder; one that holds `owned` names alone is replaced, and is ``.name.….old`` meanwhile."""
    folder = check_replaceable(folder, owned)
    mark = f"{folder.name}.{secrets.token_hex(4)}"
    new, old = folder.with_name(f".{mark}.new"), folder.with_name(f".{mark}.old")
    try:
        private_folder(new)
        for name, content in files.items():
            _write(new / name, content)
        sync_folder(new)
        if folder.exists():
            folder.rename(old)
        try:
            new.rename(folder)
        except OSError:
            if old.exists():
                old.rename(folder)
            raise
        sync_folder(folder.parent)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error}") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Make the entries of a folder survive a power cut, where the system can."""
    if sys.platform != "win32":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def refuse_special(path: Path, error: type[KeqaError] = InputError, *, links: bool = True) -> None:
    """Refuse what is no regular file: a pipe that would be waited for, a device, a link to nowhere."""
    if path.is_symlink() and not (links and path.exists()):
        raise error(f"{path} is a link{'' if path.exists() else ' that leads nowhere'}; name the file that is meant")
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise error(f"{path} is no regular file; name another")


def open_locked(
    path: Path, holder: str, instead: str, *, lock_only: bool = False, error: type[KeqaError] = InputError
) -> FileIO:
    """Open a file for reading and appending, for this process alone and its owner only, until it is closed.

    The file itself is locked: there is no second one beside it that could be left behind. Of one that is there for its
    lock alone no link is followed, and a file system without locks is refused. One with content is used there without
    one, and on Windows, where a lock would keep its readers out.
    """
    from filelock import lock_descriptor

    refuse_special(path, error)
    # Append mode keeps a second writer, were there one, from overwriting; reading needs the plus.
    stream = FileIO(path, "a+", opener=_unlinked if lock_only else opener)
    reason = f"is in use by {holder}; wait for its end, or {instead}"
    try:
        if (sys.platform == "win32" and not lock_only) or lock_descriptor(stream.fileno(), blocking=False):
            return stream
    except OSError as problem:
        if not lock_only:
            return stream
        reason = f"cannot be locked: {problem}. Name a folder on another disk"
    stream.close()
    raise error(f"{path} {reason}")


def append(stream: FileIO, data: bytes, *, sync: bool = False) -> int:
    """Write at the end of a file, all or nothing, and say where it begins; `sync` outlasts even a power cut."""
    end = stream.seek(0, os.SEEK_END)
    try:
        if stream.write(data) != len(data):
            raise OSError("the disk is full")
        if sync:
            os.fsync(stream.fileno())
    except OSError:
        with suppress(OSError):
            stream.truncate(end)
        raise
    return end


class Closing(ABC):
    """A context manager that closes itself."""

    @abstractmethod
    def close(self) -> None:
        """Close the file, so that it can be opened again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
