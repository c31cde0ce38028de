"""Which encoding a text file is in that is not in UTF-8 and does not say so."""

from __future__ import annotations

import codecs
from typing import Final

# So much of a text shows what it is in.
_SAMPLE: Final = 200_000
# The letters beyond ASCII in languages that Windows-1252 is for, as a share of all letters: French and German have less
# than a tenth. In another alphabet that is read as Windows-1252 nearly all of them are.
_WESTERN_SHARE: Final = 0.3
# Those that are still met, by their script; a list, because what resembles one of them is often also some encoding that
# nobody has used for decades.
_OTHERS: Final = (
    *("gb18030", "big5", "cp932", "euc_jp", "cp949"),
    *("cp1251", "koi8_r", "cp866", "cp1253", "cp1255", "cp1256", "cp1250", "cp874"),
)
_BEYOND_ASCII: Final = bytes(range(128, 256))
# A few bytes look like many things.
_EVIDENCE: Final = 8
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def mostly_utf8(data: bytes) -> tuple[str, int] | None:
    """The text of a file in UTF-8 with a few bytes that are not: cut off, or put together from several."""
    text = data.decode("utf-8", errors="replace")
    wrong = text.count(_REPLACEMENT) - data.count(_REPLACEMENT.encode())
    right = len(text) - len(text.encode("ascii", "ignore")) - wrong
    return (text, wrong) if right > wrong else None


def guess_encoding(data: bytes) -> str | None:
    """The likely encoding of what is not in UTF-8: GB 18030, Windows-1252, or what charset-normalizer finds."""
    if _looks_like_gb(data):
        return "gb18030"
    if _looks_western(data):
        return "cp1252"
    if len(data) - len(data.translate(None, _BEYOND_ASCII)) < _EVIDENCE:
        return None
    from charset_normalizer import from_bytes

    # No character is cut where the sample ends with a line.
    sample = data if len(data) <= _SAMPLE else data[: data.rfind(b"\n", 0, _SAMPLE) + 1] or data[:_SAMPLE]
    best = from_bytes(sample, cp_isolation=list(_OTHERS)).best()
    return None if best is None else codecs.lookup(best.encoding).name


def _looks_western(data: bytes) -> bool:
    try:
        text = data.decode("cp1252")[:_SAMPLE]
    except UnicodeDecodeError:
        return False
    letters = sum(map(str.isalpha, text))
    accented = sum(character > "\x7f" and character.isalpha() for character in text)
    return accented <= _WESTERN_SHARE * letters


def _looks_like_gb(data: bytes) -> bool:
    """Distinguish Chinese from accented Latin letters.

    Both bytes of a common Chinese character are above 0xA0, while accented letters mostly stand between plain ones.
    """
    try:
        text = data.decode("gb18030")
    except UnicodeDecodeError:
        return False
    wide = [character.encode("gb18030") for character in text[:_SAMPLE] if character > "\x7f"]
    common = sum(len(code) == 2 and min(code) > 0xA0 for code in wide)
    return bool(wide) and common >= 0.7 * len(wide)
