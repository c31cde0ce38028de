"""Connections of the web server: how many stay open, and how long one may let the server wait.

Whoever holds connections open without asking anything keeps nobody else away: where there are as many as the server
keeps, the one that a client has left waiting longest is closed for the next, of the address that has most of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

BACKLOG = 128
"""Connections that the system holds until they are taken; so many at most are taken at a time."""

_SLOWEST = 1000
"""Bytes that a client must read in a second while something is left to send."""


class Connection(H11Protocol):
    """HTTP/1.1 that waits for no client without an end.

    Attributes:
        patience: Seconds in which the head of a request must arrive, from the first byte or on a new connection from
            its beginning, and after which a client that reads too slowly is given up.
        most: Connections that are kept, but for those with a request in work.
    """

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
        """Wait for nothing more."""
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
