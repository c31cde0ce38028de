"""What an index says about itself, checked whenever it is opened."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeVar, get_args, get_origin, get_type_hints

from keqa.errors import RetrievalError
from keqa.retrievers.analysis import AnalyzerSettings
from keqa.retrievers.base import Passage
from keqa.retrievers.left_out import LeftOut
from keqa.storage.untrusted import MissingFileError, parse_json, read_file

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SCHEMA_VERSION: Final = 2
"""Since 2, passages stand at one place, have the dates that texts and names of files say, and are of many languages."""
_READ: Final = (1, SCHEMA_VERSION)
EMBEDDED: Final = "embedded"
DENSE: Final = "dense"
FORMAT: Final = "keqa-index"
MANIFEST: Final = "manifest.json"

# Bounds of what an index from anywhere may say about itself.
_DEEPEST = 8
# A manifest names the sources, which a shell may have made thousands of.
_LARGEST_FILE = 64 << 20
LONGEST_TEXT: Final = 4096
"""The most characters of a text in a manifest."""
_LARGEST_NUMBER = 2**62

# Entries that a manifest has only where they say something.
_WHERE_SAID = ("left_out", "removed", "languages", "deleted", "change")

# An index of so few passages is rewritten within a second, and then always; a larger one above this share.
_SMALL = 10_000
_MOST_DELETED = 0.01

_D = TypeVar("_D", bound="DataclassInstance")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexManifest:
    """What an index of any engine says about itself.

    Attributes:
        schema_version: Version of this layout.
        name: Name of the index, for messages and reports.
        passages: How many passages the index holds.
        renamed: How many passages had an id that was taken and got a suffix (``7``, ``7~2``, ``7~3``).
        source_hash: SHA-256 over ids, titles, texts and places in the order of indexing; chained over later changes.
        sources: The files and folders that the passages came from, as the user named them.
        created: When the index was built, in UTC.
        data: Folder of the search engine's files, inside the index folder.
        left_out: What of the sources is not in the index.
        removed: What the last change took out, as it was named, where it did nothing else: who asks for it again, as
            after a kill, is told that it is so.
        languages: Those of its passages, with how many are in each; none in an index of an earlier version.
    """

    ENGINE: ClassVar[str]

    schema_version: int = SCHEMA_VERSION
    name: str
    passages: int
    renamed: int
    source_hash: str
    sources: tuple[str, ...]
    created: str
    data: str
    left_out: LeftOut = dataclasses.field(default_factory=LeftOut)
    removed: tuple[str, ...] = ()
    languages: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def to_json(self) -> str:
        """Return the manifest as it is written to disk; the embedded engine is not named."""
        head = {"format": FORMAT} | ({} if self.ENGINE == EMBEDDED else {"engine": self.ENGINE})
        values = {**head, **dataclasses.asdict(self)}
        for name in _WHERE_SAID:
            if name in values and not getattr(self, name):
                del values[name]
        text = json.dumps(values, ensure_ascii=False, indent=2) + "\n"
        try:
            text.encode()
        except UnicodeEncodeError:
            # The name of a file may be no text at all, and then has half characters in the place of its bytes.
            text = json.dumps(values, indent=2) + "\n"
        return text

    @classmethod
    def from_json(cls, text: str, where: str) -> Self:
        """Read a manifest.

        Args:
            text: What :meth:`to_json` wrote.
            where: The file, for the message.

        Raises:
            RetrievalError: The text is no manifest of this engine, is one of a version that is not understood, or an
                entry is missing, unknown, or not of its type and size.
        """
        engine, values = parse(text, where)
        if engine != cls.ENGINE:
            raise RetrievalError(f"{where} is that of an index of the engine {engine}: keqa.open_index opens it")
        manifest = _made(cls, values, where, "")
        for problem in manifest.problems():
            raise RetrievalError(f"{where}: {problem}")
        return manifest

    @classmethod
    def read(cls, folder: Path, name: str = MANIFEST) -> Self | None:
        """Read the manifest in the folder of an index; None where there is no such file.

        Raises:
            RetrievalError: It cannot be read; see `from_json`.
        """
        text = read_text(folder, name)
        return None if text is None else cls.from_json(text, str(folder / name))

    @property
    def main_language(self) -> str:
        """The language of passages of which it is unclear."""
        return next(iter(self.languages), "en")

    @property
    def earlier(self) -> str:
        """What an index of files that an earlier version built is without; empty where it is of this one."""
        if self.schema_version == SCHEMA_VERSION or not self.sources:
            return ""
        return (
            "built by an earlier version: passages may span pages and headings, are all taken for one language, and "
            "have no dates that texts and file names say. `keqa index` builds it again"
        )

    def check_count(self, found: int, where: str, again: str = "Build it again") -> None:
        """Make sure that an index holds as many passages as its manifest says.

        Args:
            found: How many it holds.
            where: What messages call it.
            again: What to do.

        Raises:
            RetrievalError: It holds more or fewer.
        """
        if found != self.passages:
            raise RetrievalError(
                f"{where} is not complete: its manifest says {self.passages} passages, it holds {found}. {again}"
            )

    def problems(self) -> Iterator[str]:
        """What is wrong with entries that are of the right type."""
        if not is_data_name(self.data):
            yield f"data must name a folder inside the index, found {self.data!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(IndexManifest):
    """What an index of BM25 says about itself, embedded or in Elasticsearch; see also `IndexManifest`.

    Attributes:
        analyzer: Language and analyzer settings.
        commit: Operation stamp of the engine's commit that this manifest describes.
        deleted: How many passages were deleted since the index was built or rewritten; until then they count in how
            frequent a word is and how long a text.
    """

    ENGINE: ClassVar[str] = EMBEDDED

    analyzer: AnalyzerSettings
    commit: int
    deleted: int = 0

    @property
    def is_worn(self) -> bool:
        """Whether so much was deleted that the index should be rewritten, so that its statistics are a build's."""
        return self.deleted > (0 if self.passages <= _SMALL else _MOST_DELETED * self.passages)

    @property
    def main_language(self) -> str:
        """The language of the analyzer."""
        return self.analyzer.language

    @property
    def language(self) -> str:
        """Language of the analyzer, such as ``"en"``."""
        return self.analyzer.language


