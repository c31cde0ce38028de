"""The engines of retrieval that there are: how each is built and opened, and its name. A new one is a line here.

Building an index, opening it, its facts and the tables of a comparison read this registry; `register_engine` adds
engines of other packages while a process runs. Nothing of an engine is imported before an index of it is built or
opened.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keqa.errors import ConfigurationError, InputError
from keqa.retrievers.documents import DOCUMENTS
from keqa.retrievers.manifest import DENSE, EMBEDDED

SERVER = "elasticsearch"
"""The engine that refuses an address of a scheme that no engine has."""
DENSE_SERVER = "elasticsearch-dense"

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
# They are about the files, and are reported otherwise.
_OF_FILES = ("schema_version", "data", "commit", "change", "probe", "removed")


@dataclass(frozen=True)
class BuildOption:
    """What an engine needs to build an index, and an option of ``keqa index``.

    Attributes:
        name: The argument of the engine's ``build`` that it is; the option is written with hyphens.
        help: What it is for.
        type: Of its value.
        shown: Its default as the help shows it.
        short: A second way to write it, such as ``-o``.
        least: The smallest number allowed.
        locates: Whether it says where the index will be: ``Engine.locate`` reads it, and ``build`` does not.
    """

    name: str
    help: str = ""
    type: type = str
    shown: str | None = None
    short: str | None = None
    least: int | None = None
    locates: bool = False


def _in_folder_out(given: Mapping[str, Any]) -> str:
    if "out" not in given:
        raise InputError("--out is missing: name a folder for the index")
    return str(given["out"])


def _languages_of(built: Any) -> str:
    """The languages of an index, most frequent first, or the name of its engine where it does not know them."""
    return ", ".join(getattr(built, "languages", None) or [str(getattr(built, "language", None) or built.engine)])


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
        about: What ``keqa index --help`` says of it.
        build: Makes an index of passages: from them, the address, and as keywords ``name``, ``sources``,
            ``overwrite``, ``progress``, ``notice`` (as of `keqa.retrievers.build_index`) and the options that were
            given. What it returns has the number of ``passages``. None where no command of `keqa index` makes one.
        options: What ``build`` and ``locate`` take.
        locate: From the options that were given, and ``name`` where there is one, to the address of the index to be
            built; it raises InputError where one is missing. By default the folder of an option ``out``.
        described: From what ``build`` returns to a few words on the index.
        searched: From the address and what ``build`` returns to the address by which the index is searched.
        change: From an address, and the model that encodes passages where one was named, to a context that gives the
            index as a `keqa.retrievers.changing.Changer`; None where the engine cannot change an index that is there.
    """

    name: str
    title: str
    retriever: str
    open: Callable[[str, str | None], Any]
    facts: Callable[[str], dict[str, Any]] = lambda address: {}
    schemes: tuple[str, ...] = ()
    about: str = ""
    build: Callable[..., Any] | None = None
    options: tuple[BuildOption, ...] = ()
    locate: Callable[[Mapping[str, Any]], str] = _in_folder_out
    described: Callable[[Any], str] = _languages_of
    searched: Callable[[str, Any], str] = lambda address, built: address
    change: Callable[[str, str | None], AbstractContextManager[Any]] | None = None


def entries_of(manifest: Any) -> dict[str, Any]:
    """What a manifest says of an index, its files excepted."""
    entries = dataclasses.asdict(manifest)
    for name in ("left_out", "languages", "deleted"):
        if name in entries and not getattr(manifest, name):
            del entries[name]
    if earlier := getattr(manifest, "earlier", ""):
        entries["note"] = earlier
    return {name: value for name, value in entries.items() if name not in _OF_FILES}


def _in_folder(folder: str, manifest: Any) -> dict[str, Any]:
    used = sum(file.stat().st_size for file in (Path(folder) / manifest.data).rglob("*") if file.is_file())
    with _module("files").FileTable.open(Path(folder) / manifest.data) or nullcontext() as table:
        files = {} if table is None else table.entries(manifest.source_hash)
    return {**entries_of(manifest), "bytes": used, "files": {path: entry.passages for path, entry in files.items()}}


def _module(name: str) -> Any:
    """A module of this room, which is imported only where an index of its engine is built or opened."""
    return importlib.import_module(f"keqa.retrievers.{name}")


def _facts_of_server(address: str) -> dict[str, Any]:
    target, _ = _module("elasticsearch").address_and_model(address)
    with closing(_module("elasticsearch").ElasticsearchRetriever.open(str(target))) as retriever:
        files = retriever.files() or {}
        return {
            **entries_of(retriever.whole_manifest),
            **dataclasses.asdict(retriever.facts()),
            "files": {path: entry.passages for path, entry in files.items()},
        }


def _with_model(folder: str, manifest: Any) -> str:
    """The folder with the model of its questions, where that is to be named."""
    model = manifest.encoder.query_model
    return folder if model == _module("dense").LOCAL else f"{folder}{_module('opening').MODEL}{model}"


def _build_on_server(passages: Any, address: str, *, name: str, **options: Any) -> Any:
    return _module("elasticsearch").load_index(passages, address, **options)


