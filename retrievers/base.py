"""Passages in, ranked passages out: what every retriever takes and gives, and where in files a passage stands.

A passage of another make, a mapping or an object, may have what a `Place` has under the same names, or a `Place` as
``place``. In its ``metadata`` these are known under the names that LangChain, LlamaIndex and their readers of documents
use, too. What comes from strangers is taken only where it is a text or a number of a length that such a thing has.
"""

import copy
import datetime
import hashlib
import io
import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeAlias, cast, runtime_checkable

from keqa.errors import InputError, KeqaError, RetrievalError
from keqa.retrievers.text import clean_text, one_line
from keqa.storage.untrusted import open_regular

Notice: TypeAlias = Callable[[str], None]
"""Reports to the user what is done to a corpus or an index."""

default_notice: Notice = logging.getLogger("keqa.retrievers").warning
"""Logs what the user should know, where the caller has no better place for it."""

DOCUMENTS: Final = "documents"
"""Begins the address of a file that gives each question its own documents."""

LONGEST_HEADING: Final = 300
"""The most characters of a heading: it is repeated in every passage below it."""

_LONGEST: Final = {"file": 1000, "heading": LONGEST_HEADING, "date": 40}
_LAST_PAGE = 10_000_000
# The embedded engine silently drops a term longer than 65,530 bytes, and a passage without its id could never be
# deleted.
_LONGEST_ID = 1000
# What the parts of such a file are called.
_PARTS: Final = {".pptx": "slide"}
# The first name that is there counts. A file's name comes before its path, which is of somebody's machine.
_IN_METADATA: Final[Mapping[str, Sequence[str]]] = {
    "file": ("file", "file_name", "filename", "source", "file_path", "path", "url"),
    # LangChain's reader of PDF counts pages from 0, and has what is written on them as the label.
    "page": ("page_label", "page_number", "page"),
    "heading": ("heading", "section", "Header 4", "Header 3", "Header 2", "Header 1"),
    "date": ("date", "last_modified_date", "last_modified", "moddate"),
}
_PAGE = re.compile(r"[0-9]{1,8}")
_YEARS = range(1000, 10_000)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a passage stands. Nothing in it is searched.

    Attributes:
        file: The file, as its path below the folder that was indexed; empty where the passage is a record.
        page: Number of the page on which it stands, from 1, or of the slide; None where there are none.
        heading: The last heading before it; may be empty.
        date: Of what date it is, as its document says, such as ``2024-05-31`` or ``2024-05``; may be empty.
    """

    file: str = ""
    page: int | None = None
    heading: str = ""
    date: str = ""

    def __bool__(self) -> bool:
        return bool(self.file or self.page is not None or self.heading or self.date)

    @property
    def part(self) -> str:
        """The page or slide in words, such as ``page 3``; empty where there is none."""
        if self.page is None:
            return ""
        suffix = self.file[self.file.rfind(".") :].lower()
        return f"{_PARTS.get(suffix, 'page')} {self.page}"

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.file, self.part, self.heading)))

    def packed(self) -> str:
        """The place as an index keeps it; empty where there is nothing to keep."""
        given = {"file": self.file, "page": self.page, "heading": self.heading, "date": self.date}
        kept = {name: value for name, value in given.items() if value not in ("", None)}
        return json.dumps(kept, ensure_ascii=False) if kept else ""


NOWHERE: Final = Place()
"""Of a passage that is a record, or comes from a program."""


def unpacked(text: str) -> Place:
    """The place that an index keeps. What in it is no place is passed over: an index may come from anywhere."""
    found = None
    with suppress(ValueError, RecursionError):
        found = json.loads(text) if text else None
    return placed(found) if isinstance(found, Mapping) else NOWHERE


def placed(given: Mapping[str, Any]) -> Place:
    """A place as it can be kept and shown."""
    page, texts = given.get("page"), {}
    for name, longest in _LONGEST.items():
        value = given.get(name)
        texts[name] = one_line(clean_text(value[: 4 * longest]))[:longest] if isinstance(value, str) else ""
    return Place(page=page if type(page) is int and 0 < page <= _LAST_PAGE else None, **texts)


def place_beside(item: Any, metadata: Any) -> Place:
    """Where a passage of another make stands."""
    read: Callable[[str], Any] = item.get if isinstance(item, Mapping) else lambda name: getattr(item, name, None)
    if isinstance(whole := read("place"), Place):
        return whole
    given = metadata if isinstance(metadata, Mapping) else {}
    found: dict[str, Any] = {}
    for name, names in _IN_METADATA.items():
        found[name] = _sound(name, read(name))
        if found[name] is None:
            # An empty text is as nothing.
            beside = (one for one in map(given.get, names) if not (one is None or (isinstance(one, str) and not one)))
            found[name] = _sound(name, next(beside, None))
    return placed(found)


def _sound(name: str, value: Any) -> str | int | None:
    """A value where it can be what it is called; None otherwise."""
    if name == "page":
        # Stores that know no whole numbers, such as Pinecone, give 12.0.
        if (isinstance(value, float) and value.is_integer()) or (
            isinstance(value, str) and _PAGE.fullmatch(value.strip())
        ):
            value = int(value)
        return value if type(value) is int else None
    if name == "date" and isinstance(value, datetime.date):
        return value.isoformat()[:10]
    if name == "date" and type(value) is int and value in _YEARS:
        return str(value)
    # A part of an address or a path would be another one, so what is too long is left out, not cut.
    return value if isinstance(value, str) and len(value) <= _LONGEST[name] else None


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of text that is indexed, retrieved and shown to a language model as one.

    Attributes:
        id: Unique within an index, stable between two builds of the same corpus.
        title: Title of the page or document it comes from; may be empty.
        text: The text itself.
        place: Where in a file it stands, for whoever looks it up. It is not searched, a language model reads it over
            documents of one's own only, and it is no part of what makes two passages the same.
    """

    id: str
    title: str
    text: str
    place: Place = field(default=NOWHERE, compare=False)

    @property
    def rendered(self) -> str:
        """The passage as a language model reads it."""
        return f"{self.title}: {self.text}" if self.title else self.text

    @property
    def headed(self) -> str:
        """The passage below a line with its title, its place and its date, as far as they are known."""
        header = " | ".join(filter(None, (self.title, str(self.place), self.place.date)))
        return f"{header}\n{self.text}" if header else self.text


