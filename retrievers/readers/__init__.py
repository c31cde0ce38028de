"""Corpora in the forms people have them, as passages."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from keqa.errors import InputError
from keqa.retrievers.base import Notice, Origin, Passage, default_notice, each_path, path_of
from keqa.retrievers.manifest import RECORD_SUFFIXES, LeftOut, LeftOutCounter
from keqa.retrievers.readers.beside import read_beside
from keqa.retrievers.readers.common import (
    CODE,
    DOCUMENTS,
    MAX_DOCUMENT,
    PROSE,
    RECORD_WORDS,
    opened,
    plain_suffix,
    read_whole,
    refuse_binary,
)
from keqa.retrievers.readers.records import read_dpr, read_jsonl
from keqa.retrievers.readers.transcripts import is_slack_day
from keqa.retrievers.splitting import PASSAGE_WORDS

__all__ = ["RECORD_WORDS", "Corpus", "read_corpus"]

Progress = Callable[[int, int], None]
"""Takes how many bytes were read, and how many there are."""

# Progress is reported with each of so many passages, and with each file.
_EVERY: Final = 100
# Beside its number, the id of a passage has this path, and ids are at most 1,000 characters long.
_LONGEST_PATH: Final = 900
# What programs put beside source code: packages of others, and in a repository what is made of it.
_INSTALLED: Final = ("__pycache__", "node_modules", "site-packages")
_BUILT: Final = ("build", "dist", "target")
_GENERATED: Final = re.compile(r".*(?:\.(?:min|bundle)\.m?js|-lock\.yaml)(?:\.gz)?", re.IGNORECASE)
_SECRETS: Final = re.compile(
    r"(?:.*[._-])?(?:secret|credential|password)s?\.(?:cfg|conf|ini|properties|toml|xml|ya?ml)(?:\.gz)?", re.IGNORECASE
)
# Beside a page that a browser has saved, the folder of its scripts and frames, in a few languages.
_OF_PAGE: Final = re.compile(r"(.+)[_-](?:files|dateien|fichiers|archivos|bestanden|arquivos)", re.IGNORECASE)
_NO_TEXT_FILES: Final = frozenset((".docx", ".odt", ".ods", ".pptx", ".xlsm", ".xlsx", ".epub", ".pdf"))


class Corpus(Iterator[Passage]):
    """The passages of files and folders, read as they are asked for, and what was left out of them so far.

    `origin` is the file that the last passage comes from; of `sources` each is there once, as it was named first.
    """

    def __init__(
        self, paths: Sequence[Path], words: int, notice: Notice, summary: bool, progress: Progress | None
    ) -> None:
        self.sources = _each_once(paths, notice)
        self._reading = ReadingProgress(progress, self._files())
        self.origin: Origin | None = None
        self._entered: set[str] = set()
        self._counter = LeftOutCounter({path_of(source) for source in self.sources if not source.is_dir()})
        self._notice, self._summary = notice, summary
        self._passages = self._reading.through(self._read(words))

    @property
    def left_out(self) -> LeftOut:
        return self._counter.result()

    def __next__(self) -> Passage:
        return next(self._passages)

    def _files(self) -> Iterator[Path]:
        found = (path for source in self.sources for path, _ in files_of(source, LeftOutCounter()))
        yield from {path_of(path): path for path in found}.values()

    def _read(self, words: int) -> Iterator[Passage]:
        empty = True
        for source in self.sources:
            there = False
            for path, identifier in files_of(source, self._counter):
                there = True
                # Another source may hold it as well.
                if (absolute := path_of(path)) in self._entered:
                    continue
                self._entered.add(absolute)
                self._reading.enter(path)
                self.origin = Origin.of(path)
                is_named = not source.is_dir()
                for passage in read_file(path, identifier, words, self._notice, self._counter, named=is_named):
                    empty = False
                    yield passage
            if not there:
                raise _no_document(source, self.left_out)
        if empty:
            named = "".join(f"\n  {name}" for name in self.left_out.names[:5])
            raise InputError(f"there is no text in {', '.join(map(str, self.sources))}{named}")
        self._reading.finish()
        if self._summary:
            for line in self.left_out.lines():
                self._notice(line)


def read_corpus(
    sources: Path | str | Sequence[Path | str],
    *,
    words: int = PASSAGE_WORDS,
    notice: Notice | None = None,
    summary: bool = True,
    progress: Progress | None = None,
) -> Corpus:
    """Read passages from files and folders.

    Folders are searched for documents, such as .txt, .md, .html and .pdf files, which are split into passages. JSONL,
    JSON lists and DPR's .tsv hold passages already: a record is kept whole, unless it is longer than 2,000 words. Any
    may be packed with gzip. Ids are the record's own, or ``file#n`` (``folder/file#n`` below the named folder).

    Args:
        sources: Files and folders, or one of them.
        words: Target length of the passages of a split document.
        notice: Called with what the user should know, such as a guessed encoding; logged by default.
        summary: Whether ``notice`` is called at the end with what was left out; it is in `Corpus.left_out` in any case.
        progress: Called now and then with how many bytes of the files were read, and how many they have in all.

    Returns:
        The passages, read as they are asked for. The paths are checked at once.

    Raises:
        InputError: A path is missing, no reader fits it, a line is malformed, or nothing was found at all; the
            message names file and line.
        MissingExtraError: A document needs the ``documents`` extra.
    """
    paths = [Path(source) for source in each_path(sources)]
    if not paths:
        raise InputError("name at least one file or folder to read")
    for path in paths:
        _check(path)
    return Corpus(paths, words, notice or default_notice, summary, progress)


def files_of(source: Path, left_out: LeftOutCounter) -> Iterator[tuple[Path, str]]:
    """The files that `read_corpus` would read for one of its sources, none of which is opened."""
    _check(source)
    found = _documents_below(source, left_out) if source.is_dir() else [source]
    yield from ((path, path.relative_to(source).as_posix() if path != source else path.name) for path in found)


def read_file(
    path: Path, identifier: str, words: int, notice: Notice, left_out: LeftOutCounter, *, named: bool
) -> Iterator[Passage]:
    """The passages of one file; that one cannot be read is an error where it was named, and counted otherwise."""
    suffix = plain_suffix(path)
    try:
        if suffix == ".tsv":
            yield from read_dpr(path, notice)
        elif suffix in (".jsonl", ".ndjson"):
            yield from read_jsonl(path, notice)
        elif suffix == ".json":
            # A list is read as a whole, by the process beside this one, which looks for what is beside from elsewhere.
            own = path.absolute() if is_slack_day(path) else path
            yield from read_beside(read_whole(path, MAX_DOCUMENT), own, identifier, words, notice)[0]
        else:
            yield from _read_document(path, identifier, words, notice, left_out)
    except InputError as error:
        # One bad PDF among thousands is no reason to stop.
        if named:
            raise
        # What has the suffix of code may be another thing, such as a film (.ts).
        if suffix in CODE and getattr(error, "reason", "") == "binary":
            left_out.pass_over(f"binary {suffix}", path)
            return
        left_out.unread(path, getattr(error, "reason", "unreadable"), str(error))


def _no_document(folder: Path, left_out: LeftOut) -> InputError:
    kinds = [*left_out.unread.items(), *left_out.passed_over.items()][:5]
    others = ", ".join(f"{count} {kind}" for kind, count in kinds)
    return InputError(
        f"{folder} has no {', '.join(PROSE)} file or code that can be read; it has {others or 'nothing at all'} "
        "(files of records, such as .jsonl, are named one by one)"
        + "".join(f"\n  {name}" for name in left_out.names[:5])
    )


def _each_once(paths: Sequence[Path], notice: Notice) -> tuple[Path, ...]:
    """Some files and folders, each once, by where they are in the end."""
    found: dict[Path, Path] = {}
    for path in paths:
        first = found.setdefault(path.resolve(), path)
        if first is not path:
            notice(f"{path} is {'named twice and is' if path == first else f'{first}: it is'} read once")
    return tuple(found.values())


def _check(path: Path) -> None:
    if not path.exists():
        raise InputError(f"{path} does not exist")
    suffix, known = plain_suffix(path), sorted([*RECORD_SUFFIXES, *PROSE])
    if not path.is_dir() and suffix not in (*known, *DOCUMENTS):
        kind = suffix or "a file without a suffix"
        raise InputError(f"{path}: no reader for {kind}; it can be a folder, code, or one of {', '.join(known)}")


def _read_document(
    path: Path, identifier: str, words: int, notice: Notice, left_out: LeftOutCounter
) -> Iterator[Passage]:
    """Yield the passages of one document, whose ids are ``identifier#1``, ``identifier#2`` and so on."""
    suffix = plain_suffix(path)
    data = read_whole(path, MAX_DOCUMENT)
    if not data.strip():
        left_out.pass_over("empty", path)
        return
    if suffix not in _NO_TEXT_FILES:
        refuse_binary(data, path)
    passages, lost = read_beside(data, path, identifier, words, notice)
    needs = " (a scanned PDF needs OCR first)" if suffix == ".pdf" else ""
    if not passages:
        left_out.unread(path, "without text", lost or f"{path} has no text{needs}")
    elif lost:
        notice(lost)
    yield from passages


