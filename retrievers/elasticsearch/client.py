"""The connection to a cluster, as the environment describes it, and its errors in words that say what to do.

No message repeats what a variable of the environment holds.
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
from typing import TYPE_CHECKING, Any

from keqa.errors import ConfigurationError, KeqaError, MissingExtraError, RetrievalError
from keqa.retrievers.elasticsearch.address import Address, without_hosts
from keqa.retrievers.text import one_line
from keqa.storage.replies import ReplyTooLargeError, Unpacker

if TYPE_CHECKING:
    from elasticsearch import ApiError, Elasticsearch, TransportError

API_KEY = "ELASTICSEARCH_API_KEY"
USERNAME = "ELASTICSEARCH_USERNAME"
PASSWORD = "ELASTICSEARCH_PASSWORD"
CA_CERTS = "ELASTICSEARCH_CA_CERTS"
FINGERPRINT = "ELASTICSEARCH_FINGERPRINT"
TIMEOUT = "ELASTICSEARCH_TIMEOUT"

_SECONDS = 30
_MOST_SECONDS = 3600
_MOST_BYTES = 64 << 20
"""Of an answer of a cluster, unpacked: a hundred long passages, or what became of thousands."""

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


def connect(address: Address) -> Elasticsearch:
    """Connect to a cluster and make sure that the client and the server understand each other.

    A cluster of which no node accepts a connection is refused within seconds; one that answers slowly, or fails later,
    is given the client's own patience.
    """
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
        raise _wrong_client(address, __version__, f"is version {version}", major)
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
    """The credentials as the client takes them."""
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
    """By what the certificate of a cluster is checked, as the client takes it."""
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
    """For how many seconds an answer is waited for."""
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

    try:
        yield
    except UnsupportedProductError as error:
        raise ConfigurationError(
            f"what answers at {address.cluster} is not Elasticsearch (OpenSearch and other forks are not supported)"
        ) from error
    except ApiError as error:
        raise _refused(address, what, error) from error
    except ReplyTooLargeError as error:
        raise RetrievalError(f"{what}: {address.cluster}: {error}") from error
    except TransportError as error:
        raise _unreached(address, what, error) from error


def may_pass(error: KeqaError) -> bool:
    """Whether what `server_errors` made of a failure may pass by itself, so that the same is worth asking again.

    A node that is busy or gone is; a missing index, refused credentials or a certificate that is not trusted is not.
    """
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
    """The error of an index that refuses to be written to."""
    return RetrievalError(
        f"the index {name} is read-only and cannot be written to: {text}. Elasticsearch sets such a block itself when "
        "a disk is nearly full; free space, or lift the block (index.blocks), and run the same again"
    )


def _refused(address: Address, what: str, error: ApiError) -> KeqaError:
    import elasticsearch

    text, status = problem(error.body, address) or without_hosts(str(error.message), address), error.status_code
    if "cluster_block_exception" in str(error.body) and status in (403, 429):
        return blocked(address.name, text)
    if status == 401 and (given := " and ".join(name for name in (API_KEY, USERNAME, PASSWORD) if _given(name))):
        return ConfigurationError(f"{address.cluster} does not accept the credentials in {given}")
    if status == 401:
        variables = f"{API_KEY}, or {USERNAME} and {PASSWORD}"
        return ConfigurationError(f"{address.cluster} asks for credentials: set {variables}, in the environment")
    if status == 403:
        return ConfigurationError(f"{what}: the credentials for {address.cluster} do not allow it ({text})")
    if status in (400, 406) and ("media_type_header" in str(error.body) or "compatible-with" in text):
        older = max(elasticsearch.__version__[0] - 1, 7)
        return _wrong_client(address, elasticsearch.__version__, "is older", older)
    if status == 404 and "no such index" in text:
        return RetrievalError(f"{what}: there is no such index at {address.cluster} ({text})")
    return RetrievalError(f"{what}: {address.cluster} answered {status} ({text})")


def _wrong_client(address: Address, client: tuple[int, ...], what: str, major: int) -> ConfigurationError:
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
