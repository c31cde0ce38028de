"""The engines of retrieval that there are: how each is opened, and what it is called. A new one is a line here.

Opening an index, its facts and the tables of a comparison read this registry; `register_engine` adds engines of other
packages while a process runs. Nothing of an engine is imported before an index of it is opened.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keqa.errors import ConfigurationError
from keqa.retrievers.manifest import DENSE, EMBEDDED

__all__ = ["ENGINES", "SERVER", "Engine", "engine_of_scheme", "entries_of", "register_engine"]

SERVER = "elasticsearch"
"""The engine that refuses an address of a scheme that no engine has."""

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
# They are about the files, and are reported otherwise.
_OF_FILES = ("schema_version", "data", "commit")


@dataclass(frozen=True)
class Engine:
    """An engine of retrieval.

    Attributes:
        name: As the manifest of an index and messages have it.
        title: What tables call it.
        retriever: The name of its class of retrievers, by which run files tell it.
        open: From an address, and the model that encodes questions where one was named, to a retriever: a
            `keqa.retrievers.base.Retriever`. The address of an index without a scheme is its folder.
        facts: From the same address to what `keqa index info` shows of the index.
        schemes: An address that begins with one of them and ``://`` is one of this engine's; without any an index is a
            folder whose manifest names the engine.
    """

    name: str
    title: str
    retriever: str
    open: Callable[[str, str | None], Any]
    facts: Callable[[str], dict[str, Any]] = lambda address: {}
    schemes: tuple[str, ...] = ()


def entries_of(manifest: Any) -> dict[str, Any]:
    """What a manifest tells of an index, its files excepted."""
    entries = dataclasses.asdict(manifest)
    if not manifest.left_out:
        del entries["left_out"]
    return {name: value for name, value in entries.items() if name not in _OF_FILES}


def _in_folder(folder: str, manifest: Any) -> dict[str, Any]:
    used = sum(file.stat().st_size for file in (Path(folder) / manifest.data).rglob("*") if file.is_file())
    return {**entries_of(manifest), "bytes": used}


def _open_embedded(folder: str, model: str | None) -> Any:
    from keqa.retrievers.tantivy_index import TantivyRetriever

    return TantivyRetriever.open(Path(folder))


def _open_dense(folder: str, model: str | None) -> Any:
    from keqa.retrievers.dense import DenseRetriever

    return DenseRetriever.open(Path(folder), model)


def _inspect_dense(folder: str) -> dict[str, Any]:
    from keqa.retrievers.dense.index import inspected

    return _in_folder(folder, inspected(Path(folder)))


def _open_server(address: str, model: str | None) -> Any:
    from keqa.retrievers.elasticsearch import ElasticsearchRetriever

    return ElasticsearchRetriever.open(address)


def _inspect_server(address: str) -> dict[str, Any]:
    retriever = _open_server(address, None)
    try:
        return {**entries_of(retriever.manifest), **dataclasses.asdict(retriever.facts())}
    finally:
        retriever.close()


_ALL = (
    Engine(
        EMBEDDED,
        "BM25",
        "TantivyRetriever",
        _open_embedded,
        lambda folder: _in_folder(folder, _open_embedded(folder, None).manifest),
    ),
    Engine(DENSE, "dense", "DenseRetriever", _open_dense, _inspect_dense),
    Engine(
        SERVER,
        "BM25 (Elasticsearch)",
        "ElasticsearchRetriever",
        _open_server,
        _inspect_server,
        schemes=("elasticsearch", "elasticsearch+http", "elasticsearch+https"),
    ),
)

ENGINES: dict[str, Engine] = {engine.name: engine for engine in _ALL}
"""Every engine by its name; `register_engine` adds to it."""


def engine_of_scheme(address: str) -> Engine:
    """The engine of an address with a scheme; the one that refuses such an address where no engine has it."""
    scheme = address.partition("://")[0].strip().lower()
    return next((one for one in ENGINES.values() if scheme in one.schemes), ENGINES[SERVER])


def register_engine(engine: Engine) -> Engine:
    """Make an engine of your own known to `keqa.open_index`, and so to every command, and to tables.

    Args:
        engine: One with schemes of its own, or one that the manifests of its folders name. It lasts as long as the
            process does.

    Returns:
        The engine.

    Raises:
        ConfigurationError: Another engine has its name, its retriever's name or a scheme of it, or a scheme cannot
            begin an address.
    """
    for scheme in engine.schemes:
        if _SCHEME.fullmatch(scheme) is None:
            raise ConfigurationError(f"the scheme of an address is in small letters and digits, not {scheme!r:.80}")
    for other in ENGINES.values():
        if _home(other) == _home(engine):
            # A notebook's cell that runs again.
            continue
        if other.name == engine.name or other.retriever == engine.retriever or {*other.schemes} & {*engine.schemes}:
            raise ConfigurationError(f"the engine {other.name!r} is there already, as {other.title}")
    ENGINES[engine.name] = engine
    return engine


def _home(engine: Engine) -> tuple[Any, ...]:
    opens = engine.open
    return engine.name, engine.retriever, getattr(opens, "__module__", None), getattr(opens, "__qualname__", None)
