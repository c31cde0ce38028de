"""Files and folders for their owner alone: what holds questions, answers or passages is nobody else's to read.

New files get the mode 0600 and new folders 0700, whatever the umask says. A file of the user's that was there before is
narrowed when it is opened for writing. A folder that was there before stays as it is: it may be shared on purpose.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

_FILE, _FOLDER = 0o600, 0o700
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def private_folder(folder: Path) -> None:
    """Make a folder, with those above it, unless it is there."""
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


def new_file(path: Path) -> BinaryIO:
    """Begin a file whose name others may know beforehand; what lies there is removed, and no link is followed."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, _FILE), "wb")


def private_file(path: Path) -> None:
    """Make an empty file for a library that opens it by its name, or narrow the one that is there.

    It is not opened where it is there: closing it would end the locks that this process holds on it.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE))
    except FileExistsError:
        _narrow(path)


def _narrow(file: int | Path) -> None:
    """Take away what others may do with a file, where it is this user's."""
    if not hasattr(os, "geteuid"):
        # Windows knows no such modes.
        return
    found = os.stat(file)
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_mode & _OTHERS:
        # Some file systems have no modes.
        with suppress(OSError):
            os.chmod(file, stat.S_IMODE(found.st_mode) & ~_OTHERS)
