"""Building an index, and adding and deleting passages later."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import json
import logging
import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keqa.errors import InputError, RetrievalError
from keqa.retrievers.analysis import (
    AnalyzerSettings,
    detect_language,
    is_chinese,
    register,
    settings_for,
    warning_of_chinese,
)
from keqa.retrievers.base import Passage
from keqa.retrievers.intake import Intake, Notice, cleaned
from keqa.retrievers.layout import (
    BUILDING,
    DATA_PREFIX,
    MANIFEST,
    NEXT_MANIFEST,
    claim,
    disk_errors,
    exclusive,
    read_manifest,
    read_note,
    remove_if_unused,
    remove_stale,
    write_atomically,
)
from keqa.retrievers.left_out import LeftOut, left_out_of
from keqa.retrievers.manifest import SCHEMA_VERSION, Manifest, SourceHash
from keqa.retrievers.tantivy_engine import (
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

_LOG = logging.getLogger("keqa.retrievers")
_SAMPLE = 1000
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
        language: ``"en"``, ``"zh"``, or ``"auto"`` to decide by the first passages.
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
    folder = Path(out)
    report = notice or _LOG.warning
    fixed = None if language == "auto" else settings_for(language)
    claim(folder, sources, overwrite=overwrite)
    with exclusive(folder):
        try:
            _report_interruption(folder, report)
            stream = iter(passages)
            sample = list(itertools.islice(stream, _SAMPLE))
            settings = fixed or settings_for(detect_language(sample))
            build = _Build(folder, settings, progress, report)
            of = _Origin(name or folder.resolve().name, tuple(sources), passages)
            manifest = build.run(itertools.chain(sample, stream), of)
        except BaseException:
            _clean_up(folder)
            raise
        # The new manifest is in place: from here on, what goes wrong can only leave files behind.
        _clean_up(folder)
    return manifest


def _report_interruption(folder: Path, report: Notice) -> None:
    """Say so where the build before this one was interrupted, and clear away what it left."""
    marker = folder / BUILDING
    published = _published(folder)
    if marker.exists():
        begun = read_note(folder, BUILDING)
        if published is None or begun.get("data") != published.data:
            report(
                f"an earlier build of {folder}, begun {begun.get('started', 'before')}, was interrupted: building again"
            )
    _remove_stale(folder, published)


def _remove_stale(folder: Path, published: Manifest | None) -> None:
    """Remove unpublished data; where a manifest is there but cannot be read, its data is anyone's guess and stays."""
    if published is not None or not (folder / MANIFEST).exists():
        remove_stale(folder, published.data if published else None)


def _published(folder: Path) -> Manifest | None:
    try:
        return read_manifest(folder)
    except RetrievalError:
        # A broken or foreign version is replaced by the new build; it is no reason to refuse one.
        return None


def _clean_up(folder: Path) -> None:
    _remove_stale(folder, _published(folder))
    (folder / BUILDING).unlink(missing_ok=True)
    remove_if_unused(folder)


@dataclasses.dataclass(frozen=True)
class _Origin:
    """What an index is called and made of."""

    name: str
    sources: tuple[str, ...]
    passages: Iterable[Passage]

    @property
    def left_out(self) -> LeftOut:
        """What of the sources is not in the passages, which have all been read."""
        return left_out_of(self.passages)


class _Build:
    """One run of building."""

    def __init__(
        self, folder: Path, settings: AnalyzerSettings, progress: Callable[[int], None] | None, report: Notice
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._progress = progress or (lambda count: None)
        self._report = report
        self._chinese = 0

    def run(self, passages: Iterable[Passage], of: _Origin) -> Manifest:
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        data = self._folder / f"{DATA_PREFIX}{uuid.uuid4().hex[:12]}"
        marker = {"format": "keqa-build", "pid": os.getpid(), "started": started, "data": data.name}
        write_atomically(self._folder / BUILDING, json.dumps(marker) + "\n")
        with disk_errors(data):
            data.mkdir(mode=0o700)
        intake = Intake(passages)
        count = self._index(intake, data)
        if count == 0:
            raise InputError("there are no passages to index: the corpus is empty")
        manifest = Manifest(
            schema_version=SCHEMA_VERSION,
            name=of.name,
            analyzer=self._settings,
            passages=count,
            renamed=intake.renamed,
            source_hash=intake.source_hash.hexdigest(),
            sources=of.sources,
            created=started,
            data=data.name,
            commit=commit_stamp(data),
            left_out=of.left_out,
        )
        write_atomically(self._folder / MANIFEST, manifest.to_json())
        (self._folder / NEXT_MANIFEST).unlink(missing_ok=True)
        intake.report(self._report)
        if warning := warning_of_chinese(self._chinese, count, self._settings.language):
            self._report(warning)
        return manifest

    def _index(self, intake: Intake, data: Path) -> int:
        from tantivy import Index

        with engine_errors(f"the index in {self._folder} could not be begun"):
            schema = make_schema(self._settings)
            index = Index(schema, path=str(data))
            register(index, self._settings)
        count = 0
        with writing(index, self._folder, _WRITER_HEAP, _WRITER_THREADS) as writer:
            for passage in intake:
                self._chinese += is_chinese(passage.text)
                try:
                    writer.add_document(make_document(passage, schema))
                except BaseException:
                    # Only now: to be ready for an error costs as much as the hash of a passage.
                    with engine_errors(f"passage {passage.id!r} could not be indexed"):
                        raise
                count += 1
                if count % _PROGRESS_EVERY == 0:
                    self._progress(count)
            with engine_errors(f"the index in {self._folder} could not be written"):
                writer.commit()
        with engine_errors(f"the index in {self._folder} could not be read back"):
            index.reload()
            found = index.searcher().num_docs
        if found != count:
            raise RetrievalError(f"{count} passages went into the index and {found} are in it: it is not published")
        self._progress(count)
        return count


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
    if opened.manifest != read_manifest(folder):
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
    write_atomically(folder / MANIFEST, after.to_json())
    (folder / NEXT_MANIFEST).unlink(missing_ok=True)
    return after


def _commit(writer: tantivy.IndexWriter) -> None:
    """Commit; a function of its own, so that a test can end the process right before or after it."""
    writer.commit()
