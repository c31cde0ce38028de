"""What an index, which may come from anyone, says about itself; what is not in it; and what is done to it."""

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Protocol, Self, TypeAlias, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from keqa.errors import RetrievalError
from keqa.retrievers.base import Passage, path_of
from keqa.retrievers.text import LANGUAGES, AnalyzerSettings, by_frequency, language_of_text
from keqa.storage.redaction import visible_line
from keqa.storage.untrusted import MissingFileError, parse_json, read_file, reasons

SCHEMA_VERSION: Final = 2
EMBEDDED: Final = "embedded"
DENSE: Final = "dense"
FORMAT: Final = "keqa-index"
SIMILARITIES: Final = ("cosine", "dot")
FLAT: Final = "flat"
IVF: Final = "ivf-sq8"

NAMED = 100
"""So many files that should have been read are named; the others are only counted."""

_SAVED_AS: Final = {
    **dict.fromkeys((".doc", ".docm", ".dotx", ".gdoc", ".one", ".pages", ".wpd"), ".docx"),
    **dict.fromkeys((".gsheet", ".numbers", ".xls", ".xlsb"), ".xlsx"),
    **dict.fromkeys((".gslides", ".odp", ".ppsx", ".ppt", ".pptm"), ".pptx"),
    **{".azw3": ".epub", ".mobi": ".epub", ".djvu": ".pdf", ".enex": ".html", ".msg": ".eml"},
    **dict.fromkeys((".7z", ".rar", ".tar", ".zip"), "a folder"),
}
RECORD_SUFFIXES: Final = (".json", ".jsonl", ".ndjson", ".tsv")
"""Kinds of files that hold records, which are read where they are named and passed over in folders."""

LONGEST_TEXT: Final = 4096
"""The most characters of a text in a manifest."""

_LONGEST_NAME = 300
# A folder may hold files of more kinds than anyone reads about.
_KINDS = 20
_OTHER_KINDS = "of further kinds"
# Bounds of what an index from anywhere may say about itself.
_DEEPEST = 8
# With the names of its files, of which a folder may have a million.
_LARGEST_FILE = 1 << 29
# Of entries of one object: each that is wrong is a problem by itself, with many times the size of the entry.
_MOST_ENTRIES = 100_000
# An index of so few passages is rewritten within a second, and then always; a larger one above this share.
_SMALL = 10_000
_MOST_DELETED = 0.01


def _bounded(text: str) -> str:
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"has {len(text):,} characters, {LONGEST_TEXT:,} at most")
    return text


