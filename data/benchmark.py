"""One benchmark: how its files are read, where it lies on the Hugging Face hub and under which licence.

Beside it stands what the benchmarks' converters share: the fields of a record, its answers, and texts of its evidence.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from dataclasses import field as default
from pathlib import Path
from typing import Any, Final, Literal, Self

from keqa.data.example import Example, Scoring, as_example
from keqa.data.loading import Converted, Loaded, collect, read_records
from keqa.data.question import broken_references, clean, numbered_quizzes
from keqa.data.rows import SourceRow, json_list
from keqa.errors import InputError, MissingExtraError
from keqa.metrics.answers import normalize
from keqa.retrievers.text import clean_text, one_line

# The same part of a benchmark under the names that files and the hub give it.
_ALSO: Final[dict[str, tuple[str, ...]]] = {
    "dev": ("validation", "val"),
    "validation": ("dev", "val"),
    "val": ("validation", "dev"),
    "train": ("auxiliary_train",),
}


@dataclass(frozen=True)
class HubSource:
    """A repository of the Hugging Face hub with its splits that have answers; the first is taken by default."""

    repository: str
    config: str | None = None
    splits: tuple[str, ...] = ("validation", "train")


@dataclass(frozen=True)
class Benchmark:
    """A benchmark that `keqa.data.benchmarks.load` knows by name.

    Attributes:
        name: As it is asked for; `title` is as it is written.
        files: The authors' file names by split, for a folder with several; the first is taken where none is asked for.
        hub: None where the hub has no copy that can be read without running its code.
        multi_hop: Whether most questions need several steps.
        licence: A note on the licence of the data; read the licence itself before you share anything made from it.
        expected: What a file of it looks like, in a few words.
        rows: From a file to its records, by default a JSON list or JSON lines; raises `InputError` where it cannot be
            read or is of another format.
        splits_itself: Whether `rows` takes a folder as well, and a split, as one file or a folder holds several.
        convert: From a record, of a file or of the hub, to an example, or to the reason why it is not asked; raises
            `InputError` where the record is malformed.
    """

    name: str
    title: str
    _: KW_ONLY
    files: Mapping[str, str] = default(default_factory=dict)
    hub: HubSource | None = None
    multi_hop: bool = False
    language: Literal["en", "zh"] = "en"
    licence: str
    expected: str
    rows: Callable[..., Iterator[SourceRow]] = json_list
    splits_itself: bool = False
    convert: Callable[[Mapping[str, Any]], Converted]

    def peer(self, name: str, title: str, **settings: Any) -> Self:
        return replace(self, name=name, title=title, **settings)

    def load(
        self, path: Path | str | None = None, *, split: str | None = None, sample: int | None = None, seed: int = 0
    ) -> Loaded:
        """Load a file, a folder that holds the files under their authors' names, or the hub's copy.

        The split is one of the folder's files, of the parts of a file that holds several, or of the hub; by default
        the one that papers report.
        """
        if path is None:
            return self.from_rows(self._hub_rows(split), sample=sample, seed=seed)
        file = self._file(Path(path).expanduser(), split)
        rows = self.rows(file, split) if self.splits_itself else self.rows(file)
        return self._collect(rows, str(file), sample, seed)

    def from_rows(self, rows: Iterable[Mapping[str, Any]], *, sample: int | None = None, seed: int = 0) -> Loaded:
        """Convert records that a program holds, in the layout of the files or of the hub."""
        numbered = (SourceRow(None, number, row, "example") for number, row in enumerate(rows, start=1))
        return self._collect(numbered, f"the data given for {self.name}", sample, seed)

    def _collect(self, rows: Iterable[SourceRow], source: str, sample: int | None, seed: int) -> Loaded:
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
            failed = f"{hub.repository} ({part}) could not be loaded from the Hugging Face hub: {type(error).__name__}"
            advice = f"{' '.join(str(error).split())[:300]}. With a file of {title} at hand, load it as {file}"
            raise InputError(f"{failed}: {advice}") from error
        return rows

    def _file(self, path: Path, split: str | None) -> Path:
        if not path.exists():
            raise InputError(f"{path} is not there; expected: {self.title}, {self.expected}")
        if path.is_dir() and self.files:
            return self._file(path / self.files[pick_split(split, tuple(self.files), self.title)], None)
        if self.splits_itself:
            return path
        if path.is_dir():
            raise InputError(f"{path} is a folder; expected: a file of {self.title}, {self.expected}")
        if split is not None:
            raise one_split(path, split)
        return path


def one_split(path: Path, split: str) -> InputError:
    return InputError(f"{path} is one file, which is one split: leave the split {split!r} out")


def pick_split(asked: str | None, available: tuple[str, ...], title: str) -> str:
    """Find a split under any of its usual names; the first where none is asked for."""
    names = available[:1] if asked is None else (asked, *_ALSO.get(asked, ()))
    if (found := next((name for name in names if name in available), None)) is None:
        raise InputError(f"{title} has the splits {', '.join(available)}, not {asked!r}")
    return found


def field(record: Mapping[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    """A field that the format must have; an `InputError` where it is missing or of another kind."""
    if (value := record.get(name)) is None:
        raise InputError(f"there is no {name}")
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        expected = " or ".join(one.__name__ for one in kinds)
        raise InputError(f"{name} must be {expected}, not {type(value).__name__}")
    return value


def items(record: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = field(record, name, (list, tuple))
    if not all(isinstance(one, Mapping) for one in found):
        raise InputError(f"{name} must be a list of objects")
    return list(found)


def listed_below(document: Any, name: str, path: Path, like: str) -> list[Any]:
    found = document.get(name) if isinstance(document, Mapping) else None
    if not isinstance(found, list):
        raise InputError(f"{path}: an object with the list {name} is expected, as {like}")
    return found


def one_text(value: Any, what: str) -> str:
    """A text of the evidence on one line; a list of sentences as one text."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | dict):
        parts = list(value)
        if all(isinstance(part, str) for part in parts):
            value = " ".join(parts)
    if not isinstance(value, str):
        raise InputError(f"{what} must be text, not {type(value).__name__}")
    # Contexts are long and mostly plain English; there the careful way would take most of the time of loading.
    return one_line(value if value.isascii() and value.isprintable() else clean_text(value))


