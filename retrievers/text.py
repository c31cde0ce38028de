"""Text as an index can hold it, and how long it is."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Han ideographs with their extensions, and kana: written without spaces, so each character is counted.
UNSPACED = r"\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"

# Those, and Hangul, Thai, Lao, Burmese and Khmer: what is a word there, spaces do not say.
JOINED = UNSPACED + r"\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3\uff66-\uff9f\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"

# Lengths are counted in fifths of an English word, so that they stay whole numbers: a Chinese sentence needs about
# five characters where its translation needs three words.
WORD_LENGTH = 5
CHARACTER_LENGTH = 3

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Up to this length, no run of combining marks costs anything that could be measured.
_MARKED = 2000
_INVALID = re.compile("[\ud800-\udfff\ufeff]")
_UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")
# An unbroken run of more than 100 characters (a long address, encoded data) counts as several words.
_LONGEST_WORD = 100
_SPACED_WORD = re.compile(f"[^\\s{UNSPACED}]{{1,{_LONGEST_WORD}}}")
_LONGEST_SHOWN = 80
_LETTER = re.compile(r"[^\W\d_]")


def clean_text(value: object) -> str:
    """Return the text of a value without what an index refuses, in Unicode's composed form.

    ``None`` becomes the empty text. Control characters other than tab and newline become spaces; lone surrogates
    and byte order marks are dropped. Composed form (NFC) makes two spellings of the same letter one term.
    """
    if value is None:
        return ""
    text = value if isinstance(value, str) else str(value)
    # Nearly all of the millions of texts of a corpus need nothing done; these two questions are answered many times
    # faster than the patterns are searched for. What the patterns match is never printable.
    if not text.isprintable():
        text = _INVALID.sub("", _CONTROL.sub(" ", text.replace("\r\n", "\n")))
    if text.isascii():
        return text
    if len(text) > _MARKED:
        text = _long_marks().sub(r"\1", text)
    return unicodedata.normalize("NFC", text)


@lru_cache(maxsize=1)
def _long_marks() -> re.Pattern[str]:
    """Matches a run of more combining marks than any writing has.

    To compose a text takes time with the square of such a run. Thirty is the bound of Unicode's own format for that
    (UAX 15, section 13).
    """
    marks = "".join(mark for mark in map(chr, range(0x300, 0x20000)) if unicodedata.combining(mark))
    return re.compile(f"([{marks}]{{30}})[{marks}]+")


def one_line(text: str) -> str:
    """Return the text with each run of white space made one space."""
    return " ".join(text.split())


def plain(text: str) -> str:
    """Return what a text is recognised by, whatever its letter case, its spaces and the width of its characters."""
    return one_line(unicodedata.normalize("NFKC", text).casefold())


def text_length(text: str) -> int:
    """Return the length in fifths of an English word; Chinese and Japanese count by character."""
    if text.isascii():
        # Many times as quick as the pattern, which finds the same.
        words = text.split()
        if len(text) <= _LONGEST_WORD or max(map(len, words), default=0) <= _LONGEST_WORD:
            return WORD_LENGTH * len(words)
    unspaced = 0 if text.isascii() else len(_UNSPACED_CHARACTER.findall(text))
    return WORD_LENGTH * len(_SPACED_WORD.findall(text)) + CHARACTER_LENGTH * unspaced


def unspaced_share(text: str) -> float:
    """Return the share of Chinese and Japanese characters among the letters of a text; 0 where it has no letter."""
    letters = len(_LETTER.findall(text))
    return len(_UNSPACED_CHARACTER.findall(text)) / letters if letters else 0.0


def shown(value: object) -> str:
    """A value as a message shows it: on one line, not endless, and by its type where it has no text of its own."""
    try:
        text = " ".join(repr(value).split())
    except Exception:
        # An integer of thousands of digits has no decimal writing, and an object may write itself in its own way.
        text = ""
    if not text or " at 0x" in text:
        return f"a value of the type {type(value).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."
