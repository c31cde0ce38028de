"""The text of a file in Rich Text Format, with its title."""

import codecs
import itertools
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from keqa.retrievers.base import Notice
from keqa.retrievers.readers.common import RefusedError
from keqa.retrievers.readers.document import ReadDocument, ReadSection, given_title

# A word with its number, a byte, a character, a brace, or text; line ends in the file stand for nothing.
_TOKEN: Final = re.compile(r"\\([a-z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-z])|([{}])|([^\\{}\r\n]+)")
# Groups of which nothing is text.
_NOT_TEXT: Final = frozenset(
    """
    colortbl datafield filetbl fldinst fonttbl footer footerf footerl footerr header headerf headerl headerr info
    listoverridetable listtable objdata pict private revtbl rsidtbl stylesheet themedata xmlnstbl
    """.split()
)
_MEANT: Final = {
    **dict.fromkeys(("par", "sect", "page", "row", "\n", "\r"), "\n\n"),
    **{"line": "\n", "cell": " | ", "tab": " ", "emdash": "—", "endash": "–", "bullet": "•"},
    **{"lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”", "~": " ", "_": "-", "-": ""},
}
_TITLE: Final = re.compile(r"\{\\title ([^{}]*)\}")


def read_rtf(data: bytes, path: Path, notice: Notice) -> ReadDocument:
    source = data.decode("latin-1")
    if not source.startswith("{\\rtf"):
        raise RefusedError("damaged", "it does not begin as RTF")
    found = _TITLE.search(source)
    return ReadDocument(given_title(_text(found[1]) if found else ""), [ReadSection(_text(source))])


def _text(source: str) -> str:
    """What a source shows: characters are bytes of a code page, or numbers with what older programs show instead."""
    page, instead, passed, parts = "cp1252", 1, 0, list[bytes | str]()
    for word, number, byte, symbol, text in _seen(source):
        if word == "ansicpg":
            with suppress(LookupError):
                page = codecs.lookup(f"cp{number}").name
        elif word == "uc":
            instead = int(number or 1)
        elif word == "u" and number:
            parts.append(chr(int(number) % 0x10000))
            passed = instead
        elif byte:
            parts += [] if passed else [bytes.fromhex(byte)]
            passed = max(0, passed - 1)
        else:
            parts.append(text[passed:] or _MEANT.get(word or symbol, symbol))
            passed = max(0, passed - len(text))
    shown = ""
    for is_coded, run in itertools.groupby(parts, lambda part: isinstance(part, bytes)):
        some: list[Any] = list(run)
        shown += b"".join(some).decode(page, "replace") if is_coded else "".join(some)
    # What is beyond 16 bits is given by two numbers.
    return shown.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _seen(source: str) -> Iterator[tuple[str, str, str, str, str]]:
    """The tokens of a source that are in no group of which nothing is text."""
    shown, starred = [True], False
    for word, number, byte, symbol, brace, text in _TOKEN.findall(source):
        if brace == "{":
            shown.append(shown[-1])
        elif brace and len(shown) > 1:
            shown.pop()
        elif word in _NOT_TEXT or (starred and word):
            shown[-1] = False
        elif shown[-1] and symbol != "*":
            yield word, number, byte, symbol, text
        starred = symbol == "*"
