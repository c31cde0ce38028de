"""The embedded BM25 retriever: Tantivy, on disk and memory-mapped, opened with the manifest that describes it."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from keqa.errors import RetrievalError
from keqa.retrievers.analysis import AnalyzerSettings, index_terms, query_terms, register
from keqa.retrievers.base import Hit, Passage, SharedRetriever, checked_k
from keqa.retrievers.languages import language_of_text
from keqa.retrievers.layout import NEXT_MANIFEST, Lengths, open_current, read_bytes
from keqa.retrievers.manifest import Manifest
from keqa.retrievers.place import unpacked
from keqa.storage.untrusted import parse_json

if TYPE_CHECKING:
    import tantivy

# An entry for each segment; an index has dozens.
_META = "meta.json"
_LOCK = ".tantivy-meta.lock"
_LARGEST_META = 16 << 20
# Where the last hit and the one after it have the same score, so many more are looked at, to put those of equal score
# into an order that does not depend on how the index was written. Always to do so would cost a third of the time.
_TIES = 32
# Title and text as they are; no character of theirs is the one between them.
_WRITTEN = "written"
_BETWEEN = "\0"


@dataclass(frozen=True)
class Opened:
    """An index and the manifest that is true of it."""

    manifest: Manifest
    index: tantivy.Index
    schema: tantivy.Schema
    lengths: Lengths


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


@contextmanager
def writing(index: tantivy.Index, folder: Path, heap: int, threads: int) -> Iterator[tantivy.IndexWriter]:
    """Give the index's only writer, and free it in every case; without a commit, nothing has changed."""
    with engine_errors(f"the index in {folder} cannot be written to"):
        writer = index.writer(heap, threads)
    try:
        yield writer
    except BaseException:
        with suppress(ValueError, RuntimeError):
            writer.rollback()
        raise
    finally:
        # The engine ties its lock to this object, which a traceback may keep alive; this call lets go of it.
        with engine_errors(f"the index in {folder} could not be finished"):
            writer.wait_merging_threads()


def make_schema(settings: AnalyzerSettings, *, place: bool = True) -> tantivy.Schema:
    """Return the schema: the id, the terms of title and text with frequencies but without positions, what is stored.

    Args:
        settings: Of the analyzer.
        place: Whether the place of a passage is kept; indexes of earlier versions have no field for it.
    """
    from tantivy import SchemaBuilder

    builder = SchemaBuilder()
    builder.add_text_field("doc_id", stored=True, tokenizer_name="raw", index_option="basic")
    earlier = settings.version == 1
    for name in ("title", "text"):
        builder.add_text_field(name, stored=earlier, tokenizer_name=settings.tokenizer, index_option="freq")
    if not earlier:
        builder.add_bytes_field(_WRITTEN, stored=True, indexed=False)
    if place:
        builder.add_bytes_field("place", stored=True, indexed=False)
    return builder.build()


def make_document(passage: Passage, schema: tantivy.Schema, settings: AnalyzerSettings) -> tantivy.Document:
    """Return a passage, already clean, as the engine takes it; without its place where the schema has none."""
    from tantivy import Document

    fields: dict[str, str | bytes] = {"doc_id": passage.id, "title": passage.title, "text": passage.text}
    if settings.version > 1:
        language = language_of_text(passage.text, settings.language)
        fields |= {name: " ".join(index_terms(str(fields[name]), language)) for name in ("title", "text")}
        fields[_WRITTEN] = f"{passage.title}{_BETWEEN}{passage.text}".encode()
    if passage.place:
        fields["place"] = passage.place.packed().encode()
    return Document.from_dict(fields, schema)


def commit_stamp(data: Path) -> int:
    """Return the operation stamp of the last commit in a data folder.

    Raises:
        RetrievalError: The engine's own record is missing or broken.
    """
    try:
        record = parse_json(read_bytes(data, _META, _LARGEST_META), data / _META, error=RetrievalError)
    except RetrievalError as error:
        raise RetrievalError(f"the index in {data} is broken: {error}") from error
    stamp = record.get("opstamp") if isinstance(record, dict) else None
    if type(stamp) is not int:
        raise RetrievalError(f"the index in {data} is broken: meta.json has no operation stamp")
    return stamp


def open_checked(folder: Path) -> Opened:
    """Open an index and make sure that its manifest is true.

    Raises:
        RetrievalError: There is no finished index, it is truncated or broken, or this version cannot read it.
    """
    return open_current(folder, Manifest, _open)


