"""What a page is given of a question: its record, its sources, and where these disagree."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keqa.errors import InputError
from keqa.page.document import document
from keqa.programs.records import QuestionRecord
from keqa.programs.sources import disagreements_of, sources_of


def story_data(record: QuestionRecord) -> dict[str, Any]:
    """A story as a page shows it, of a record in which there are no keys and addresses any more."""
    return {
        "record": record.model_dump(mode="json"),
        "sources": [source.model_dump(mode="json") for source in sources_of(record)],
        "disagreements": [str(one) for one in disagreements_of(record)],
    }


def story_page(record: QuestionRecord) -> str:
    """A question's story as an HTML file of its own, which loads nothing."""
    return document("one", "KEQA", story_data(record)).text


def check_place(path: Path) -> None:
    """Refuse a place where no page can be written, before anything is paid for."""
    if path.is_dir() or not path.parent.is_dir():
        why = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise InputError(f"the page cannot be written to {path}: {why}")


def write_page(path: Path, parts: Iterable[str]) -> None:
    """Write a page as a file of its own."""
    try:
        with path.open("w", encoding="utf-8") as stream:
            stream.writelines(parts)
    except OSError as error:
        raise InputError(f"the page cannot be written to {path}: {error.strerror or error}") from None