def _documents_below(folder: Path, left_out: LeftOutCounter) -> Iterator[Path]:
    """The documents below a folder, in the order of their paths; all others, and links out of it, are counted."""
    root = os.path.realpath(folder)
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        try:
            with os.scandir(current) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            why = error.strerror or str(error)
            left_out.unread(current, "folders that cannot be opened", f"{current} cannot be opened: {why}")
            continue
        inner = []
        names = {entry.name for entry in entries}
        for entry in entries:
            path = Path(current, entry.name)
            if _is_aside(path, names, left_out) or (
                entry.is_symlink() and not _is_followed(entry, path, root, left_out)
            ):
                continue
            if entry.is_dir(follow_symlinks=False):
                inner.append(path)
            elif (plain := plain_suffix(path)) not in DOCUMENTS and not is_slack_day(path):
                kind = plain if plain in RECORD_SUFFIXES else path.suffix.lower()
                left_out.pass_over(kind or "without a suffix", path)
            elif not entry.is_file():
                left_out.unread(path, "pipes or devices", f"{path} is no regular file")
            elif len(path.relative_to(folder).as_posix()) > _LONGEST_PATH:
                left_out.unread(path, "with too long a path", f"{path} has a path of over {_LONGEST_PATH} characters")
            else:
                yield path
        waiting.extend(reversed(inner))