def _with_vectors(address: str, manifest: Any) -> str:
    """The address, and beside it that of the vectors, where there are some."""
    if not hasattr(manifest, "encoder"):
        return address
    package = _module("elasticsearch")
    dense = package.dense_address(package.address_and_model(address)[0])
    return f"{address}{_module('opening').JOINT}{_with_model(dense, manifest)}"


def _described_on_server(manifest: Any) -> str:
    languages = _languages_of(manifest)
    return f"{languages}, {manifest.encoder.model}" if hasattr(manifest, "encoder") else languages


def _on_server(given: Mapping[str, Any]) -> str:
    if "url" not in given or given.get("name") is None:
        raise InputError("an index in Elasticsearch needs --url, the cluster, and --name, its name there")
    return str(_module("elasticsearch").index_address(given["url"], given["name"]))


_OUT = BuildOption("out", "Folder of the index.", Path, short="-o", locates=True)
_LANGUAGE = BuildOption(
    "language",
    "Of passages that do not say it themselves: auto for the most frequent one, en, zh, or (embedded only) another "
    "Snowball language by its code, such as de.",
    shown="auto",
)
_MODEL_OPTIONS = (
    BuildOption(
        "model",
        "A sentence-transformers model, by name or folder; local/minilm, the default of a dense index, comes as a "
        "Python package; or one behind an API, such as openai/text-embedding-3-small or hosted_vllm/NAME, whose key "
        "and address are read from the environment (OPENAI_API_KEY, OPENAI_BASE_URL, HOSTED_VLLM_API_BASE). An index "
        "in Elasticsearch has vectors where it is named.",
    ),
    BuildOption("query_model", "Encodes questions, where a pair of models is for the two."),
    BuildOption("query_prefix", 'Put before a question ("query: " for E5).'),
    BuildOption("passage_prefix", 'Put before a passage ("passage: " for E5).'),
    BuildOption("separator", 'Between title and text (" [SEP] " for DPR).', shown='": "'),
    BuildOption("similarity", "cosine or dot; by default dot for a pair of models, for one what it says."),
)
_ALL = (
    Engine(
        EMBEDDED,
        "BM25",
        "TantivyRetriever",
        open=lambda folder, model: _module("tantivy_index").TantivyRetriever.open(folder),
        facts=lambda folder: _in_folder(folder, _module("tantivy_index").TantivyRetriever.open(folder).manifest),
        about="BM25",
        build=lambda passages, folder, **options: _module("tantivy_build").build_index(passages, folder, **options),
        options=(_OUT, _LANGUAGE),
        change=lambda folder, model: _module("tantivy_build").changing(folder),
    ),
    Engine(
        DENSE,
        "dense",
        "DenseRetriever",
        open=lambda folder, model: _module("dense").DenseRetriever.open(folder, model),
        facts=lambda folder: _in_folder(folder, _module("dense.index").open_files(Path(folder)).manifest),
        about="embeddings",
        build=lambda passages, folder, **options: _module("dense").build_dense(passages, folder, **options),
        options=(_OUT, *_MODEL_OPTIONS),
        described=lambda manifest: f"{DENSE}, {manifest.encoder.model}",
        searched=_with_model,
        change=lambda folder, model: _module("dense.changing").changing(folder, model),
    ),
    Engine(
        SERVER,
        "BM25 (Elasticsearch)",
        "ElasticsearchRetriever",
        open=lambda address, model: _module("elasticsearch").ElasticsearchRetriever.open(address),
        facts=_facts_of_server,
        schemes=("elasticsearch", "elasticsearch+http", "elasticsearch+https"),
        about="BM25 on a cluster, and embeddings beside it with --model",
        build=_build_on_server,
        options=(
            BuildOption(
                "url",
                "Of the cluster: http://host:9200 or https://…; several nodes with commas. Credentials are read from "
                "ELASTICSEARCH_API_KEY, or _USERNAME and _PASSWORD. A certificate is checked by the authority's file "
                "in ELASTICSEARCH_CA_CERTS, or by ELASTICSEARCH_FINGERPRINT. An answer is waited for "
                "ELASTICSEARCH_TIMEOUT seconds, 30 by default.",
                locates=True,
            ),
            _LANGUAGE,
            BuildOption("shards", "Parts of the index.", int, shown="1", least=1),
            BuildOption("replicas", "Copies of each part.", int, shown="1 with two nodes or more", least=0),
            *_MODEL_OPTIONS,
        ),
        locate=_on_server,
        described=_described_on_server,
        searched=_with_vectors,
        change=lambda address, model: _module("elasticsearch.changing").changing(address, model),
    ),
    Engine(
        DENSE_SERVER,
        "dense (Elasticsearch)",
        "ElasticsearchDenseRetriever",
        open=lambda address, model: _module("elasticsearch").ElasticsearchDenseRetriever.open(address, model),
        facts=_facts_of_server,
        schemes=("elasticsearch+dense", "elasticsearch+dense+https"),
        about="searches the embeddings that --engine elasticsearch --model puts on a cluster",
        change=lambda address, model: _module("elasticsearch.changing").changing(address, model),
    ),
    Engine(
        DOCUMENTS,
        "documents",
        "DocumentsRetriever",
        open=lambda address, model: _module("documents").DocumentsRetriever.open(address),
        facts=lambda address: dataclasses.asdict(_module("documents").DocumentsRetriever.open(address).manifest),
        about="gives each question a document of its own, from a file of keqa documents",
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
