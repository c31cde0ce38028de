"""Opening an index by its address, whatever engine it is of, and what it is."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from keqa.errors import InputError, RetrievalError
from keqa.retrievers import checksums
from keqa.retrievers.base import default_notice
from keqa.retrievers.documents import DOCUMENTS, is_documents
from keqa.retrievers.engines import ENGINES, Engine, engine_of_scheme
from keqa.retrievers.hybrid import HybridRetriever
from keqa.retrievers.layout import no_index
from keqa.retrievers.manifest import MANIFEST, parse, read_text

if TYPE_CHECKING:
    from keqa.retrievers.dense import DenseRetriever
    from keqa.retrievers.documents import DocumentsRetriever
    from keqa.retrievers.elasticsearch import ElasticsearchRetriever
    from keqa.retrievers.tantivy_index import TantivyRetriever

Index: TypeAlias = "TantivyRetriever | DenseRetriever | ElasticsearchRetriever | HybridRetriever | DocumentsRetriever"

JOINT = ","
"""Joins the addresses of a hybrid: it is in no name of an Elasticsearch index, and in few names of folders."""


# Of which indexes this process has said that an earlier version built them.
_SAID: set[str] = set()

MODEL = "@"
"""Stands between the folder of a dense index and the model of its questions."""


def open_index(address: Path | str, *, model: str | None = None) -> Index:
    """Open a finished index, whatever built it.

    Args:
        address: The folder of an embedded or dense index; ``elasticsearch://host:9200/name``, or an address of another
            engine of `keqa.retrievers.engines`; or two or more of these joined by commas, whose passages are then
            ranked together (reciprocal rank fusion). A dense index of any model but the one that comes as a package is
            named with it: ``folder@model``. ``documents:FILE`` is a file of documents, one a question, and stands
            alone.
        model: The model that encodes the questions to a dense index, by name or folder, where the address has none. It
            is never taken from the index, which may come from anyone.

    Raises:
        InputError: The address cannot be one.
        RetrievalError: There is no index, or it is half-built, truncated, or made by an incompatible version.
        ConfigurationError: A model that it needs was not named or cannot be opened, or a server refuses the
            credentials.
        MissingExtraError: A package is missing.
    """
    parts = parts_of(address)
    if len(parts) > 1:
        return HybridRetriever([_open(part, model) for part in parts])
    opened: Index = _open(parts[0], model)
    return opened


def folder_and_model(address: str) -> tuple[Path, str | None]:
    """The folder of an index, and the model that its address names; a folder that is there may have any name."""
    if not Path(address).is_dir():
        for mark in re.finditer(MODEL, address):
            folder, model = Path(address[: mark.start()]), address[mark.end() :]
            if model and folder.is_dir():
                return folder, model
    return Path(address), None


def parts_of(address: Path | str) -> list[str]:
    """The addresses that are joined in one, in their order.

    A folder that is there is one address, whatever its name; so is an Elasticsearch address with several hosts
    (``elasticsearch://a:9200,b:9200/name``).

    Raises:
        InputError: One is empty, or is there twice.
    """
    whole = str(address)
    if isinstance(address, Path) or is_documents(whole) or (whole and Path(whole).is_dir()):
        return [whole]
    parts: list[str] = []
    for piece in whole.split(JOINT):
        # Hosts without the name of an index yet.
        if parts and is_remote(parts[-1]) and "/" not in parts[-1].partition("://")[2]:
            parts[-1] += JOINT + piece
        else:
            parts.append(piece.strip())
    if not all(parts):
        # What is refused is not repeated: it may be an address with a password in it.
        raise InputError(
            "an index is named by its folder, elasticsearch://host:9200/name, or several of these with commas"
        )
    if any(map(is_documents, parts)):
        raise InputError("a file of documents is the whole index of a run: join it with no other")
    if len(set(parts)) < len(parts):
        raise InputError("an index is named twice: a hybrid is of different ones")
    return parts


def is_remote(address: str) -> bool:
    """Whether an address is of a server, and no folder; one of an unknown scheme is refused where it is opened."""
    return "://" in address


def facts_of(address: Path | str, *, verify: bool = False) -> list[dict[str, Any]]:
    """Report what an index is, of a hybrid each part. No embedding model is opened.

    Args:
        address: See `open_index`.
        verify: Whether the files of one in a folder are compared with their checksums, which reads all of them.

    Returns:
        For each part its address, engine, entries of the manifest, and ``bytes``; of an index in Elasticsearch also
        the server's version, shards, replicas and health. The passages were counted. With ``verify``, the fields of
        `keqa.retrievers.checksums.Verified` are there as ``checksums``.

    Raises:
        InputError: The address cannot be one.
        RetrievalError: There is no index, or it is not what its manifest says.
        ConfigurationError: A server refuses the credentials.
        MissingExtraError: A package is missing.
    """
    parts = []
    for part in parts_of(address):
        engine, place, _ = engine_of(part)
        parts.append({"address": place, "engine": engine.name, **engine.facts(place)})
        if verify and (Path(place) / MANIFEST).is_file():
            parts[-1]["checksums"] = asdict(checksums.verify(Path(place)))
    return parts


def engine_of(address: str, model: str | None = None) -> tuple[Engine, str, str | None]:
    """The engine of one address, what it opens, and the model that encodes its questions where one is named.

    Args:
        address: One of `parts_of`.
        model: The model of questions, where the address has none.

    Raises:
        RetrievalError: There is no finished index, or this version does not know its engine.
    """
    if is_documents(address):
        return ENGINES[DOCUMENTS], address, model
    if is_remote(address):
        return engine_of_scheme(address), address, model
    folder, named = folder_and_model(address)
    text = read_text(folder)
    if text is None:
        raise no_index(folder)
    engine, _ = parse(text, str(folder / MANIFEST))
    if engine not in ENGINES or ENGINES[engine].schemes:
        raise RetrievalError(f"the index in {folder} is of the engine {engine[:40]}, which this version does not know")
    return ENGINES[engine], str(folder), named or model


def _open(address: str, model: str | None) -> Any:
    engine, place, named = engine_of(address, model)
    opened = engine.open(place, named)
    earlier = getattr(getattr(opened, "manifest", None), "earlier", "")
    if earlier and place not in _SAID:
        _SAID.add(place)
        default_notice(f"{place} was {earlier}")
    return opened
