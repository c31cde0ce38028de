"""Where an index is, ``elasticsearch://host:port/name``, and the connection to it, as the environment describes it.

No error repeats what a variable of the environment holds, or names a server but as its address.
"""

from __future__ import annotations

import base64
import functools
import os
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keqa.errors import ConfigurationError, InputError, KeqaError, MissingExtraError, RetrievalError
from keqa.retrievers.text import one_line
from keqa.storage.redaction import HOST, REPLACED, without_keys
from keqa.storage.replies import ReplyTooLargeError, Unpacker

if TYPE_CHECKING:
    from elasticsearch import ApiError, Elasticsearch, TransportError

API_KEY = "ELASTICSEARCH_API_KEY"
USERNAME = "ELASTICSEARCH_USERNAME"
PASSWORD = "ELASTICSEARCH_PASSWORD"
CA_CERTS = "ELASTICSEARCH_CA_CERTS"
FINGERPRINT = "ELASTICSEARCH_FINGERPRINT"
TIMEOUT = "ELASTICSEARCH_TIMEOUT"

_SHAPE = "elasticsearch://host:9200/name, or elasticsearch+https://host:9200/name where the cluster speaks TLS"
_SCHEMES = {"elasticsearch": "http", "elasticsearch+http": "http", "elasticsearch+https": "https"}
_DENSE = {"elasticsearch+dense": "http", "elasticsearch+dense+https": "https"}
_PORT = 9200
_NODE = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::([0-9]{1,5}))?")
_NOT_IN_NAMES = re.compile(r'[\\/*?"<>|,#:\s]')
# The longest name that Elasticsearch takes, less what the names of single loads have behind it.
_LONGEST_NAME = 255 - 24

# Numbers of lines and shards follow a colon too: a host without a dot has a port of four digits or more behind it.
_NODE_NAMED = re.compile(rf"{HOST.pattern} | (?<![\w.-])[a-z][a-z0-9_-]*:\d{{4,5}}(?!\w)", HOST.flags)
# Elasticsearch writes [name][address], or {name}{id}…{address}; by default the name of a node is that of its host.
_NAMES = re.compile(rf"(?:\[[^\[\]]*\]|(?:\{{[^{{}}]*\}}){{1,20}})(?=[\[{{]{REPLACED})")

