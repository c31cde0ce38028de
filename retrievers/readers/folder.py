"""A folder of documents."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from keqa.errors import InputError
from keqa.retrievers.base import Passage
from keqa.retrievers.readers.common import Notice
from keqa.retrievers.readers.documents import DOCUMENTS, read_document


def read_folder(folder: Path, words: int, notice: Notice) -> Iterator[Passage]:
    """Yield the passages of all documents below a folder, in the order of their paths.

    Hidden files and folders are passed over, links to folders not followed. A document that cannot be read, or that
    has no text, is left out with a notice: one bad PDF among thousands is no reason to stop.

    Raises:
        InputError: There is no document in the folder.
    """
    documents, others = _find(folder)
    if not documents:
        found = ", ".join(f"{count} {suffix}" for suffix, count in others.most_common(5)) or "nothing at all"
        raise InputError(
            f"{folder} has no {', '.join(DOCUMENTS)} file; it has {found} "
            "(files of records, such as .jsonl, are named one by one)"
        )
    if others:
        skipped = ", ".join(f"{count} {suffix}" for suffix, count in others.most_common(5))
        notice(f"{folder}: left out files of other kinds ({skipped})")
    for path in documents:
        try:
            yield from read_document(path, path.relative_to(folder).as_posix(), words, notice)
        except InputError as error:
            notice(f"left out: {error}")


def _find(folder: Path) -> tuple[list[Path], Counter[str]]:
    documents: list[Path] = []
    others: Counter[str] = Counter()
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(root, name)
            if name.startswith("."):
                continue
            if path.suffix.lower() in DOCUMENTS:
                documents.append(path)
            else:
                others[path.suffix.lower() or "without a suffix"] += 1
    return documents, others
