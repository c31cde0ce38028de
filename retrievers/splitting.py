"""Long documents into passages of about 100 words that end where a sentence ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from keqa.errors import MissingExtraError
from keqa.retrievers.text import UNSPACED, WORD_LENGTH, one_line, text_length, unspaced_share

PASSAGE_WORDS = 100

# What a passage may be longer than the target, so that a sentence need not be cut; and the last one, so that a
# document does not end in a scrap of a passage.
_SLACK = 1.2
_SCRAP = 0.25

# pysbd takes time with the square of the length: 3 s for 100 kB in one piece, 0.2 s in pieces of 2 kB.
_PIECE = 2000
_PARAGRAPHS = re.compile(r"\n[^\S\n]*\n\s*")
# A line break ends a sentence only before an item of a list or table, or around a Markdown heading: text is often
# wrapped at a fixed width.
_ITEMS = re.compile(r"\n(?=\s*(?:[#>*+\-•|]|\d{1,3}[.)])\s)|(?<=\n)(#{1,6} [^\n]*)\n|^(#{1,6} [^\n]*)\n")
_ROUGH_END = re.compile(r"[.!?][\"')\]]*\s+|[。！？…][”’」』）]*")
_CLOSING = "\"'”’」』）)]》"
_UNIT = re.compile(f"[{UNSPACED}]|[^\\s{UNSPACED}]{{1,100}}")


def split_text(text: str, words: int = PASSAGE_WORDS) -> list[str]:
    """Split a text into passages of about so many words, on sentence ends.

    Apart from white space, which becomes single spaces, nothing is lost, added or moved. No passage is longer than
    one and a half times the target; a sentence that is gets cut between words. Chinese and Japanese count by
    character, five for three words.

    Args:
        text: The text; paragraphs are divided by empty lines.
        words: The target.

    Returns:
        The passages, none of them empty.

    Raises:
        MissingExtraError: The sentence splitter is not installed and the text needs it.
    """
    target = words * WORD_LENGTH
    whole = one_line(text)
    if text_length(whole) <= target * _SLACK:
        return [whole] if whole else []
    passages: list[tuple[str, int]] = []
    current: list[str] = []
    length = 0
    for sentence in _bounded_sentences(text, target):
        size = text_length(sentence)
        overshoot = length + size - target
        if current and (overshoot > target - length or overshoot > target * (_SLACK - 1)):
            passages.append(("".join(current), length))
            current, length = [], 0
        current.append(sentence)
        length += size
    if passages and length <= target * _SCRAP:
        before, size = passages.pop()
        current, length = [before, *current], size + length
    passages.append(("".join(current), length))
    return [passage.strip() for passage, _ in passages]


def _bounded_sentences(text: str, target: int) -> Iterator[str]:
    """Yield sentences with the space that follows them, those that are too long in pieces."""
    for sentence in sentences(text):
        if text_length(sentence) <= target * _SLACK:
            yield sentence
        else:
            yield from _cut(sentence, target)


def _cut(sentence: str, target: int) -> Iterator[str]:
    """Cut a sentence, or something without any, between words; a 'word' of over 100 characters inside it."""
    start, length = 0, 0
    for unit in _UNIT.finditer(sentence):
        size = text_length(unit.group())
        if length + size > target:
            yield sentence[start : unit.start()]
            start, length = unit.start(), 0
        length += size
    yield sentence[start:]


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, each with the space that followed it; joined they are the text on one line."""
    for paragraph in _PARAGRAPHS.split(text):
        for item in filter(None, _ITEMS.split(paragraph)):
            for piece in _pieces(one_line(item) + " "):
                ends = _sentence_ends(piece)
                for start, end in zip([0, *ends], [*ends, len(piece)], strict=True):
                    if piece[start:end].strip():
                        yield piece[start:end]


def _pieces(line: str) -> Iterator[str]:
    """Cut a long line where a sentence seems to end, or failing that at a space."""
    start = 0
    while len(line) - start > _PIECE:
        window = line[start : start + _PIECE]
        ends = [match.end() for match in _ROUGH_END.finditer(window) if match.end() < _PIECE]
        end = ends[-1] if ends else window.rfind(" ") + 1 or _PIECE
        yield window[:end]
        start += end
    yield line[start:]


def _sentence_ends(piece: str) -> list[int]:
    """Return the offsets inside a piece where a sentence ends.

    pysbd drops some characters and replaces others, so its sentences are only looked up in the text, which stays
    as it is; one that is not found stays with the next.
    """
    chinese = unspaced_share(piece) >= 0.5
    try:
        found: list[str] = _segmenter("zh" if chinese else "en").segment(piece)
    except (re.error, IndexError, ValueError, TypeError):
        return [match.end() for match in _ROUGH_END.finditer(piece) if match.end() < len(piece)]
    ends: list[int] = []
    position = 0
    # A closing quotation mark, which it may put in front of the next sentence, belongs to the one before.
    for sentence in (one.strip().lstrip(_CLOSING) for one in found):
        at = piece.find(sentence, position) if sentence else -1
        if at < 0:
            continue
        position = at + len(sentence)
        while position < len(piece) and piece[position] in _CLOSING:
            position += 1
        while position < len(piece) and piece[position] == " ":
            position += 1
        if position < len(piece):
            ends.append(position)
    return ends


@lru_cache(maxsize=2)
def _segmenter(language: str) -> Any:
    try:
        import pysbd
    except ImportError as error:
        raise MissingExtraError("documents", "Splitting long documents into passages") from error
    return pysbd.Segmenter(language=language, clean=False)