_SECONDS, _MOST_SECONDS = 30, 3600
# Of an answer of a cluster, unpacked: a hundred long passages, or what became of thousands.
_MOST_BYTES = 64 << 20
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SHA256 = re.compile(r"[0-9A-Fa-f]{64}")
_CONNECTION = re.compile(r"^HTTPS?Connection(?:Pool)?\([^)]*\): ")
# What OpenSSL says of an answer that is no TLS, in its versions.
_NO_TLS = ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "RECORD_LAYER")
_RETRIES = 4
_CONNECT_SECONDS = 3.0
_NOT_ASKED = "the cluster could not be asked for its version"
# Whoever answers so is busy, or stands before a node that is gone.
_PASSING = (429, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Address:
    """The scheme and the nodes of a cluster, the path before its indexes (``""`` or ``"/path"``), and a name."""

    scheme: str
    nodes: tuple[tuple[str, int], ...]
    prefix: str
    name: str
    # Whether its vectors are searched, and not its text; and the model of questions, where it is named behind an @.
    dense: bool = False
    model: str | None = None

    @property
    def urls(self) -> list[str]:
        return [f"{self.scheme}://{host}:{port}{self.prefix}" for host, port in self.nodes]

    @property
    def cluster(self) -> str:
        return ", ".join(self.urls)

    def __str__(self) -> str:
        nodes = ",".join(f"{host}:{port}" for host, port in self.nodes)
        scheme = f"elasticsearch{'+dense' * self.dense}{'+https' * (self.scheme == 'https')}"
        return f"{scheme}://{nodes}{self.prefix}/{self.name}"


def parse_address(text: str) -> Address:
    """Read an address; `InputError` where it is none, holds credentials, or no index can have such a name."""
    scheme, _, rest = text.strip().partition("://")
    nodes, _, path = rest.partition("/")
    known, model = {**_SCHEMES, **_DENSE}.get(scheme.lower()), None
    # What stands before an @ may be a password, but where hosts come first, and then the index.
    if scheme.lower() in _DENSE and all(_NODE.fullmatch(node.strip()) for node in nodes.split(",")):
        named, _, model = path.partition("@")
        path = named if model else path
    _refuse_secrets(f"{nodes}/{path}")
    if known is None:
        raise InputError(
            f"{text!r} is not the address of an index in Elasticsearch: write {_SHAPE}. An engine of your own is known "
            "once the module that registers it is imported"
        )
    prefix, _, name = path.strip("/").rpartition("/")
    if not name:
        raise InputError(f"{text!r} names no index: write {_SHAPE}")
    _check_name(name)
    found = tuple(_node(node.strip(), text) for node in nodes.split(","))
    return Address(known, found, f"/{prefix}" if prefix else "", name, scheme.lower() in _DENSE, model or None)


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
    if set("@?#") & set(rest):
        raise InputError(
            "the address of a cluster holds neither credentials nor options. Set ELASTICSEARCH_API_KEY, or "
            f"ELASTICSEARCH_USERNAME and ELASTICSEARCH_PASSWORD, in the environment, and write {_SHAPE}"
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
    port = int(found[2] or _PORT)
    if not 0 < port < 65536:
        raise InputError(f"there is no port {port}: see {address!r}")
    return found[1], port


def without_hosts(text: str, address: Address) -> str:
    """What a server says of an index, with ``<address>`` in the places of hosts, and without keys that it repeats."""
    text = _NODE_NAMED.sub(REPLACED, without_keys(text))
    for host in {host.strip("[]") for host, _ in address.nodes}:
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-]|\.\w)", REPLACED, text, flags=re.IGNORECASE)
    return _NAMES.sub("", text)


def connect(address: Address) -> Elasticsearch:
    """Connect to a cluster; one of which no node accepts a connection is refused within seconds."""
    try:
        from elasticsearch import AuthorizationException, Elasticsearch, __version__
    except ImportError as error:
        raise MissingExtraError("elasticsearch", f"The index {address}") from error
    client = Elasticsearch(
        address.urls,
        request_timeout=timeout(),
        node_class=_node_class(),
        # A node that is lost or slow is left out for a while and the request goes to another.
        max_retries=_RETRIES + len(address.nodes),
        retry_on_timeout=True,
        **_credentials(),
        **_trust(address),
    )
    with ThreadPoolExecutor(len(address.nodes)) as pool:
        problems = list(pool.map(_connection_problem, address.nodes))
    if all(problems):
        # The client would try several times over for each.
        raise _unreachable(address, _NOT_ASKED, "; ".join(dict.fromkeys(problems)))
    with server_errors(address, _NOT_ASKED):
        try:
            version = str(client.info()["version"]["number"])
        except AuthorizationException:
            # A key that may read an index need not be allowed to ask about the cluster.
            return client
    if (major := int(version.partition(".")[0])) not in (__version__[0], __version__[0] + 1):
        raise _wrong_client(address, f"is version {version}", major)
    return client


@functools.cache
def _node_class() -> Any:
    """The client's connection to a node, which counts what it unpacks."""
    from elastic_transport import Urllib3HttpNode

    class Node(Urllib3HttpNode):
        def __init__(self, *arguments: Any, **settings: Any) -> None:
            super().__init__(*arguments, **settings)
            pool: Any = self.pool
            send = pool.urlopen

            def urlopen(*arguments: Any, **settings: Any) -> Any:
                response = send(*arguments, **settings, preload_content=False)
                try:
                    unpacker = Unpacker(response.headers.get("content-encoding"), _MOST_BYTES)
                    parts = [unpacker.take(part) for part in response.stream(1 << 16, decode_content=False)]
                except BaseException:
                    response.close()
                    raise
                response._body = b"".join(parts)
                return response

            pool.urlopen = urlopen

    return Node


