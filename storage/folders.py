"""Writing a file, or a folder of files, so that it is there whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from keqa.errors import InputError
from keqa.storage.private import new_file, private_folder


def check_writable(folder: Path, option: str) -> None:
    """Refuse a folder that cannot be written to, before work is put into what it shall hold."""
    folder = folder.resolve()
    there = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        Path(tempfile.mkdtemp(prefix=".keqa.", dir=there)).rmdir()
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written: {there}: {error.strerror or error}. Name with {option} a folder that you may "
            "write to"
        ) from error


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


def publish(folder: Path, files: Mapping[str, bytes], owned: AbstractSet[str]) -> None:
    """Write a folder of files that only its owner may read; one there that holds `owned` names alone is replaced.

    The older one is moved aside for that; a process killed right then leaves it there, hidden, as ``.name.….old``.
    """
    folder = folder.resolve()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder")
    if others := sorted({entry.name for entry in folder.iterdir()} - owned) if folder.exists() else []:
        raise InputError(f"{folder} holds other files ({', '.join(others[:3])}); name a new folder")
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
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
