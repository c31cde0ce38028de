"""Building an index, and adding and deleting passages later."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keqa.errors import InputError, RetrievalError
from keqa.retrievers.analysis import AnalyzerSettings, language_of, register, settings_for
from keqa.retrievers.base import Notice, Passage, default_notice
from keqa.retrievers.changes import Change, FolderChanger, manifest_after
from keqa.retrievers.checksums import note
from keqa.retrievers.files import FileLess, FileTable
from keqa.retrievers.intake import Intake, cleaned
from keqa.retrievers.layout import BUILDING, NEXT_MANIFEST, building, clean_up, exclusive, new_data, write_atomically
from keqa.retrievers.manifest import MANIFEST, Manifest
from keqa.retrievers.tantivy_index import (
    Opened,
    commit_stamp,
    engine_errors,
    make_document,
    make_schema,
    open_checked,
    stored_passage,
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
    passages: Iterable[Any],
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
        passages: Read once and never held in memory: `Passage`, or texts and mappings with ``text`` and, where wanted,
            ``title``, ``id``, ``file``, ``page``, ``heading`` and ``date``.
        out: Folder of the index; new, empty, or an index to be replaced.
        language: Of passages that do not say it themselves: ``"en"``, ``"zh"``, the code of another language that has
            a Snowball stemmer, such as ``"de"``, or ``"auto"`` to decide by the first passages.
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
        begun = new_data(folder)
        data = folder / begun["data"]
        with FileTable.begin(data) as intake.table:
            _write(data, settings, intake, None, progress or (lambda count: None))
            intake.table.finish()
        manifest = Manifest(
            name=name or folder.resolve().name,
            analyzer=settings,
            created=begun["started"],
            data=begun["data"],
            commit=commit_stamp(data),
            **intake.entries(sources),
        )
        _publish(folder, manifest)
        intake.report(report)
    return manifest


def _publish(folder: Path, manifest: Manifest) -> None:
    note(folder, manifest)
    write_atomically(folder / MANIFEST, manifest.to_json())
    (folder / NEXT_MANIFEST).unlink(missing_ok=True)


def _write(
    data: Path,
    settings: AnalyzerSettings,
    passages: Iterable[Passage],
    expected: int | None,
    progress: Callable[[int], None] = lambda count: None,
) -> None:
    """Write passages into an index in a data folder, and make sure that as many as are expected are in it."""
    from tantivy import Index

    folder, count = data.parent, 0
    with engine_errors(f"the index in {folder} could not be begun"):
        schema = make_schema(settings)
        index = Index(schema, path=str(data))
        register(index, settings)
    with writing(index, folder, _WRITER_HEAP, _WRITER_THREADS) as writer:
        for count, passage in enumerate(passages, start=1):
            try:
                writer.add_document(make_document(passage, schema, settings))
            except BaseException:
                # Only now: to be ready for an error costs as much as the hash of a passage.
                with engine_errors(f"passage {passage.id!r} could not be indexed"):
                    raise
            if count % _PROGRESS_EVERY == 0:
                progress(count)
        with engine_errors(f"the index in {folder} could not be written"):
            writer.commit()
    with engine_errors(f"the index in {folder} could not be read back"):
        index.reload()
        found = index.searcher().num_docs
    expected = count if expected is None else expected
    if found != expected:
        raise RetrievalError(f"{expected} passages went into the index and {found} are in it: it is not published")
    progress(count)


class _TantivyChanger(FolderChanger):
    """An embedded index that is open to be changed; see `keqa.retrievers.changing.Changer`."""

    def __init__(self, folder: Path, opened: Opened, table: FileTable | None) -> None:
        """Use `changing`."""
        super().__init__(table)
        self._folder = folder
        self._opened = opened

    @property
    def manifest(self) -> Manifest:
        return self._opened.manifest

    def held(self, ids: Sequence[str]) -> set[str]:
        return {one for one in ids if self._found(one)}

    def stored(self, ids: Sequence[str]) -> dict[str, Passage]:
        searcher = self._opened.index.searcher()
        with engine_errors(f"the index in {self._folder} could not be read"):
            return {one: stored_passage(searcher.doc(hits[0][1])) for one in ids if (hits := self._found(one))}

    def _found(self, passage_id: str) -> Sequence[tuple[float, tantivy.DocAddress]]:
        from tantivy import Query

        if not passage_id:
            return ()
        with engine_errors("the index could not be searched"):
            query = Query.term_query(self._opened.schema, "doc_id", passage_id, "basic")
            found: Sequence[tuple[float, tantivy.DocAddress]] = self._opened.index.searcher().search(query, 1).hits
            return found

    def pieces(self, document: str) -> list[str]:
        with engine_errors("the index could not be searched"):
            terms = self._opened.index.searcher().terms_with_prefix("doc_id", f"{document}#")
        # The dictionary keeps the terms of deleted passages until segments are merged.
        return [term for term, _ in terms if self._found(term)] if document else []

    def apply(self, change: Change) -> Manifest:
        """Commit deletions and additions together, announcing the manifest that will be true after the commit."""
        before, folder = self.manifest, self._folder
        replaced = self.held([passage.id for passage in change.new])
        leaving = self.stored([*change.gone, *replaced]).values()
        deleted = before.deleted + len(leaving)
        after = manifest_after(before, change, replaced, leaving, deleted=deleted)
        self.announce(change, after.source_hash, folder / before.data)
        if change.gone or change.new:
            self._write(change, replaced, after)
            after = open_checked(folder).manifest
        _publish(folder, after)
        self._opened = open_checked(folder)
        self.settle()
        self.rewrite_if_worn()
        return self.manifest

    def rewrite_if_worn(self) -> None:
        """Write the passages into a new data folder, which leaves behind what was deleted; published as a build is."""
        if not self.manifest.is_worn:
            return
        folder, before = self._folder, self.manifest
        begun = new_data(folder)
        data = folder / begun["data"]
        if self._table is not None:
            self._table.copy(data)
        _write(data, before.analyzer, self._all(), before.passages)
        _publish(folder, dataclasses.replace(before, data=data.name, commit=commit_stamp(data), deleted=0))
        self.close()
        self._table = FileTable.open(data)
        self._opened = open_checked(folder)
        clean_up(folder)

    def _all(self) -> Iterator[Passage]:
        from tantivy import Query

        searcher = self._opened.index.searcher()
        with engine_errors(f"the index in {self._folder} could not be read"):
            for _, address in searcher.search(Query.all_query(), self.manifest.passages, count=False).hits:
                yield stored_passage(searcher.doc(address))

    def _write(self, change: Change, replaced: Iterable[str], after: Manifest) -> None:
        opened, folder = self._opened, self._folder
        with (
            writing(opened.index, folder, _UPDATE_HEAP, 1) as writer,
            engine_errors(f"the index in {folder} could not be changed"),
        ):
            # What a killed process wrote and did not commit has names that the engine would use again, and refuses to.
            writer.garbage_collect_files()
            for passage_id in (*change.gone, *replaced):
                writer.delete_documents_by_term("doc_id", passage_id)
            for passage in change.new:
                writer.add_document(make_document(passage, opened.schema, after.analyzer))
            write_atomically(folder / NEXT_MANIFEST, after.to_json())
            _commit(writer)


@contextmanager
def changing(path: Path | str) -> Iterator[_TantivyChanger]:
    """Open an index to change it, and finish first what a killed process left.

    Args:
        path: Folder of the index.

    Raises:
        RetrievalError: There is no finished index, another process changes it, or it is damaged.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise RetrievalError(f"there is no index at {folder}")
    with exclusive(folder):
        opened = open_checked(folder)
        # A process was killed between its commit and its manifest.
        if opened.manifest != Manifest.read(folder):
            _publish(folder, opened.manifest)
        (folder / NEXT_MANIFEST).unlink(missing_ok=True)
        if (folder / BUILDING).exists():
            clean_up(folder)
        with closing(_TantivyChanger(folder, opened, FileTable.open(folder / opened.manifest.data))) as changer:
            changer.settle()
            changer.rewrite_if_worn()
            yield changer


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
    with changing(path) as changer:
        before = changer.manifest
        if (known := sorted(changer.held(list(new)))) and not replace:
            raise InputError(f"passage id {known[0]!r} is in the index already; replace it, or delete it first")
        if not new:
            return before
        return changer.apply(Change(list(new.values()), sources=before.sources, left_out=before.left_out))


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
    with changing(path) as changer:
        before = changer.manifest
        gone: dict[str, None] = {}
        for wanted in map(clean_text, ids):
            found = [wanted] if changer.held([wanted]) else changer.pieces(wanted)
            if not found:
                raise InputError(f"there is no passage or document {wanted!r} in the index {path}")
            gone.update(dict.fromkeys(found))
        if len(gone) >= before.passages:
            raise InputError(f"nothing would be left in the index: remove the folder {path} instead")
        if not gone:
            return before
        files = {name: FileLess(tuple(held)) for name, held in changer.holders(gone).items()}
        return changer.apply(Change(gone=list(gone), files=files, sources=before.sources, left_out=before.left_out))


def _commit(writer: tantivy.IndexWriter) -> None:
    """Commit; a function of its own, so that a test can end the process right before or after it."""
    writer.commit()
