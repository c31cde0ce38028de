"""The engines of retrieval that there are: how each is built, opened and described. A new one is a line here.

Building and opening an index, its facts and the tables of a comparison read this registry; `register_engine` adds
engines of other packages while a process runs. Nothing of an engine is imported before an index of it is built or
opened.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keqa.errors import ConfigurationError, InputError
from keqa.retrievers.manifest import DENSE, EMBEDDED

__all__ = ["ENGINES", "SERVER", "BuildOption", "Engine", "engine_of_scheme", "entries_of", "register_engine"]

SERVER = "elasticsearch"
"""The engine that refuses an address of a scheme that no engine has."""

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
# They are about the files, and are reported otherwise.
_OF_FILES = ("schema_version", "data", "commit")


@dataclass(frozen=True)
class BuildOption:
    """An option of building an index.

    Attributes:
        name: Of the parameter; options of one name in several engines are the same.
        help: What it is, for whoever builds an index.
        type: Of its value.
        default: What help shows for it where it is not given; the builder itself knows the value.
        least: The least number that it can be.
    """

    name: str
    help: str
    type: type[Any] = str
    default: str = ""
    least: int | None = None


def _in_out(options: Mapping[str, Any]) -> str:
    if not options.get("out"):
        raise InputError("--out is missing: name a folder for the index")
    return str(options["out"])


@dataclass(frozen=True)
class Engine:
    """An engine of retrieval.

    Attributes:
        name: As the manifest of an index and messages have it.
        title: What tables call it.
        retriever: The name of its class of retrievers, by which run files name it.
        open: From an address, and the model that encodes questions where one was named, to a retriever: a
            `keqa.retrievers.base.Retriever`. The address of an index without a scheme is its folder.
        facts: From the same address to what `keqa index info` shows of the index.
        schemes: An address that begins with one of them and ``://`` is one of this engine's; without any an index is a
            folder whose manifest names the engine.
        help: What it is, for whoever chooses an engine to build an index.
        extra: The extra of the package that it needs; none where empty.
        build: From passages and the address of a new index to its manifest. It takes ``sources``, ``overwrite``,
            ``progress``, ``notice`` and the ``options`` that were given by their names, as `keqa.build_index` does.
            None where indexes are built by something else.
        options: What it takes to build one beyond that.
        placed_by: The options that say where a new index is to be.
        place: From these, as far as they were given, to its address.
        address: From the address of a new index and its manifest to how it is named to be opened.
        described: What an index is by its manifest, in a word or two.
    """

    name: str
    title: str
    retriever: str
    open: Callable[[str, str | None], Any]
    facts: Callable[[str], dict[str, Any]] = lambda address: {}
    schemes: tuple[str, ...] = ()
    help: str = ""
    extra: str = ""
    build: Callable[..., Any] | None = None
    options: tuple[BuildOption, ...] = ()
    placed_by: tuple[BuildOption, ...] = (BuildOption("out", "Folder of the index.", Path),)
    place: Callable[[Mapping[str, Any]], str] = _in_out
    address: Callable[[str, Any], str] = lambda place, manifest: place
    described: Callable[[Any], str] = lambda manifest: str(manifest.language)


def entries_of(manifest: Any) -> dict[str, Any]:
    """What a manifest says of an index, its files excepted."""
    entries = dataclasses.asdict(manifest)
    if not manifest.left_out:
        del entries["left_out"]
    return {name: value for name, value in entries.items() if name not in _OF_FILES}


def _in_folder(folder: str, manifest: Any) -> dict[str, Any]:
    used = sum(file.stat().st_size for file in (Path(folder) / manifest.data).rglob("*") if file.is_file())
    return {**entries_of(manifest), "bytes": used}


def _module(name: str) -> Any:
    """A module of this room, which is imported only where an index of its engine is built or opened."""
    return importlib.import_module(f"keqa.retrievers.{name}")


def _on_server(options: Mapping[str, Any]) -> str:
    if not options.get("url") or not options.get("name"):
        raise InputError("an index in Elasticsearch needs --url, the cluster, and --name, its name there")
    return str(_module("elasticsearch").index_address(options["url"], options["name"]))


def _facts_of_server(address: str) -> dict[str, Any]:
    retriever = _module("elasticsearch").ElasticsearchRetriever.open(address)
    try:
        return {**entries_of(retriever.manifest), **dataclasses.asdict(retriever.facts())}
    finally:
        retriever.close()


def _dense_address(folder: str, manifest: Any) -> str:
    """A dense index with the model of its questions, where that is to be named."""
    model = manifest.encoder.query_model
    return folder if model == _module("dense").LOCAL else f"{folder}{_module('opening').MODEL}{model}"


_NAME = BuildOption("name", "Name of the index; the folder's by default.")
_LANGUAGE = BuildOption("language", "en, zh, or auto to decide by the text.", default="auto")

_ALL = (
    Engine(
        EMBEDDED,
        "BM25",
        "TantivyRetriever",
        open=lambda folder, model: _module("tantivy_index").TantivyRetriever.open(folder),
        facts=lambda folder: _in_folder(folder, _module("tantivy_index").TantivyRetriever.open(folder).manifest),
        help="BM25",
        build=lambda *given, **options: _module("tantivy_build").build_index(*given, **options),
        options=(_NAME, _LANGUAGE),
    ),
    Engine(
        DENSE,
        "dense",
        "DenseRetriever",
        open=lambda folder, model: _module("dense").DenseRetriever.open(folder, model),
        facts=lambda folder: _in_folder(folder, _module("dense.index").inspected(Path(folder))),
        help="embeddings",
        extra="dense",
        build=lambda *given, **options: _module("dense").build_dense(*given, **options),
        options=(
            _NAME,
            BuildOption(
                "model",
                "A sentence-transformers model, by name or folder; local/minilm comes as a Python package.",
                default="local/minilm",
            ),
            BuildOption("query_model", "Encodes questions, where a pair of models is for the two."),
            BuildOption("query_prefix", 'Put before a question ("query: " for E5).'),
            BuildOption("passage_prefix", 'Put before a passage ("passage: " for E5).'),
            BuildOption("separator", 'Between title and text (" [SEP] " for DPR).', default='": "'),
            BuildOption("similarity", "cosine or dot; by default dot for a pair of models, for one what it says."),
        ),
        address=_dense_address,
        described=lambda manifest: f"{DENSE}, {manifest.encoder.model}",
    ),
    Engine(
        SERVER,
        "BM25 (Elasticsearch)",
        "ElasticsearchRetriever",
        open=lambda address, model: _module("elasticsearch").ElasticsearchRetriever.open(address),
        facts=_facts_of_server,
        schemes=("elasticsearch", "elasticsearch+http", "elasticsearch+https"),
        help="BM25 on a cluster",
        extra="elasticsearch",
        placed_by=(
            BuildOption(
                "url",
                "Of the cluster: http://host:9200 or https://…; several nodes with commas. Credentials are read from "
                "ELASTICSEARCH_API_KEY, or _USERNAME and _PASSWORD. A certificate is checked by the authority's file "
                "in ELASTICSEARCH_CA_CERTS, or by ELASTICSEARCH_FINGERPRINT. An answer is waited for "
                "ELASTICSEARCH_TIMEOUT seconds, 30 by default.",
            ),
            _NAME,
        ),
        place=_on_server,
        build=lambda *given, **options: _module("elasticsearch").load_index(*given, **options),
        options=(
            _LANGUAGE,
            BuildOption("shards", "How many parts the index has.", int, default="1", least=1),
            BuildOption("replicas", "How many copies of each part.", int, default="1 with two nodes or more", least=0),
        ),
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
