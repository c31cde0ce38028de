"""Writing an index in a folder: who may, and that each build and each change is one commit, whole or not at all.

Checksums lie beside the engine's files, by which a byte that a disk has changed is found: an engine may not notice. The
names of those files are never used again for other content, so a change computes those of new files only.
"""

import dataclasses
import datetime
import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import tantivy

from keqa.errors import ConfigurationError, InputError, RetrievalError
from keqa.retrievers.base import Notice, Passage, default_notice
from keqa.retrievers.intake import PassageIntake, refuse_other_sources
from keqa.retrievers.local.index import (
    DATA,
    LOCK,
    MANIFEST_FILE,
    META,
    VECTORS,
    AnyManifest,
    Opened,
    engine_errors,
    make_document,
    make_schema,
    manifest_in,
    open_checked,
    stamp_of,
    state_of,
    stored_passage,
)
from keqa.retrievers.manifest import DENSE, DenseManifest, Manifest, PlannedChange, manifest_after
from keqa.retrievers.text import language_of, settings_for
from keqa.storage.files import atomic_write, open_locked, private_folder
from keqa.storage.untrusted import MissingFileError, open_regular, read_json

CHECKSUMS: Final = "checksums.json"
_LARGEST: Final = 16 << 20
# What is written again under its name: the engine's record, manifests, and vectors, which are added to.
_REPLACED: Final = (".json", ".rows", ".keys")
_PROGRESS_EVERY = 1000
_BUILD = (512_000_000, 2)
_UPDATE = (64_000_000, 1)

_M = TypeVar("_M", Manifest, DenseManifest)

Row = tuple[Passage, str]
"""A passage and the file that it comes from."""

Key = Callable[[Passage], int | None]
"""By what the vector of a passage is known; nothing where an index has no vectors."""


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
    with building(folder, sources, overwrite=overwrite) as data:
        if (data / META).exists() and not _is_finished(folder):
            report(f"an earlier build of {folder} was interrupted: building again")
        intake = PassageIntake(passages, language)

        def manifest() -> Manifest:
            return Manifest(analyzer=settings_for(intake.language), **entries(folder, name, intake, sources))

        built = write_whole(folder, intake, intake.rows(), manifest, progress=progress)
        for unused in data.glob(f"{VECTORS}*"):
            unused.unlink(missing_ok=True)
        intake.report(report)
    return built


