"""Single documents: plain text, Markdown, HTML and PDF."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from keqa.errors import InputError, MissingExtraError
from keqa.retrievers.base import Passage
from keqa.retrievers.readers.common import Notice, decode, open_binary
from keqa.retrievers.splitting import split_text
from keqa.retrievers.text import clean_text, one_line

# Elements whose content is not the document's text.
_NOT_TEXT: Final = ("script", "style", "noscript", "template", "nav", "svg", "head")
_BLOCKS: Final = """
    address article aside blockquote br dd details div dl dt figcaption figure footer form h1 h2 h3 h4 h5 h6 header
    hr li main ol p pre section table tbody td th thead tr ul
""".split()
_FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*(?:\n|\Z)", re.DOTALL)
_FRONT_TITLE = re.compile(r"^title:\s*[\"']?(.+?)[\"']?\s*$", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)
_HYPHENATED = re.compile(r"(?<=[a-z])-\n(?=[a-z])")


def read_document(path: Path, identifier: str, words: int, notice: Notice) -> Iterator[Passage]:
    """Yield the passages of one document, whose ids are ``identifier#1``, ``identifier#2`` and so on.

    Args:
        path: The file.
        identifier: What its passages are called after.
        words: Target length of a passage.
        notice: Told of a guessed encoding and of a document without text.

    Raises:
        InputError: The file cannot be read.
        MissingExtraError: It needs the ``documents`` extra.
    """
    suffix = path.suffix.lower()
    try:
        with open_binary(path) as stream:
            data = stream.read()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    title, text = DOCUMENTS[suffix](data, path, notice)
    pieces = split_text(clean_text(text), words)
    if not pieces:
        notice(f"{path} has no text" + (" (a scanned PDF needs OCR first)" if suffix == ".pdf" else ""))
    title = one_line(clean_text(title)) or path.stem.replace("_", " ")
    for number, piece in enumerate(pieces, start=1):
        yield Passage(f"{identifier}#{number}", title, piece)


def _read_text(data: bytes, path: Path, notice: Notice) -> tuple[str, str]:
    return "", decode(data, str(path), notice)


def _read_markdown(data: bytes, path: Path, notice: Notice) -> tuple[str, str]:
    text = decode(data, str(path), notice).replace("\r\n", "\n").removeprefix("\ufeff")
    title = ""
    front = _FRONT_MATTER.match(text)
    if front:
        named = _FRONT_TITLE.search(front.group(1))
        title = named.group(1) if named else ""
        text = text[front.end() :]
    heading = _HEADING.search(text)
    return title or (heading.group(1) if heading else ""), text


def _read_html(data: bytes, path: Path, notice: Notice) -> tuple[str, str]:
    try:
        from bs4 import BeautifulSoup, XMLParsedAsHTMLWarning
    except ImportError as error:
        raise MissingExtraError("documents", f"Reading {path.name}") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
        try:
            soup = BeautifulSoup(data, "html.parser")
        except (RecursionError, AssertionError, ValueError) as error:
            raise InputError(f"{path} cannot be read as HTML: {error}") from error
    heading = soup.title or soup.find("h1")
    title = heading.get_text(" ") if heading else ""
    for element in soup.find_all(_NOT_TEXT):
        element.decompose()
    for element in soup.find_all(_BLOCKS):
        element.insert_before("\n\n")
        element.insert_after("\n\n")
    return title, soup.get_text("")


def _read_pdf(data: bytes, path: Path, notice: Notice) -> tuple[str, str]:
    import io

    try:
        from pypdf import PdfReader
    except ImportError as error:
        raise MissingExtraError("documents", f"Reading {path.name}") from error
    try:
        reader = PdfReader(io.BytesIO(data))
        # Many PDFs are encrypted with an empty password, which only restricts printing.
        if reader.is_encrypted and not reader.decrypt(""):
            raise InputError(f"{path} is protected by a password")
        text = "\n".join(page.extract_text() for page in reader.pages)
        title = str((reader.metadata and reader.metadata.title) or "")
    except InputError:
        raise
    # A damaged PDF makes the library fail in ways that it does not document; all of them mean the same here.
    except Exception as error:
        raise InputError(f"{path} cannot be read as PDF: {error}") from error
    return title, _HYPHENATED.sub("", text)


DOCUMENTS: Final[dict[str, Callable[[bytes, Path, Notice], tuple[str, str]]]] = {
    ".htm": _read_html,
    ".html": _read_html,
    ".markdown": _read_markdown,
    ".md": _read_markdown,
    ".pdf": _read_pdf,
    ".txt": _read_text,
}
