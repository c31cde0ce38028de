"""Corpora in the forms people have them, as passages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from keqa.errors import InputError
from keqa.retrievers.base import Passage
from keqa.retrievers.readers.common import RECORD_WORDS, Notice, default_notice, plain_suffix
from keqa.retrievers.readers.documents import DOCUMENTS, read_document
from keqa.retrievers.readers.dpr import read_dpr
from keqa.retrievers.readers.folder import read_folder
from keqa.retrievers.readers.records import read_json, read_jsonl
from keqa.retrievers.splitting import PASSAGE_WORDS

__all__ = ["RECORD_WORDS", "read_corpus"]

_RECORDS: dict[str, Callable[[Path, Notice], Iterator[Passage]]] = {
    ".json": read_json,
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
    ".tsv": read_dpr,
}


def read_corpus(
    sources: Sequence[Path | str], *, words: int = PASSAGE_WORDS, notice: Notice | None = None
) -> Iterator[Passage]:
    """Read passages from files and folders.

    Folders are searched for .txt, .md, .html and .pdf files, which are split into passages. JSONL, JSON lists and
    DPR's .tsv (each also gzipped) hold passages already: a record is kept whole, unless it is longer than
    2,000 words, in which case it is a document and split as well. JSONL and .tsv are read line by line.

    Ids are the record's own, or ``file#n`` (``folder/file#n`` below the named folder), counted from 1.

    Args:
        sources: Files and folders.
        words: Target length of the passages of a split document.
        notice: Called with what the user should know, such as a skipped file; logged by default.

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
    return _read_all(paths, words, notice or default_notice)


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


def _read_all(paths: Sequence[Path], words: int, notice: Notice) -> Iterator[Passage]:
    empty = True
    for path in paths:
        for passage in _read_one(path, words, notice):
            empty = False
            yield passage
    if empty:
        raise InputError(f"there is no text in {', '.join(map(str, paths))}")


def _read_one(path: Path, words: int, notice: Notice) -> Iterator[Passage]:
    if path.is_dir():
        return read_folder(path, words, notice)
    reader = _RECORDS.get(plain_suffix(path))
    return reader(path, notice) if reader else read_document(path, path.name, words, notice)
