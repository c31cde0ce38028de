"""Word, PowerPoint, Excel and EPUB."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Final

from keqa.retrievers.readers.beside import allow
from keqa.retrievers.readers.common import DENSEST, MAX_DOCUMENT, SMALL, UnreadError
from keqa.retrievers.readers.conversion import RefusedError, convert
from keqa.retrievers.readers.document import Document, Section, given_title, iso_date

SUFFIXES: Final = (".docx", ".pptx", ".xlsx", ".epub")
"""What this module reads."""

_MOST_ENTRIES = 20_000
_ZIP, _OLE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"


def read_office(data: bytes, path: Path, suffix: str) -> Document:
    """A document of one of `SUFFIXES`.

    Args:
        data: Its content.
        path: For messages.
        suffix: What it is.

    Raises:
        UnreadError: It is damaged, protected, or unpacks to too much.
        ImportError: The ``documents`` extra is missing.
        Exception: The libraries could not read it.
    """
    allow(_unpacked_size(data, path, suffix))
    try:
        found = convert(suffix, data)
    except RefusedError as error:
        raise UnreadError(error.reason, f"{path} cannot be read as {suffix}: {error}") from error
    sections = [Section(**one) for one in found["sections"]]
    headings = (section.heading for section in sections if section.heading and not found.get("records"))
    title = given_title(*found["titles"], next(headings, ""))
    lost = _unvalued(int(found.get("unvalued", 0)), path)
    return Document(
        title,
        sections,
        iso_date(found["date"]),
        records=bool(found.get("records")),
        about=found.get("about", ""),
        lost=lost,
    )


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
    dense = size > SMALL and size > DENSEST * len(data)
    if size > MAX_DOCUMENT or len(entries) > _MOST_ENTRIES or dense:
        raise UnreadError(
            "too large",
            f"{path} unpacks to {size:,} bytes in {len(entries):,} files from {len(data):,} bytes, more than is read",
        )
    return size
