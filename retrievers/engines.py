"""The engines of retrieval that there are: how each is built, opened and described. A new one is a line here.

Building and opening an index, its facts and the tables of a comparison read this registry; `register_engine` adds
engines of other packages while a process runs. Nothing of an engine is imported before an index of it is built or
opened.
"""

from __future__ import annotations

import dataclasses
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


def _in_out(options: Mapping[str, Any], name: str | None) -> str:
    """The address of an index that is to be built in a folder."""
    if not options.get("out"):
        raise InputError("--out is missing: name a folder for the index")
    return str(options["out"])


def _by_language(manifest: Any) -> str:
    return str(manifest.language)


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
        help: What it is, for whoever chooses an engine to build an index.
        extra: The extra of the package that it needs; none where empty.
        build: From passages and an address to the manifest of a new index. It takes ``name``, ``sources``,
            ``overwrite``, ``progress`` and ``notice`` by their names, as `keqa.build_index` does, and those of
            ``options`` that were given. None where indexes are built by something else.
        options: What it takes to build one beyond that, and what ``place`` takes.
        place: From the options that were given and the name to the address that ``build`` takes.
        address: From that address and the manifest of the index to how it is named to be opened.
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
    place: Callable[[Mapping[str, Any], str | None], str] = _in_out
    address: Callable[[str, Any], str] = lambda place, manifest: place
    described: Callable[[Any], str] = _by_language


def entries_of(manifest: Any) -> dict[str, Any]:
    """What a manifest tells of an index, its files excepted."""
    entries = dataclasses.asdict(manifest)
    if not manifest.left_out:
        del entries["left_out"]
    return {name: value for name, value in entries.items() if name not in _OF_FILES}


def _in_folder(folder: str, manifest: Any) -> dict[str, Any]:
    used = sum(file.stat().st_size for file in (Path(folder) / manifest.data).rglob("*") if file.is_file())
    return {**entries_of(manifest), "bytes": used}


_OUT = BuildOption("out", "Folder of the index.", Path)
_LANGUAGE = BuildOption("language", "en, zh, or auto to decide by the text.", default="auto")


def _open_embedded(folder: str, model: str | None) -> Any:
    from keqa.retrievers.tantivy_index import TantivyRetriever

    return TantivyRetriever.open(Path(folder))


def _build_embedded(passages: Any, folder: str, *, out: object = None, **given: Any) -> Any:
    from keqa.retrievers.tantivy_build import build_index

    return build_index(passages, folder, **given)


_EMBEDDED = Engine(
    EMBEDDED,
    "BM25",
    "TantivyRetriever",
    _open_embedded,
    lambda folder: _in_folder(folder, _open_embedded(folder, None).manifest),
    help="BM25",
    build=_build_embedded,
    options=(_OUT, _LANGUAGE),
)


def _open_dense(folder: str, model: str | None) -> Any:
    from keqa.retrievers.dense import DenseRetriever

    return DenseRetriever.open(Path(folder), model)


def _inspect_dense(folder: str) -> dict[str, Any]:
    from keqa.retrievers.dense.index import inspected

    return _in_folder(folder, inspected(Path(folder)))


def _build_dense(passages: Any, folder: str, *, out: object = None, **given: Any) -> Any:
    from keqa.retrievers.dense import build_dense

    return build_dense(passages, folder, **given)


def _dense_address(folder: str, manifest: Any) -> str:
    """A dense index with the model of its questions, where that is to be named."""
    from keqa.retrievers.dense import LOCAL
    from keqa.retrievers.opening import MODEL

    model = manifest.encoder.query_model
    return folder if model == LOCAL else f"{folder}{MODEL}{model}"


_DENSE = Engine(
    DENSE,
    "dense",
    "DenseRetriever",
    _open_dense,
    _inspect_dense,
    help="embeddings",
    extra="dense",
    build=_build_dense,
    options=(
        _OUT,
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
)


def _open_server(address: str, model: str | None) -> Any:
    from keqa.retrievers.elasticsearch import ElasticsearchRetriever

    return ElasticsearchRetriever.open(address)


def _inspect_server(address: str) -> dict[str, Any]:
    retriever = _open_server(address, None)
    try:
        return {**entries_of(retriever.manifest), **dataclasses.asdict(retriever.facts())}
    finally:
        retriever.close()


def _build_on_server(passages: Any, address: str, *, url: object = None, name: object = None, **given: Any) -> Any:
    from keqa.retrievers.elasticsearch import load_index

    return load_index(passages, address, **given)


def _on_server(options: Mapping[str, Any], name: str | None) -> str:
    from keqa.retrievers.elasticsearch import index_address

    if not options.get("url") or name is None:
        raise InputError("an index in Elasticsearch needs --url, the cluster, and --name, its name there")
    return index_address(options["url"], name)


_SERVER = Engine(
    SERVER,
    "BM25 (Elasticsearch)",
    "ElasticsearchRetriever",
    _open_server,
    _inspect_server,
    schemes=("elasticsearch", "elasticsearch+http", "elasticsearch+https"),
    help="BM25 on a cluster",
    extra="elasticsearch",
    build=_build_on_server,
    options=(
        BuildOption(
            "url",
            "Of the cluster: http://host:9200 or https://…; several nodes with commas. Credentials are read from "
            "ELASTICSEARCH_API_KEY, or _USERNAME and _PASSWORD. A certificate is checked by the authority's file in "
            "ELASTICSEARCH_CA_CERTS, or by ELASTICSEARCH_FINGERPRINT. An answer is waited for ELASTICSEARCH_TIMEOUT "
            "seconds, 30 by default.",
        ),
        _LANGUAGE,
        BuildOption("shards", "How many parts the index has.", int, default="1", least=1),
        BuildOption("replicas", "How many copies of each part.", int, default="1 with two nodes or more", least=0),
    ),
    place=_on_server,
)

_ALL = (_EMBEDDED, _DENSE, _SERVER)

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
