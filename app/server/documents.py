"""The files behind the passages, so that a source opens at its page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path, PurePosixPath

from starlette.responses import FileResponse

from keqa.errors import InputError, KeqaError
from keqa.retrievers import sync_folder
from keqa.retrievers.manifest import LeftOutCounter
from keqa.retrievers.readers import files_of
from keqa.server.problems import HTTPProblem, ProblemError, log, log_fault

PATH = "/documents"
"""Files are below this path, by their own paths below the folder."""

# What a browser shows by itself and cannot run; HTML is shown as its source.
_SHOWN = {".pdf": "application/pdf"}
_TEXT = (".txt", ".md", ".markdown", ".csv", ".tsv", ".html", ".htm", ".json", ".jsonl", ".eml")
_SAVED = (".docx", ".pptx", ".xlsx", ".epub")


class Documents:
    """A folder of documents that whoever may ask may also open."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError(f"--documents: there is no folder {folder}")
        self._root = folder.resolve()

    def response(self, path: str) -> FileResponse:
        """A file of the folder; none that is hidden, lies elsewhere, or is of a kind that no document has."""
        parts = PurePosixPath(path).parts
        kind = PurePosixPath(path).suffix.lower()
        plain = bool(parts) and not any(part.startswith(".") or "\\" in part or "\0" in part for part in parts)
        if not plain or path.startswith("/") or kind not in (*_SHOWN, *_TEXT, *_SAVED):
            raise ProblemError(_missing())
        try:
            found = self._root.joinpath(*parts).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            raise ProblemError(_missing()) from None
        if not found.is_relative_to(self._root) or not found.is_file():
            raise ProblemError(_missing())
        media = _SHOWN.get(kind, "text/plain; charset=utf-8" if kind in _TEXT else "application/octet-stream")
        how = "attachment" if kind in _SAVED else "inline"
        return FileResponse(found, media_type=media, filename=parts[-1], content_disposition_type=how)


def _missing() -> HTTPProblem:
    return HTTPProblem(404, "there is no such document")


EVERY = 5.0
"""Seconds between two looks at the folder."""


class FolderSync:
    """Brings an index in step with a folder, whenever a file of it is new, changed or gone."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address, self._folder = address, folder
        self._seen: list[tuple[str, int, int]] | None = None
        self._problem = ""

    def look(self) -> bool:
        """Look once; files are read only where their names, sizes or times are not those of the last look."""
        # First, so that what changes meanwhile is seen by the next look.
        now = self._listed()
        if now == self._seen:
            return False
        changes = sync_folder(self._address, self._folder, notice=lambda text: None)
        self._seen = now
        return any(change.passages_added or change.passages_removed for change in changes)

    def _listed(self) -> list[tuple[str, int, int]]:
        listed = []
        for path, identifier in files_of(self._folder, LeftOutCounter()):
            # One that is gone by now is missing at the next look.
            with suppress(OSError):
                stat = path.stat()
                listed.append((identifier, stat.st_mtime_ns, stat.st_size))
        return sorted(listed)

    async def keep(self) -> None:
        """Look again and again until this is cancelled. What keeps failing is logged once, without its message."""
        while True:
            problem = ""
            try:
                if await asyncio.to_thread(self.look):
                    log.info("the index was brought in step with its folder")
            except KeqaError as error:
                problem = type(error).__name__
                if problem != self._problem:
                    log.error("the index cannot be brought in step with its folder (%s): keqa index sync says", problem)
            except Exception as error:
                problem = type(error).__name__
                if problem != self._problem:
                    log_fault(error)
            self._problem = problem
            await asyncio.sleep(EVERY)


@asynccontextmanager
async def in_step(sync: FolderSync | None) -> AsyncIterator[None]:
    """Within this context an index follows its folder; where there is none, nothing is done."""
    if sync is None:
        yield
        return
    keeping = asyncio.create_task(sync.keep())
    try:
        yield
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
