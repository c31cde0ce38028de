"""Tantivy as this package uses it: the schema, and an index opened together with the manifest that describes it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from keqa.errors import RetrievalError
from keqa.retrievers.analysis import AnalyzerSettings, register
from keqa.retrievers.base import Passage
from keqa.retrievers.layout import NEXT_MANIFEST, data_folder, no_index, read_bytes, read_manifest
from keqa.retrievers.manifest import Manifest
from keqa.storage.untrusted import parse_json

if TYPE_CHECKING:
    import tantivy

# Another process may be between its commit and its new manifest, or have just replaced the data folder.
_ATTEMPTS = 20
_PAUSE = 0.05
# An entry for each segment; an index has dozens.
_META = "meta.json"
_LARGEST_META = 16 << 20


@dataclass(frozen=True)
class Opened:
    """An index and the manifest that is true of it."""

    manifest: Manifest
    index: tantivy.Index
    schema: tantivy.Schema


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


def make_schema(settings: AnalyzerSettings) -> tantivy.Schema:
    """Return the schema: id, title and text, all stored, terms with frequencies but without positions."""
    from tantivy import SchemaBuilder

    builder = SchemaBuilder()
    builder.add_text_field("doc_id", stored=True, tokenizer_name="raw", index_option="basic")
    for name in ("title", "text"):
        builder.add_text_field(name, stored=True, tokenizer_name=settings.tokenizer, index_option="freq")
    return builder.build()


def make_document(passage: Passage, schema: tantivy.Schema) -> tantivy.Document:
    """Return a passage, already clean, as the engine takes it."""
    from tantivy import Document

    return Document.from_dict({"doc_id": passage.id, "title": passage.title, "text": passage.text}, schema)


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
    failure = RetrievalError(f"there is no index in {folder}")
    for attempt in range(_ATTEMPTS):
        manifest = read_manifest(folder)
        if manifest is None:
            raise no_index(folder)
        try:
            return _open(folder, manifest)
        except RetrievalError as error:
            failure = error
        # Only a change under way is worth waiting for; without one, the index is as it will stay.
        if not (folder / NEXT_MANIFEST).exists() and read_manifest(folder) == manifest:
            break
        if attempt + 1 < _ATTEMPTS:
            time.sleep(_PAUSE)
    raise failure


def _open(folder: Path, manifest: Manifest) -> Opened:
    from tantivy import Index

    data = data_folder(folder, manifest.data)
    stamp = commit_stamp(data)
    with engine_errors(f"the index in {folder} cannot be opened; build it again"):
        index = Index.open(str(data))
        # Without this the engine watches for commits by itself, and two quizzes of one question could see two states.
        index.config_reader("manual")
        register(index, manifest.analyzer)
        index.reload()
        found = index.searcher().num_docs
        fields = index.schema == make_schema(manifest.analyzer)
    if not fields:
        raise RetrievalError(f"the index in {folder} has other fields than KEQA makes: build it again")
    if not data.exists():
        raise RetrievalError(f"the index in {folder} was replaced while it was opened")
    if stamp != manifest.commit:
        # A process was killed, or is still working, between its commit and its manifest: the commit counts.
        following = read_manifest(folder, NEXT_MANIFEST)
        if following is None or following.data != manifest.data or following.commit != manifest.commit:
            raise RetrievalError(f"the index in {folder} was changed by something that left its manifest behind")
        manifest = dataclasses.replace(following, commit=stamp)
    if found != manifest.passages:
        raise RetrievalError(
            f"the index in {folder} is not complete: its manifest says {manifest.passages} passages, "
            f"it holds {found}. Build it again"
        )
    return Opened(manifest, index, index.schema)
