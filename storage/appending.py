"""Files that are only ever appended to, each by one process at a time, and never left with half a line."""

from __future__ import annotations

import os
from contextlib import suppress
from io import FileIO
from pathlib import Path

from keqa.errors import InputError
from keqa.storage.private import opener

__all__ = ["append", "open_locked", "refuse_special"]


def refuse_special(path: Path) -> None:
    """Refuse what is there under a name and is no regular file: a pipe would be waited for, a device never end.

    Raises:
        InputError: That is so.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(f"{path} is no regular file; name another")


def open_locked(path: Path, other: str, instead: str) -> FileIO:
    """Open a file for reading and appending, for this process alone; the system lets go of it when the process ends.

    It is readable by its owner only.

    Args:
        path: The file; it is made where it is missing.
        other: What else may be writing it, such as ``another run``.
        instead: What to do then besides waiting, such as ``name another label``.

    Raises:
        InputError: Another process holds it, or it is no regular file.
        OSError: It cannot be opened.
    """
    refuse_special(path)
    # Append mode keeps a second writer, were there one, from overwriting; reading needs the plus.
    stream = FileIO(path, "a+", opener=opener)
    try:
        import fcntl

        fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        stream.close()
        raise InputError(f"{path} is in use by {other}; wait for its end, or {instead}") from error
    except (ImportError, OSError):
        # Windows, or a file system without locks: there it is for the user to start one at a time.
        pass
    return stream


def append(stream: FileIO, data: bytes, *, sync: bool = False) -> int:
    """Write at the end of a file, all or nothing.

    Args:
        stream: The file.
        data: What to write.
        sync: Whether it is to be on the disk when this returns, so that not even a power cut takes it.

    Returns:
        Where it begins.

    Raises:
        OSError: It cannot be written. The file is as it was.
    """
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
