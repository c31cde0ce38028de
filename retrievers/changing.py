"""Changing an index that is there: files added, removed, or brought in step with a folder, without building it again.

Either all of a change is in the index afterwards or, after any failure or kill, none of it. Only what differs is
written: of a file whose digest has changed, the passages that are not in the index as they are now.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from keqa.errors import InputError
from keqa.retrievers.base import NOWHERE, Notice, Origin, Passage, cleaned, default_notice, each_path, path_of
from keqa.retrievers.engines import engine_of, parts_of
from keqa.retrievers.manifest import LONGEST_TEXT, Changer, FileChange, LeftOut, LeftOutCounter, PlannedChange
from keqa.retrievers.readers import Progress, ReadingProgress, files_of, read_file
from keqa.retrievers.splitting import PASSAGE_WORDS
from keqa.retrievers.text import clean_text

_EMPTY = hashlib.sha256().hexdigest()


@dataclass(frozen=True, slots=True)
class IndexChange:
    """What was done to an index: its files that are new, changed and gone, and how many were as they are.

    What is left out is so of the files that were looked at.
    """

    address: str
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0
    passages_added: int = 0
    passages_removed: int = 0
    passages: int = 0
    left_out: LeftOut = field(default_factory=LeftOut)


def add_files(
    index: Path | str,
    paths: Path | str | Sequence[Path | str],
    *,
    model: str | None = None,
    words: int = PASSAGE_WORDS,
    notice: Notice | None = None,
    progress: Progress | None = None,
) -> list[IndexChange]:
    """Add files, and all files of folders, to an index; one that is there already is brought up to date.

    Args:
        index: Its address; see `keqa.retrievers.open_index`. Of several, joined by commas, one is changed after the
            other; where that is interrupted, the same call does the rest.
        paths: Files and folders, or one of them, as of `keqa.retrievers.read_corpus`.
        model: Encodes the passages of a dense index, where that is not the one that comes as a package and the address
            does not name it.
        words: Target length of the passages of a split document.
        notice: Called with what the user should know, such as a guessed encoding; logged by default.
        progress: Called now and then with how many bytes of the files were read, and how many they have in all, once
            more for each index of the address; the rest of the time is spent on writing.

    Returns:
        What was done, for each index of the address.

    Raises:
        InputError: A path is missing, no reader fits it, or a file of records is malformed.
        RetrievalError: There is no such index, another process changes it, it does not know its files, or the engine
            failed.
        ConfigurationError: The engine cannot change an index, or a model or server refuses.
    """
    named = [Path(path) for path in each_path(paths)]
    if not named:
        raise InputError("name at least one file or folder to add")

    def plan(made: _Plan) -> None:
        made.files = made.changer.files([path_of(path) for path in named])
        new = [path for path in named if made.root_of(path) is None]
        # What was left out of a source of the index is in its manifest already.
        counters = {path: made.counter if path in new else made.again for path in named}
        listed = {path: made.listed(path, counter) for path, counter in counters.items()}
        made.read(listed, counters, progress)
        made.sources = (*made.sources, *dict.fromkeys(map(path_of, new)))
        made.left_out = made.left_out.joined(made.counter.result())

    return _changed(index, model, plan, words, notice)


def sync_folder(
    index: Path | str,
    folder: Path | str,
    *,
    model: str | None = None,
    words: int = PASSAGE_WORDS,
    notice: Notice | None = None,
    progress: Progress | None = None,
) -> list[IndexChange]:
    """Bring an index in step with a folder: files that are new, changed or gone, found by their content.

    A file that can no longer be read is taken out, as a new build would leave it out. Files of other sources stay.

    The folder may be a file of records; the other arguments, and what is returned, are as of `add_files`.

    Raises:
        InputError: Nothing would be left in the index, or as of `add_files`.
    """
    named = Path(folder)

    def plan(made: _Plan) -> None:
        top = path_of(named)
        made.files = made.changer.files([top])
        listed = made.listed(named, made.counter)
        there = {path_of(path) for path, _ in listed}
        # First, as the ids of records in a file that was renamed are free again.
        made.drop(path for path in made.files if _is_below(path, top) and path not in there)
        made.read({named: listed}, {named: made.counter}, progress)
        made.drop(path for path in there if path in made.files and path not in made.seen)
        if made.root_of(named) is None:
            made.sources = (*made.sources, top)
        if all(path_of(source) == top for source in made.sources):
            made.left_out = made.counter.result()

    return _changed(index, model, plan, words, notice)


def remove_files(index: Path | str, names: Path | str | Sequence[Path | str]) -> list[IndexChange]:
    """Take files, all files of folders, or single passages out of an index.

    Args:
        index: See `add_files`.
        names: Files and folders, which need not be there any more; or ids of passages, or of documents without their
            ``#n``. One name may stand by itself.

    Raises:
        InputError: The index has no such file, document or passage, or nothing would be left.
    """
    wanted_names = list(map(str, each_path(names)))
    if not wanted_names:
        raise InputError("name at least one file, folder or passage to remove")

    def plan(made: _Plan) -> None:
        changer, paths = made.changer, [path_of(name) for name in wanted_names]
        # All files of a source, to see whether one is left.
        made.files = changer.files([made.root_of(path) or path for path in paths])
        for name, path in zip(wanted_names, paths, strict=True):
            if files := [one for one in made.files if _is_below(one, path)]:
                made.drop(files)
                continue
            if name in changer.manifest.removed:
                # By the same command, whose end nobody may have seen.
                continue
            wanted = clean_text(name)
            found = [wanted] if changer.held([wanted]) else changer.pieces(wanted)
            if not found:
                raise InputError(f"there is no file, document or passage {name!r} in the index")
            # Single passages; their files stay.
            made.gone.update(dict.fromkeys(found))
        left = {made.root_of(path) for path in made.files.keys() - made.changes.keys()}
        empty = {made.root_of(path) for path in made.changes} - left
        made.sources = tuple(one for one in made.sources if path_of(one) not in empty)
        made.named = tuple(name for name in wanted_names if len(name) <= LONGEST_TEXT)

    return _changed(index, None, plan)


def _changed(
    index: Path | str,
    model: str | None,
    plan: Callable[["_Plan"], None],
    words: int = PASSAGE_WORDS,
    notice: Notice | None = None,
) -> list[IndexChange]:
    done = []
    for part in parts_of(index):
        engine, place, named = engine_of(part, model)
        opened: AbstractContextManager[Changer] = engine.change(place, named)
        with opened as changer:
            made = _Plan(changer, words, notice or default_notice)
            plan(made)
            done.append(made.carry_out(part))
    return done


class _Plan:
    """What is to be done to one index."""

    def __init__(self, changer: Changer, words: int, notice: Notice) -> None:
        self.changer, self.words, self.notice = changer, words, notice
        # What is left out of new sources, and of those that the index has.
        self.counter, self.again = LeftOutCounter(), LeftOutCounter()
        # Files by path: those of the index that may be meant, those that were read, and what becomes of them.
        self.files: Mapping[str, str] = {}
        self.seen: set[str] = set()
        self.changes: dict[str, FileChange | None] = {}
        # Passages by id, and what is taken out, by id and as it was named.
        self.new: dict[str, Passage] = {}
        self.kept: dict[str, Passage] = {}
        self.gone: dict[str, None] = {}
        self.named: tuple[str, ...] = ()
        self.sources: tuple[str, ...] = changer.manifest.sources
        self.left_out: LeftOut = changer.manifest.left_out
        self._tops = set(map(path_of, self.sources))

    def root_of(self, path: Path | str) -> str | None:
        """The source of the index that a path is, or is in."""
        whole = path_of(path)
        return next((top for top in (whole, *map(str, Path(whole).parents)) if top in self._tops), None)

    def listed(self, source: Path, counter: LeftOutCounter) -> list[tuple[Path, str]]:
        """The files of a source, each with what the ids of its passages begin with in a build of the whole index."""
        found = []
        for path, identifier in files_of(source, counter):
            root = self.root_of(path)
            inside = root is not None and root != path_of(path)
            found.append((path, Path(os.path.relpath(path, root)).as_posix() if inside else identifier))
        return found

    def read(
        self,
        listed: Mapping[Path, Sequence[tuple[Path, str]]],
        counters: Mapping[Path, LeftOutCounter],
        progress: Progress | None,
    ) -> None:
        """Read the files of some sources, each once, but those that are in the index as they are."""
        every = [(source, *file) for source, files in listed.items() for file in files]
        reading = ReadingProgress(progress, dict.fromkeys(path for _, path, _ in every))
        for source, path, identifier in every:
            if path_of(path) in self.seen:
                continue
            reading.enter(path)
            origin = Origin.of(path)
            before = self.files.get(origin.path)
            if before and before == origin.digest:
                self.seen.add(origin.path)
                continue
            found = read_file(path, identifier, self.words, self.notice, counters[source], named=not source.is_dir())
            if passages := [cleaned(passage) for passage in reading.through(found)]:
                self.seen.add(origin.path)
                self._take(origin, passages)
            elif before and origin.digest == _EMPTY:
                # That it is empty now can be no fault of reading.
                self.drop([origin.path])
        reading.finish()

    def _take(self, origin: Origin, passages: Sequence[Passage]) -> None:
        own = self.changer.ids_of(origin.path) if origin.path in self.files else []
        stored = self.changer.stored(own)
        free = {*own, *self.gone}
        taken = self.changer.held([passage.id for passage in passages]) - free
        ids: dict[str, None] = {}
        for passage in passages:
            # As a build makes them: an id that another passage has gets a suffix.
            unique, number = passage.id, 1
            while unique in ids or unique in self.new or unique in taken:
                number += 1
                unique = f"{passage.id}~{number}"
                if unique not in ids:
                    taken |= self.changer.held([unique]) - free
            ids[unique] = None
            named = passage if unique == passage.id else replace(passage, id=unique)
            known = stored.get(unique)
            # What stands elsewhere in its file by now is written again.
            where = self.kept if known == named and known.place in (NOWHERE, named.place) else self.new
            where[unique] = named
        self.gone.update(dict.fromkeys(one for one in own if one in stored and one not in ids))
        self.changes[origin.path] = FileChange(origin.digest, tuple(ids))

    def drop(self, paths: Iterable[str]) -> None:
        for path in paths:
            if path not in self.changes:
                self.gone.update(dict.fromkeys(self.changer.ids_of(path)))
                self.changes[path] = None

    def carry_out(self, address: str) -> IndexChange:
        changer, before = self.changer, self.changer.manifest
        there = changer.held(list(self.gone))
        # In their order, and then what others take the place of.
        gone = [one for one in self.gone if one in there and one not in self.new]
        gone += sorted(changer.held(list(self.new)))
        if before.passages - len(gone) + len(self.new) < 1:
            raise InputError("nothing would be left in the index: remove the index itself instead")
        after, new, about = before, list(self.new.values()), (self.sources, self.left_out)
        if about != (before.sources, before.left_out) or new or gone or self.changes:
            leaving, kept = list(changer.stored(gone).values()), list(self.kept.values())
            after = changer.apply(PlannedChange(new, gone, leaving, kept, self.changes, *about, self.named))
        written = [path for path, change in self.changes.items() if change]
        return IndexChange(
            address,
            added=tuple(path for path in written if path not in self.files),
            changed=tuple(path for path in written if path in self.files),
            removed=tuple(path for path, change in self.changes.items() if change is None),
            unchanged=len(self.seen - self.changes.keys()),
            passages_added=len(new),
            passages_removed=len(gone),
            passages=after.passages,
            left_out=self.counter.result().joined(self.again.result()),
        )


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip(os.sep) + os.sep)
