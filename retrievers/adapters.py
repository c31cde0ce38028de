"""Retrievers of other makes as this package's: what a user has is searched as it is, or refused before any question.

They are recognised by what they can do, so that none of these packages has to be there; docs/dspy.md lists them. What
comes back may be texts, mappings, documents, nodes, `Passage` or `Hit`, best first.
"""

import hashlib
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any

from keqa.errors import ConfigurationError
from keqa.retrievers.base import NOWHERE, Hit, Passage, Place, Retriever, SharedRetriever, checked_k, place_beside
from keqa.retrievers.readers.records import TEXT_NAMES
from keqa.retrievers.text import shown

_HOW_MANY = ("k", "top_k", "limit", "n", "num_results")
# What frameworks call it, then what the records of a corpus may.
_TEXT = ("long_text", "page_content", *TEXT_NAMES)
_ID = ("id", "passage_id", "node_id", "id_", "pid", "doc_id")

_UNNAMED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)

Search = Callable[[str, int], Any]


def as_retriever(source: Any) -> Retriever:
    """Make a retriever of whatever finds passages for a query. Exported as ``keqa.as_retriever``.

    Every program does so with the retriever that it is given.

    Args:
        source: A retriever; one of DSPy's, LangChain's or LlamaIndex's; or a function of a query, or of a query and
            how many passages to find.

    Returns:
        The object itself where it is a `keqa.Retriever`, or else an `AdaptedRetriever`.

    Raises:
        ConfigurationError: It is nothing that could be searched; the message says what is.
    """
    try:
        return adapted(source)
    except ValueError as error:
        raise ConfigurationError(f"a retriever cannot be {shown(source)}: {error}") from None


def adapted(source: Any) -> Retriever:
    """As `as_retriever`, for what has a message of its own."""
    if isinstance(source, str | Path):
        raise ValueError(f"open an index with keqa.open_index({str(source)!r})")
    if isinstance(source, type):
        raise ValueError(f"it is a class: make one first, as {source.__name__}(...)")
    # One of DSPy's answers texts to any text, and would pass for a function that finds them.
    if any(kind.__name__ == "BaseLM" and kind.__module__.startswith("dspy.") for kind in type(source).__mro__):
        raise ValueError("it is a language model: give it as lms=keqa.build_roles(...), or with the program's set_lm")
    search = getattr(source, "search", None)
    if callable(search) and callable(getattr(source, "search_many", None)):
        _arguments(search, "search(query, k)")
        # As programs call it: query and number of passages, both by position.
        if _binds(inspect.signature(search), 1):
            found: Retriever = source
            return found
    return AdaptedRetriever(source, *_search_of(source))


def as_passage(item: Any) -> Passage:
    """Make a passage of what somebody has: a text, a mapping, a document or a node; a `Passage` is itself."""
    return item if isinstance(item, Passage) else _hit(item, None, None, "the source")[0]


class AdaptedRetriever(SharedRetriever):
    """A retriever of another make, or a function, as this package's programs search it; see `as_retriever`."""

    def __init__(self, source: Any, name: str, function: Callable[..., Any], search: Search) -> None:
        self.source, self.name, self.function = source, name, function
        self._search = search
        self.own_documents = getattr(source, "own_documents", True)

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """Return at most ``k`` hits, best first; what the source raises is raised as it is."""
        wanted = checked_k(k)
        return hits_of(self._search(query, wanted), self.name)[:wanted]

    def search_many(self, queries: Sequence[str], k: int = 10) -> list[list[Hit]]:
        return [self.search(query, k) for query in queries]

    @property
    def searches_itself(self) -> bool:
        """Whether the source has this package's own method `search`, and only `search_many` was missing."""
        return self.name == f"{type(self.source).__name__}.search"

    @property
    def corpus_digest(self) -> str | None:
        """A digest of the texts that are searched, where the source holds them, as ``dspy.Embeddings`` does."""
        corpus = getattr(self.source, "corpus", None)
        if not isinstance(corpus, list | tuple):
            return None
        digest = hashlib.blake2b(digest_size=10)
        for text in corpus:
            digest.update(str(text).encode() + b"\0")
        return digest.hexdigest()


def _search_of(source: Any) -> tuple[str, Callable[..., Any], Search]:
    """What a source is called in messages, the code that searches, and how it is called."""
    name, called, wanted = type(source).__name__, source, "f(query, k)"
    methods = ("similarity_search", "search", "retrieve", "invoke")
    if method := next((one for one in methods if callable(getattr(source, one, None))), None):
        called = function = getattr(source, method)
        name, wanted = f"{name}.{method}", f"{method}(query)"
    elif callable(source):
        # DSPy calls `forward` through `__call__`, which has no parameters of its own, and warns of who reads it.
        function = object.__getattribute__(source, "forward") if hasattr(type(source), "forward") else source
        name = str(getattr(source, "__name__", name))
    elif hasattr(source, "as_retriever"):
        raise ValueError("give the retriever that its method as_retriever makes")
    else:
        raise ValueError(
            "it has no method search, retrieve or invoke and is no function of a query; of passages, make an index "
            "with keqa.build_index(passages, folder), and open it with keqa.open_index(folder)"
        )
    number = _arguments(function, wanted)
    # A method as the function of its class, an object that is called as the method that is called.
    plain = getattr(function, "__func__", function)
    plain = plain if hasattr(plain, "__qualname__") else type(plain).__call__
    if number is None:
        return name, plain, lambda query, k: called(query)
    return name, plain, lambda query, k: called(query, **{number: k}) if number else called(query, k)


