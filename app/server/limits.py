"""How much one server takes on, and how fast one client may ask."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_CLIENTS = 10_000
"""So many addresses are remembered; the one that asked longest ago is forgotten first."""


@dataclass(frozen=True)
class Limits:
    """What bounds a server.

    Attributes:
        in_flight: Questions and searches in work at once.
        waiting: How many more may wait for their turn.
        timeout: Seconds that a question may take, its wait included.
        rate: Requests a minute from one address; 0: any number.
        max_body: Bytes of a request's body.
        patience: Seconds in which the head of a request must have arrived, and then its body.
    """

    in_flight: int = 8
    waiting: int = 64
    timeout: float = 300.0
    rate: int = 600
    max_body: int = 1_000_000
    patience: float = 10.0


class RateLimiter:
    """A bucket for each address, which holds a minute's requests and fills up steadily."""

    def __init__(self, rate: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str) -> float:
        """Count a request; the seconds to wait before one is within the rate. A network of IPv6 is one client."""
        if not self._rate:
            return 0.0
        client, now, each = _network(address), self._clock(), self._rate / 60
        left, then = self._buckets.pop(client, (float(self._rate), now))
        left = min(float(self._rate), left + (now - then) * each)
        allowed = left >= 1
        self._buckets[client] = (left - 1 if allowed else left, now)
        if len(self._buckets) > _CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) / each


def _network(address: str) -> str:
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ipaddress.ip_network((known, 64), strict=False)) if known.version == 6 else address
