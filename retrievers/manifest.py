"""What an index says about itself, checked whenever it is opened."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from keqa.errors import RetrievalError
from keqa.retrievers.analysis import AnalyzerSettings
from keqa.retrievers.base import Passage

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SCHEMA_VERSION: Final = 1
EMBEDDED: Final = "embedded"
DENSE: Final = "dense"
_FORMAT: Final = "keqa-index"


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
        try:
            values["analyzer"] = AnalyzerSettings(**values["analyzer"])
            values["sources"] = tuple(values["sources"])
            manifest = cls(**values)
        except (TypeError, KeyError) as error:
            raise RetrievalError(f"{where} is incomplete or has unknown entries ({error})") from error
        check_types(manifest, manifest.data, where)
        return manifest


def render(engine: str, manifest: DataclassInstance) -> str:
    """A manifest of any engine as it is written to disk; the embedded engine's is not named."""
    head = {"format": _FORMAT} | ({} if engine == EMBEDDED else {"engine": engine})
    return json.dumps({**head, **dataclasses.asdict(manifest)}, ensure_ascii=False, indent=2) + "\n"


def parse(text: str, where: str) -> tuple[str, dict[str, Any]]:
    """The engine and the entries of a manifest of any engine.

    Raises:
        RetrievalError: The text is no manifest, or one of a version that is not understood.
    """
    try:
        values: dict[str, Any] = json.loads(text)
        if values.pop("format") != _FORMAT:
            raise ValueError("it describes something else")
        engine, version = values.pop("engine", EMBEDDED), values["schema_version"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RetrievalError(f"{where} is not the manifest of an index ({error})") from error
    if version != SCHEMA_VERSION:
        raise RetrievalError(
            f"{where} has schema version {version}, this version of KEQA reads {SCHEMA_VERSION}: "
            "build the index again, or use the version that built it"
        )
    return str(engine), values


def check_types(manifest: DataclassInstance, data: str, where: str) -> None:
    """See that the plain entries of a manifest are of the types that they should be, and that `data` names a folder.

    Raises:
        RetrievalError: One is not.
    """
    for field, kind in get_type_hints(type(manifest)).items():
        if kind in (int, str) and type(getattr(manifest, field)) is not kind:
            raise RetrievalError(f"{where}: {field} must be {kind.__name__}, found {getattr(manifest, field)!r}")
    if not data or "/" in data or "\\" in data or data.startswith("."):
        raise RetrievalError(f"{where}: data must name a folder inside the index, found {data!r}")


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
