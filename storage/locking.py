"""Locks on files, which one process holds at a time and which end with it, however it ends."""

from __future__ import annotations

import os
import sys
from io import FileIO
from pathlib import Path

from keqa.errors import InputError, KeqaError
from keqa.storage.private import opener


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
    lock alone no link is followed, and a file system without locks is refused. One with content is used there without,
    and on Windows, where a lock would keep its readers out: starting one process at a time is the user's part there.
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


def _unlinked(path: str, flags: int) -> int:
    return opener(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
