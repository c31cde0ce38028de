"""Documents, one by one and by the folder: plain text, Markdown, HTML and PDF."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from keqa.errors import InputError, MissingExtraError
from keqa.retrievers.base import Notice, Passage
from keqa.retrievers.left_out import LeftOutCounter
from keqa.retrievers.readers.common import (
    LONGEST_TITLE,
    MAX_DOCUMENT,
    UnreadError,
    decode,
    plain_stem,
    plain_suffix,
    read_whole,
    refuse_binary,
)
from keqa.retrievers.readers.html import text_of_html
from keqa.retrievers.splitting import split_text
from keqa.retrievers.text import clean_text, one_line

# Beside its number, the id of a passage has this path, and ids are at most 1,000 characters long.
_LONGEST_PATH = 900
_HYPHENATED = re.compile(r"(?<=[a-z])-\n(?=[a-z])")


def read_document(
    path: Path, identifier: str, words: int, notice: Notice, left_out: LeftOutCounter
) -> Iterator[Passage]:
    """Yield the passages of one document, whose ids are ``identifier#1``, ``identifier#2`` and so on.

    Args:
        path: The file.
        identifier: What its passages are called after.
        words: Target length of a passage.
        notice: Called for a guessed encoding.
        left_out: Takes note of a document without text.

    Raises:
        InputError: The file cannot be read, or is not what its name says.
        MissingExtraError: It needs the ``documents`` extra.
    """
    suffix = plain_suffix(path)
    data = read_whole(path, MAX_DOCUMENT)
    if suffix != ".pdf":
        refuse_binary(data, path)
    title, text = DOCUMENTS[suffix](data, path, notice)
    pieces = split_text(clean_text(text), words)
    if not pieces and not data.strip():
        left_out.pass_over("empty")
    elif not pieces:
        needs = " (a scanned PDF needs OCR first)" if suffix == ".pdf" else ""
        left_out.unread(path, "without text", f"{path} has no text{needs}")
    title = one_line(clean_text(title))[:LONGEST_TITLE] or plain_stem(path).replace("_", " ")
    for number, piece in enumerate(pieces, start=1):
        yield Passage(f"{identifier}#{number}", title, piece)


def _read_markdown(data: bytes, path: Path, notice: Notice) -> tuple[str, str]:
    text = decode(data, str(path), notice).replace("\r\n", "\n").removeprefix("\ufeff")
    front, text = _front_matter(text)
    return _front_title(front) or _first_heading(text), text


# Line by line, not by patterns over the whole text: what a pattern may match in several ways, it tries in all of them.
def _front_matter(text: str) -> tuple[str, str]:
    """The lines between two lines of three hyphens that begin a text, and what follows them."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return "", text
    end = next((number for number, line in enumerate(lines[1:], start=1) if line.rstrip() == "---"), None)
    return ("", text) if end is None else ("\n".join(lines[1:end]), "\n".join(lines[end + 1 :]))


def _front_title(front: str) -> str:
    named = next((line for line in front.split("\n") if line.startswith("title:")), "")
    title = named.removeprefix("title:").strip()
    for quote in ("'", '"'):
        if len(title) > 1 and title.startswith(quote) and title.endswith(quote):
            return title[1:-1]
    return title


def _first_heading(text: str) -> str:
    for line in text.split("\n"):
        level = len(line) - len(line.lstrip("#"))
        if 1 <= level <= 6 and line[level : level + 1].isspace():
            heading = line[level:].strip()
            # Closing hashes stand after a space: those of C# belong to it.
            bare = heading.rstrip("#")
            heading = bare.rstrip() if not bare or bare[-1].isspace() else heading
            if heading:
                return heading
    return ""


def _read_pdf(data: bytes, path: Path, notice: Notice) -> tuple[str, str]:
    import io
    import logging

    # It warns of what it finds in a file, in the file's words; what cannot be read is reported below.
    if (log := logging.getLogger("pypdf")).level == logging.NOTSET:
        log.setLevel(logging.CRITICAL)
    try:
        from pypdf import PdfReader
    except ImportError as error:
        raise MissingExtraError("documents", f"Reading {path.name}") from error
    try:
        reader = PdfReader(io.BytesIO(data))
        # Many PDFs are encrypted with an empty password, which only restricts printing.
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadError("protected by a password", f"{path} is protected by a password")
        text = "\n".join(page.extract_text() for page in reader.pages)
        title = str((reader.metadata and reader.metadata.title) or "")
    except UnreadError:
        raise
    # A damaged PDF makes the library fail in ways that it does not document; all of them mean the same here.
    except Exception as error:
        raise UnreadError("damaged", f"{path} cannot be read as PDF: {error}") from error
    return title, _HYPHENATED.sub("", text)


DOCUMENTS: Final[dict[str, Callable[[bytes, Path, Notice], tuple[str, str]]]] = {
    **dict.fromkeys((".htm", ".html"), lambda data, path, notice: text_of_html(data, path)),
    **dict.fromkeys((".markdown", ".md"), _read_markdown),
    ".pdf": _read_pdf,
    ".txt": lambda data, path, notice: ("", decode(data, str(path), notice)),
}


def read_folder(
    folder: Path,
    words: int,
    notice: Notice,
    left_out: LeftOutCounter,
    entered: Callable[[Path], None] = lambda path: None,
) -> Iterator[Passage]:
    """Yield the passages of all documents below a folder, in the order of their paths.

    Hidden files and folders are passed over, as are files of other kinds. Links to folders, and links to files outside
    the folder, are not followed. A document that cannot be read, or that has no text, is left out: one bad PDF among
    thousands is no reason to stop. All of it is counted.

    Args:
        folder: Where to look.
        words: Target length of a passage.
        notice: Called for guessed encodings.
        left_out: Takes note of what is not in the passages.
        entered: Called with each document before it is read.

    Raises:
        InputError: There is no document in the folder.
    """
    found = False
    for path in documents_below(folder, left_out):
        found = True
        entered(path)
        try:
            yield from read_document(path, path.relative_to(folder).as_posix(), words, notice, left_out)
        except InputError as error:
            reason = error.reason if isinstance(error, UnreadError) else "unreadable"
            left_out.unread(path, reason, str(error))
    if not found:
        result = left_out.result()
        others = ", ".join(
            f"{count} {kind}" for kind, count in [*result.unread.items(), *result.passed_over.items()][:5]
        )
        raise InputError(
            f"{folder} has no {', '.join(DOCUMENTS)} file that can be read; it has {others or 'nothing at all'} "
            "(files of records, such as .jsonl, are named one by one)"
            + "".join(f"\n  {name}" for name in result.names[:5])
        )


def documents_below(folder: Path, left_out: LeftOutCounter) -> Iterator[Path]:
    """The documents below a folder, in the order of their paths; what is none is counted."""
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
            if entry.name.startswith("."):
                left_out.pass_over("hidden")
            elif entry.is_symlink() and not _is_followed(entry, path, root, left_out):
                continue
            elif entry.is_dir(follow_symlinks=False):
                inner.append(path)
            elif plain_suffix(path) not in DOCUMENTS:
                left_out.pass_over(path.suffix.lower() or "without a suffix")
            elif not entry.is_file():
                left_out.unread(path, "pipes or devices", f"{path} is no regular file")
            elif len(path.relative_to(folder).as_posix()) > _LONGEST_PATH:
                left_out.unread(path, "with too long a path", f"{path} has a path of over {_LONGEST_PATH} characters")
            else:
                yield path
        waiting.extend(reversed(inner))


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
    return True
