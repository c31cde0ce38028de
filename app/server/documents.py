"""The files behind the passages, so that a source opens at its page."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from starlette.responses import FileResponse

from keqa.errors import InputError
from keqa.server.problems import Problem, ProblemError

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


def _missing() -> Problem:
    return Problem(404, "there is no such document")
