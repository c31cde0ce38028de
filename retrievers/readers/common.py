"""What the readers share: opening, decoding, and long records."""

from __future__ import annotations

import codecs
import gzip
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

from keqa.errors import InputError
from keqa.retrievers.base import Passage
from keqa.retrievers.splitting import split_text
from keqa.retrievers.text import WORD_LENGTH, clean_text, text_length

Notice = Callable[[str], None]

# A record up to this length is somebody's passage and is kept whole (the longest paragraph of the shared corpora has
# 1,535 words); beyond it, ten retrieved ones would overflow most models.
RECORD_WORDS = 2000

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def default_notice(message: str) -> None:
    """Log what the user should know, where the caller has no better place for it."""
    logging.getLogger("keqa.retrievers").warning(message)


def plain_suffix(path: Path) -> str:
    """Return the suffix that tells the format, in lower case and without ``.gz``."""
    name = path.name.lower()
    return Path(name.removesuffix(".gz")).suffix


def open_binary(path: Path) -> IO[bytes]:
    """Open a file, unpacking ``.gz``.

    Raises:
        InputError: It cannot be opened.
    """
    try:
        if path.name.lower().endswith(".gz"):
            return cast(IO[bytes], gzip.open(path, "rb"))
        return path.open("rb")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a UTF-8 file, or one that begins with a byte order mark, line end included.

    Raises:
        InputError: The file cannot be read, or a line is not UTF-8.
    """
    with open_binary(path) as stream:
        try:
            head = stream.read(4)
            stream.seek(0)
            encoding = bom_encoding(head)
            if encoding in ("utf-16", "utf-32"):
                yield from enumerate(codecs.getreader(encoding)(stream), start=1)
                return
            for number, line in enumerate(stream, start=1):
                yield number, _decode_line(path, number, line)
        except UnicodeError as error:
            raise InputError(f"{path} begins as {encoding} but is not: {error}") from error
        except (OSError, EOFError) as error:
            raise InputError(f"{path} cannot be read: {error}") from error


def _decode_line(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number}: not UTF-8 ({error.reason}); convert the file to UTF-8 first"
        ) from error


def bom_encoding(head: bytes) -> str | None:
    """Return the encoding that a byte order mark tells of."""
    return next((encoding for bom, encoding in _BOMS if head.startswith(bom)), None)


def decode(data: bytes, name: str, notice: Notice) -> str:
    """Decode a text file: UTF-8, what its byte order mark says, or else GB 18030 or Windows-1252 with a notice."""
    marked = bom_encoding(data)
    for encoding in filter(None, (marked, "utf-8")):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    encoding = "gb18030" if _looks_like_gb(data) else "cp1252"
    notice(f"{name} is not UTF-8; it was read as {encoding}")
    return data.decode(encoding, errors="replace")


def _looks_like_gb(data: bytes) -> bool:
    """Tell Chinese from accented Latin letters.

    Both bytes of a common Chinese character are above 0xA0, while accented letters mostly stand between plain ones.
    """
    try:
        text = data.decode("gb18030")
    except UnicodeDecodeError:
        return False
    wide = [character.encode("gb18030") for character in text if character > "\x7f"]
    common = sum(len(code) == 2 and min(code) > 0xA0 for code in wide)
    return bool(wide) and common >= 0.7 * len(wide)


def record_passages(identifier: str, title: object, text: object) -> Iterator[Passage]:
    """Yield a record as one passage; one of over 2,000 words as several with ``#n`` ids; an empty one not at all."""
    heading = " ".join(clean_text(title).split())
    body = clean_text(text).strip()
    if not body:
        return
    # No character counts as more than a word, so most texts need not be measured.
    if len(body) <= RECORD_WORDS or text_length(body) <= RECORD_WORDS * WORD_LENGTH:
        yield Passage(identifier, heading, body)
        return
    for number, piece in enumerate(split_text(body), start=1):
        yield Passage(f"{identifier}#{number}", heading, piece)
