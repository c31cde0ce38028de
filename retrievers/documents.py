"""Evidence documents, one a question, as a retriever: what is searched for is the document of the question asked.

A file of documents holds on each line an object with ``id``, ``question``, ``origin`` and ``passages``, each with
``title`` and ``text``, or a ``title`` and ``text`` of its own in their place. A question may have several documents
under ids of their own, as TriviaQA's questions have, which are asked once with each.
"""

import codecs
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, Field, StrictStr, ValidationError, model_validator

from keqa.errors import RetrievalError
from keqa.retrievers.base import DOCUMENTS, Hit, Passage, SharedRetriever, checked_k
from keqa.retrievers.text import plain
from keqa.storage.untrusted import MAX_LINE, MissingFileError, open_regular, parse_json, reasons

_question: ContextVar[str | None] = ContextVar("keqa_question", default=None)
_id: ContextVar[str | None] = ContextVar("keqa_question_id", default=None)


def question_asked(question: str | None) -> AbstractContextManager[None]:
    """Within this context the documents of a question are searched, whatever the query: so do searches of programs."""
    return _within(_question, question)


def id_asked(identity: str | None) -> AbstractContextManager[None]:
    """Within this context a question with several documents is asked with the one of this id."""
    return _within(_id, identity)


@contextmanager
def _within(variable: ContextVar[str | None], value: str | None) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def scope_of(retriever: Any) -> str:
    """What a search depends on besides its query, for caches: the question asked, where that decides."""
    own = getattr(retriever, "scope_of_documents", None)
    return str(own()) if callable(own) else ""


class NoDocumentError(RetrievalError):
    """A question has no document, or several of which none is its own. Asking again does not help."""


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("nothing is in it")
    return text


class EvidencePage(BaseModel):
    """A page of a document."""

    title: StrictStr = ""
    text: Annotated[StrictStr, AfterValidator(_said)]


class EvidenceDocument(BaseModel):
    """The evidence document of a question; its id is that of the question or pair."""

    id: StrictStr = ""
    question: Annotated[StrictStr, AfterValidator(_said)]
    passages: Annotated[list[EvidencePage], Field(min_length=1, fail_fast=True)]
    origin: StrictStr = ""

    @model_validator(mode="before")
    @classmethod
    def _with_passages(cls, line: Any) -> Any:
        return {**line, "passages": [line]} if isinstance(line, dict) and "passages" not in line else line


@dataclass(frozen=True, slots=True)
class DocumentsManifest:
    """What a file of documents says about itself."""

    name: str
    passages: int
    source_hash: str
    origins: tuple[str, ...]


class DocumentsRetriever(SharedRetriever):
    """Gives the document of the question that a program asks, whatever is searched for; else that of the query."""

    own_documents = False

    def __init__(self, address: str) -> None:
        self.path = Path(address.removeprefix(f"{DOCUMENTS}:")).expanduser()
        self.reload()

    def fresh(self) -> Self:
        return self if self._seen and self._seen == _mark(self.path) else super().fresh()

    def reload(self) -> None:
        """Open the file as it is now; of each document the place in it is kept in memory, and its text is not."""
        path, seen = self.path, _mark(self.path)
        places: dict[str, list[int]] = {}
        known: set[str] = set()
        origins: dict[str, None] = {}
        digest = hashlib.sha256()
        for place, number, line in lines_of(path):
            found = document_of(line, f"{path}, line {number}")
            if found.id in known:
                raise RetrievalError(f"{path}, line {number}: its id {found.id[:80]!r} is that of another line")
            known.add(found.id)
            origins[found.origin] = None
            places.setdefault(plain(found.question), []).append(place)
            digest.update(line)
        if not known:
            raise RetrievalError(f"{path} holds no document: keqa documents makes them")
        self.manifest = DocumentsManifest(path.stem, len(known), digest.hexdigest(), tuple(origins))
        self._places, self._seen = places, seen

    def scope_of_documents(self) -> str:
        """The question that a search is for; see `scope_of`."""
        return f"{_id.get() or ''}\0{_question.get() or ''}"

    def document(self, question: str, identity: str | None = None) -> EvidenceDocument:
        places = self._places.get(plain(question), ())
        if not places:
            raise NoDocumentError(f"{self.path.name} has no document for the question {question[:200]!r}")
        found = [self._read(place) for place in places]
        own = [one for one in found if one.id == identity]
        if len(found) > 1 and not own:
            raise NoDocumentError(
                f"{self.path.name} has {len(found)} documents for the question {question[:200]!r}, so it must be asked "
                f"under the id of one of them, such as {found[0].id[:80]!r}"
            )
        return (own or found)[0]

    def search_many(self, queries: Sequence[str], k: int = 10) -> list[list[Hit]]:
        """Return for each query the passages of the document of the question asked, in their order, at most ``k``."""
        checked_k(k)
        question, found = _question.get(), []
        for query in queries:
            document = self.document(query if question is None else question, _id.get())
            several = len(document.passages) > 1
            hits = [
                Hit(Passage(f"{document.id}#{number}" if several else document.id, page.title, page.text), 1 / number)
                for number, page in enumerate(document.passages[:k], start=1)
            ]
            found.append(hits)
        return found

    def _read(self, place: int) -> EvidenceDocument:
        with open_regular(self.path, links=True, error=RetrievalError) as stream:
            stream.seek(place)
            return document_of(stream.readline(MAX_LINE), f"{self.path}, at byte {place}")


def _mark(path: Path) -> tuple[int, ...]:
    """What differs after every change of a file; nothing where there is none."""
    with suppress(OSError):
        found = path.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino
    return ()


def lines_of(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """The lines of a file of documents, each with the byte where it begins and its number; empty ones are left out."""
    try:
        stream = open_regular(path, links=True, error=RetrievalError)
    except MissingFileError as error:
        raise RetrievalError(f"{path} is not there: keqa documents makes a file of documents") from error
    with stream:
        place = number = 0
        while line := stream.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise RetrievalError(f"{path}, line {number}: longer than {MAX_LINE >> 20} MiB")
            if line.strip():
                yield place, number, line
            place += len(line)


def document_of(line: bytes, where: str) -> EvidenceDocument:
    value = parse_json(line.removeprefix(codecs.BOM_UTF8), where, error=RetrievalError)
    try:
        found = EvidenceDocument.model_validate(value)
    except ValidationError as error:
        raise RetrievalError(f"{where}: {reasons(error)}") from error
    return found if found.id else found.model_copy(update={"id": hashlib.blake2b(line, digest_size=8).hexdigest()})