def read_text(folder: Path, name: str = MANIFEST) -> str | None:
    """Return the text of a manifest of any engine, or None where there is no such file.

    Raises:
        RetrievalError: The file cannot be read.
    """
    try:
        return read_file(folder, name, _LARGEST_FILE, error=RetrievalError).decode()
    except MissingFileError:
        return None
    except UnicodeDecodeError as error:
        raise RetrievalError(f"{folder / name} cannot be read: {error}") from error


def parse(text: str, where: str) -> tuple[str, dict[str, Any]]:
    """The engine and the entries of a manifest of any engine.

    Raises:
        RetrievalError: The text is no manifest, or one of a version that is not understood.
    """
    values = parse_json(text, where, max_depth=_DEEPEST, error=RetrievalError)
    if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
        raise RetrievalError(f"{where} is not the manifest of an index (it describes something else)")
    engine, version = values.pop("engine", EMBEDDED), values.get("schema_version")
    if version not in _READ:
        raise RetrievalError(
            f"{where} has schema version {str(version)[:20]}, this version of KEQA reads {SCHEMA_VERSION}: "
            "build the index again, or use the version that built it"
        )
    return str(engine), values


def is_data_name(name: str) -> bool:
    """Whether a name can be that of a folder right inside an index, and leads nowhere else."""
    return bool(name) and len(name) <= 255 and not name.startswith(".") and not set(name) & set("/\\:\0")


def _made(kind: type[_D], values: Any, where: str, before: str) -> _D:
    if not isinstance(values, Mapping):
        raise RetrievalError(f"{where}: {before.removesuffix('.')} must be an object, found {type(values).__name__}")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    none = dataclasses.MISSING
    needed = [name for name, field in fields.items() if field.default is none and field.default_factory is none]
    missing = [f"no {before}{name}" for name in needed if name not in values]
    unknown = [f"unknown {before}{name[:40]}" for name in values if name not in fields]
    if missing or unknown:
        names = ", ".join([*missing, *unknown][:5])
        raise RetrievalError(f"{where} is incomplete or has unknown entries ({names})")
    hints = get_type_hints(kind)
    return kind(**{name: _value(value, hints[name], where, before + name) for name, value in values.items()})


def _value(value: Any, kind: Any, where: str, name: str) -> Any:
    """A value of a manifest as the type that it should be of."""
    if dataclasses.is_dataclass(kind):
        return _made(kind, value, where, f"{name}.")  # type: ignore[arg-type]
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple and isinstance(value, list):
        return tuple(_value(one, inner[0], where, name) for one in value)
    if origin is Mapping and isinstance(value, dict):
        return {_value(key, str, where, name): _value(one, inner[1], where, name) for key, one in value.items()}
    if kind is float and type(value) in (int, float):
        return float(value)
    plain = str if origin is Literal else kind
    if plain not in (int, str) or type(value) is not plain:
        expected = getattr(origin or kind, "__name__", str(kind)).lower()
        raise RetrievalError(f"{where}: {name} must be {expected}, found {str(value)[:60]!r}")
    if isinstance(value, int) and not 0 <= value <= _LARGEST_NUMBER:
        raise RetrievalError(f"{where}: {name} must be a number from 0 on, found {value}")
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise RetrievalError(f"{where}: {name} has {len(value):,} characters, {LONGEST_TEXT:,} at most")
    return value


class SourceHash:
    """A running hash over passages, or over a change of an earlier state."""

    def __init__(self, earlier: str = "") -> None:
        """Start from nothing, or from the hash of an earlier state."""
        self._hash = hashlib.sha256(earlier.encode())

    def add(self, passage: Passage) -> None:
        """Take in a passage; lengths are hashed too, so that two different splits never agree."""
        # Spelt out, since it runs for every passage of a corpus, and a loop takes twice as long.
        own, title, text = passage.id.encode(), passage.title.encode(), passage.text.encode()
        self._hash.update(b"".join((_length(own), own, _length(title), title, _length(text), text)))
        if passage.place:
            self._hash.update(b"place" + passage.place.packed().encode())

    def delete(self, passage_id: str) -> None:
        """Take in that a passage was deleted."""
        self._hash.update(b"deleted" + passage_id.encode())

    def hexdigest(self) -> str:
        """Return the hash so far."""
        return self._hash.hexdigest()


def _length(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big")