def _is_aside(path: Path, names: set[str], left_out: LeftOutCounter) -> bool:
    """Whether what lies in a folder beside others is no document of anyone's, whatever its kind; if so, it counts."""
    name, page = path.name, _OF_PAGE.fullmatch(path.name)
    made = name in _INSTALLED or (name in _BUILT and ".git" in names)
    # What iCloud leaves in the place of a.pdf is .a.pdf.icloud.
    if path.suffix == ".icloud" and plain_suffix(path.with_suffix("")) in DOCUMENTS:
        left_out.unread(path, "only in iCloud", f"{path} stands for a file that is only in iCloud: download it first")
    elif aside := passed_over(name) or (name if made else ""):
        left_out.pass_over(aside, path)
    elif page and not names.isdisjoint((f"{page[1]}.html", f"{page[1]}.htm")):
        left_out.pass_over("of a saved page", path)
    else:
        return False
    return True


def passed_over(name: str) -> str:
    """As what a file is passed over in a folder whatever its kind; empty where it is not."""
    if _is_hidden(name):
        return "hidden"
    return "generated" if _GENERATED.fullmatch(name) else "named as secrets" if _SECRETS.fullmatch(name) else ""


def _is_hidden(name: str) -> bool:
    # What Word keeps beside an open document, and Windows in any folder, is hidden there, and no document.
    return name.startswith((".", "~$")) or name.lower() == "desktop.ini"


def _is_followed(entry: os.DirEntry[str], path: Path, root: str, left_out: LeftOutCounter) -> bool:
    """Whether a link leads to a file in the folder; one that leads elsewhere is counted."""
    not_followed = "which is not followed"
    try:
        target = os.path.realpath(path, strict=True)
        folder = entry.is_dir()
    except OSError:
        kind, where = "links that lead nowhere", "that leads nowhere"
    else:
        if folder:
            kind, where = "links to folders", f"to a folder, {not_followed}"
        elif plain_suffix(path) in DOCUMENTS and os.path.commonpath((root, target)) != root:
            kind, where = "links out of the folder", f"to a file outside, {not_followed}"
        elif any(map(_is_hidden, os.path.relpath(target, root).split(os.sep))):
            kind, where = "links to hidden files", f"to a hidden file, {not_followed}"
        else:
            return True
    left_out.unread(path, kind, f"{path} is a link {where}")
    return False


class ReadingProgress:
    """Reports now and then how much of some files was read, as they lie on the disk; nothing where nobody wants it."""

    def __init__(self, report: Progress | None, files: Iterable[Path]) -> None:
        self._report = report
        self._in_all = 0 if report is None else sum(map(_size, files))
        self._before = self._size = 0

    def enter(self, path: Path) -> None:
        """The files before are done, and this one is next."""
        if self._report is not None:
            self._before, self._size = self._before + self._size, _size(path)
            opened.stream = None
            self._now(self._report)

    def through(self, passages: Iterator[Passage]) -> Iterator[Passage]:
        """All passages that readers give, of the files that are entered meanwhile."""
        for number, passage in enumerate(passages, start=1):
            if self._report is not None and number % _EVERY == 0:
                self._now(self._report)
            yield passage

    def finish(self) -> None:
        if self._report is not None:
            self._report(self._in_all, self._in_all)

    def _now(self, report: Progress) -> None:
        stream = opened.stream
        here = 0 if stream is None else self._size if stream.closed else stream.tell()
        # A file that grew while it was read counts as it was.
        report(min(self._before + min(here, self._size), self._in_all), self._in_all)


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0
