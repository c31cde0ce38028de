"""Text from outside as a terminal may show it: nothing in it acts on the terminal, and nothing in it is hidden.

A passage, an answer, a file's name or a server's error may hold escape sequences that rewrite the screen, set its title
or fill its clipboard, and invisible characters that turn the direction of what follows or carry a message of their own.
They are shown as what they are: a control character as its picture (``␛``), any other as its number (``U+202E``).
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from keqa.storage.redaction import without_keys

# Where only line breaks and tabs are left to act.
_ACTING = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters: ESC, carriage return, CSI, OSC, DCS, backspace
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # the direction of text
    r"\u2028\u2029"  # line and paragraph separators
    r"\ud800-\udfff"  # lone surrogates, which no encoding can carry
)
_INVISIBLE = (
    r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Joiners are part of how Persian, Hindi and emoji are spelt; between other letters they only hide.
_JOINER = r"(?<![^\x00-\u024f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\u024f])"

UNSAFE = re.compile(f"[{_ACTING}{_INVISIBLE}]|{_JOINER}")
"""What no terminal is given as it is."""

_ANY_UNSAFE = re.compile(rf"[{_ACTING}{_INVISIBLE}\u200c\u200d]")
_BREAKS = re.compile(r"\r\n?|[\n\t]")
_UNSTYLED = re.compile(rf"\x1b\[[0-9;:]*m|{UNSAFE.pattern}")


def visible(text: str) -> str:
    """A text in which what acts on a terminal, or is invisible, is shown instead; line breaks and tabs stay."""
    return UNSAFE.sub(_shown, text)


def visible_line(text: str) -> str:
    """The same in one line: line breaks and tabs become spaces."""
    return visible(_BREAKS.sub(" ", text))


def json_text(value: Any, *, encoding: str = "utf-8") -> str:
    r"""A value as JSON that a terminal may show and the encoding can carry; it parses to the same value."""
    text = _ANY_UNSAFE.sub(_escaped, json.dumps(value, ensure_ascii=False, indent=2))
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return _ANY_UNSAFE.sub(_escaped, json.dumps(value, indent=2))
    return text


class GuardedStream:
    """A stream of text on which nothing that is written acts on the terminal, but for colours and other styling.

    Styling is let through to a terminal only, and where the environment asks for it (``FORCE_COLOR``).
    """

    def __init__(self, stream: TextIO, *, hides_keys: bool = False) -> None:
        self.unguarded, self.hides_keys = stream, hides_keys

    def write(self, text: str) -> int:
        """Write a text as `visible` shows it; returns the length of what was given."""
        length, text = len(text), without_keys(text) if self.hides_keys else text
        if UNSAFE.search(text):
            # A bar of another library starts its line again.
            start = "\r" if text.startswith("\r") and not text.startswith("\r\n") else ""
            guard = _UNSTYLED if _styled(self.unguarded) else UNSAFE
            text = start + guard.sub(_shown, text[len(start) :].replace("\r\n", "\n"))
        self.unguarded.write(text)
        return length

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts one after the other."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        # Bytes would get past the guard: click asks for the buffer of a stream whose encoding it does not trust.
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self.unguarded, name)

    def __iter__(self) -> Any:
        return iter(self.unguarded)


def guard_streams() -> None:
    """Guard this process's standard output and error, of libraries too, and escape what their encoding has not."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or isinstance(stream, GuardedStream):
            continue
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, cast(TextIO, GuardedStream(stream, hides_keys=name == "stderr")))


@contextmanager
def without_bars() -> Iterator[None]:
    """Without the progress bars of transformers, such as that for the weights of a model."""
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if bars:
            logging.enable_progress_bar()


def _styled(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def _shown(found: re.Match[str]) -> str:
    if len(found.group()) > 1:
        # Styling.
        return found.group()
    code = ord(found.group())
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\N{SYMBOL FOR DELETE}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found.group())[1:-1] if found.group() != "\x7f" else "\\u007f"
