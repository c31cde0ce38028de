"""The engines of retrieval that there are, and how an address leads to an index of one.

Nothing of an engine is imported before an index of it is built or opened.
"""

import dataclasses
import importlib
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from keqa.errors import ConfigurationError, InputError, RetrievalError
from keqa.retrievers.base import DOCUMENTS
from keqa.retrievers.manifest import DENSE, EMBEDDED

if TYPE_CHECKING:
    from keqa.retrievers.documents import DocumentsRetriever
    from keqa.retrievers.elasticsearch.retriever import ElasticsearchRetriever
    from keqa.retrievers.hybrid import HybridRetriever
    from keqa.retrievers.local.dense import DenseRetriever
    from keqa.retrievers.local.index import TantivyRetriever

Index: TypeAlias = "TantivyRetriever | DenseRetriever | ElasticsearchRetriever | HybridRetriever | DocumentsRetriever"

SERVER = "elasticsearch"
"""The engine that refuses an address of a scheme that no engine has."""

JOINT = ","
"""Joins the addresses of a hybrid: it is in no name of an Elasticsearch index, and in few names of folders."""

MODEL = "@"
"""Stands between the folder of a dense index and the model of its questions."""

WORDS = "bm25:"
"""Stands before the folder of a dense index that is searched by its words."""

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
# They are about the files, and are reported otherwise.
_OF_FILES = ("schema_version", "data", "listed", "rows", "probe", "removed")


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


class Engine:
    """An engine of retrieval. One of your own is a subclass, of which an object is registered.

    Attributes:
        name: As the manifest of an index and messages have it.
        title: What tables call it.
        retriever: The name of its class of retrievers, by which run files name it.
        schemes: An address that begins with one of them and ``://`` is one of this engine's; without any an index is a
            folder whose manifest names the engine.
        hosts: Whether an address lists several hosts, with commas, before the name of an index.
        about: What ``keqa index --help`` says of it.
        options: What ``build`` and ``locate`` take.
    """

    name: str
    title: str
    retriever: str
    schemes: tuple[str, ...] = ()
    hosts: bool = False
    about: str = ""
    options: tuple[BuildOption, ...] = ()

    def open(self, address: str, model: str | None) -> Any:
        """Open an index, a `keqa.retrievers.base.Retriever`, with the model of questions where one was named."""
        raise NotImplementedError

    def facts(self, address: str) -> dict[str, Any]:
        """What `keqa index info` shows of an index."""
        return {}

    def build(self, passages: Any, address: str, **options: Any) -> Any:
        """Make an index of passages, and return something that has their number as ``passages``.

        Args:
            passages: Read once.
            address: From `locate`.
            **options: ``name``, ``sources``, ``overwrite``, ``progress``, ``notice`` (as of
                `keqa.retrievers.build_index`) and the options that were given.
        """
        raise ConfigurationError(f"the engine {self.name} builds no index")

    @property
    def builds(self) -> bool:
        """Whether a command of `keqa index` makes its indexes."""
        return type(self).build is not Engine.build

    def locate(self, given: Mapping[str, Any]) -> str:
        """The address of the index to be built, by the options and ``name``; by default the folder ``out``."""
        if "out" not in given:
            raise InputError("--out is missing: name a folder for the index")
        return str(given["out"])

    def described(self, built: Any) -> str:
        """A few words on what `build` returned: by default its languages, most frequent first, or else its engine."""
        return ", ".join(getattr(built, "languages", None) or [str(getattr(built, "language", None) or built.engine)])

    def searched(self, address: str, built: Any) -> str:
        """The address by which an index is searched that `build` made at an address."""
        return address

    def change(self, address: str, model: str | None) -> AbstractContextManager[Any]:
        """Open an index for a change, with the model of passages: gives a `keqa.retrievers.manifest.Changer`."""
        raise ConfigurationError(f"the engine {self.name} cannot change an index that is there: build it again")


def _entries_of(manifest: Any) -> dict[str, Any]:
    entries = dataclasses.asdict(manifest)
    empty = [name for name in ("left_out", "languages", "deleted") if name in entries and not getattr(manifest, name)]
    return {name: value for name, value in entries.items() if name not in (*_OF_FILES, *empty)}


def _module(name: str) -> Any:
    """A module of this room, which is imported only where an index of its engine is built or opened."""
    return importlib.import_module(f"keqa.retrievers.{name}")


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


