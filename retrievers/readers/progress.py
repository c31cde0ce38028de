"""How much of some files was read, in bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from keqa.retrievers.base import Passage
from keqa.retrievers.readers.common import noticing_opened

Progress = Callable[[int, int], None]
"""Takes how many bytes were read, and how many there are."""

_EVERY = 100
"""Progress is reported after so many passages, and with each file."""


class ReadingProgress:
    """Reports now and then how much of some files was read, as they lie on the disk."""

    def __init__(self, report: Progress | None, files: Iterable[Path]) -> None:
        """Add up what there is to read; nothing is done where nobody wants the figures."""
        self._report, self._since = report, 0
        self._in_all = 0 if report is None else sum(map(_size, files))
        self._before = self._size = 0
        self._stream: BinaryIO | None = None

    def enter(self, path: Path) -> None:
        """The files before are done, and this one is next."""
        if self._report is not None:
            self._before, self._size, self._stream = self._before + self._size, _size(path), None
            self._now(self._report)

    def through(self, passages: Iterator[Passage]) -> Iterator[Passage]:
        """All passages that readers give, of the files that are entered meanwhile."""
        if self._report is None:
            yield from passages
            return
        while True:
            with noticing_opened(self._opened):
                passage = next(passages, None)
            if passage is None:
                return
            self._since += 1
            if self._since >= _EVERY:
                self._now(self._report)
            yield passage

    def finish(self) -> None:
        """All of it was read."""
        if self._report is not None:
            self._report(self._in_all, self._in_all)

    def _opened(self, stream: BinaryIO) -> None:
        self._stream = stream

    def _now(self, report: Progress) -> None:
        self._since = 0
        report(self._so_far, self._in_all)

    @property
    def _so_far(self) -> int:
        """How many bytes; a file that grew while it was read counts as it was."""
        if self._stream is None:
            return min(self._before, self._in_all)
        here = self._size if self._stream.closed else min(self._stream.tell(), self._size)
        return min(self._before + here, self._in_all)


def _size(path: Path) -> int:
    with suppress(OSError):
        return os.stat(path).st_size
    return 0
