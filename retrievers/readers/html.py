"""The title and the text of an HTML page."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keqa.errors import MissingExtraError
from keqa.retrievers.readers.common import UnreadError

if TYPE_CHECKING:
    from bs4.element import PageElement

# Elements whose content is not the document's text.
_NOT_TEXT: Final = frozenset(("script", "style", "noscript", "template", "nav", "svg", "head"))
_BLOCKS: Final = frozenset(
    """
    address article aside blockquote br dd details div dl dt figcaption figure footer form h1 h2 h3 h4 h5 h6 header
    hr li main ol p pre section table tbody td th thead tr ul
    """.split()
)
# What holds no text, and makes the parser of the standard library look through the rest of a page again and again where
# it does not end: comments, declarations, scripts and styles.
_OPENING = re.compile(r"<!--|<[!?]|<(script|style)(?=[\s/>])", re.IGNORECASE)
_CLOSING: Final = {name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style")}


def text_of_html(data: bytes, path: Path) -> tuple[str, str]:
    """The title and the text of a page, with an empty line between blocks.

    Args:
        data: Its bytes; their encoding is what the page says, or guessed.
        path: For messages.

    Raises:
        UnreadError: The page cannot be read.
        MissingExtraError: The ``documents`` extra is missing.
    """
    try:
        from bs4 import BeautifulSoup, XMLParsedAsHTMLWarning
        from bs4.dammit import UnicodeDammit
        from bs4.exceptions import ParserRejectedMarkup
    except ImportError as error:
        raise MissingExtraError("documents", f"Reading {path.name}") from error
    text = UnicodeDammit(data, is_html=True).unicode_markup
    if text is None:
        raise UnreadError("in an unknown encoding", f"{path} cannot be decoded: convert it to UTF-8 first")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
        try:
            soup = BeautifulSoup(_with_elements_only(text), "html.parser")
        except (RecursionError, AssertionError, ValueError, ParserRejectedMarkup) as error:
            raise UnreadError("damaged", f"{path} cannot be read as HTML: {error}") from error
    heading = soup.title or soup.find("h1")
    return heading.get_text(" ") if heading else "", "".join(_pieces(soup))


def _with_elements_only(text: str) -> str:
    """A page without what `_OPENING` begins; of a tag that never ends, the bracket becomes text."""
    parts = []
    place = 0
    while opening := _OPENING.search(text, place):
        parts.append(text[place : opening.start()])
        place = _end(text, opening)
    parts.append(text[place:])
    text = "".join(parts)
    ended = text.rfind(">") + 1
    return text[:ended] + text[ended:].replace("<", "&lt;")


def _end(text: str, opening: re.Match[str]) -> int:
    """Where what was opened ends: at the end of the page, as in a browser, where nothing closes it."""
    place = opening.end()
    if opening.group(1):
        closing = _CLOSING[opening.group(1).lower()].search(text, place)
        place = closing.end() if closing else len(text)
    end = "-->" if opening.group() == "<!--" else ">"
    found = text.find(end, place)
    return found + len(end) if found >= 0 else len(text)


def _pieces(page: PageElement) -> Iterator[str]:
    """The text of a page in order; elements may be nested as deeply as a page has room for."""
    from bs4.element import NavigableString, PreformattedString, Tag

    waiting: list[PageElement | str] = [page]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Tag):
            if one.name in _NOT_TEXT:
                continue
            block = one.name in _BLOCKS
            if block:
                yield "\n\n"
                waiting.append("\n\n")
            waiting.extend(reversed(one.contents))
        elif isinstance(one, NavigableString) and isinstance(one, PreformattedString):
            continue
        else:
            yield str(one)