class _Embedded(Engine):
    name, title, retriever, about = EMBEDDED, "BM25", "TantivyRetriever", "BM25"
    options: tuple[BuildOption, ...] = (_OUT, _LANGUAGE)

    def open(self, address: str, model: str | None) -> Any:
        return _module("local.index").TantivyRetriever(address)

    def facts(self, address: str) -> dict[str, Any]:
        index = _module("local.index")
        opened = index.open_checked(Path(address))
        used = sum(file.stat().st_size for file in (Path(address) / index.DATA).iterdir())
        files = {path: opened.count("file", path) for path in opened.files}
        return {**_entries_of(opened.manifest), "bytes": used, "files": files}

    def build(self, passages: Any, address: str, **options: Any) -> Any:
        return _module("local.build").build_index(passages, address, **options)

    def change(self, address: str, model: str | None) -> Any:
        return _module("local.build").changing(address)


class _Dense(_Embedded):
    name, title, retriever, about = DENSE, "dense", "DenseRetriever", "embeddings"
    options: tuple[BuildOption, ...] = (_OUT, *_MODEL_OPTIONS)

    def open(self, address: str, model: str | None) -> Any:
        return _module("local.dense").DenseRetriever(address, model)

    def facts(self, address: str) -> dict[str, Any]:
        _module("local.dense").open_files(Path(address))
        return super().facts(address)

    def build(self, passages: Any, address: str, **options: Any) -> Any:
        return _module("local.dense").build_dense(passages, address, **options)

    def described(self, built: Any) -> str:
        return f"{DENSE}, {built.encoder.model}"

    def searched(self, address: str, built: Any) -> str:
        """The folder with the model of its questions, where that is to be named."""
        model = built.encoder.query_model
        return address if model == _module("embedding").LOCAL else f"{address}{MODEL}{model}"

    def change(self, address: str, model: str | None) -> Any:
        dense = _module("local.dense").DenseChanger
        return _module("local.build").changing(address, lambda folder: dense(folder, model))


class _Elasticsearch(Engine):
    name, title, retriever = SERVER, "BM25 (Elasticsearch)", "ElasticsearchRetriever"
    schemes: tuple[str, ...] = ("elasticsearch", "elasticsearch+http", "elasticsearch+https")
    hosts = True
    about = "BM25 on a cluster, and embeddings beside it with --model"
    options: tuple[BuildOption, ...] = (
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
    )

    def open(self, address: str, model: str | None) -> Any:
        return _module("elasticsearch.retriever").ElasticsearchRetriever(address)

    def facts(self, address: str) -> dict[str, Any]:
        client = _module("elasticsearch.client")
        target = client.parse_address(address)
        with client.connect(target) as connected:
            generations = _module("elasticsearch.generation").Generations(connected, target)
            manifest = generations.manifest()
            files = {path: count for path, (_, count) in generations.files(manifest.data).items()}
            return {**_entries_of(manifest), **generations.facts(manifest.data), "files": files}

    def build(self, passages: Any, address: str, *, name: str | None = None, **options: Any) -> Any:
        return _module("elasticsearch.writing").load_index(passages, address, **options)

    def locate(self, given: Mapping[str, Any]) -> str:
        if "url" not in given or given.get("name") is None:
            raise InputError("an index in Elasticsearch needs --url, the cluster, and --name, its name there")
        return str(_module("elasticsearch.client").index_address(given["url"], given["name"]))

    def described(self, built: Any) -> str:
        languages = super().described(built)
        return f"{languages}, {built.encoder.model}" if hasattr(built, "encoder") else languages

    def searched(self, address: str, built: Any) -> str:
        """The address, and beside it that of the vectors, where there are some."""
        if not hasattr(built, "encoder"):
            return address
        vectors = dataclasses.replace(_module("elasticsearch.client").parse_address(address), dense=True)
        return f"{address}{JOINT}{ENGINES[DENSE].searched(str(vectors), built)}"

    def change(self, address: str, model: str | None) -> Any:
        return _module("elasticsearch.writing").changing(address, model)


class _ElasticsearchVectors(_Elasticsearch):
    name, title, retriever = "elasticsearch-dense", "dense (Elasticsearch)", "ElasticsearchDenseRetriever"
    schemes: tuple[str, ...] = ("elasticsearch+dense", "elasticsearch+dense+https")
    about = "searches the embeddings that --engine elasticsearch --model puts on a cluster"
    options = ()
    builds = False

    def open(self, address: str, model: str | None) -> Any:
        return _module("elasticsearch.retriever").ElasticsearchDenseRetriever(address, model)