Count: TypeAlias = Annotated[int, Field(strict=True, ge=0, le=2**62)]
# The name of a file may be no text, whose length pydantic refuses to see.
Text: TypeAlias = Annotated[str, Field(strict=True), AfterValidator(_bounded)]
Number: TypeAlias = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Texts: TypeAlias = Annotated[tuple[Text, ...], Field(fail_fast=True)]
Numbers: TypeAlias = Annotated[tuple[Number, ...], Field(fail_fast=True)]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What of the sources is not in an index: what nobody expects there by kind (``.png``), the rest by its reason."""

    passed_over: Mapping[Text, Count] = field(default_factory=dict, hash=False)
    unread: Mapping[Text, Count] = field(default_factory=dict, hash=False)
    names: Texts = ()
    # One file of each kind that was passed over.
    examples: Mapping[Text, Text] = field(default_factory=dict, compare=False)

    def __bool__(self) -> bool:
        return bool(self.passed_over or self.unread)

    @property
    def unexpected(self) -> int:
        return sum(self.unread.values())

    def joined(self, other: "LeftOut") -> "LeftOut":
        if not (self and other):
            return self or other
        passed_over = Counter(self.passed_over) + Counter(other.passed_over)
        unread = Counter(self.unread) + Counter(other.unread)
        names, examples = (*self.names, *other.names)[:NAMED], {**self.examples, **other.examples}
        return LeftOut(dict(passed_over), dict(unread), names, examples)

    def lines(self, named: int = NAMED) -> list[str]:
        lines = []
        for records, why in (
            (False, "passed over, as such files are not read"),
            (True, "passed over in folders, as files of records are named one by one to be read"),
        ):
            kinds = [kind for kind in self.passed_over if (kind in RECORD_SUFFIXES) == records]
            beside = {kind: f" ({path})" for kind, path in self.examples.items()}
            counted = ", ".join(f"{self.passed_over[kind]} {kind}{beside.get(kind, '')}" for kind in kinds)
            lines += [f"{why}: {counted}"] if kinds else []
        if old := [f"{kind} as {_SAVED_AS[kind]}" for kind in self.passed_over if kind in _SAVED_AS]:
            lines.append(f"would be read if they were saved otherwise: {', '.join(old)}")
        if self.unread:
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.unread.items())
            lines.append(f"left out, although it should have been read: {reasons}")
        lines += [f"left out: {name}" for name in self.names[:named]]
        if (more := self.unexpected - len(self.names[:named])) > 0 and self.names:
            lines.append(f"left out: {more} more")
        return lines


class LeftOutCounter:
    """Counts what is left out while sources are read."""

    def __init__(self, named: Collection[str] = ()) -> None:
        """Files of the absolute paths that are named are read, and not passed over in a folder."""
        self._named = named
        self._passed_over: Counter[str] = Counter()
        self._unread: Counter[str] = Counter()
        self._names: list[str] = []
        self._examples: dict[str, str] = {}

    def pass_over(self, kind: str, path: Path | None = None) -> None:
        if path is not None and path_of(path) in self._named:
            return
        kind = visible_line(kind)[:_LONGEST_NAME]
        if kind not in self._passed_over and len(self._passed_over) >= _KINDS:
            kind = _OTHER_KINDS
        self._passed_over[kind] += 1
        if path is not None:
            self._examples.setdefault(kind, _short(visible_line(str(path))))

    def unread(self, path: Path, reason: str, why: str) -> None:
        self._unread[reason] += 1
        if len(self._names) < NAMED:
            self._names.append(_short(visible_line(why if str(path) in why else f"{path}: {why}")))

    def result(self) -> LeftOut:
        passed_over, unread = (dict(one.most_common()) for one in (self._passed_over, self._unread))
        return LeftOut(passed_over, unread, tuple(self._names), dict(self._examples))


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexManifest:
    """What an index of any engine says about itself."""

    ENGINE: ClassVar[str]
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    schema_version: Count = SCHEMA_VERSION
    name: Text
    passages: Count
    # How many had an id that was taken and got a suffix (7, 7~2, 7~3).
    renamed: Count
    # SHA-256 over ids, titles, texts and places in the order of indexing; chained over later changes.
    source_hash: Text
    # The files and folders that the passages came from, by their absolute paths, or what a program called them.
    sources: Texts
    created: Text
    # What the names of further files begin with, or an index behind a name on a server; may be empty.
    data: Annotated[Text, Field(pattern=r"^([^./\\:\x00][^/\\:\x00]{0,254})?$")] = ""
    left_out: LeftOut = field(default_factory=LeftOut)
    # What the last change took out, as it was named, where it did nothing else: who asks for it again, as after a kill,
    # is told that it is so.
    removed: Texts = ()
    languages: Mapping[Text, Count] = field(default_factory=dict)
    # Since the index was built or rewritten; until then they count in how frequent a word is and how long a text.
    deleted: Count = 0

    def to_json(self) -> str:
        """Return the manifest as it is written to disk, on one line."""
        # In ASCII, as the name of a file may be no text at all, and then has half characters in the place of its bytes.
        return json.dumps({"format": FORMAT, "engine": self.ENGINE, **dataclasses.asdict(self)})

    @classmethod
    def from_json(cls, text: str, where: str) -> Self:
        """Read what `to_json` wrote, or somebody else."""
        engine, values = parse(text, where)
        if engine != cls.ENGINE:
            raise RetrievalError(f"{where} is that of an index of the engine {engine}: keqa.open_index opens it")
        try:
            manifest: Self = _reader(cls).validate_python(values)  # type: ignore[arg-type]
        except ValidationError as error:
            raise RetrievalError(f"{where}: {visible_line(reasons(error))[:_LONGEST_NAME]}") from None
        for problem in manifest.problems():
            raise RetrievalError(f"{where}: {problem}")
        return manifest

    @property
    def is_worn(self) -> bool:
        """Whether so much was deleted that the index should be rewritten, so that its statistics are a build's."""
        return self.deleted > (0 if self.passages <= _SMALL else _MOST_DELETED * self.passages)

    def check_count(self, found: int, where: str, again: str = "Build it again") -> None:
        """Make sure that an index holds as many passages as its manifest says."""
        if found != self.passages:
            raise RetrievalError(
                f"{where} is not complete: its manifest says {self.passages} passages, it holds {found}. {again}"
            )

    def problems(self) -> Iterator[str]:
        """What is wrong with entries that do not fit each other."""
        return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(IndexManifest):
    """What an index of BM25 says about itself, embedded or in Elasticsearch."""

    ENGINE: ClassVar[str] = EMBEDDED

    analyzer: AnalyzerSettings

    @property
    def language(self) -> str:
        return self.analyzer.language


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """What an index was encoded with and a question must be.

    Models are folders by their absolute paths, so that the index opens from anywhere, or names; that of questions may
    be the other of a pair such as DPR's two. The separator stands between title and text (``" [SEP] "`` for DPR), and
    the similarity is ``"dot"`` for models whose vectors have lengths that matter, as DPR's.
    """

    model: Text
    query_model: Text
    passage_prefix: Text
    query_prefix: Text
    separator: Text
    similarity: Annotated[Text, Field(pattern=f"^({'|'.join(SIMILARITIES)})$")]
    dimension: Annotated[Count, Field(ge=1, le=65_536)]

    def problems(self, probe: Sequence[float]) -> Iterator[str]:
        if len(probe) != self.dimension:
            yield f"probe must be {self.dimension} numbers"

    def text_of(self, passage: Passage) -> str:
        """What of a passage is encoded, without the prefix."""
        return f"{passage.title}{self.separator}{passage.text}" if passage.title else passage.text

    def key_of(self, passage: Passage) -> int:
        """By what the vector of a passage is known: 63 bits of a hash of what is encoded."""
        digest = hashlib.blake2b(self.text_of(passage).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") >> 1


@dataclass(frozen=True, slots=True)
class VectorSettings:
    """How vectors are searched: every one of them, or those of the ``nprobe`` closest lists, of 8 bits a number."""

    kind: Annotated[Text, Field(pattern=f"^({FLAT}|{IVF})$")]
    lists: Count = 0
    nprobe: Count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseManifest(IndexManifest):
    """What a dense index says about itself; its ``source_hash`` is that of an embedded index of the same passages."""

    ENGINE: ClassVar[str] = DENSE

    # Of passages that do not say it themselves, for a search of the same index by words.
    language: Text
    encoder: EncoderSettings
    # The vector that the model of questions gave for a question that never changes.
    probe: Numbers
    vectors: VectorSettings
    # How many vectors are in lists, and how many others there are at least.
    listed: Count
    rows: Count

    def problems(self) -> Iterator[str]:
        yield from self.encoder.problems(self.probe)
        kind, lists, nprobe = dataclasses.astuple(self.vectors)
        if kind == IVF and not 1 <= nprobe <= lists <= self.listed:
            yield f"vectors.lists and nprobe must be from 1 to {self.listed}, found {lists} and {nprobe}"
        if not self.data:
            yield "data must name the files of the vectors"
        if self.language not in LANGUAGES:
            yield f"unknown language {self.language[:40]!r}"


def read_lines(folder: Path, name: str) -> tuple[str, str]:
    """The manifest in a file, and the digests of the files of the index by their paths, which are read when needed."""
    try:
        head, _, files = read_file(folder, name, _LARGEST_FILE, error=RetrievalError).decode().partition("\n")
    except (MissingFileError, UnicodeDecodeError) as error:
        raise RetrievalError(f"{folder / name} cannot be read: {error}") from error
    return head, files


@cache
def _reader(manifest: type[Any]) -> TypeAdapter[Any]:
    """Making one takes ten times as long as reading a manifest by it."""
    return TypeAdapter(manifest)


def parse_files(text: str, where: str) -> dict[str, str]:
    """The digests of the files of an index by their paths, in the order of these."""
    found = parse_json(text, where, error=RetrievalError)
    if not isinstance(found, dict) or not all(isinstance(digest, str) for digest in found.values()):
        raise RetrievalError(f"{where} holds no files with their digests: the index is damaged, build it again")
    return dict(sorted(found.items()))


def parse(text: str, where: str) -> tuple[str, dict[str, Any]]:
    values = parse_json(text, where, max_depth=_DEEPEST, error=RetrievalError)
    if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
        raise RetrievalError(f"{where} is not the manifest of an index (it describes something else)")
    if _widest(values) > _MOST_ENTRIES:
        raise RetrievalError(f"{where}: an object has more than {_MOST_ENTRIES:,} entries")
    engine, version = values.pop("engine", EMBEDDED), values.get("schema_version")
    if version != SCHEMA_VERSION:
        raise RetrievalError(
            f"{where} has schema version {str(version)[:20]}, this version of KEQA reads {SCHEMA_VERSION}: "
            "build the index again, or use the version that built it"
        )
    return str(engine), values


def _widest(values: dict[str, Any]) -> int:
    return max([len(values), *(_widest(one) for one in values.values() if isinstance(one, dict))])


class SourceHash:
    """A running hash over passages, or over a change of an earlier state."""

    def __init__(self, earlier: str = "") -> None:
        self._hash = hashlib.sha256(earlier.encode())

    def add(self, passage: Passage) -> None:
        """Take in a passage; lengths are hashed too, so that two different splits never agree."""
        # Spelt out, since it runs for every passage of a corpus, and a loop takes twice as long.
        own, title, text = passage.id.encode(), passage.title.encode(), passage.text.encode()
        lengths = [len(part).to_bytes(8, "big") for part in (own, title, text)]
        self._hash.update(b"".join((lengths[0], own, lengths[1], title, lengths[2], text)))
        if passage.place:
            self._hash.update(b"place" + passage.place.packed().encode())

    def delete(self, passage_id: str) -> None:
        self._hash.update(b"deleted" + passage_id.encode())

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file as it is after a change: SHA-256 of its bytes, and the ids of its passages in their order."""

    digest: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """What is done to an index at once."""

    # Passages that are added; one of an id that is there takes its place.
    new: Sequence[Passage] = ()
    # The ids of passages that are removed, those that others take the place of too; and these passages.
    gone: Sequence[str] = ()
    leaving: Sequence[Passage] = ()
    # Passages of changed files that stay as they are.
    kept: Sequence[Passage] = ()
    # By path, the files that are new or changed; None for one that is gone.
    files: Mapping[str, FileChange | None] = field(default_factory=dict)
    # What the index is made of afterwards, and what of that is not in it.
    sources: tuple[str, ...] = ()
    left_out: LeftOut = field(default_factory=LeftOut)
    # What is taken out, as it was named, where nothing else is done.
    removed: tuple[str, ...] = ()


class Changer(Protocol):
    """An index that is open to be changed, by this process alone."""

    @property
    def manifest(self) -> Any:
        """What the index says about itself."""

    def files(self, tops: Sequence[str] | None = None) -> Mapping[str, str]:
        """The digests of the files that its passages come from, by their paths; at least those at or below some."""

    def ids_of(self, path: str) -> list[str]:
        """The ids of the passages of a file, in their order."""

    def held(self, ids: Sequence[str]) -> set[str]:
        """Which ids are those of passages in the index."""

    def stored(self, ids: Sequence[str]) -> dict[str, Passage]:
        """The passages of some ids; what is not there is left out."""

    def pieces(self, document: str) -> list[str]:
        """The ids of the passages of a document, ``document#n``."""

    def apply(self, change: PlannedChange) -> Any:
        """Make a change, all of it or nothing, and return the new manifest; see `manifest_after`."""


_M = TypeVar("_M", bound=Manifest | DenseManifest)


def manifest_after(before: _M, change: PlannedChange, /, **entries: Any) -> _M:
    """The manifest of an index after a change, the same in every engine."""
    source_hash = before.source_hash
    if change.new or change.gone:
        running = SourceHash(source_hash)
        for passage_id in change.gone:
            running.delete(passage_id)
        for passage in change.new:
            running.add(passage)
        source_hash = running.hexdigest()
    languages: Counter[str] = Counter(before.languages)
    languages.update(language_of_text(one.text, before.language) for one in change.new)
    languages.subtract(language_of_text(one.text, before.language) for one in change.leaving)
    return dataclasses.replace(
        before,
        languages=by_frequency(languages),
        passages=before.passages + len(change.new) - len(change.gone),
        deleted=before.deleted + len(change.gone),
        source_hash=source_hash,
        sources=change.sources,
        left_out=change.left_out,
        removed=change.removed,
        **entries,
    )
