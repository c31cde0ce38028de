"""Corpora in the forms people have them, as passages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from keqa.errors import InputError
from keqa.retrievers.base import Notice, Passage, default_notice
from keqa.retrievers.left_out import LeftOut, LeftOutCounter
from keqa.retrievers.readers.common import RECORD_WORDS, plain_suffix
from keqa.retrievers.readers.documents import DOCUMENTS, read_document, read_folder
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
    """The passages of files and folders, read as they are asked for, and what was left out of them so far."""

    def __init__(self, paths: Sequence[Path], words: int, notice: Notice, *, summary: bool = True) -> None:
        """Use `read_corpus`, which checks the paths."""
        self._counter = LeftOutCounter()
        self._notice, self._summary = notice, summary
        self._passages = self._read(paths, words)

    @property
    def left_out(self) -> LeftOut:
        """What was left out: all of it once the last passage was read."""
        return self._counter.result()

    def __next__(self) -> Passage:
        return next(self._passages)

    def _read(self, paths: Sequence[Path], words: int) -> Iterator[Passage]:
        empty = True
        for path in paths:
            record_reader = _RECORDS.get(plain_suffix(path))
            if path.is_dir():
                passages = read_folder(path, words, self._notice, self._counter)
            elif record_reader:
                passages = record_reader(path, self._notice)
            else:
                passages = read_document(path, path.name, words, self._notice, self._counter)
            for passage in passages:
                empty = False
                yield passage
        if empty:
            named = "".join(f"\n  {name}" for name in self.left_out.names[:5])
            raise InputError(f"there is no text in {', '.join(map(str, paths))}{named}")
        if self._summary:
            for line in self.left_out.lines():
                self._notice(line)


def read_corpus(
    sources: Sequence[Path | str],
    *,
    words: int = PASSAGE_WORDS,
    notice: Notice | None = None,
    summary: bool = True,
) -> Corpus:
    """Read passages from files and folders.

    Folders are searched for .txt, .md, .html and .pdf files, which are split into passages. JSONL, JSON lists and
    DPR's .tsv hold passages already: a record is kept whole, unless it is longer than 2,000 words, in which case it is
    a document and split as well. JSONL and .tsv are read line by line. Any of them may be packed with gzip.

    Ids are the record's own, or ``file#n`` (``folder/file#n`` below the named folder), counted from 1.

    Args:
        sources: Files and folders.
        words: Target length of the passages of a split document.
        notice: Called with what the user should know, such as a guessed encoding; logged by default.
        summary: Whether ``notice`` is called at the end with what was left out; it is in `Corpus.left_out` in any case.

    Returns:
        The passages, read as they are asked for. The paths are checked at once.

    Raises:
        InputError: A path is missing, no reader fits it, a line is malformed, or nothing was found at all; the
            message names file and line.
        MissingExtraError: A document needs the ``documents`` extra.
    """
    paths = [Path(source) for source in sources]
    if not paths:
        raise InputError("name at least one file or folder to read")
    for path in paths:
        _check(path)
    return Corpus(paths, words, notice or default_notice, summary=summary)


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