class _Documents(Engine):
    name, title, retriever = DOCUMENTS, "documents", "DocumentsRetriever"
    about = "gives each question a document of its own, from a file of keqa documents"

    def open(self, address: str, model: str | None) -> Any:
        return _module("documents").DocumentsRetriever(address)

    def facts(self, address: str) -> dict[str, Any]:
        return dataclasses.asdict(self.open(address, None).manifest)


ENGINES: dict[str, Engine] = {
    one.name: one for one in (_Embedded(), _Dense(), _Elasticsearch(), _ElasticsearchVectors(), _Documents())
}
"""Every engine by its name; `register_engine` adds to it."""


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

    def home(one: Engine) -> tuple[str, ...]:
        return one.name, one.retriever, type(one).__module__, type(one).__qualname__

    for scheme in engine.schemes:
        if _SCHEME.fullmatch(scheme) is None:
            raise ConfigurationError(f"the scheme of an address is in small letters and digits, not {scheme!r:.80}")
    for other in ENGINES.values():
        same = other.name == engine.name or other.retriever == engine.retriever or {*other.schemes} & {*engine.schemes}
        # One from the same place is that of a notebook's cell that runs again.
        if same and home(other) != home(engine):
            raise ConfigurationError(f"the engine {other.name!r} is there already, as {other.title}")
    ENGINES[engine.name] = engine
    return engine


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
    found = [engine_of(one, model) for one in parts_of(address)]
    opened: list[Any] = [engine.open(place, named) for engine, place, named in found]
    return opened[0] if len(opened) == 1 else _module("hybrid").HybridRetriever(opened)  # type: ignore[no-any-return]


def folder_and_model(address: str) -> tuple[Path, str | None]:
    """The folder of an index, and the model that its address names; a folder that is there may have any name."""
    if not Path(address).is_dir():
        for mark in re.finditer(MODEL, address):
            folder, model = Path(address[: mark.start()]), address[mark.end() :]
            if model and folder.is_dir():
                return folder, model
    return Path(address), None


def parts_of(address: Path | str) -> list[str]:
    """The addresses that are joined in one; a folder that is there is one, and so are several hosts of a cluster."""
    whole = str(address)
    if isinstance(address, Path) or is_documents(whole) or (whole and Path(whole).is_dir()):
        return [whole]
    parts: list[str] = []
    for piece in whole.split(JOINT):
        # Hosts of a cluster, without the name of an index yet.
        last = parts[-1] if parts else ""
        if is_remote(last) and "/" not in last.partition("://")[2] and engine_of(last)[0].hosts:
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


def is_documents(address: str) -> bool:
    return address.startswith(f"{DOCUMENTS}:")


def facts_of(address: Path | str, *, verify: bool = False) -> list[dict[str, Any]]:
    """What an index is, of a hybrid each part: address, engine, entries of the manifest, bytes and files.

    No embedding model is opened, and passages are counted. With ``verify`` the files of one in a folder are compared
    with their checksums, which reads all of them; ``checksums`` says what was found.
    """
    parts = []
    for part in parts_of(address):
        engine, place, _ = engine_of(part)
        parts.append({"address": place, "engine": engine.name, **engine.facts(place)})
        if verify and (Path(place) / _module("local.index").DATA).is_dir():
            parts[-1]["checksums"] = _module("local.build").verify(Path(place))
    return parts


def engine_of(address: str, model: str | None = None) -> tuple[Engine, str, str | None]:
    """The engine of one address, what it opens, and the model that encodes its questions where one is named."""
    if is_documents(address):
        return ENGINES[DOCUMENTS], address, model
    if is_remote(address):
        scheme = address.partition("://")[0].strip().lower()
        return next((one for one in ENGINES.values() if scheme in one.schemes), ENGINES[SERVER]), address, model
    if address.startswith(WORDS):
        return ENGINES[EMBEDDED], address.removeprefix(WORDS), model
    folder, named = folder_and_model(address)
    engine, _ = _module("local.index").manifest_in(folder)
    if engine not in ENGINES or ENGINES[engine].schemes:
        raise RetrievalError(f"the index in {folder} is of the engine {engine[:40]}, which this version does not know")
    return ENGINES[engine], str(folder), named or model