def check_place(folder: Path, sources: Sequence[str], *, overwrite: bool) -> None:
    """Make sure, before anything is done, that an index of some sources can be built in a folder."""
    if str(folder).startswith("documents:"):
        raise InputError(
            f"an index in {folder} could not be named afterwards: documents:FILE is a file of documents, one a "
            f"question. Name another folder, such as {str(folder).replace(':', '-')}"
        )
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not there.is_dir():
        raise InputError(f"{folder} cannot be created: {there} is a file. Name another folder for the index")
    if not os.access(there, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise InputError(
            f"{there} cannot be written to: there are no rights to, or it is read-only. Name a folder for the index "
            "in which you may write"
        )
    if folder != there:
        return
    with _usable(folder):
        names = {entry.name for entry in folder.iterdir()}
    # The lock is made before anything else.
    if names - {LOCK, DATA} or names == {DATA}:
        raise InputError(f"{folder} holds something that is not an index; it is left alone. Name another folder")
    earlier: object = None
    with suppress(RetrievalError):
        earlier = manifest_in(folder)[1].get("sources")
    if isinstance(earlier, list) and all(isinstance(one, str) for one in earlier) and not overwrite:
        refuse_other_sources(str(folder), earlier, sources)


@contextmanager
def _usable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{folder} cannot be used for an index: {error}. Name another folder") from error


@contextmanager
def building(folder: Path, sources: Sequence[str], *, overwrite: bool) -> Iterator[Path]:
    """Hold the right to build an index in a folder, which gives the folder of its data; see `check_place`."""
    check_place(folder, sources, overwrite=overwrite)
    data = folder / DATA
    with _usable(folder):
        # An index holds passages; who wants others to read it gives them the right.
        private_folder(folder)
    with exclusive(folder):
        with disk_errors(data):
            # Somebody else may have made the folder, and nothing is written through a link of theirs.
            for path in (data, *(data.iterdir() if data.is_dir() and not data.is_symlink() else ())):
                if path.is_symlink():
                    path.unlink()
            private_folder(data)
        try:
            yield data
        finally:
            _clear_away(folder)


def _clear_away(folder: Path) -> None:
    """Remove what a first build that failed leaves, but for vectors, with which the same build goes on."""
    with suppress(RetrievalError):
        state_of(folder)
        return
    data = folder / DATA
    if any(one.name.startswith(VECTORS) for one in data.iterdir()) or ((data / META).exists() and stamp_of(data)):
        return
    with suppress(OSError):
        _remove_engine(data)
        data.rmdir()
        (folder / LOCK).unlink(missing_ok=True)
        folder.rmdir()


def _remove_engine(data: Path) -> None:
    """Remove all but the vectors: nothing that is there can be opened."""
    for path in data.iterdir():
        if not path.name.startswith(VECTORS):
            path.unlink()


def _is_finished(folder: Path) -> bool:
    with suppress(RetrievalError):
        open_checked(folder)
        return True
    return False


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the right to change an index. The system releases it when the process ends, however it ends."""
    holder = "another process, which is building or changing the index"
    try:
        lock = open_locked(folder / LOCK, holder, "end it", lock_only=True, error=RetrievalError)
    except OSError as error:
        raise RetrievalError(f"{folder} cannot be changed: {error}") from error
    with lock:
        yield


@contextmanager
def disk_errors(path: Path, kind: type[Exception] = OSError) -> Iterator[None]:
    """Turn what the system, or a library that knows its words only, raises while something is written into an error."""
    try:
        yield
    except (OSError, kind) as error:
        full = any(os.strerror(number) in str(error) for number in (errno.ENOSPC, errno.EDQUOT))
        hint = "; free space and run the same again" if full else ""
        raise RetrievalError(f"{path} cannot be written: {error}{hint}") from error


def write_text(path: Path, text: str) -> None:
    with disk_errors(path):
        atomic_write(path, text.encode())


def entries(folder: Path, name: str | None, intake: PassageIntake, sources: Sequence[str]) -> dict[str, Any]:
    """What the manifest of a build says in every engine of a folder."""
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"name": name or folder.resolve().name, "created": created, **intake.entries(sources)}


def write_whole(
    folder: Path,
    intake: PassageIntake,
    rows: Iterable[Row],
    manifest: Callable[[], _M],
    *,
    key: Key = lambda passage: None,
    progress: Callable[[int], None] | None = None,
) -> _M:
    """Put passages in the place of all that an index has; the manifest is asked for when they have been read."""
    data = folder / DATA
    if (data / META).exists() and not _is_finished(folder):
        _remove_engine(data)
    with engine_errors(f"the index in {folder} could not be begun"):
        index = tantivy.Index(make_schema(), path=str(data))
    with _writing(index, folder, _BUILD) as writer:
        writer.delete_all_documents()
        _add(writer, index.schema, rows, intake.language, key, progress or (lambda count: None))
        made = manifest()
        _publish(writer, data, made, intake.files)
    _settled(folder)
    return made


@contextmanager
def _writing(index: tantivy.Index, folder: Path, means: tuple[int, int]) -> Iterator[tantivy.IndexWriter]:
    """Give the index's only writer, and free it in every case; without a commit, nothing has changed."""
    with engine_errors(f"the index in {folder} cannot be written to"):
        writer = index.writer(*means)
    try:
        # What a killed process wrote and did not commit has names that the engine would use again, and refuses to.
        with engine_errors(f"the index in {folder} could not be changed"):
            writer.garbage_collect_files()
            yield writer
    except BaseException:
        with suppress(ValueError, RuntimeError):
            writer.rollback()
        raise
    finally:
        # The engine ties its lock to this object, which a traceback may keep alive; this call lets go of it.
        with engine_errors(f"the index in {folder} could not be finished"):
            writer.wait_merging_threads()


def _add(
    writer: tantivy.IndexWriter,
    schema: tantivy.Schema,
    rows: Iterable[Row],
    language: str,
    key: Key,
    progress: Callable[[int], None] = lambda count: None,
) -> None:
    count = 0
    for count, (passage, file) in enumerate(rows, start=1):
        try:
            writer.add_document(make_document(passage, schema, language, file, key(passage)))
        except BaseException:
            # Only now: to be ready for an error costs as much as the hash of a passage.
            with engine_errors(f"passage {passage.id!r} could not be indexed"):
                raise
        if count % _PROGRESS_EVERY == 0:
            progress(count)
    progress(count)


def _publish(writer: tantivy.IndexWriter, data: Path, manifest: AnyManifest, files: Mapping[str, str]) -> None:
    """Write the manifest that will be true after the commit, with the files of the index, and commit."""
    write_text(data / f"manifest-{writer.commit_opstamp}.json", f"{manifest.to_json()}\n{json.dumps(files)}\n")
    _commit(writer)


def _commit(writer: tantivy.IndexWriter) -> None:
    """Commit; a function of its own, so that a test can end the process right before or after it."""
    writer.commit()


def _settled(folder: Path) -> Opened:
    """An index as it is now, with all of its checksums and without the manifests of earlier and of killed changes."""
    opened, data = open_checked(folder), folder / DATA
    _note_checksums(data)
    for path in data.iterdir():
        if MANIFEST_FILE.fullmatch(path.name) and path.name != opened.state.manifest:
            path.unlink(missing_ok=True)
    return opened


class TantivyChanger:
    """An embedded index that is open to be changed; see `keqa.retrievers.manifest.Changer`."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._opened = folder, _settled(folder)

    @property
    def manifest(self) -> AnyManifest:
        return self._opened.manifest

    def files(self, tops: Sequence[str] | None = None) -> Mapping[str, str]:
        return self._opened.files

    def ids_of(self, path: str) -> list[str]:
        return [str(one.get_first("doc_id")) for one in self._opened.matching("file", path)]

    def held(self, ids: Iterable[str]) -> set[str]:
        return {one for one in ids if one and self._opened.count("doc_id", one)}

    def stored(self, ids: Iterable[str]) -> dict[str, Passage]:
        found = {one: self._opened.matching("doc_id", one) for one in ids if one}
        return {one: stored_passage(documents[0]) for one, documents in found.items() if documents}

    def pieces(self, document: str) -> list[str]:
        with engine_errors("the index could not be searched"):
            terms = self._opened.searcher.terms_with_prefix("doc_id", f"{document}#")
        # The dictionary keeps the terms of deleted passages until segments are merged.
        return [term for term, _ in terms if self.held([term])] if document else []

    def key(self, passage: Passage) -> int | None:
        """By what the vector of a passage is known, where the index has vectors."""
        return None

    def prepared(self, change: PlannedChange, after: AnyManifest) -> AnyManifest:
        """The manifest of the index after a change, when all that the commit needs beside it is on the disk."""
        if after.ENGINE == DENSE:
            raise ConfigurationError(
                f"the index {self._folder} has vectors, which change with its text: change it as {self._folder}, or as "
                f"{self._folder}@MODEL where MODEL, which made them, does not come as a package"
            )
        return after

    def apply(self, change: PlannedChange) -> AnyManifest:
        """Commit deletions and additions together; where much was deleted by then, the index is rewritten at once."""
        opened, data, gone = self._opened, self._folder / DATA, set(change.gone)
        after = manifest_after(self.manifest, change)
        rewriting = after.is_worn
        after = self.prepared(change, dataclasses.replace(after, deleted=0) if rewriting else after)
        files = {path: one for path, one in opened.files.items() if path not in change.files}
        files |= {path: one.digest for path, one in change.files.items() if one is not None}
        of = {one: path for path, file in change.files.items() if file is not None for one in file.ids}
        rows: Iterable[Row] = [(one, of.get(one.id, "")) for one in change.new]
        with _writing(opened.index, self._folder, _UPDATE) as writer:
            if rewriting:
                writer.delete_all_documents()
                rows = self._and_kept(rows, gone)
            # Nothing has an empty id; a commit without any deletion or addition would not have a stamp of its own.
            for passage_id in () if rewriting else gone or {""}:
                writer.delete_documents_by_term("doc_id", passage_id)
            _add(writer, opened.schema, rows, after.language, self.key)
            _publish(writer, data, after, files)
        self._opened = _settled(self._folder)
        return self.manifest

    def _and_kept(self, rows: Iterable[Row], gone: set[str]) -> Iterator[Row]:
        for document in self._opened.every():
            if str(document.get_first("doc_id")) not in gone:
                yield stored_passage(document), str(document.get_first("file") or "")
        yield from rows


@contextmanager
def changing(folder: str, opened: Callable[[Path], TantivyChanger] = TantivyChanger) -> Iterator[TantivyChanger]:
    """Open an index to change it, and clear away first what a killed process left."""
    path = Path(folder)
    # Before a lock is made where there is no index.
    state_of(path)
    with exclusive(path):
        yield opened(path)


def verify(folder: Path) -> dict[str, int | tuple[str, ...]]:
    """How many files of an index are as they were written, which are not, and which have no checksum after a kill."""
    data = folder / DATA
    known, stamp = _noted(data)
    # A process was killed between its commit and the checksums, or right before the one.
    changed = (data / f"manifest-{stamp}.json").exists()
    files = {path.name: path for path in _files(data)}
    unknown = tuple(one for one in files if one not in known or (changed and one.endswith(_REPLACED)))
    checked = {one: path for one, path in files.items() if one not in unknown}
    damaged = tuple(one for one, path in checked.items() if _digest(path, known[one][1]) != known[one][0])
    return {"files": len(checked) - len(damaged), "damaged": damaged, "unknown": unknown}


def _note_checksums(data: Path) -> None:
    """Write down the checksums of an index; of what may have been replaced only where a commit was made since."""
    (known, stamp), now = _noted(data), stamp_of(data)
    found = {}
    for path in _files(data):
        old, size = known.get(path.name), path.stat().st_size
        # What is only added to has a size beside its checksum.
        kept = old and old[1] == size and (stamp == now or not path.name.endswith(_REPLACED))
        found[path.name] = old if old and kept else [_digest(path, size), size]
    if (found, now) != (known, stamp):
        write_text(data / CHECKSUMS, json.dumps({"stamp": now, "files": found}) + "\n")


def _files(data: Path) -> list[Path]:
    return sorted(one for one in data.iterdir() if one.name != CHECKSUMS and not one.name.startswith("."))


def _digest(path: Path, size: int) -> str:
    """The checksum of the beginning of a file, which something may have been added to."""
    digest = hashlib.sha256()
    with open_regular(path, error=RetrievalError) as stream:
        while size > 0 and (chunk := stream.read(min(size, 1 << 20))):
            digest.update(chunk)
            size -= len(chunk)
    return digest.hexdigest()


def _noted(data: Path) -> tuple[dict[str, list[Any]], int]:
    """The checksums of an index, each with the size that it is of, and the stamp of the commit that they are of."""
    try:
        found = read_json(data, CHECKSUMS, _LARGEST, error=RetrievalError)
        return {str(name): [digest, int(size)] for name, (digest, size) in found["files"].items()}, int(found["stamp"])
    except MissingFileError:
        return {}, -1
    except (AttributeError, KeyError, TypeError, ValueError):
        damaged = f"{data / CHECKSUMS} holds no checksums: the index is damaged, build it again"
        raise RetrievalError(damaged) from None
