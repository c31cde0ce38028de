"""Where an index is: ``elasticsearch://host:port/name``; and messages about it without the names of its servers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from keqa.errors import InputError
from keqa.storage.redaction import HOST, REPLACED, without_keys

PORT = 9200
SHAPE = "elasticsearch://host:9200/name, or elasticsearch+https://host:9200/name where the cluster speaks TLS"

_SCHEMES = {"elasticsearch": "http", "elasticsearch+http": "http", "elasticsearch+https": "https"}
# The vectors of an index, and not its text, are searched by such an address.
_DENSE = {"elasticsearch+dense": "http", "elasticsearch+dense+https": "https"}
_MODEL = "@"
_NODE = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::([0-9]{1,5}))?")
_NOT_IN_NAMES = re.compile(r'[\\/*?"<>|,#:\s]')
# The longest name that Elasticsearch takes, less what the names of single loads have behind it.
_LONGEST_NAME = 255 - 24

# Numbers of lines and shards follow a colon too: a host without a dot has a port of four digits or more behind it.
_SAID_NODE = re.compile(rf"{HOST.pattern} | (?<![\w.-])[a-z][a-z0-9_-]*:\d{{4,5}}(?!\w)", HOST.flags)
# Elasticsearch writes [name][address], or {name}{id}…{address}; by default the name of a node is that of its host.
_NAMES = re.compile(rf"(?:\[[^\[\]]*\]|(?:\{{[^{{}}]*\}}){{1,20}})(?=[\[{{]{REPLACED})")


@dataclass(frozen=True, slots=True)
class Address:
    """The scheme and the nodes of a cluster, the path before its indexes (``""`` or ``"/path"``), and a name."""

    scheme: str
    nodes: tuple[tuple[str, int], ...]
    prefix: str
    name: str

    @property
    def urls(self) -> list[str]:
        """The address of each node, as the client takes it."""
        return [f"{self.scheme}://{host}:{port}{self.prefix}" for host, port in self.nodes]

    @property
    def cluster(self) -> str:
        """The nodes, as messages name them."""
        return ", ".join(self.urls)

    def __str__(self) -> str:
        """The address in full, with every port."""
        nodes = ",".join(f"{host}:{port}" for host, port in self.nodes)
        scheme = "elasticsearch+https" if self.scheme == "https" else "elasticsearch"
        return f"{scheme}://{nodes}{self.prefix}/{self.name}"


def is_address(text: str) -> bool:
    """Whether an index is named by an address in Elasticsearch rather than by its folder."""
    return text.partition("://")[0].lower() in {**_SCHEMES, **_DENSE} and "://" in text


def is_dense(text: str) -> bool:
    """Whether an address is one by which the vectors of an index are searched."""
    return text.partition("://")[0].strip().lower() in _DENSE


def address_and_model(text: str) -> tuple[Address, str | None]:
    """Read an address that may name a model, ``elasticsearch+dense://host:9200/name@model``; see `parse_address`."""
    scheme, found, rest = text.strip().partition("://")
    nodes, _, path = rest.partition("/")
    # What stands before an @ may be a password, but where hosts come first, and then the index.
    if is_dense(text) and _MODEL in path and all(_NODE.fullmatch(node.strip()) for node in nodes.split(",")):
        path, _, model = path.partition(_MODEL)
        if model:
            return parse_address(f"{scheme}{found}{nodes}/{path}"), model
    return parse_address(text), None


def dense_address(address: Address) -> str:
    """The address by which the vectors of an index are searched, in full."""
    return str(address).replace("elasticsearch", "elasticsearch+dense", 1)


def parse_address(text: str) -> Address:
    """Read an address; `InputError` where it is none, holds credentials, or no index can have such a name."""
    scheme, _, rest = text.strip().partition("://")
    _refuse_secrets(rest)
    if not is_address(text.strip()):
        raise InputError(
            f"{text!r} is not the address of an index in Elasticsearch: write {SHAPE}. An engine of your own is known "
            "once the module that registers it is imported"
        )
    nodes, _, path = rest.partition("/")
    prefix, _, name = path.strip("/").rpartition("/")
    if not name:
        raise InputError(f"{text!r} names no index: write {SHAPE}")
    _check_name(name)
    found = tuple(_node(node.strip(), text) for node in nodes.split(","))
    return Address({**_SCHEMES, **_DENSE}[scheme.lower()], found, f"/{prefix}" if prefix else "", name)


def index_address(url: str, name: str) -> str:
    """The address of an index from the URLs of its cluster, as other tools take them, with commas, and its name."""
    parts = [one.strip().rpartition("://") for one in url.split(",")]
    for _, _, rest in parts:
        _refuse_secrets(rest)
    named = [scheme.lower() for scheme, found, _ in parts if found]
    schemes = {one if one.startswith("elasticsearch") else f"elasticsearch+{one}" for one in named}
    if len(schemes) != 1 or not schemes <= set(_SCHEMES):
        raise InputError(f"{url!r} is not the URL of a cluster: write http://host:9200 or https://host:9200")
    paths = {rest.partition("/")[2].strip("/") for _, _, rest in parts}
    if len(paths) != 1:
        raise InputError(f"the nodes of {url!r} must have the same path")
    _check_name(name)
    nodes = ",".join(rest.partition("/")[0] for _, _, rest in parts)
    return str(parse_address(f"{schemes.pop()}://{'/'.join(filter(None, (nodes, *paths, name)))}"))


def _check_name(name: str) -> None:
    if not name or name != name.lower() or _NOT_IN_NAMES.search(name) or name[0] in "-_+.":
        raise InputError(
            f"{name!r} cannot be the name of an index in Elasticsearch: use small letters, digits, - and _, "
            "a letter or digit first"
        )
    if len(name.encode()) > _LONGEST_NAME:
        raise InputError(f"the name {name[:40]!r}… of the index is too long: {_LONGEST_NAME} bytes at most")


def _refuse_secrets(rest: str) -> None:
    """Refuse what may hold a password or a key; the message must not repeat it."""
    if "@" in rest or "?" in rest or "#" in rest:
        raise InputError(
            "the address of a cluster holds neither credentials nor options. Set ELASTICSEARCH_API_KEY, or "
            f"ELASTICSEARCH_USERNAME and ELASTICSEARCH_PASSWORD, in the environment, and write {SHAPE}"
        )


def _node(text: str, address: str) -> tuple[str, int]:
    found = _NODE.fullmatch(text)
    try:
        # A host cannot be asked for where a part of its name is empty or too long.
        usable = found is not None and found[1].encode("idna")
    except UnicodeError:
        usable = False
    if not found or not usable:
        raise InputError(f"{text!r} in {address!r} is not a host, or a host and its port")
    port = int(found[2] or PORT)
    if not 0 < port < 65536:
        raise InputError(f"there is no port {port}: see {address!r}")
    return found[1], port


def without_hosts(text: str, address: Address) -> str:
    """What a server says of an index, with ``<address>`` in the places of hosts, and without keys that it repeats.

    Messages are kept with the runs that failed: the address that a message names itself is recognised there by its
    ``scheme://``; a server's own words name nodes without one.
    """
    text = _SAID_NODE.sub(REPLACED, without_keys(text))
    for host in {host.strip("[]") for host, _ in address.nodes}:
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-]|\.\w)", REPLACED, text, flags=re.IGNORECASE)
    return _NAMES.sub("", text)
