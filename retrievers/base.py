"""What every retriever takes and gives: passages in, ranked passages out."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self, TypeAlias, runtime_checkable

from keqa.errors import InputError
from keqa.retrievers.place import NOWHERE, Place

Notice: TypeAlias = Callable[[str], None]
"""Reports to the user what is done to a corpus or an index."""

default_notice: Notice = logging.getLogger("keqa.retrievers").warning
"""Logs what the user should know, where the caller has no better place for it."""


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
        """Return at most ``k`` hits, best first."""
        return self.search_many([query], k)[0]

    def fresh(self) -> Self:
        """A retriever of what there is to search now; this one keeps what it has."""
        found = copy.copy(self)
        # What is searched is replaced there, and not in what both have.
        getattr(found, "reload", lambda: None)()
        return found

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self


def checked_k(k: int) -> int:
    """Return how many passages are asked for."""
    if k < 1:
        raise InputError(f"at least one passage must be asked for, not {k}")
    return k
