"""Documents, one by one and by the folder, whatever their format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from keqa.retrievers.base import Notice, Passage
from keqa.retrievers.manifest import RECORD_SUFFIXES, LeftOutCounter
from keqa.retrievers.readers.beside import read_beside
from keqa.retrievers.readers.common import (
    LONGEST_TITLE,
    MAX_DOCUMENT,
    decode,
    plain_stem,
    plain_suffix,
    read_whole,
    refuse_binary,
)
from keqa.retrievers.readers.document import Document, Section, markdown_sections
from keqa.retrievers.readers.front_matter import front_matter
from keqa.retrievers.readers.html import read_html
from keqa.retrievers.readers.mail import read_mail
from keqa.retrievers.readers.office import SUFFIXES, read_office
from keqa.retrievers.readers.pdf import read_pdf
from keqa.retrievers.readers.records import json_passages
from keqa.retrievers.readers.tables import read_csv
from keqa.retrievers.text import clean_text, one_line

# Beside its number, the id of a passage has this path, and ids are at most 1,000 characters long.
_LONGEST_PATH = 900


def read_document(
    path: Path, identifier: str, words: int, notice: Notice, left_out: LeftOutCounter
) -> Iterator[Passage]:
    """Yield the passages of one document, whose ids are ``identifier#1``, ``identifier#2`` and so on."""
    suffix = plain_suffix(path)
    data = read_whole(path, MAX_DOCUMENT)
    if not data.strip():
        left_out.pass_over("empty", path)
        return
    if suffix not in _NO_TEXT_FILES:
        refuse_binary(data, path)
    passages, lost = read_beside(data, path, identifier, words, notice)
    if not passages:
        needs = " (a scanned PDF needs OCR first)" if suffix == ".pdf" else ""
        left_out.unread(path, "without text", lost or f"{path} has no text{needs}")
    elif lost:
        notice(lost)
    yield from passages


def passages_of(data: bytes, path: Path, identifier: str, words: int, notice: Notice) -> tuple[Iterator[Passage], str]:
    """What `read_beside` gives, read by this process."""
    if plain_suffix(path) == ".json":
        return json_passages(data, path, notice), ""
    document = DOCUMENTS[plain_suffix(path)](data, path, notice)
    title = one_line(clean_text(document.title))[:LONGEST_TITLE] or plain_stem(path).replace("_", " ")
    pieces = enumerate(document.passages(identifier, words), start=1)
    return (
        Passage(f"{identifier}#{number}", own or title, text, place) for number, (own, text, place) in pieces
    ), document.lost


def _read_text(data: bytes, path: Path, notice: Notice) -> Document:
    return Document("", [Section(decode(data, str(path), notice))])


def _read_markdown(data: bytes, path: Path, notice: Notice) -> Document:
    text = decode(data, str(path), notice).replace("\r\n", "\n").removeprefix("\ufeff")
    title, date, about, text = front_matter(text)
    sections = markdown_sections(text)
    return Document(
        title or next((one.heading for one in sections if one.heading), ""), sections, front=date, about=about
    )


DOCUMENTS: Final[dict[str, Callable[[bytes, Path, Notice], Document]]] = {
    ".csv": read_csv,
    **dict.fromkeys(SUFFIXES, lambda data, path, notice: read_office(data, path, plain_suffix(path))),
    ".eml": read_mail,
    **dict.fromkeys((".htm", ".html"), lambda data, path, notice: read_html(data, path)),
    **dict.fromkeys((".markdown", ".md"), _read_markdown),
    ".pdf": lambda data, path, notice: read_pdf(data, path),
    ".txt": _read_text,
}
"""The reader of each suffix."""

_NO_TEXT_FILES: Final = frozenset((*SUFFIXES, ".pdf"))


def documents_below(folder: Path, left_out: LeftOutCounter) -> Iterator[Path]:
    """The documents below a folder, in the order of their paths; what is none is counted.

    Hidden files and folders are passed over, as are files of other kinds. Links to folders, and links to files outside
    the folder, are not followed.
    """
    root = os.path.realpath(folder)
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        try:
            with os.scandir(current) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            why = error.strerror or str(error)
            left_out.unread(current, "folders that cannot be opened", f"{current} cannot be opened: {why}")
            continue
        inner = []
        for entry in entries:
            path = Path(current, entry.name)
            if _is_hidden(entry.name):
                left_out.pass_over("hidden", path)
            elif entry.is_symlink() and not _is_followed(entry, path, root, left_out):
                continue
            elif entry.is_dir(follow_symlinks=False):
                inner.append(path)
            elif plain_suffix(path) not in DOCUMENTS:
                packed = plain_suffix(path)
                kind = packed if packed in RECORD_SUFFIXES else path.suffix.lower()
                left_out.pass_over(kind or "without a suffix", path)
            elif not entry.is_file():
                left_out.unread(path, "pipes or devices", f"{path} is no regular file")
            elif len(path.relative_to(folder).as_posix()) > _LONGEST_PATH:
                left_out.unread(path, "with too long a path", f"{path} has a path of over {_LONGEST_PATH} characters")
            else:
                yield path
        waiting.extend(reversed(inner))


def _is_hidden(name: str) -> bool:
    # What Word keeps beside an open document is hidden on Windows, and no document.
    return name.startswith((".", "~$"))


def _is_followed(entry: os.DirEntry[str], path: Path, root: str, left_out: LeftOutCounter) -> bool:
    """Whether a link leads to a file in the folder; one that leads elsewhere is counted."""
    try:
        target = os.path.realpath(path, strict=True)
        folder = entry.is_dir()
    except OSError:
        left_out.unread(path, "links that lead nowhere", f"{path} is a link that leads nowhere")
        return False
    if folder:
        left_out.unread(path, "links to folders", f"{path} is a link to a folder, which is not followed")
        return False
    if plain_suffix(path) in DOCUMENTS and os.path.commonpath((root, target)) != root:
        left_out.unread(path, "links out of the folder", f"{path} is a link to a file outside, which is not followed")
        return False
    if any(map(_is_hidden, os.path.relpath(target, root).split(os.sep))):
        left_out.unread(path, "links to hidden files", f"{path} is a link to a hidden file, which is not followed")
        return False
    return True
