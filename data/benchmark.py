"""One benchmark: how its files are read, where it lies on the Hugging Face hub, what it has and under which licence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from keqa.data.loading import Loaded, collect, read_records
from keqa.data.records import Converted
from keqa.data.rows import Row, json_list
from keqa.errors import InputError, MissingExtraError

# The same part of a benchmark under the names that files and the hub give it.
_ALSO: dict[str, tuple[str, ...]] = {
    "dev": ("validation", "val"),
    "validation": ("dev", "val"),
    "val": ("validation", "dev"),
    "train": ("auxiliary_train",),
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
    config: str | None = None
    splits: tuple[str, ...] = ("validation", "train")


def whole(read: Callable[[Path], Iterator[Row]]) -> Callable[[Path, str | None], Iterator[Row]]:
    """A reader of files that are one split each, as `Benchmark.rows`."""
    return lambda path, _: read(path)


_LINES_OR_LIST = whole(json_list)


@dataclass(frozen=True)
class Benchmark:
    """A benchmark that `keqa.data.load` knows by name.

    Attributes:
        name: As it is asked for.
        title: As it is written.
        files: The authors' file names by split, for a folder with several; the first is taken where none is asked for.
        hub: None where the hub has no copy that can be read without running its code.
        has: What an example has beside question and answers: ``aliases``, ``choices``, ``decomposition``,
            ``quiz answers``, ``supporting facts``, ``triples``, ``context``.
        multi_hop: Whether most questions need several steps.
        language: ``en`` or ``zh``.
        licence: A note on the licence of the data; read the licence itself before you share anything made from it.
        expected: What a file of it looks like, in a few words.
        rows: From a file, or a folder where `files` is empty, and a split to its records; raises `InputError` where the
            file cannot be read or is of another format. By default a JSON list or JSON lines.
        splits_itself: Whether `rows` looks after the split, as one file or a folder holds several.
        convert: From a record, of a file or of the hub, to an example, or to the reason why it is not asked; raises
            `InputError` where the record is malformed.
    """

    name: str
    title: str
    _: KW_ONLY
    files: Mapping[str, str] = field(default_factory=dict)
    hub: HubSource | None = None
    has: tuple[str, ...] = ()
    multi_hop: bool = False
    language: Literal["en", "zh"] = "en"
    licence: str
    expected: str
    rows: Callable[[Path, str | None], Iterator[Row]] = _LINES_OR_LIST
    splits_itself: bool = False
    convert: Callable[[Mapping[str, Any]], Converted]

    def peer(self, name: str, title: str, **settings: Any) -> Benchmark:
        """Another benchmark in the same layout, with other settings where they are given."""
        return replace(self, name=name, title=title, **settings)

    def load(
        self, path: Path | str | None = None, *, split: str | None = None, sample: int | None = None, seed: int = 0
    ) -> Loaded:
        """Load a file or folder, or from the Hugging Face hub.

        Args:
            path: A file, or the folder that holds the files under their authors' names. By default the hub's copy,
                through ``datasets`` (extra ``hub``), or what that keeps of it.
            split: Which of the folder's files, which part of a file that holds several, or which split of the hub; the
                one that papers report by default.
            sample: How many questions; all of them by default.
            seed: Of the sample.

        Raises:
            InputError: There is no such file, it is of another format, or the split is unknown; or the hub has no copy
                that can be read, or cannot be reached.
            MissingExtraError: ``datasets`` is not installed.
        """
        if path is None:
            return self.from_rows(self._hub_rows(split), sample=sample, seed=seed)
        file = self._file(Path(path).expanduser(), split)
        rows = self.rows(file, split if self.splits_itself else None)
        return self._collect(rows, str(file), sample, seed)

    def from_rows(self, rows: Iterable[Mapping[str, Any]], *, sample: int | None = None, seed: int = 0) -> Loaded:
        """Convert records that a program holds, in the layout of the files or of the hub."""
        numbered = (Row(None, number, row, "example") for number, row in enumerate(rows, start=1))
        return self._collect(numbered, f"the data given for {self.name}", sample, seed)

    def _collect(self, rows: Iterable[Row], source: str, sample: int | None, seed: int) -> Loaded:
        expected = f"{self.title}, {self.expected}"
        return collect(read_records(rows, self.convert), source=source, expected=expected, sample=sample, seed=seed)

    def _hub_rows(self, split: str | None) -> Iterable[Mapping[str, Any]]:
        hub, title, file = self.hub, self.title, f"'{self.name}:PATH'"
        if hub is None:
            raise InputError(f"{title} is not on the Hugging Face hub as plain data; load a file of it as {file}")
        part = pick_split(split, hub.splits, f"{title} on the hub")
        try:
            import datasets
        except ImportError as error:
            raise MissingExtraError("hub", f"{title} from the Hugging Face hub") from error
        try:
            rows: Iterable[Mapping[str, Any]] = datasets.load_dataset(hub.repository, hub.config, split=part)
        except Exception as error:
            # The errors of five libraries arrive here: of the hub, of the network, of the cache, of Arrow, of pandas.
            said = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            failed = f"{hub.repository} ({part}) could not be loaded from the Hugging Face hub: {said}"
            raise InputError(f"{failed}. With a file of {title} at hand, load it as {file}") from error
        return rows

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


def pick_split(asked: str | None, available: tuple[str, ...], title: str) -> str:
    """Find a split under any of its usual names; the first where none is asked for."""
    if asked is None:
        return available[0]
    for name in (asked, *_ALSO.get(asked, ())):
        if name in available:
            return name
    raise InputError(f"{title} has the splits {', '.join(available)}, not {asked!r}")
