"""Building an index, and adding and deleting passages later."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keqa.errors import InputError, RetrievalError
from keqa.retrievers.analysis import AnalyzerSettings, language_of, register, settings_for
from keqa.retrievers.base import Notice, Passage, default_notice
from keqa.retrievers.intake import Intake, cleaned
from keqa.retrievers.layout import NEXT_MANIFEST, building, exclusive, new_data, write_atomically
from keqa.retrievers.manifest import MANIFEST, Manifest, SourceHash
from keqa.retrievers.tantivy_index import (
    Opened,
    commit_stamp,
    engine_errors,
    make_document,
    make_schema,
    open_checked,
    writing,
)
from keqa.retrievers.text import clean_text

if TYPE_CHECKING:
    import tantivy

_PROGRESS_EVERY = 1000
_WRITER_HEAP = 512_000_000
_WRITER_THREADS = 2
_UPDATE_HEAP = 64_000_000


def build_index(
    passages: Iterable[Passage],
    out: Path | str,
    *,
    language: str = "auto",
    progress: Callable[[int], None] | None = None,
    notice: Notice | None = None,
    sources: Sequence[str] = (),
    name: str | None = None,
    overwrite: bool = False,
) -> Manifest:
    """Build an index, and publish it only when it is finished.

    An index that is already there stays in place, and can be searched, until the new one is complete. A repeated id
    is made unique by a suffix (``7``, ``7~2``, ``7~3``) and counted in the manifest.

    Args:
        passages: The passages, read once and never held in memory.
        out: Folder of the index; new, empty, or an index to be replaced.
        language: ``"en"``, ``"zh"``, the code of another language that has a Snowball stemmer, such as ``"de"``, or
            ``"auto"`` to decide by the first passages.
        progress: Called with the number of passages so far, now and then and at the end.
        notice: Called with what the user should know, such as an interrupted earlier build; logged by default.
        sources: Where the passages come from, for the manifest.
        name: Name of the index; the folder's name by default.
        overwrite: Whether an index of other ``sources`` may be replaced; one of the same always is.

    Returns:
        The manifest of the finished index. Where the passages are those of `read_corpus`, its ``left_out`` says what
        of the sources is not in it.

    Raises:
        InputError: There are no passages, one has no id, or ``out`` cannot be written to or holds something that is not
            an index, or one of other sources.
        RetrievalError: Another process works on the index, it cannot be written, or the engine failed.
    """
    # An unknown language is refused before anything is read or made.
    language_of(language, ())
    folder, report = Path(out), notice or default_notice
    with building(folder, sources, overwrite=overwrite) as earlier:
        if earlier:
            begun = earlier.get("started", "before")
            report(f"an earlier build of {folder}, begun {begun}, was interrupted: building again")
        intake = Intake(passages, language)
        settings = settings_for(str(intake.language))
        note = new_data(folder)
        _index(intake, folder / note["data"], settings, progress or (lambda count: None))
        manifest = Manifest(
            name=name or folder.resolve().name,
            analyzer=settings,
            created=note["started"],
            data=note["data"],
            commit=commit_stamp(folder / note["data"]),
            **intake.entries(sources),
        )
        _publish(folder, manifest)
        intake.report(report)
    return manifest


def _publish(folder: Path, manifest: Manifest) -> None:
    write_atomically(folder / MANIFEST, manifest.to_json())
    (folder / NEXT_MANIFEST).unlink(missing_ok=True)


def _index(intake: Intake, data: Path, settings: AnalyzerSettings, progress: Callable[[int], None]) -> None:
    """Write every passage into an index in a data folder, and make sure that all of them are in it."""
    from tantivy import Index

    folder = data.parent
    with engine_errors(f"the index in {folder} could not be begun"):
        schema = make_schema(settings)
        index = Index(schema, path=str(data))
        register(index, settings)
    with writing(index, folder, _WRITER_HEAP, _WRITER_THREADS) as writer:
        for passage in intake:
            try:
                writer.add_document(make_document(passage, schema))
            except BaseException:
                # Only now: to be ready for an error costs as much as the hash of a passage.
                with engine_errors(f"passage {passage.id!r} could not be indexed"):
                    raise
            if intake.count % _PROGRESS_EVERY == 0:
                progress(intake.count)
        with engine_errors(f"the index in {folder} could not be written"):
            writer.commit()
    with engine_errors(f"the index in {folder} could not be read back"):
        index.reload()
        found = index.searcher().num_docs
    if found != intake.count:
        raise RetrievalError(f"{intake.count} passages went into the index and {found} are in it: it is not published")
    progress(intake.count)


def add_passages(path: Path | str, passages: Iterable[Passage], *, replace: bool = False) -> Manifest:
    """Add passages to a finished index. Either all of them are in it afterwards or, after any failure, none.

    Args:
        path: Folder of the index.
        passages: The new passages.
        replace: Whether a passage takes the place of the one that has its id.

    Returns:
        The new manifest. A retriever that is open shows the change after its ``reload``.

    Raises:
        InputError: An id is given twice, or is in the index already and ``replace`` is off.
        RetrievalError: There is no finished index, another process changes it, or the engine failed.
    """
    new: dict[str, Passage] = {}
    for given in passages:
        passage = cleaned(given)
        if passage.id in new:
            raise InputError(f"passage id {passage.id!r} is given twice")
        new[passage.id] = passage
    folder = _existing(path)
    with exclusive(folder):
        opened = _recovered(folder)
        known = [passage_id for passage_id in new if _holds(opened, passage_id)]
        if known and not replace:
            raise InputError(f"passage id {known[0]!r} is in the index already; replace it, or delete it first")
        return _change(folder, opened, list(new.values()), known) if new else opened.manifest


def delete_passages(path: Path | str, ids: Iterable[str]) -> Manifest:
    """Delete passages, or whole documents, from a finished index. Either all of them are gone afterwards or none.

    Args:
        path: Folder of the index.
        ids: Passage ids; the id of a document without its ``#n`` stands for all its passages.

    Returns:
        The new manifest.

    Raises:
        InputError: An id is not in the index, or nothing would be left.
        RetrievalError: There is no finished index, another process changes it, or the engine failed.
    """
    folder = _existing(path)
    with exclusive(folder):
        opened = _recovered(folder)
        gone: dict[str, None] = {}
        for wanted in map(clean_text, ids):
            found = [wanted] if _holds(opened, wanted) else _pieces(opened, wanted)
            if not found:
                raise InputError(f"there is no passage or document {wanted!r} in the index {folder}")
            gone.update(dict.fromkeys(found))
        if len(gone) >= opened.manifest.passages:
            raise InputError(f"nothing would be left in the index: remove the folder {folder} instead")
        return _change(folder, opened, [], list(gone)) if gone else opened.manifest


def _existing(path: Path | str) -> Path:
    folder = Path(path)
    if not folder.is_dir():
        raise RetrievalError(f"there is no index at {folder}")
    return folder


def _recovered(folder: Path) -> Opened:
    """Open an index to change it, finishing first what a killed process left between commit and manifest."""
    opened = open_checked(folder)
    if opened.manifest != Manifest.read(folder):
        write_atomically(folder / MANIFEST, opened.manifest.to_json())
    (folder / NEXT_MANIFEST).unlink(missing_ok=True)
    return opened


def _holds(opened: Opened, passage_id: str) -> bool:
    from tantivy import Query

    if not passage_id:
        return False
    with engine_errors("the index could not be searched"):
        query = Query.term_query(opened.schema, "doc_id", passage_id, "basic")
        return bool(opened.index.searcher().search(query, 1).hits)


def _pieces(opened: Opened, document: str) -> list[str]:
    with engine_errors("the index could not be searched"):
        terms = opened.index.searcher().terms_with_prefix("doc_id", f"{document}#")
    # The dictionary keeps the terms of deleted passages until segments are merged.
    return [term for term, _ in terms if _holds(opened, term)] if document else []


def _change(folder: Path, opened: Opened, new: Sequence[Passage], gone: Sequence[str]) -> Manifest:
    """Commit deletions and additions together, announcing the manifest that will be true after the commit."""
    before = opened.manifest
    source_hash = SourceHash(before.source_hash)
    for passage_id in gone:
        source_hash.delete(passage_id)
    for passage in new:
        source_hash.add(passage)
    after = dataclasses.replace(
        before, passages=before.passages + len(new) - len(gone), source_hash=source_hash.hexdigest()
    )
    with (
        writing(opened.index, folder, _UPDATE_HEAP, 1) as writer,
        engine_errors(f"the index in {folder} could not be changed"),
    ):
        for passage_id in gone:
            writer.delete_documents_by_term("doc_id", passage_id)
        for passage in new:
            writer.add_document(make_document(passage, opened.schema))
        write_atomically(folder / NEXT_MANIFEST, after.to_json())
        _commit(writer)
    after = open_checked(folder).manifest
    _publish(folder, after)
    return after


def _commit(writer: tantivy.IndexWriter) -> None:
    """Commit; a function of its own, so that a test can end the process right before or after it."""
    writer.commit()
