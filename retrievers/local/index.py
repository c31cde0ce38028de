"""An index in a folder, as one commit has it: BM25 over passages in Tantivy, on disk and memory-mapped.

::

    index/
      lock                 held by the process that builds or changes
      data/
        meta.json, …       the engine's files: one commit is the whole index
        manifest-7.json    what the first commit after the stamp 7 says about itself, and the digests of its files
        checksums.json     by which a byte that a disk has changed is found
        vectors-3f2a….*    of a dense index, the vectors of its passages by what was encoded

A manifest is written before its commit, and is true once the engine has replaced ``meta.json``: a process killed at any
moment leaves the index as it was or as it should be, complete. The engine counts what it does in stamps that only rise,
so the manifest of a commit is the one with the highest number below the stamp of the commit.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, Self, TypeVar

import tantivy
from tantivy import Occur, Query

from keqa.errors import RetrievalError
from keqa.retrievers.base import Hit, Passage, SharedRetriever, checked_k, unpacked
from keqa.retrievers.manifest import DENSE, DenseManifest, Manifest, parse, parse_files, read_lines
from keqa.retrievers.text import LANGUAGES, index_terms, language_of_text, may_be_mistyped, query_terms, settings_for
from keqa.storage.untrusted import MissingFileError, read_json

LOCK: Final = "lock"
DATA: Final = "data"
META: Final = "meta.json"
VECTORS: Final = "vectors-"
MANIFEST_FILE: Final = re.compile(r"manifest-([0-9]{1,18})\.json")
# An entry for each segment; an index has dozens.
_LARGEST_META: Final = 16 << 20


class State(NamedTuple):
    """What is published in the folder of an index: the file that describes the engine's commit."""

    manifest: str
    # What differs when the engine's record or the manifest is another file.
    files: tuple[tuple[int, int], ...]


def state_of(folder: Path) -> State:
    """What is published in a folder; a RetrievalError says that there is no finished index, or what is wrong."""
    data = folder / DATA
    if data.is_symlink():
        raise RetrievalError(f"{data} is a link; an index keeps its files in its own folder")
    try:
        with os.scandir(data) as entries:
            there = {entry.name: entry.is_file(follow_symlinks=False) for entry in entries}
    except (FileNotFoundError, NotADirectoryError):
        raise _no_index(folder) from None
    except OSError as error:
        raise RetrievalError(f"the index in {folder} is broken: {data} cannot be read: {error}") from error
    if odd := next((name for name, regular in there.items() if not regular), None):
        raise RetrievalError(f"{data} holds {odd!r}, which is no regular file: the index is not opened")
    stamp = stamp_of(data) if META in there else 0
    before = {
        int(found[1]): name for name in there if (found := MANIFEST_FILE.fullmatch(name)) and int(found[1]) < stamp
    }
    if not before:
        raise _no_index(folder)
    name = before[max(before)]
    try:
        stats = [os.stat(data / one) for one in (META, name)]
    except FileNotFoundError:
        # Another process has published another state since the folder was listed.
        return state_of(folder)
    return State(name, tuple((one.st_ino, one.st_mtime_ns) for one in stats))


def manifest_in(folder: Path) -> tuple[str, dict[str, Any]]:
    """The engine and the entries of the manifest of an index, whose files nobody looks at."""

    def opening(state: State) -> tuple[str, dict[str, Any]]:
        where = folder / DATA / state.manifest
        return parse(read_lines(where.parent, where.name)[0], str(where))

    return steady(folder, opening)


def stamp_of(data: Path) -> int:
    """The operation stamp of the last commit, by the engine's own record."""
    try:
        record = read_json(data, META, _LARGEST_META, error=RetrievalError)
    except (RetrievalError, MissingFileError) as error:
        raise RetrievalError(f"the index in {data} is broken: {error}") from error
    stamp = record.get("opstamp") if isinstance(record, dict) else None
    if type(stamp) is not int:
        raise RetrievalError(f"the index in {data} is broken: meta.json has no operation stamp")
    return stamp


class Lengths:
    """How long the files of an index were when they were mapped: who reads beyond an end that was cut off is ended."""

    def __init__(self, data: Path) -> None:
        self._files: list[tuple[str, int, int]] = []
        # What a change removes meanwhile is mapped as it was; what is replaced is not mapped.
        with suppress(FileNotFoundError), os.scandir(data) as entries:
            for one in entries:
                if not one.name.startswith(".") and not one.name.endswith(".json"):
                    with suppress(FileNotFoundError):
                        found = one.stat()
                        self._files.append((one.path, found.st_ino, found.st_size))

    def check(self) -> None:
        """Make sure that no file is shorter by now; one that a change has removed is still there for this process."""
        for path, inode, size in self._files:
            with suppress(OSError):
                now = os.stat(path)
                if now.st_size < size and now.st_ino == inode:
                    raise RetrievalError(f"{path} was cut off while it was in use: build the index again")