def _credentials() -> dict[str, Any]:
    key, user, password = _given(API_KEY), _given(USERNAME), _given(PASSWORD)
    if key and (user or password):
        raise ConfigurationError(f"set either {API_KEY}, or {USERNAME} and {PASSWORD}, not both")
    if bool(user) != bool(password):
        missing, given = (PASSWORD, USERNAME) if user else (USERNAME, PASSWORD)
        raise ConfigurationError(f"{given} is set and {missing} is not: Elasticsearch asks for both")
    if not key.isascii():
        raise ConfigurationError(f"{API_KEY} holds a character that no API key has: copy the key again")
    if key:
        identifier, found, secret = key.partition(":")
        return {"api_key": (identifier, secret) if found else key}
    # The client itself takes no letter beyond ASCII.
    return {"basic_auth": base64.b64encode(f"{user}:{password}".encode()).decode()} if user else {}


def _trust(address: Address) -> dict[str, Any]:
    if address.scheme == "http":
        return {}
    certificates, fingerprint = _given(CA_CERTS), _given(FINGERPRINT)
    # A text that is too long for a path, such as the certificate itself, is no file either.
    if certificates and not os.path.isfile(certificates):
        raise ConfigurationError(f"{CA_CERTS} names no file")
    if fingerprint and not _SHA256.fullmatch(fingerprint.replace(":", "")):
        raise ConfigurationError(
            f"{FINGERPRINT} holds no SHA-256 fingerprint: it has 64 hexadecimal digits, with or without colons between"
        )
    options = {"ca_certs": certificates, "ssl_assert_fingerprint": fingerprint}
    return {name: value for name, value in options.items() if value}


def timeout() -> float:
    try:
        seconds = float(_given(TIMEOUT) or _SECONDS)
    except ValueError:
        seconds = 0
    # Not a number is in no range either.
    if not 1 <= seconds <= _MOST_SECONDS:
        raise ConfigurationError(
            f"{TIMEOUT} must be a number of seconds from 1 to {_MOST_SECONDS}: for so long an answer is waited for"
        )
    return seconds


def _given(name: str) -> str:
    """What a variable holds, without the line end that a file adds; empty where it is not set."""
    value = os.environ.get(name, "").strip("\r\n")
    # A password may begin or end with a space.
    value = value if name == PASSWORD else value.strip()
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(f"{name} holds bytes that are no UTF-8: set it again") from None
    if _CONTROL.search(value):
        raise ConfigurationError(f"{name} holds a line end or another control character within: set it again")
    return value


def _connection_problem(node: tuple[str, int]) -> str:
    """Why a node accepts no connection; empty where it does."""
    try:
        socket.create_connection((node[0].strip("[]"), node[1]), timeout=_CONNECT_SECONDS).close()
    except TimeoutError:
        return f"no connection within {_CONNECT_SECONDS:g} seconds"
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


@contextmanager
def server_errors(address: Address, what: str) -> Iterator[None]:
    """Turn what the client raises into errors for the user; what failed is the beginning of a sentence."""
    from elasticsearch import ApiError, TransportError, UnsupportedProductError
    from elasticsearch.helpers import ScanError

    try:
        yield
    except UnsupportedProductError as error:
        raise ConfigurationError(
            f"what answers at {address.cluster} is not Elasticsearch (OpenSearch and other forks are not supported)"
        ) from error
    except ApiError as error:
        raise _refused(address, what, error) from error
    except (ReplyTooLargeError, ScanError) as error:
        raise RetrievalError(f"{what}: {address.cluster}: {error}") from error
    except TransportError as error:
        raise _unreached(address, what, error) from error


def may_pass(error: KeqaError) -> bool:
    """Whether the same is worth asking again: where a node is busy or gone, not where an index is missing."""
    from elastic_transport import ConnectionError, ConnectionTimeout, TlsError
    from elasticsearch import ApiError

    cause = error.__cause__
    if isinstance(cause, ApiError):
        return cause.status_code in _PASSING
    return isinstance(cause, ConnectionError | ConnectionTimeout) and not isinstance(cause, TlsError)


