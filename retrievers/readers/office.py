"""Word, PowerPoint, Excel and EPUB, read by a process beside this one that cannot take this one with it."""

from __future__ import annotations

import atexit
import io
import json
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any, Final

from keqa.errors import MissingExtraError
from keqa.retrievers.readers.common import MAX_DOCUMENT, UnreadError
from keqa.retrievers.readers.conversion import read_frame, write_frame
from keqa.retrievers.readers.document import Document, Section, given_title, iso_date

SUFFIXES: Final = (".docx", ".pptx", ".xlsx", ".epub")
"""What this module reads."""

SECONDS: Final = 60.0
"""The time that a document may take, and `SECONDS_PER_MB` more for each MB that it unpacks to."""

SECONDS_PER_MB: Final = 2.0

_MOST_ENTRIES = 20_000
# What Office writes packs ten to one, pictures of one colour excepted; a bomb packs a thousand to one.
_SMALL = 32 << 20
_DENSEST = 200
_ZIP, _OLE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"


def read_office(data: bytes, path: Path, suffix: str) -> Document:
    """A document of one of `SUFFIXES`.

    Args:
        data: Its content.
        path: For messages.
        suffix: What it is.

    Raises:
        UnreadError: It is damaged, protected, or takes more time or memory than a document may.
        MissingExtraError: The ``documents`` extra is missing.
    """
    size = _unpacked_size(data, path, suffix)
    found = _CONVERSIONS.convert(data, path, suffix, SECONDS + SECONDS_PER_MB * size / 1e6)
    sections = [Section(**one) for one in found["sections"]]
    headings = (section.heading for section in sections if section.heading and not found.get("records"))
    title = given_title(*found["titles"], next(headings, ""))
    lost = _unvalued(int(found.get("unvalued", 0)), path)
    return Document(title, sections, iso_date(found["date"]), records=bool(found.get("records")), lost=lost)


def _unvalued(formulas: int, path: Path) -> str:
    if not formulas:
        return ""
    counted = "1 formula" if formulas == 1 else f"{formulas:,} formulas"
    verbs = "has no stored value and was" if formulas == 1 else "have no stored value and were"
    return f"{counted} of {path} {verbs} left out: open it in Excel or LibreOffice and save it"


def _unpacked_size(data: bytes, path: Path, suffix: str) -> int:
    """What an archive says that it unpacks to. No more is ever unpacked than it says.

    Raises:
        UnreadError: It is no archive, protected, or a bomb.
    """
    if data.startswith(_OLE):
        what = f"it is in the format of before 2007, or protected by a password: save it as {suffix} without one"
        raise UnreadError("protected or of an old format", f"{path} cannot be read: {what}")
    try:
        if not data.startswith(_ZIP):
            raise zipfile.BadZipFile("it is no zip archive")
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise UnreadError("damaged", f"{path} cannot be read as {suffix}: {error}") from error
    if any(entry.flag_bits & 1 for entry in entries):
        raise UnreadError("protected by a password", f"{path} is protected by a password")
    size = sum(entry.file_size for entry in entries)
    dense = size > _SMALL and size > _DENSEST * len(data)
    if size > MAX_DOCUMENT or len(entries) > _MOST_ENTRIES or dense:
        raise UnreadError(
            "too large",
            f"{path} unpacks to {size:,} bytes in {len(entries):,} files from {len(data):,} bytes, more than is read",
        )
    return size


class _Conversions:
    """The process beside this one: begun with the first document, used for the next, ended where one takes too long."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._one_at_a_time = threading.Lock()

    def convert(self, data: bytes, path: Path, suffix: str, seconds: float) -> dict[str, Any]:
        with self._one_at_a_time:
            process = self._started()
            late = threading.Event()

            def give_up() -> None:
                late.set()
                process.kill()

            timer = threading.Timer(seconds, give_up)
            timer.start()
            frame = None
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                write_frame(process.stdin, {"suffix": suffix}, data)
                frame = read_frame(process.stdout)
            except (OSError, ValueError):
                # It died; what that means is said below.
                frame = None
            finally:
                timer.cancel()
                if frame is None:
                    self.end()
        if frame is None:
            why = f"it took more than {seconds:.0f} s" if late.is_set() else "reading it ended the process that read it"
            raise UnreadError("too large", f"{path} cannot be read: {why}")
        head, body = frame
        if "missing" in head:
            raise MissingExtraError("documents", f"Reading {path.name}")
        if "reason" in head:
            raise UnreadError(head["reason"], f"{path} cannot be read as {suffix}: {head['why']}")
        found: dict[str, Any] = json.loads(body)
        return found

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "keqa.retrievers.readers.conversion"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process

    def end(self) -> None:
        """End the process, if there is one; the next document begins another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


_CONVERSIONS = _Conversions()
atexit.register(_CONVERSIONS.end)