def usable(*answers: Any) -> tuple[str, ...]:
    """The gold answers and aliases that an answer can equal, each once: published ones hold such as ???."""
    given = []
    for listed in filter(lambda one: one is not None, answers):
        for answer in listed if isinstance(listed, Sequence) and not isinstance(listed, str) else [listed]:
            if isinstance(answer, bool) or not isinstance(answer, str | int | float):
                raise InputError(f"the answer must be text, not {type(answer).__name__}")
            given.append(clean(str(answer)))
    # Normalising the hundreds of thousands of TriviaQA's aliases takes longest; what has a letter needs none here.
    found = [text for text in given if any(char.isalnum() for char in text) or (text and normalize(text))]
    if not found:
        texts = [text for text in given if text]
        raise InputError(f"the answer {texts[0]!r} is nothing but punctuation" if texts else "there is no answer")
    return tuple(dict.fromkeys(found))


def make(*, kind: str = "", scored_as: Scoring = "", **fields: Any) -> Example:
    """An example from plain fields and evidence, checked as every other is; an `InputError` where it cannot be used."""
    quizzes = [clean(quiz) for quiz in fields.get("quizzes", ())]
    # A gold decomposition whose references lead nowhere is dropped, and the question stays.
    if not all(quizzes) or any(broken.fatal for broken in broken_references(numbered_quizzes(quizzes))):
        fields |= {"quizzes": (), "quiz_answers": ()}
    facts, triples, context = (tuple(fields.get(name, ())) for name in ("supporting_facts", "triples", "context"))
    example = as_example(fields)
    return replace(example, kind=kind, scored_as=scored_as, supporting_facts=facts, triples=triples, context=context)
