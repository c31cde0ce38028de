"""What an index says about itself, checked whenever it is opened."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from keqa.errors import RetrievalError
from keqa.retrievers.analysis import AnalyzerSettings
from keqa.retrievers.base import Passage
from keqa.retrievers.left_out import LeftOut
from keqa.storage.untrusted import parse_json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SCHEMA_VERSION: Final = 1
EMBEDDED: Final = "embedded"
DENSE: Final = "dense"
FORMAT: Final = "keqa-index"

# Bounds of what an index from anywhere may say about itself.
_DEEPEST = 8
_LONGEST_TEXT = 4096
_LARGEST_NUMBER = 2**62

_D = TypeVar("_D", bound="DataclassInstance")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an index says about itself.

    Attributes:
        schema_version: Version of this layout.
        name: Name of the index, for messages and reports.
        analyzer: Language and analyzer settings.
        passages: How many passages the index holds.
        renamed: How many passages had an id that was taken and got a suffix (``7``, ``7~2``, ``7~3``).
        source_hash: SHA-256 over ids, titles and texts in the order of indexing; chained over later changes.
        sources: The files and folders that the passages came from, as the user named them.
        created: When the index was built, in UTC.
        data: Folder of the search engine's files, inside the index folder.
        commit: Operation stamp of the engine's commit that this manifest describes.
        left_out: What of the sources is not in the index.
    """

    schema_version: int
    name: str
    analyzer: AnalyzerSettings
    passages: int
    renamed: int
    source_hash: str
    sources: tuple[str, ...]
    created: str
    data: str
    commit: int
    left_out: LeftOut = dataclasses.field(default_factory=LeftOut)

    @property
    def language(self) -> str:
        """Language of the analyzer: ``"en"`` or ``"zh"``."""
        return self.analyzer.language

    def to_json(self) -> str:
        """Return the manifest as it is written to disk."""
        return render(EMBEDDED, self)

    @classmethod
    def from_json(cls, text: str, where: str) -> Manifest:
        """Read a manifest.

        Args:
            text: What :meth:`to_json` wrote.
            where: The file, for the message.

        Raises:
            RetrievalError: The text is no manifest, or one of a version that is not understood.
        """
        engine, values = parse(text, where)
        if engine != EMBEDDED:
            raise RetrievalError(f"{where} is that of an index of the engine {engine}: keqa.open_index opens it")
        return checked(cls, values, where)


def render(engine: str, manifest: DataclassInstance) -> str:
    """A manifest of any engine as it is written to disk; the embedded engine's is not named."""
    head = {"format": FORMAT} | ({} if engine == EMBEDDED else {"engine": engine})
    values = {**head, **dataclasses.asdict(manifest)}
    if not getattr(manifest, "left_out", None):
        values.pop("left_out", None)
    text = json.dumps(values, ensure_ascii=False, indent=2) + "\n"
    # The name of a file may be no text at all, and then has half characters in the place of its bytes.
    return text if _is_encodable(text) else json.dumps(values, indent=2) + "\n"


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse(text: str, where: str) -> tuple[str, dict[str, Any]]:
    """The engine and the entries of a manifest of any engine.

    Raises:
        RetrievalError: The text is no manifest, or one of a version that is not understood.
    """
    values = parse_json(text, where, max_depth=_DEEPEST, error=RetrievalError)
    if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
        raise RetrievalError(f"{where} is not the manifest of an index (it describes something else)")
    engine, version = values.pop("engine", EMBEDDED), values.get("schema_version")
    if version != SCHEMA_VERSION:
        raise RetrievalError(
            f"{where} has schema version {str(version)[:20]}, this version of KEQA reads {SCHEMA_VERSION}: "
            "build the index again, or use the version that built it"
        )
    return str(engine), values


def checked(kind: type[_D], values: Mapping[str, Any], where: str) -> _D:
    """A manifest of its entries, each of which is of the type and size that it should be.

    Args:
        kind: The manifest of an engine; its `data` must name a folder.
        values: The entries.
        where: The file, for the message.

    Raises:
        RetrievalError: An entry is missing, unknown, or not of its type.
    """
    manifest = _made(kind, values, where, "")
    data = getattr(manifest, "data", None)
    if not isinstance(data, str) or not is_data_name(data):
        raise RetrievalError(f"{where}: data must name a folder inside the index, found {data!r}")
    return manifest


def is_data_name(name: str) -> bool:
    """Whether a name can be that of a folder right inside an index, and leads nowhere else."""
    return bool(name) and len(name) <= 255 and not name.startswith(".") and not set(name) & set("/\\:\0")


def _made(kind: type[_D], values: Any, where: str, before: str) -> _D:
    if not isinstance(values, Mapping):
        raise RetrievalError(f"{where}: {before.removesuffix('.')} must be an object, found {type(values).__name__}")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    optional = {
        name
        for name, field in fields.items()
        if field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    }
    missing = [f"no {before}{name}" for name in fields if name not in values and name not in optional]
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
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        raise RetrievalError(f"{where}: {name} has {len(value):,} characters, {_LONGEST_TEXT:,} at most")
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

    def delete(self, passage_id: str) -> None:
        """Take in that a passage was deleted."""
        self._hash.update(b"deleted" + passage_id.encode())

    def hexdigest(self) -> str:
        """Return the hash so far."""
        return self._hash.hexdigest()


def _length(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big")