def problem(body: object, address: Address) -> str:
    """The reason in the body of an error, or in one answer of several, without hosts; empty where it has none."""
    found: Any = body.get("error", body) if isinstance(body, dict) else ""
    if isinstance(found, dict):
        parts = [part for part in (found, found.get("caused_by")) if isinstance(part, dict) and part.get("reason")]
        found = ": ".join(dict.fromkeys(str(part["reason"]) for part in parts)) or str(found.get("type", ""))
    return without_hosts(found, address) if isinstance(found, str) else ""


def blocked(name: str, text: str) -> RetrievalError:
    return RetrievalError(
        f"the index {name} is read-only and cannot be written to: {text}. Elasticsearch sets such a block itself when "
        "a disk is nearly full; free space, or lift the block (index.blocks), and run the same again"
    )


def _refused(address: Address, what: str, error: ApiError) -> KeqaError:
    import elasticsearch

    text, status = problem(error.body, address) or without_hosts(str(error.message), address), error.status_code
    body, cluster = str(error.body), address.cluster
    if "cluster_block_exception" in body and status in (403, 429):
        return blocked(address.name, text)
    if status == 401 and (given := " and ".join(name for name in (API_KEY, USERNAME, PASSWORD) if _given(name))):
        return ConfigurationError(f"{cluster} does not accept the credentials in {given}")
    if status == 401:
        variables = f"{API_KEY}, or {USERNAME} and {PASSWORD}"
        return ConfigurationError(f"{cluster} asks for credentials: set {variables}, in the environment")
    if status == 403:
        return ConfigurationError(f"{what}: the credentials for {cluster} do not allow it ({text})")
    if status in (400, 406) and ("media_type_header" in body or "compatible-with" in text):
        return _wrong_client(address, "is older", max(elasticsearch.__version__[0] - 1, 7))
    if status == 404 and "no such index" in text:
        return RetrievalError(f"{what}: there is no such index at {cluster} ({text})")
    return RetrievalError(f"{what}: {cluster} answered {status} ({text})")


def _wrong_client(address: Address, what: str, major: int) -> ConfigurationError:
    from elasticsearch import __version__ as client

    text = f"the server at {address.cluster} {what}, which the installed client {client[0]}.{client[1]} cannot talk to"
    if major < 8:
        return ConfigurationError(f"{text}: KEQA needs Elasticsearch 8 or newer")
    newer = f"pip install 'elasticsearch>={major},<{major + 1}'"
    return ConfigurationError(f"{text}. Install the client of its version: {newer}")


def _unreached(address: Address, what: str, error: TransportError) -> KeqaError:
    from elastic_transport import TlsError
    from elasticsearch import ConnectionTimeout, SerializationError

    # What went wrong, without the layers that it came through and what they were connected to.
    text = without_hosts(_CONNECTION.sub("", one_line(str(error.message))), address)
    text = text if len(text) <= 200 else f"{text[:197]}..."
    if isinstance(error, TlsError) and any(kind in str(error.message) for kind in _NO_TLS):
        return ConfigurationError(
            f"the server at {address.cluster} does not speak TLS ({text}): write elasticsearch:// in "
            "the place of elasticsearch+https://, or http:// of https://"
        )
    if isinstance(error, TlsError):
        return ConfigurationError(
            f"the certificate of {address.cluster} is not trusted: name the file of the authority that signed it in "
            f"{CA_CERTS}, or its SHA-256 fingerprint in {FINGERPRINT} ({text})"
        )
    if isinstance(error, SerializationError):
        return RetrievalError(f"{what}: what answers at {address.cluster} does not speak as Elasticsearch does")
    if isinstance(error, ConnectionTimeout):
        return RetrievalError(f"{what}: {address.cluster} did not answer in time")
    return _unreachable(address, what, text)


def _unreachable(address: Address, what: str, why: str) -> RetrievalError:
    hint = "" if address.scheme == "https" else "; where the cluster speaks TLS, write elasticsearch+https://"
    return RetrievalError(
        f"{what}: {address.cluster} cannot be reached ({why}). Check the address, its port, and that the server "
        f"runs{hint}"
    )
