"""One benchmark: how its files are read, where it lies on the Hugging Face hub, what it has and under which licence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from keqa.data.loading import Loaded, collect
from keqa.data.records import Converted
from keqa.data.rows import Row
from keqa.errors import InputError

__all__ = ["Benchmark", "HubSource", "pick_split", "whole"]

# The same part of a benchmark under the names that files and the hub give it.
_ALSO: dict[str, tuple[str, ...]] = {
    "dev": ("validation", "val"),
    "validation": ("dev", "val"),
    "val": ("validation", "dev"),
}


@dataclass(frozen=True)
class HubSource:
    """Where a benchmark lies on the Hugging Face hub.

    Attributes:
        repository: Its name there.
        config: The configuration; None for the only one.
        splits: Those with answers; the first is taken where none is asked for.
    """

    repository: str
    config: str | None
    splits: tuple[str, ...]


@dataclass(frozen=True)
class Benchmark:
    """A benchmark that `keqa.data.load` knows by name.

    Attributes:
        name: As it is asked for.
        title: As it is written.
        licence: A note on the licence of the data; read the licence itself before you share anything made from it.
        has: What an example has beside question and answers: ``aliases``, ``choices``, ``decomposition``,
            ``quiz answers``, ``supporting facts``, ``triples``, ``context``.
        multi_hop: Whether most questions need several steps.
        language: ``en`` or ``zh``.
        expected: What a file of it looks like, in a few words.
        rows: From a file, or a folder where `files` is empty, and a split to its records.
        convert: From a record, of a file or of the hub, to an example.
        files: The authors' file names by split, for a folder with several; the first is taken where none is asked for.
        splits_itself: Whether `rows` looks after the split, as one file or a folder holds several.
        hub: None where the hub has no copy that can be read without running its code.
    """

    name: str
    title: str
    licence: str
    has: tuple[str, ...]
    multi_hop: bool
    language: Literal["en", "zh"]
    expected: str
    rows: Callable[[Path, str | None], Iterator[Row]]
    convert: Callable[[Mapping[str, Any]], Converted]
    files: Mapping[str, str] = field(default_factory=dict)
    splits_itself: bool = False
    hub: HubSource | None = None

    def load(self, path: Path | str, *, split: str | None = None, sample: int | None = None, seed: int = 0) -> Loaded:
        """Load a file or folder.

        Args:
            path: A file, or the folder that holds the files under their authors' names.
            split: Which of the folder's files, or which part of a file that holds several.
            sample: How many questions; all of them by default.
            seed: Of the sample.

        Raises:
            InputError: There is no such file, it is of another format, or the split is unknown.
        """
        file = self._file(Path(path).expanduser(), split)
        rows = self.rows(file, split if self.splits_itself else None)
        return self._collect(rows, str(file), sample, seed)

    def from_rows(self, rows: Iterable[Mapping[str, Any]], *, sample: int | None = None, seed: int = 0) -> Loaded:
        """Convert records that a program holds, in the layout of the files or of the hub.

        Args:
            rows: The records.
            sample: How many questions; all of them by default.
            seed: Of the sample.

        Raises:
            InputError: None of them can be used.
        """
        numbered = (Row(None, number, row, "example") for number, row in enumerate(rows, start=1))
        return self._collect(numbered, f"the data given for {self.name}", sample, seed)

    def _collect(self, rows: Iterable[Row], source: str, sample: int | None, seed: int) -> Loaded:
        expected = f"{self.title}, {self.expected}"
        return collect(rows, self.convert, source=source, expected=expected, sample=sample, seed=seed)

    def _file(self, path: Path, split: str | None) -> Path:
        if not path.exists():
            raise InputError(f"{path} is not there; expected: {self.title}, {self.expected}")
        if path.is_dir() and self.files:
            return self._file(path / self.files[pick_split(split, tuple(self.files), self.title)], None)
        if path.is_file() and split is not None and not self.splits_itself:
            raise InputError(f"{path} is one file, which is one split: leave the split {split!r} out")
        if path.is_dir() and not self.splits_itself:
            raise InputError(f"{path} is a folder; expected: a file of {self.title}, {self.expected}")
        return path


def whole(read: Callable[[Path], Iterator[Row]]) -> Callable[[Path, str | None], Iterator[Row]]:
    """A reader of files that are one split each, as `Benchmark.rows`."""

    def rows(path: Path, split: str | None) -> Iterator[Row]:
        return read(path)

    return rows


def pick_split(asked: str | None, available: tuple[str, ...], title: str) -> str:
    """Find a split under any of its usual names; the first where none is asked for.

    Raises:
        InputError: There is no such split.
    """
    if asked is None:
        return available[0]
    names: tuple[str, ...] = (asked, *_ALSO.get(asked, ()))
    found = next((name for name in names if name in available), None)
    if found is not None:
        return found
    raise InputError(f"{title} has the splits {', '.join(available)}, not {asked!r}")
