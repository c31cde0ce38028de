"""The elements of a JSON list one after another, as the larger benchmarks do not fit in a laptop's memory at once."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from keqa.errors import InputError
from keqa.retrievers.readers.common import MAX_LINE, READ_ERRORS, open_binary

_CHUNK = 1 << 20
_SPACE = " \t\r\n"


def elements(path: Path, chunk: int = _CHUNK) -> Iterator[Any]:
    """Yield the elements of the list that a file consists of."""
    with open_binary(path) as stream:
        text = _Text(path, stream, chunk)
        text.take("[", "a list is expected", 1)
        number = 1
        if text.next_character() != "]":
            yield text.value(number)
            while text.next_character() == ",":
                text.place += 1
                number += 1
                text.next_character()
                yield text.value(number)
        text.take("]", "malformed JSON (Expecting ',' delimiter)", number)
        if text.next_character():
            raise text.error("malformed JSON (Extra data)", number)


class _Text:
    """The unread part of the file, from `place` on."""

    def __init__(self, path: Path, stream: IO[bytes], chunk: int) -> None:
        self.path, self.stream, self.chunk = path, stream, chunk
        self.decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self.buffer, self.place, self.lines, self.ended = "", 0, 1, False
        self.number = 1

    def more(self) -> None:
        """Read on, at least as much as is unread, so that a long element is tried a few times only."""
        self.lines += self.buffer.count("\n", 0, self.place)
        self.buffer, self.place = self.buffer[self.place :], 0
        if len(self.buffer) > MAX_LINE:
            raise self.error(f"longer than {MAX_LINE >> 20} MiB, the most that is read of one", self.number)
        try:
            data = self.stream.read(max(self.chunk, len(self.buffer)))
            self.buffer += self.decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise InputError(f"{self.path}: not UTF-8 ({error.reason}); convert the file to UTF-8 first") from error
        except READ_ERRORS as error:
            raise InputError(f"{self.path} cannot be read: {error}") from error
        self.ended = not data

    def take(self, character: str, otherwise: str, number: int) -> None:
        """Move behind a character that must come now."""
        if self.next_character() != character:
            raise self.error(otherwise, number)
        self.place += 1

    def next_character(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            while self.place < len(self.buffer) and self.buffer[self.place] in _SPACE:
                self.place += 1
            if self.place < len(self.buffer):
                return self.buffer[self.place]
            if self.ended:
                return ""
            self.more()

    def value(self, number: int) -> Any:
        """The value at `place`, which is moved behind it."""
        self.number = number
        while True:
            try:
                value, end = json.JSONDecoder().raw_decode(self.buffer, self.place)
            except json.JSONDecodeError as error:
                if not self.ended:
                    self.more()
                    continue
                line = self.lines + error.lineno - 1
                raise self.error(f"malformed JSON ({error.msg})", number, line) from error
            except (RecursionError, ValueError) as error:
                # Nested too deeply, or a number of thousands of digits: what follows makes neither better.
                raise self.error(f"malformed JSON ({error})", number) from error
            # A number that the end of what was read cuts off looks complete; what follows a value decides.
            if self.ended or self.buffer[end : end + 1] in (",", "]"):
                self.place = end
                return value
            self.more()

    def error(self, message: str, number: int, line: int | None = None) -> InputError:
        line = line or self.lines + self.buffer.count("\n", 0, self.place)
        return InputError(f"{self.path}, record {number}, line {line}: {message}")
