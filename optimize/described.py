"""Models, retrievers and functions as JSON that tells one from another; no key and no address is in it."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Callable
from types import CodeType
from typing import Any

from keqa.programs.stages.selection import Similarity
from keqa.programs.stages.sentence_embeddings import EmbeddingSimilarity
from keqa.retrievers.caching import CachingRetriever
from keqa.retrievers.dense.manifest import DenseManifest
from keqa.retrievers.hybrid import HybridRetriever

__all__ = ["digest", "function_of", "gate_of", "model_of", "retriever_of", "similarity_of"]

_OURS = "keqa."
_PLACE = re.compile(r" at 0x[0-9a-fA-F]+")
_DECODING = ("temperature", "top_p", "max_tokens")


def digest(described: Any) -> str:
    """A short name for what is described as JSON."""
    text = json.dumps(described, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def model_of(lm: Any) -> dict[str, Any]:
    """A language model: its name, how it decodes, and the weights of one that runs in this process."""
    settings = getattr(lm, "kwargs", {})
    found = {"model": getattr(lm, "model", None), **{name: settings.get(name) for name in _DECODING}}
    path = getattr(getattr(lm, "engine", None), "path", None)
    if isinstance(path, str):
        from keqa.lms.local.weights import fingerprint

        found["weights"] = fingerprint(path)
    return found


def retriever_of(retriever: Any) -> dict[str, Any] | None:
    """A retriever: its class, what its manifest says of the corpus, and the retriever behind it where it wraps one."""
    if retriever is None:
        return None
    if isinstance(retriever, CachingRetriever):
        return retriever_of(retriever.retriever)
    found: dict[str, Any] = {"kind": _name(type(retriever))}
    if not found["kind"].startswith(_OURS):
        found["search"] = function_of(type(retriever).search)
    manifest = getattr(retriever, "manifest", None)
    if manifest is not None:
        analyzer = getattr(manifest, "analyzer", None)
        found |= {name: getattr(manifest, name, None) for name in ("passages", "source_hash")}
        found["analyzer"] = dataclasses.asdict(analyzer) if dataclasses.is_dataclass(analyzer) else None  # type: ignore[arg-type]
    if isinstance(manifest, DenseManifest):
        found |= {"encoder": dataclasses.asdict(manifest.encoder), "vectors": dataclasses.asdict(manifest.vectors)}
    if isinstance(retriever, HybridRetriever):
        found |= retriever.settings | {"parts": [retriever_of(part) for part in retriever.retrievers]}
    behind = getattr(retriever, "retriever", None)
    if behind is not None:
        found["keep"] = getattr(retriever, "keep", None)
        similarity = getattr(retriever, "_similarity", None)
        found["similarity"] = None if similarity is None else similarity_of(similarity)
        found["behind"] = retriever_of(behind)
    return found


def gate_of(gate: Any) -> str:
    """A gate by its class and values; one that does not come with the package by the code of its class as well."""
    kind = type(gate)
    if _name(kind).startswith(_OURS):
        return repr(gate)
    slots = [name for one in kind.__mro__ for name in getattr(one, "__slots__", ()) if hasattr(gate, name)]
    values = {name: getattr(gate, name) for name in slots} | getattr(gate, "__dict__", {})
    # What Python writes into a class, such as the methods of a dataclass, tells nothing that the values do not.
    named = {name: part for one in reversed(kind.__mro__[:-1]) for name, part in vars(one).items() if name[:2] != "__"}
    parts = {name: getattr(part, "fget", None) or getattr(part, "__func__", part) for name, part in named.items()}
    code = {name: function_of(part) if hasattr(part, "__code__") else _value(part) for name, part in parts.items()}
    return f"{_name(kind)} {digest([_value(values), code])}"


def function_of(function: Callable[..., Any]) -> str:
    """A function by its name; one that does not come with the package by what it does as well.

    All lambdas of a module share a name, and a function of a notebook keeps its name when it is changed. What a
    function calls is told by name alone.
    """
    if isinstance(function, functools.partial):
        return f"{function_of(function.func)} {digest([_value(function.args), _value(function.keywords)])}"
    plain = hasattr(function, "__qualname__")
    name = _name(function if plain else type(function))
    if name.startswith(_OURS) and "<" not in name:
        return name
    code = getattr(function if plain else type(function).__call__, "__code__", None)
    cells = [_value(cell.cell_contents) for cell in getattr(function, "__closure__", None) or ()]
    defaults = _value([getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None)])
    state = None if plain else _value(getattr(function, "__dict__", None))
    return f"{name} {digest([code and _code(code), cells, defaults, state])}"


def similarity_of(similarity: Similarity) -> str:
    """What compares sentences: the name of an embedder, or a function."""
    return similarity.name if isinstance(similarity, EmbeddingSimilarity) else function_of(similarity)


def _name(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _code(code: CodeType) -> list[Any]:
    constants = [_code(one) if isinstance(one, CodeType) else _value(one) for one in code.co_consts]
    return [code.co_code.hex(), list(code.co_names), constants]


def _value(value: Any) -> Any:
    """A value as JSON that is the same in every process: no object's address is in it."""
    if isinstance(value, dict):
        return {str(name): _value(inner) for name, inner in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, list | tuple):
        return [_value(inner) for inner in value]
    code = getattr(value, "__code__", None)
    if code is not None:
        # What this one holds in turn is left out: functions may hold each other.
        return [_name(value), _code(code)]
    own = any("__repr__" in vars(kind) for kind in type(value).__mro__[:-1])
    return _PLACE.sub("", repr(value)) if own else _name(type(value))
