"""The markers between the fields of DSPy's chat format: where those of a reply stand, and text that can hold none.

A marker counts at the start of a line only. One in the middle of a line is part of a sentence, such as a passage that
is quoted and refused, and must not become the answer. ``completed`` alone may also follow the last value on its line,
at the very end of a reply, for weak models write it there and it gives no field a value.
"""

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

COMPLETED = "completed"
"""The name of the marker that ends a reply."""

# Spaces lost or added within a marker are mended. Every repetition here and below is bounded by a character that it
# cannot match itself, so that the time grows with the length of the text and no faster.
_MARKER = re.compile(r"^[^\S\n]*\[\[[^\S\n]*##[^\S\n]*(\w+)[^\S\n]*##[^\S\n]*\]\]", re.MULTILINE)
_ENDING = re.compile(r"\[\[[^\S\n]*##[^\S\n]*completed[^\S\n]*##[^\S\n]*\]\]\Z")
_ENDING_CHARS = 60
_BRACKETS, _HASHES = "[［⟦〚", "#＃"
# Blank space, and characters that take no place where text is shown: an LM reads through both.
_BLANK = r"\s\u00ad\u200b-\u200f\u2060-\u2064\ufeff"
_MARK = re.compile(rf"[\{_BRACKETS}{_HASHES}]")
_OPENING = re.compile(rf"[\{_BRACKETS}](?:[\{_BRACKETS}{_BLANK}]*+)((?:[{_HASHES}][{_BLANK}]*+)*+)")

CONTROL_TOKEN = re.compile(
    r"<[|｜][^\s|｜<>]{1,64}[|｜]?>|<[A-Za-z_]{1,64}[|｜]>"
    r"|<(?:start|end)_of_(?:turn|image)>|</?(?:s|bos|eos|pad|unk)>|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS)\]"
    r"|\[/?TOOL_(?:CALLS|RESULTS)\]|<</?SYS>>|</?(?:tool_call|tool_response|think|image|BOS_TOKEN|EOS_TOKEN|sop)>"
    r"|\[/?(?:THINK|IMG|gMASK)\]|<(?:unused|extra_id_)[0-9]{1,4}>"
)
"""Tokens by which the chat templates of common LMs mark turns, where a server reads them from text, too."""


class ReplyField(NamedTuple):
    """One field of a reply, and where its value begins and ends: at the next marker, or at the end of the reply."""

    name: str
    start: int
    end: int


def sections(reply: str) -> Iterator[ReplyField]:
    """The fields of a reply in their order, whatever their names; a name may come more than once."""
    found = list(_MARKER.finditer(reply))
    for marker, following in zip_longest(found, found[1:]):
        yield ReplyField(marker[1], marker.end(), following.start() if following else len(reply))


def is_completed(reply: str) -> bool:
    """Whether a reply has the marker that ends it."""
    return any(section.name == COMPLETED for section in sections(reply)) or without_completed(reply) != reply


def without_completed(text: str) -> str:
    """A text without the marker ``completed`` at its very end, where it has one."""
    bare = text.rstrip()
    ending = _ENDING.search(bare, max(0, len(bare) - _ENDING_CHARS))
    return bare[: ending.start()] if ending else text


def broken_up(text: str) -> str:
    """A text in which no field marker stands: brackets and hashes that open one are set apart, ``[ [ # #``.

    Careless spellings count, too: other spacing, full-width characters, a single bracket before two hashes. A text
    without any comes back unchanged, and so does one that was broken up before.
    """
    return _OPENING.sub(_apart, text)


def _apart(found: re.Match[str]) -> str:
    opening = found[0]
    marks = _MARK.findall(opening)
    if not found[1] or len(marks) < 3:
        return opening
    # The blank space after the last hash stays, a name may follow it.
    return " ".join(marks) + opening[opening.rindex(marks[-1]) + 1 :]