def _arguments(function: Callable[..., Any], wanted: str) -> str | None:
    """By which name a function takes the number of passages: empty for by position, None where it takes none."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        raise ValueError(
            "it is a coroutine function: give one that returns passages, such as lambda query: asyncio.run(f(query))"
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise ValueError(f"its parameters cannot be seen: wrap it in a function {wanted}") from None
    names = {name for name, parameter in signature.parameters.items() if parameter.kind not in _UNNAMED}
    for name in _HOW_MANY:
        if name in names and _binds(signature, **{name: 1}):
            return name
    if _binds(signature):
        return None
    # A second parameter of another name that has to be given can be nothing else.
    if not _binds(signature, 1):
        raise ValueError(f"it cannot be called as {wanted}: it takes {signature}")
    return ""


def _binds(signature: inspect.Signature, *more: Any, **named: Any) -> bool:
    try:
        signature.bind("", *more, **named)
    except TypeError:
        return False
    return True


def hits_of(found: Any, name: str) -> list[Hit]:
    """What came back as hits, in its order; texts of nothing but white space are left out."""
    scores = ids = None
    if _get(found, ["passages"]) is not None:
        # A prediction of DSPy's, with scores and places in the corpus beside the passages where there are any.
        scores, ids, found = _get(found, ["scores"]), _get(found, ["indices"]), _get(found, ["passages"])
    # A mapping, a table of pandas or another prediction of DSPy's would give its names for texts.
    named = isinstance(found, Mapping) or hasattr(found, "columns") or hasattr(found, "toDict")
    if named or isinstance(found, str | bytes) or not isinstance(found, Iterable):
        raise ConfigurationError(
            f"{name} returned {shown(found)}, which is no list of passages: texts, mappings with text, or keqa.Passage"
        )
    items = list(found)
    beside = (
        values if isinstance(values, list | tuple) and len(values) == len(items) else [None] * len(items)
        for values in (scores, ids)
    )
    read = [_hit(item, score, known, name) for item, score, known in zip(items, *beside, strict=True)]
    kept = [(passage, score) for passage, score in read if passage.text.strip()]
    if all(score is not None for _, score in kept):
        return [Hit(passage, float(score)) for passage, score in kept if score is not None]
    # Without scores of all, the order is all that is known.
    return [Hit(passage, 1.0 / rank) for rank, (passage, _) in enumerate(kept, start=1)]


def _hit(item: Any, score: Any, known: Any, name: str) -> tuple[Passage, float | None]:
    if isinstance(item, Hit):
        item, score = item.passage, item.score
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], Real):
        item, score = item
    if isinstance(item, Passage):
        return item if isinstance(item.id, str) else replace(item, id=str(item.id)), _number(score)
    if isinstance(item, str):
        return _passage("", item, known), _number(score)
    score = _get(item, ("score", "similarity")) if score is None else score
    # LlamaIndex puts the node with its text into a pair with its score.
    item = _first(_get(item, ["node"]), item)
    content = getattr(item, "get_content", None)
    text = content() if callable(content) else _get(item, _TEXT)
    if not isinstance(text, str):
        named = shown(item)
        raise ConfigurationError(f"{name} returned {named} among its passages, which has no text{text_expected()}")
    metadata = _get(item, ["metadata"])
    title = _get(item, ["title"]) or _get(metadata, ["title"]) or ""
    if not title and " | " in text and _get(item, ["long_text"]) is not None:
        # The form of the passages of ColBERTv2's servers.
        title, text = text.split(" | ", 1)
    own, place = _first(known, _get(item, _ID), _get(metadata, _ID)), place_beside(item, metadata)
    return _passage(str(title), text, own, place), _number(score)


def text_expected() -> str:
    """What the text of a mapping may be called, as a message ends that it has none."""
    return f": one of {', '.join(_TEXT)} is expected, and to be text"


def _passage(title: str, text: str, known: Any = None, place: Place = NOWHERE) -> Passage:
    """A passage, with an id made from its text where it has none of its own."""
    if known is None or known == "":
        known = hashlib.blake2b(f"{title}\n{text}".encode(), digest_size=8).hexdigest()
    return Passage(str(known), title, text, place)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _get(item: Any, names: Sequence[str]) -> Any:
    parts = (item.get(name) if isinstance(item, Mapping) else getattr(item, name, None) for name in names)
    return _first(*(None if callable(part) else part for part in parts))


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)
