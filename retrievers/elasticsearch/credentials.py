"""Credentials, certificates and a timeout from the environment. No message repeats what a variable holds."""

from __future__ import annotations

import base64
import os
import re
from typing import Any

from keqa.errors import ConfigurationError
from keqa.retrievers.elasticsearch.address import Address

API_KEY = "ELASTICSEARCH_API_KEY"
USERNAME = "ELASTICSEARCH_USERNAME"
PASSWORD = "ELASTICSEARCH_PASSWORD"
CA_CERTS = "ELASTICSEARCH_CA_CERTS"
FINGERPRINT = "ELASTICSEARCH_FINGERPRINT"
TIMEOUT = "ELASTICSEARCH_TIMEOUT"

_SECONDS = 30
_MOST_SECONDS = 3600

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SHA256 = re.compile(r"[0-9A-Fa-f]{64}")


def credentials() -> dict[str, Any]:
    """Return the credentials as the client takes them.

    Raises:
        ConfigurationError: They contradict each other, or cannot be sent.
    """
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


def trust(address: Address) -> dict[str, Any]:
    """Return as the client takes it by what the certificate of a cluster is checked.

    Raises:
        ConfigurationError: It cannot be checked by what is given.
    """
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
    """Return for how many seconds an answer is waited for.

    Raises:
        ConfigurationError: The environment holds something else.
    """
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


def variables() -> str:
    """The variables that hold credentials, as messages name them; empty where none does."""
    return " and ".join(name for name in (API_KEY, USERNAME, PASSWORD) if _given(name))


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