def _no_index(folder: Path) -> RetrievalError:
    if (folder / DATA).exists() and (folder / LOCK).exists():
        return RetrievalError(
            f"the index in {folder} is not finished: its build is still running, or was interrupted. "
            "Run `keqa index` again to build it"
        )
    if not folder.exists():
        return RetrievalError(f"there is no index at {folder}. Build one with `keqa index SOURCE --out {folder}`")
    advice = f"If that is where your documents are, build one with `keqa index {folder} --out INDEX`, and name that"
    return RetrievalError(f"{folder} is not an index: it has no manifest. {advice}")


AnyManifest = Manifest | DenseManifest
_T = TypeVar("_T")
_LOCK = ".tantivy-meta.lock"
# A change under way may be over the next moment.
_ATTEMPTS = 20
_PAUSE = 0.05
# Where the last hit and the one after it have the same score, so many more are looked at, to put those of equal score
# into an order that does not depend on how the index was written. Always to do so would cost a third of the time.
_TIES = 32
# So many documents have the same value, mostly.
_FEW = 4
# Title and text as they are; no character of theirs is the one between them.
_WRITTEN = "written"
_BETWEEN = "\0"


@dataclass(frozen=True)
class Opened:
    """An index as one commit has it, and the manifest that is true of it."""

    folder: Path
    state: State
    manifest: AnyManifest
    index: tantivy.Index
    searcher: tantivy.Searcher
    schema: tantivy.Schema
    lengths: Lengths
    described: str

    @cached_property
    def files(self) -> Mapping[str, str]:
        return parse_files(self.described, str(self.folder / DATA / self.state.manifest))

    def matching(self, field: str, value: str | int) -> list[tantivy.Document]:
        found = self._found(field, value, _FEW)
        if found.count > _FEW:
            found = self._found(field, value, found.count)
        with engine_errors(f"the index in {self.folder} could not be read"):
            return [self.searcher.doc(address) for _, address in found.hits]

    def count(self, field: str, value: str | int) -> int:
        return int(self._found(field, value, 1).count)

    def _found(self, field: str, value: str | int, most: int) -> Any:
        with engine_errors(f"the index in {self.folder} could not be read"):
            return self.searcher.search(Query.term_query(self.schema, field, value, "basic"), most)

    def every(self) -> Iterator[tantivy.Document]:
        query, most = Query.all_query(), self.manifest.passages
        with engine_errors(f"the index in {self.folder} could not be read"):
            for _, address in self.searcher.search(query, most, count=False).hits:
                yield self.searcher.doc(address)


@contextmanager
def engine_errors(what: str) -> Iterator[None]:
    """Turn whatever the engine raises into a RetrievalError; its panics are not even Exceptions."""
    try:
        yield
    except RetrievalError:
        raise
    except BaseException as error:
        if isinstance(error, ValueError | OSError | RuntimeError) or type(error).__name__ == "PanicException":
            # A thread of the engine that cannot write reports no more than this.
            hint = ". Where the disk is full, free space and run the same again" if "io::Error" in str(error) else ""
            raise RetrievalError(f"{what}: {error}{hint}") from error
        raise


def make_schema() -> tantivy.Schema:
    """The fields to find passages by, the terms of title and text, without positions, and what is given back."""
    builder = tantivy.SchemaBuilder()
    for name in ("doc_id", "file"):
        builder.add_text_field(name, stored=True, tokenizer_name="raw", index_option="basic")
    for name in ("title", "text"):
        builder.add_text_field(name, stored=False, tokenizer_name="whitespace", index_option="freq")
    builder.add_unsigned_field("vector", stored=False, indexed=True)
    for name in (_WRITTEN, "place"):
        builder.add_bytes_field(name, stored=True, indexed=False)
    return builder.build()


def make_document(
    passage: Passage, schema: tantivy.Schema, language: str, file: str = "", vector: int | None = None
) -> tantivy.Document:
    """A passage, already clean, as the engine takes it."""
    own = language_of_text(passage.text, language)
    fields: dict[str, str | bytes | int] = {
        "doc_id": passage.id,
        "title": " ".join(index_terms(passage.title, own)),
        "text": " ".join(index_terms(passage.text, own)),
        _WRITTEN: f"{passage.title}{_BETWEEN}{passage.text}".encode(),
    }
    if passage.place:
        fields["place"] = passage.place.packed().encode()
    if file:
        fields["file"] = file
    if vector is not None:
        fields["vector"] = vector
    return tantivy.Document.from_dict(fields, schema)


def stored_passage(document: tantivy.Document) -> Passage:
    title, _, text = bytes(document.get_first(_WRITTEN) or b"").decode(errors="replace").partition(_BETWEEN)
    return Passage(
        id=str(document.get_first("doc_id")),
        title=title,
        text=text,
        place=unpacked(bytes(document.get_first("place") or b"").decode(errors="replace")),
    )


