"""The text of an e-mail message, who wrote it to whom and when; attachments are named and not read."""

import codecs
import itertools
import re
from collections.abc import Iterator
from contextlib import suppress
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from email.policy import Compat32
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final

from keqa.retrievers.base import Notice
from keqa.retrievers.readers.common import RefusedError, decode, decode_declared
from keqa.retrievers.readers.document import ReadDocument, ReadSection, given_title
from keqa.retrievers.readers.html import read_html
from keqa.retrievers.text import one_line

_OF_NAMES: Final = ("idna", "punycode")
"""Encodings of the names of hosts, which take quadratic time."""
_SHOWN: Final = ("From", "To", "Cc")
_LONGEST_HEADER: Final = 2000
_MOST_NESTED: Final = 30
"""More parts that hold parts have no message of a person's; each line is compared with the ends of all around it."""

# A carriage return ends a line as well.
_BEGIN: Final = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From [^\r\n]*\d\d:\d\d[^\r\n]*\s*")
"""What stands before each message of a mailbox: who sent it, and when."""
_ESCAPED: Final = re.compile(rb"^>(>*From )", re.MULTILINE)
_NESTED = re.compile(rb"(?:^|[\r\n])content-type:\s*(?:multipart|message)/", re.IGNORECASE)


class _Bounded(Compat32):
    """Cuts headers where they are read: the parameters of one take the standard library quadratic time."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value[:_LONGEST_HEADER]


def read_mail(data: bytes, path: Path, notice: Notice) -> ReadDocument:
    title, text, date = _message(data, path, notice)
    return ReadDocument(title, [ReadSection(text)], front=date)


def read_mailbox(data: bytes, path: Path, notice: Notice) -> ReadDocument:
    """The messages of a mailbox (mbox), each by itself."""
    messages = (_ESCAPED.sub(rb"\1", one) for one in _BEGIN.split(data) if one.strip())
    sections, refused = list[ReadSection](), 0
    for one in messages:
        try:
            title, text, date = _message(one, path, notice)
            sections.append(ReadSection(text, title, title=title, date=date))
        except RefusedError:
            refused += 1
    return ReadDocument("", sections, records=True, lost=f"{path} has damaged messages: {refused}" if refused else "")


def _message(data: bytes, path: Path, notice: Notice) -> tuple[str, str, str]:
    """The subject, the text and the date of a message."""
    if sum(1 for _ in _NESTED.finditer(data)) > _MOST_NESTED:
        raise RefusedError("damaged", f"it has more than {_MOST_NESTED} parts that hold others")
    message = message_from_bytes(data, policy=_Bounded())
    head = [f"{name}: {words}." for name in _SHOWN if (words := _plain(message[name] or ""))]
    named = [name for part in message.walk() if (name := _attached(part))]
    parts = ["\n".join(head), *_texts(message, path, notice), f"Attachments: {', '.join(named)}." if named else ""]
    return given_title(_plain(message["Subject"] or "")), "\n\n".join(filter(None, parts)), _date(message)


def _texts(part: Message, path: Path, notice: Notice) -> Iterator[str]:
    """The texts of a message in order; of alternatives the plain one where it says something."""
    if part.is_multipart():
        parts = [one for one in part.get_payload() if isinstance(one, Message)]
        alternatives = part.get_content_subtype() == "alternative"
        if alternatives:
            parts.sort(key=lambda one: one.get_content_type() != "text/plain")
        texts = (text for one in parts for text in _texts(one, path, notice))
        yield from itertools.islice(texts, 1 if alternatives else None)
    # Parts that were announced and are not there leave a text.
    elif part.get_content_type() in ("text/plain", "text/html", "multipart/mixed") and not _attached(part):
        text = _decoded(part, path, notice)
        if part.get_content_type() == "text/html":
            # What the message says of its encoding goes before what the page says of its own.
            page = read_html(b"\xef\xbb\xbf" + text.encode(), path, notice)
            text = "".join(section.text for section in page.sections)
        if text.strip():
            yield text.strip()


def _decoded(part: Message, path: Path, notice: Notice) -> str:
    payload = part.get_payload(decode=True)
    written = payload if isinstance(payload, bytes) else b""
    named = part.get_content_charset() or "ascii"
    # What is called ASCII and is more is mostly UTF-8.
    text = decode_declared(written, "utf-8" if named in ("ascii", "us-ascii") else named)
    if text is None:
        # Mail comes in more than pages do, such as UTF-7 and those of DOS.
        with suppress(LookupError, ValueError):
            if codecs.lookup(named).name not in _OF_NAMES:
                return written.decode(named)
    return decode(written, str(path), notice) if text is None else text


def _attached(part: Message) -> str:
    """The name of an attachment; empty where a part is none."""
    unnamed = "an unnamed file" if part.get_content_disposition() == "attachment" else ""
    return "" if part.is_multipart() else _plain(part.get_filename() or unnamed)


def _plain(given: object) -> str:
    text = str(given)[:_LONGEST_HEADER]
    # By a header of a stranger the standard library raises errors of several kinds.
    with suppress(HeaderParseError, LookupError, ValueError):
        text = str(make_header(decode_header(text)))
    return one_line(text)


def _date(message: Message) -> str:
    with suppress(TypeError, ValueError, IndexError, OverflowError):
        return parsedate_to_datetime(str(message["Date"] or "")[:100]).date().isoformat()
    return ""