def cleaned(passage: Passage) -> Passage:
    """Return a passage as an index can hold it."""
    own, title = clean_text(passage.id).strip(), clean_text(passage.title).strip()
    text = clean_text(passage.text).strip()
    if not own:
        raise InputError(f"a passage has no id (title {title!r}, text {text[:60]!r})")
    if len(own) > _LONGEST_ID:
        raise InputError(f"a passage has an id of {len(own)} characters, {_LONGEST_ID} at most: {own[:60]}…")
    # Text that was clean came back as the same object, and to make a passage takes as long as to clean one.
    same = own is passage.id and title is passage.title and text is passage.text
    return passage if same else Passage(own, title, text, passage.place)


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage found for a query.

    Attributes:
        passage: The passage.
        score: The retriever's score; higher is better, comparable only within one result list.
    """

    passage: Passage
    score: float


@runtime_checkable
class Retriever(Protocol):
    """Finds passages for a query.

    Implementations are safe to call from many threads at once. An empty list means that nothing matched; a
    failure to search is a :class:`keqa.errors.RetrievalError`, never an empty list.
    """

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """Return at most ``k`` hits, best first."""
        ...

    def search_many(self, queries: Sequence[str], k: int = 10) -> list[list[Hit]]:
        """Return one list of hits per query, in the order of the queries."""
        ...


class SharedRetriever(Retriever):
    """A retriever over something open, such as an index, which copies of a program share."""

    own_documents: bool = True

    def search(self, query: str, k: int = 10) -> list[Hit]:
        return self.search_many([query], k)[0]

    def fresh(self) -> Self:
        """A retriever of what there is to search now, itself where nothing changed; this one keeps what it has."""
        found = copy.copy(self)
        # What is searched is replaced there, and not in what both have.
        getattr(found, "reload", lambda: None)()
        return found

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self


def checked_k(k: int) -> int:
    if k < 1:
        raise InputError(f"at least one passage must be asked for, not {k}")
    return k


@dataclass(frozen=True, slots=True)
class Origin:
    """The file that a passage comes from: its absolute path, and SHA-256 of its bytes before it was read."""

    path: str
    digest: str

    @classmethod
    def of(cls, path: Path) -> Self:
        """Take note of a file that is about to be read; the digest of one that cannot be is empty."""
        digest = ""
        with suppress(OSError, KeqaError), open_regular(path, links=True, error=RetrievalError) as stream:
            digest = hashlib.file_digest(cast(io.BufferedReader, stream), "sha256").hexdigest()
        return cls(path_of(path), digest)


def path_of(path: Path | str) -> str:
    """The absolute path of a file as indexes can hold it: a name may have bytes that are no text."""
    return os.fsencode(os.path.abspath(path)).decode(errors="backslashreplace")


def each_path(named: Path | str | Iterable[Path | str]) -> list[Path | str]:
    """What a caller names: several files and folders, or a single one, whose characters are no names."""
    return [named] if isinstance(named, Path | str) else list(named)