def open_checked(folder: Path) -> Opened:
    """Open an index and make sure that its manifest is true."""

    def opening(state: State) -> Opened:
        data = folder / DATA
        head, described = read_lines(data, state.manifest)
        where = str(data / state.manifest)
        kind = DenseManifest if parse(head, where)[0] == DENSE else Manifest
        manifest, lengths = kind.from_json(head, where), Lengths(data)
        with (
            engine_errors(f"the index in {folder} cannot be opened; build it again"),
            _with_room_for_a_lock(data) as place,
        ):
            index = tantivy.Index.open(str(place))
            # Else it watches for commits by itself, and two quizzes of one question could see two states.
            index.config_reader("manual")
            index.reload()
            searcher, schema = index.searcher(), index.schema
        if isinstance(manifest, Manifest) and manifest.analyzer not in map(settings_for, LANGUAGES):
            raise RetrievalError(f"{where}: analyzer settings that this version does not know: {manifest.analyzer}")
        if schema != make_schema():
            raise RetrievalError(f"the index in {folder} has other fields than KEQA makes: build it again")
        manifest.check_count(searcher.num_docs, f"the index in {folder}")
        return Opened(folder, state, manifest, index, searcher, schema, lengths, described)

    return steady(folder, opening)


def steady(folder: Path, opening: Callable[[State], _T]) -> _T:
    """What opens the published state of an index, again where another process replaces or changes it meanwhile."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE)
        before: State | None = None
        try:
            before = state_of(folder)
            opened = opening(before)
            if state_of(folder) == before:
                return opened
            failure = RetrievalError(f"the index in {folder} is changed again and again while it is opened")
        except RetrievalError as error:
            failure = error
        # Only a change under way is worth waiting for; without one, the index is as it will stay.
        with suppress(RetrievalError):
            if state_of(folder) != before:
                continue
        break
    raise failure


@contextmanager
def _with_room_for_a_lock(data: Path) -> Iterator[Path]:
    """A data folder, or where the engine cannot make the file of its lock there a folder of links to its files."""
    lock = data / _LOCK
    if os.access(data, os.W_OK) and (os.access(lock, os.W_OK) or not lock.exists()):
        yield data
        return
    with TemporaryDirectory(prefix="keqa-index-") as folder:
        for entry in data.iterdir():
            if not entry.name.endswith(".lock"):
                Path(folder, entry.name).symlink_to(entry.absolute())
        yield Path(folder)


def _any_of(kind: Callable[[str, str], Query], fields: Sequence[tuple[str, float]], terms: Sequence[str]) -> Query:
    clauses = [Query.boost_query(kind(field, term), weight) for term in terms for field, weight in fields]
    return Query.boolean_query([(Occur.Should, one) for one in clauses])


class TantivyRetriever(SharedRetriever):
    """BM25 over title and text of an index on disk, a dense one too, as it was opened until :meth:`reload`."""

    def __init__(self, path: Path | str) -> None:
        """Open a finished index; a RetrievalError says that there is none, or what is wrong with it."""
        self._folder = Path(path)
        self._opened = open_checked(self._folder)
        self._lock = threading.Lock()

    @property
    def manifest(self) -> AnyManifest:
        return self._opened.manifest

    def reload(self) -> AnyManifest:
        """See what was added, deleted or rebuilt since; searches under way finish on the old state."""
        with self._lock:
            self._opened = open_checked(self._folder)
        return self._opened.manifest

    def fresh(self) -> Self:
        return self if state_of(self._folder) == self._opened.state else super().fresh()

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """Return at most ``k`` passages, best first; equal scores are ordered by id."""
        checked_k(k)
        opened = self._opened
        manifest, searcher = opened.manifest, opened.searcher
        terms = query_terms(query, *(manifest.languages or [manifest.language]))
        if not terms:
            return []
        opened.lengths.check()
        with engine_errors(f"searching the index in {self._folder} failed"):
            fields = [("text", 1.0), ("title", settings_for(manifest.language).title_weight)]
            exact = partial(Query.term_query, opened.schema, index_option="freq")
            k = min(k, manifest.passages)
            wanted = _any_of(exact, fields, terms)
            found = searcher.search(wanted, k + 1, count=False).hits
            long = [*filter(may_be_mistyped, terms)]
            if not found and long:
                # They may be mistyped: a letter more, less or another, or two that changed places. One of several is in
                # a passage by chance, as “points” is for “painted”.
                likely = partial(Query.fuzzy_term_query, opened.schema)
                words = [(Occur.Should, _any_of(likely, fields, [term])) for term in long]
                wanted = Query.boolean_query(words, minimum_number_should_match=(len(long) + 1) // 2)
                found = searcher.search(wanted, k + 1, count=False).hits
            if len(found) > k and found[k][0] == found[k - 1][0]:
                found = searcher.search(wanted, k + _TIES, count=False).hits
            cut = found[k - 1][0] if len(found) >= k else 0.0
            near = [(float(score), searcher.doc(address)) for score, address in found if score >= cut]
        hits = [Hit(stored_passage(document), score) for score, document in near]
        return sorted(hits, key=lambda hit: (-hit.score, hit.passage.id))[:k]

    def search_many(self, queries: Sequence[str], k: int = 10) -> list[list[Hit]]:
        """Search for each query in turn; a search takes milliseconds, less than handing it to a thread gains."""
        return [self.search(query, k) for query in queries]