def _open(manifest: Manifest, data: Path) -> Opened:
    from tantivy import Index

    folder, stamp, lengths = data.parent, commit_stamp(data), Lengths(data)
    with (
        engine_errors(f"the index in {folder} cannot be opened; build it again"),
        _with_room_for_a_lock(data) as place,
    ):
        index = Index.open(str(place))
        # Without this the engine watches for commits by itself, and two quizzes of one question could see two states.
        index.config_reader("manual")
        register(index, manifest.analyzer)
        index.reload()
        found = index.searcher().num_docs
        fields = index.schema in [make_schema(manifest.analyzer, place=kept) for kept in (True, False)]
    if not fields:
        raise RetrievalError(f"the index in {folder} has other fields than KEQA makes: build it again")
    if not data.exists():
        raise RetrievalError(f"the index in {folder} was replaced while it was opened")
    if stamp != manifest.commit:
        # A process was killed, or is still working, between its commit and its manifest: the commit counts.
        following = Manifest.read(folder, NEXT_MANIFEST)
        if following is None or following.data != manifest.data or following.commit != manifest.commit:
            raise RetrievalError(f"the index in {folder} was changed by something that left its manifest behind")
        manifest = dataclasses.replace(following, commit=stamp)
    manifest.check_count(found, f"the index in {folder}")
    return Opened(manifest, index, index.schema, lengths)


@contextmanager
def _with_room_for_a_lock(data: Path) -> Iterator[Path]:
    """A data folder, or where it cannot be written to a folder of links to its files.

    The engine opens an index under a lock, which it makes a file for. Once opened, an index needs its folder no more.
    """
    lock = data / _LOCK
    if os.access(data, os.W_OK) and (os.access(lock, os.W_OK) or not lock.exists()):
        yield data
        return
    with TemporaryDirectory(prefix="keqa-index-") as folder:
        for entry in data.iterdir():
            if not entry.name.endswith(".lock"):
                Path(folder, entry.name).symlink_to(entry.absolute())
        yield Path(folder)


class TantivyRetriever(SharedRetriever):
    """BM25 over title and text of an index on disk.

    Safe to use from many threads. It shows the index as it was when it was opened, until :meth:`reload`.
    """

    def __init__(self, folder: Path, opened: Opened) -> None:
        """Take over an opened index; use :meth:`open`."""
        self._folder = folder
        self._opened = opened
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: Path | str) -> TantivyRetriever:
        """Open a finished index.

        Raises:
            RetrievalError: There is no finished index, it is truncated or broken, or this version cannot read it.
        """
        folder = Path(path)
        return cls(folder, open_checked(folder))

    @property
    def manifest(self) -> Manifest:
        """What the index says about itself."""
        return self._opened.manifest

    def reload(self) -> Manifest:
        """See what was added, deleted or rebuilt since; searches under way finish on the old state."""
        with self._lock:
            self._opened = open_checked(self._folder)
        return self._opened.manifest

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """Return at most ``k`` passages, best first; equal scores are ordered by id."""
        checked_k(k)
        opened = self._opened
        terms = query_terms(query, *(opened.manifest.languages or [opened.manifest.analyzer.language]))
        if not terms:
            return []
        opened.lengths.check()
        with engine_errors(f"searching the index in {self._folder} failed"):
            searcher = opened.index.searcher()
            wanted = self._query(opened, terms)
            k = min(k, opened.manifest.passages)
            found = searcher.search(wanted, k + 1, count=False).hits
            if len(found) > k and found[k][0] == found[k - 1][0]:
                found = searcher.search(wanted, k + _TIES, count=False).hits
            cut = found[k - 1][0] if len(found) >= k else 0.0
            hits = [
                Hit(stored_passage(searcher.doc(address)), float(score)) for score, address in found if score >= cut
            ]
        return sorted(hits, key=lambda hit: (-hit.score, hit.passage.id))[:k]

    def search_many(self, queries: Sequence[str], k: int = 10) -> list[list[Hit]]:
        """Search for each query in turn; a search takes milliseconds, less than handing it to a thread gains."""
        return [self.search(query, k) for query in queries]

    @staticmethod
    def _query(opened: Opened, terms: Sequence[str]) -> tantivy.Query:
        from tantivy import Occur, Query

        weight = opened.manifest.analyzer.title_weight
        clauses = []
        for term in terms:
            clauses.append((Occur.Should, Query.term_query(opened.schema, "text", term, "freq")))
            in_title = Query.term_query(opened.schema, "title", term, "freq")
            clauses.append((Occur.Should, Query.boost_query(in_title, weight)))
        return Query.boolean_query(clauses)


def stored_passage(document: tantivy.Document) -> Passage:
    """Return the passage that a document of the engine holds."""
    written = document.get_first(_WRITTEN)
    if written is None:
        # Of an index of an earlier version.
        title, text = str(document.get_first("title") or ""), str(document.get_first("text") or "")
    else:
        title, _, text = bytes(written).decode(errors="replace").partition(_BETWEEN)
    return Passage(
        id=str(document.get_first("doc_id")),
        title=title,
        text=text,
        place=unpacked(bytes(document.get_first("place") or b"").decode(errors="replace")),
    )
