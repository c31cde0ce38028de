"""Listening: where a server may be bound without a token, and how it stops."""

import asyncio
import ipaddress
import logging
import os
import secrets
import socket
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from keqa.errors import ConfigurationError, InputError
from keqa.server.guard import Guard
from keqa.server.limits import ServerLimits, log

_VARIABLE = "KEQA_TOKEN"
_SHORTEST, _LONGEST = 16, 1000
_IDLE = 400
"""So many connections may be open beside those with a question in work or waiting; more than are taken at a time."""
_FILES = 320
"""Open files that a server needs for everything else: its index, its language models, DSPy's cache for each thread."""
_FEWEST = 64


def token_for(host: str, file: Path | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The token that requests must carry; none is needed where only this machine reaches the server."""
    given, place = environment.get(_VARIABLE), _VARIABLE
    if file is not None:
        place = str(file)
        try:
            with file.open("rb") as stream:
                given = stream.read(_LONGEST + 3).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not ASCII text"
            raise InputError(f"the token in {file} cannot be read: {why}") from None
    if given is None:
        if is_local(host):
            return None
        raise ConfigurationError(
            f"other machines can reach {host}, so a token is needed: put one into a file and give --token-file, or set "
            f"{_VARIABLE}. One is made by: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    if not _SHORTEST <= len(given) <= _LONGEST or not given.isascii() or not given.isprintable() or " " in given:
        raise InputError(f"{place} holds no token: it has {_SHORTEST} to {_LONGEST} characters of ASCII and no space")
    return given


def new_token() -> str:
    """A token that nobody can guess, for one start of a server: other users of this machine can reach it, too."""
    return secrets.token_urlsafe(24)


def is_local(host: str) -> bool:
    """Whether only this machine can reach what is bound to a host."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


def listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "no such host"
        raise ConfigurationError(f"cannot listen on {host}:{port}: {why}; give another --host or --port") from None
    # Of a socket whose protocol is not named asyncio does not switch Nagle's algorithm off, and the body of an answer
    # then waits 40 ms for the client to acknowledge its head.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=made.detach())


def server(app: Guard, limits: ServerLimits, grace: int) -> uvicorn.Server:
    # A connection may have a document open, and as many again as are taken at a time are about to be closed.
    files = (_raised_files() - _FILES - 2 * BACKLOG) // 2
    most = min(limits.in_flight + limits.waiting + _IDLE, max(files, _FEWEST))
    config = uvicorn.Config(
        app,
        http=type("Bounded", (Connection,), {"patience": limits.patience, "most": most}),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        # Anybody may send these headers.
        proxy_headers=False,
        # Reached only where as many have a request in work.
        limit_concurrency=most + BACKLOG,
        backlog=BACKLOG,
        timeout_graceful_shutdown=grace,
    )
    return uvicorn.Server(config)


def _raised_files() -> int:
    """How many files this process may open, after the bound was raised as far as it may be."""
    try:
        import resource
    except ImportError:
        # Windows has no such bound.
        return sys.maxsize
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def bound_memory() -> None:
    """Let DSPy's cache hold some calls in memory; it keeps a million by default. Those on the disk stay as they are."""
    import dspy

    switched = {f"enable_{kind}_cache": getattr(dspy.cache, f"enable_{kind}_cache") for kind in ("disk", "memory")}
    dspy.configure_cache(**switched, memory_max_entries=2000)


def log_to_stderr() -> None:
    """Show the server's log, and which calls are made again, on standard error, with times."""
    handler: logging.StreamHandler[Any] = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    for one in (log, logging.getLogger("keqa.lms")):
        one.handlers, one.propagate = [handler], False
        one.setLevel(logging.INFO)


BACKLOG = 128
"""Connections that the system holds until they are taken; so many at most are taken at a time."""

_SLOWEST = 1000
"""Bytes that a client must read in a second while something is left to send."""


class Connection(H11Protocol):
    """HTTP/1.1 that waits for no client without an end."""

    patience = 10.0
    most = 100
    _due: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request; another connection is closed where there are too many."""
        super().connection_made(transport)
        # It is told of each byte that the client does not take.
        transport.set_write_buffer_limits(high=0)
        self._since = self.loop.time()
        self._due = self.loop.call_later(self.patience, transport.close)
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Take what has come; the head of a request has its time from here on."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            _stop(self._due)
            self._due = None
        elif self._due is None:
            self._due = self.loop.call_later(self.patience, self.transport.close)

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._since = self.loop.time()

    def pause_writing(self) -> None:
        """Begin to wait for a client that does not read."""
        super().pause_writing()
        self._since = self.loop.time()
        self._watch_reader()

    def resume_writing(self) -> None:
        """Go on: all was read."""
        _stop(self._unread)
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        _stop(self._due)
        _stop(self._unread)
        super().connection_lost(exc)

    def _watch_reader(self, before: int | None = None) -> None:
        """Give up a client that has read too little since it was last looked at."""
        left = self.transport.get_write_buffer_size()
        if before is not None and left > before - _SLOWEST * self.patience:
            self.transport.abort()
        else:
            self._unread = self.loop.call_later(self.patience, self._watch_reader, left)

    def _waits_for_client(self) -> bool:
        asking = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        return not asking or self.flow.write_paused

    def _make_room(self) -> None:
        """Close one where there are too many: that which waits, or this one where its address holds more than others.

        What an address has in work counts as well, so that it cannot take the places of those that have not asked yet.
        """
        if len(self.connections) <= self.most:
            return
        held = Counter(_address(cast("Any", one)) for one in self.connections)
        others = (cast("Any", one) for one in self.connections if one is not self)
        waiting = [one for one in others if one._waits_for_client()]
        if not waiting:
            return
        left = max(waiting, key=lambda one: (held[_address(one)], -one._since))
        if held[_address(self)] > held[_address(left)]:
            left = self
        self.connections.discard(left)
        left.transport.abort()


def _address(one: H11Protocol) -> str | None:
    return one.client and one.client[0]


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
