"""Appending to a file that is never left with half a line."""

from __future__ import annotations

import os
from contextlib import suppress
from io import FileIO


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
