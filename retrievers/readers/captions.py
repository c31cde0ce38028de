"""Subtitles and transcripts of meetings, in WebVTT and SubRip."""

import html
import re
from pathlib import Path
from typing import Final

from keqa.retrievers.base import Notice
from keqa.retrievers.readers.common import decode
from keqa.retrievers.readers.document import ReadDocument, ReadSection
from keqa.retrievers.text import WORD_LENGTH, one_line, text_length

_BLANK: Final = re.compile(r"\n\s*\n")
_TIME: Final = re.compile(r"\s*((?:\d{1,3}:)?\d\d:\d\d)[.,]\d{3}\s+-->")
_SPEAKER: Final = re.compile(r"<v(?:\.[^\s>]*)?\s([^>]{1,100})>|([^\W\d_][\w .'’()-]{0,40}):\s")
_MARKS: Final = re.compile(r"<[^<>]*>|\{\\[^{}]*\}")
# What one speaker says is a line up to so many words.
_MOST: Final = 40 * WORD_LENGTH


def read_captions(data: bytes, path: Path, notice: Notice) -> ReadDocument:
    """What is said, in lines that begin with the time and, where that is known, with the speaker."""
    said: list[tuple[str, str]] = []
    before: set[str] = set()
    for block in _BLANK.split(decode(data, str(path), notice).replace("\r\n", "\n")):
        lines = block.strip().split("\n")
        # A number or a name may stand above the time.
        place, time = next(((at, one[1]) for at, line in enumerate(lines[:2]) if (one := _TIME.match(line))), (0, ""))
        if not time:
            continue
        shown = lines[place + 1 :]
        # Captions that roll show a line twice.
        text, before = one_line(" ".join(line for line in shown if line not in before)), set(shown)
        found = _SPEAKER.match(text)
        begun = f"{found[1] or found[2]}: " if found else ""
        text = one_line(html.unescape(_MARKS.sub("", text[found.end() :] if found else text)))
        if said and begun in ("", said[-1][0]) and text_length(said[-1][1] + text) <= _MOST:
            said[-1] = (said[-1][0], f"{said[-1][1]} {text}")
        elif text:
            said.append((begun, f"[{time}] {begun}{text}"))
    return ReadDocument("", [ReadSection("\n".join(line for _, line in said))])
