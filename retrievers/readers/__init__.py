"""Corpora in the forms people have them, as passages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from keqa.errors import InputError
from keqa.retrievers.base import Notice, Origin, Passage, default_notice, each_path, path_of
from keqa.retrievers.manifest import NAMED, LeftOut, LeftOutCounter
from keqa.retrievers.readers.common import RECORD_WORDS, plain_suffix, reason_of
from keqa.retrievers.readers.documents import DOCUMENTS, documents_below, read_document
from keqa.retrievers.readers.progress import Progress, ReadingProgress
from keqa.retrievers.readers.records import read_dpr, read_json, read_jsonl
from keqa.retrievers.splitting import PASSAGE_WORDS

__all__ = ["RECORD_WORDS", "Corpus", "read_corpus"]

_RECORDS: dict[str, Callable[[Path, Notice], Iterator[Passage]]] = {
    ".json": read_json,
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
    ".tsv": read_dpr,
}


class Corpus(Iterator[Passage]):
    """The passages of files and folders, read as they are asked for, and what was left out of them so far.

    Attributes:
        origin: The file that the last passage comes from.
        sources: What is read, each once, as it was named first.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        words: int,
        notice: Notice,
        *,
        summary: bool = True,
        progress: Progress | None = None,
    ) -> None:
        """Use `read_corpus`, which checks the paths."""
        self.sources = _each_once(paths, notice)
        self._reading = ReadingProgress(progress, self._files())
        self.origin: Origin | None = None
        self._entered: set[str] = set()
        self._counter = LeftOutCounter({path_of(source) for source in self.sources if not source.is_dir()})
        self._notice, self._summary = notice, summary
        self._passages = self._reading.through(self._read(words))

    @property
    def left_out(self) -> LeftOut:
        """What was left out: all of it once the last passage was read."""
        return self._counter.result()

    def lines(self, named: int = NAMED) -> list[str]:
        """What to say of what was left out, one statement a line, with one file of each kind that is not read."""
        return self.left_out.lines(named, self._counter.examples)

    def __next__(self) -> Passage:
        return next(self._passages)

    def _files(self) -> Iterator[Path]:
        found = (path for source in self.sources for path, _ in files_of(source, LeftOutCounter()))
        yield from {path_of(path): path for path in found}.values()

    def _enter(self, path: Path) -> bool:
        """Go on to a file, unless another source holds it as well and it was read there."""
        absolute = path_of(path)
        if absolute in self._entered:
            return False
        self._entered.add(absolute)
        self._reading.enter(path)
        self.origin = Origin.of(path)
        return True

    def _read(self, words: int) -> Iterator[Passage]:
        empty = True
        for source in self.sources:
            there = False
            for path, identifier in files_of(source, self._counter):
                there = True
                if self._enter(path):
                    for passage in self._read_file(source, path, identifier, words):
                        empty = False
                        yield passage
            if not there:
                raise _no_document(source, self.left_out)
        if empty:
            named = "".join(f"\n  {name}" for name in self.left_out.names[:5])
            raise InputError(f"there is no text in {', '.join(map(str, self.sources))}{named}")
        self._reading.finish()
        if self._summary:
            for line in self.lines():
                self._notice(line)

    def _read_file(self, source: Path, path: Path, identifier: str, words: int) -> Iterator[Passage]:
        try:
            yield from read_file(path, identifier, words=words, notice=self._notice, left_out=self._counter)
        except InputError as error:
            # One bad PDF among thousands is no reason to stop; a file that was named is.
            if not source.is_dir():
                raise
            self._counter.unread(path, reason_of(error), str(error))


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
    JSON lists and DPR's .tsv hold passages already: a record is kept whole, unless it is longer than 2,000 words, in
    which case it is a document and split as well. JSONL and .tsv are read line by line. Any of them may be packed with
    gzip.

    Ids are the record's own, or ``file#n`` (``folder/file#n`` below the named folder), counted from 1.

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
    return Corpus(paths, words, notice or default_notice, summary=summary, progress=progress)


def files_of(source: Path, left_out: LeftOutCounter) -> Iterator[tuple[Path, str]]:
    """The files that `read_corpus` would read for one of its sources, none of which is opened."""
    _check(source)
    if source.is_dir():
        for path in documents_below(source, left_out):
            yield path, path.relative_to(source).as_posix()
    else:
        yield source, source.name


def read_file(
    path: Path, identifier: str, *, words: int = PASSAGE_WORDS, notice: Notice, left_out: LeftOutCounter
) -> Iterator[Passage]:
    """Read the passages of one file."""
    if records := _RECORDS.get(plain_suffix(path)):
        return records(path, notice)
    return read_document(path, identifier, words, notice, left_out)


def _no_document(folder: Path, left_out: LeftOut) -> InputError:
    kinds = [*left_out.unread.items(), *left_out.passed_over.items()][:5]
    others = ", ".join(f"{count} {kind}" for kind, count in kinds)
    return InputError(
        f"{folder} has no {', '.join(DOCUMENTS)} file that can be read; it has {others or 'nothing at all'} "
        "(files of records, such as .jsonl, are named one by one)"
        + "".join(f"\n  {name}" for name in left_out.names[:5])
    )


def _each_once(paths: Sequence[Path], notice: Notice) -> tuple[Path, ...]:
    """Some files and folders, each once, by where they are in the end."""
    found: dict[Path, Path] = {}
    for path in paths:
        first = found.get(path.resolve())
        if first is None:
            found[path.resolve()] = path
        else:
            notice(
                f"{path} is named twice and is read once" if path == first else f"{path} is {first}: it is read once"
            )
    return tuple(found.values())


def _check(path: Path) -> None:
    if not path.exists():
        raise InputError(f"{path} does not exist")
    suffix = plain_suffix(path)
    if path.is_dir() or suffix in _RECORDS or suffix in DOCUMENTS:
        return
    known = ", ".join(sorted([*_RECORDS, *DOCUMENTS]))
    raise InputError(
        f"{path}: no reader for {suffix or 'a file without a suffix'}; it can be a folder, or one of {known}"
    )
