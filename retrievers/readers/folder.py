"""A folder of documents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from keqa.errors import InputError
from keqa.retrievers.base import Passage
from keqa.retrievers.left_out import LeftOutCounter
from keqa.retrievers.readers.common import Notice, UnreadError, plain_suffix
from keqa.retrievers.readers.documents import DOCUMENTS, read_document

# Beside its number, the id of a passage has this path, and ids are at most 1,000 characters long.
_LONGEST_PATH = 900


def read_folder(folder: Path, words: int, notice: Notice, left_out: LeftOutCounter) -> Iterator[Passage]:
    """Yield the passages of all documents below a folder, in the order of their paths.

    Hidden files and folders are passed over, as are files of other kinds. Links to folders, and links to files outside
    the folder, are not followed. A document that cannot be read, or that has no text, is left out: one bad PDF among
    thousands is no reason to stop. All of it is counted.

    Args:
        folder: Where to look.
        words: Target length of a passage.
        notice: Called for guessed encodings.
        left_out: Takes note of what is not in the passages.

    Raises:
        InputError: There is no document in the folder.
    """
    found = False
    for path in _documents(folder, left_out):
        found = True
        try:
            yield from read_document(path, path.relative_to(folder).as_posix(), words, notice, left_out)
        except InputError as error:
            reason = error.reason if isinstance(error, UnreadError) else "unreadable"
            left_out.unread(path, reason, str(error))
    if not found:
        result = left_out.result()
        others = ", ".join(
            f"{count} {kind}" for kind, count in [*result.unread.items(), *result.passed_over.items()][:5]
        )
        raise InputError(
            f"{folder} has no {', '.join(DOCUMENTS)} file that can be read; it has {others or 'nothing at all'} "
            "(files of records, such as .jsonl, are named one by one)"
            + "".join(f"\n  {name}" for name in result.names[:5])
        )


def _documents(folder: Path, left_out: LeftOutCounter) -> Iterator[Path]:
    """The documents below a folder; what is none is counted."""
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
        for entry in entries:
            path = Path(current, entry.name)
            if entry.name.startswith("."):
                left_out.pass_over("hidden")
            elif entry.is_symlink() and not _is_followed(entry, path, root, left_out):
                continue
            elif entry.is_dir(follow_symlinks=False):
                inner.append(path)
            elif plain_suffix(path) not in DOCUMENTS:
                left_out.pass_over(path.suffix.lower() or "without a suffix")
            elif not entry.is_file():
                left_out.unread(path, "pipes or devices", f"{path} is no regular file")
            elif len(path.relative_to(folder).as_posix()) > _LONGEST_PATH:
                left_out.unread(path, "with too long a path", f"{path} has a path of over {_LONGEST_PATH} characters")
            else:
                yield path
        waiting.extend(reversed(inner))


def _is_followed(entry: os.DirEntry[str], path: Path, root: str, left_out: LeftOutCounter) -> bool:
    """Whether a link leads to a file in the folder; one that leads elsewhere is counted."""
    try:
        target = os.path.realpath(path, strict=True)
        folder = entry.is_dir()
    except OSError:
        left_out.unread(path, "links that lead nowhere", f"{path} is a link that leads nowhere")
        return False
    if folder:
        left_out.unread(path, "links to folders", f"{path} is a link to a folder, which is not followed")
        return False
    if plain_suffix(path) in DOCUMENTS and os.path.commonpath((root, target)) != root:
        left_out.unread(path, "links out of the folder", f"{path} is a link to a file outside, which is not followed")
        return False
    return True
