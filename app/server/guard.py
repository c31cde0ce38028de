"""What stands before every route, as an ASGI application: who may ask, from where, how much and how fast.

A request reaches the application behind it whole, and its work is cancelled as soon as the client is gone.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import math
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keqa.server.limits import FAULT, Metrics, ProblemError, RateLimiter, ServerLimits, log, log_fault

OPEN = "/health"
"""Where anybody learns that the server is there, without a token."""

PAGE = "/"
"""The page, which asks for the token and sends it with each question; by itself it shows nothing of the index."""

_FIELDS = 8
_METHODS = ("GET", "HEAD", "POST", "DELETE", "OPTIONS")
_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
# What is left of a body that is not read would be taken for the next request.
_CLOSE = {"Connection": "close"}


class Guard:
    """Lets requests through to an application, or answers them itself.

    A browser asks for any page that it is shown, so a page of someone else could ask a server on this machine. Three
    checks stop it: the name in ``Host`` must be one of this server's (a name of someone else's that resolves to this
    machine is none), an ``Origin`` must be the server itself, and no answer carries a header that lets another page
    read it.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: ServerLimits,
        metrics: Metrics,
        *,
        paths: Iterable[str],
        token: str | None = None,
        hosts: Iterable[str] = (),
        opened: str = "",
        larger: Mapping[str, int] | None = None,
    ) -> None:
        # An address, ``localhost`` and the machine's own name reach it as well as the names in ``hosts``. What lies
        # below `opened` may be read by a link with a ticket, too. Some paths take larger bodies.
        self._app, self._limits, self._metrics = app, limits, metrics
        self._paths = frozenset(paths)
        self._digest = None if token is None else _digest(token.encode())
        self._opened, self._larger = opened, larger or {}
        self._hosts = frozenset(map(str.lower, ("localhost", socket.gethostname(), *hosts)))
        self._rate = RateLimiter(limits.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        reply = _Reply(send)
        try:
            self._check(scope)
            body = await self._body(scope, receive)
            await self._until_gone(scope, body, receive, reply)
        except ProblemError as error:
            await reply.refuse(scope, receive, error)
        except ClientDisconnect:
            pass
        except Exception as fault:
            # The application raises again what it has answered and logged.
            if reply.complete:
                return
            log_fault(fault)
            await reply.refuse(scope, receive, FAULT)
        finally:
            seconds = time.perf_counter() - started
            path = scope["path"] if scope["path"] in self._paths else "other"
            method = scope["method"] if scope["method"] in _METHODS else "other"
            # As nginx has it, for a client that went away before it had an answer.
            status = reply.status if reply.complete else 499
            self._metrics.requests.labels(method, path, str(status)).inc()
            self._metrics.latency.labels(path).observe(seconds)
            log.info("%s %s %d %.3fs", method, path, status, seconds)

    def _check(self, scope: Scope) -> None:
        """Refuse what may not ask; what is refused counts, too."""
        client = scope.get("client")
        pause = self._rate.take(client[0] if client else "")
        if pause:
            later = {"Retry-After": str(math.ceil(pause))}
            message = f"more than {self._limits.rate} requests a minute from one address"
            raise ProblemError(429, message, "requests", "rate_limit_exceeded", headers=later)
        headers = Request(scope).headers
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_own(hosts[0]):
            message = "the server is not reached by this name: give it with --allow-host where it is its own"
            raise ProblemError(421, message, code="unknown_host")
        pages = [_place(origin) != hosts[0].lower() for origin in headers.getlist("origin")]
        sites = [site not in ("same-origin", "none") for site in headers.getlist("sec-fetch-site")]
        # Somebody may follow a link to the page or to a document, from anywhere.
        led = self._has_ticket(scope)
        follows = (scope["path"] == PAGE or led) and headers.getlist("sec-fetch-mode") == ["navigate"] and not pages
        if any(pages) or (any(sites) and not follows):
            raise ProblemError(403, "no page of another site may ask this server", code="cross_site")
        secured = self._digest is not None and scope["path"] not in (OPEN, PAGE)
        if secured and not led and not self._knows(headers.getlist("authorization")):
            # LiteLLM takes it for a wrong key by OpenAI's first words alone.
            message = (
                "Incorrect API key provided, or none: send the token of this server (Authorization: Bearer TOKEN); the "
                "page has it where it is opened at the address that the command printed"
            )
            raise ProblemError(401, message, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})

    def ticket(self, path: str) -> str:
        """What a link to a document carries, which a browser sends without a header: good for that document alone."""
        return "" if self._digest is None else hmac.new(self._digest, path.encode(), hashlib.sha256).hexdigest()

    def _has_ticket(self, scope: Scope) -> bool:
        path, query = scope["path"], scope.get("query_string", b"").decode("latin-1")
        if not self._opened or not path.startswith(self._opened) or scope["method"] not in ("GET", "HEAD"):
            return False
        given = parse_qs(query, max_num_fields=_FIELDS).get("ticket", []) if query.count("&") < _FIELDS else []
        return self._digest is None or (
            len(given) == 1 and hmac.compare_digest(given[0].encode(), self.ticket(path).encode())
        )

    def _is_own(self, host: str) -> bool:
        try:
            parts = urlsplit(f"//{host}")
            name = parts.hostname or ""
            # A port that is none raises.
            strange = parts.port == 0 or "@" in host or parts.path or parts.query or parts.fragment
        except ValueError:
            return False
        return not strange and (_is_address(name) or name.lower() in self._hosts)

    def _knows(self, given: list[str]) -> bool:
        """Whether the token is given; the comparison takes as long wherever they differ."""
        scheme, _, token = (given[0] if len(given) == 1 else "").partition(" ")
        same = hmac.compare_digest(_digest(token.strip().encode("latin-1")), self._digest or b"")
        return same and scheme.lower() == "bearer"

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        most = self._larger.get(scope["path"], self._limits.max_body)
        too_large = ProblemError(413, f"the body may have {most:,} bytes", code="body_too_large", headers=_CLOSE)
        for name, value in scope["headers"]:
            if name.lower() == b"content-length" and value.isdigit() and int(value[:20]) > most:
                raise too_large
        # A document, which is larger, may take longer.
        body, patience = bytearray(), self._limits.patience * max(1.0, most / self._limits.max_body)
        try:
            async with asyncio.timeout(patience):
                async for part in Request(scope, receive).stream():
                    body += part
                    if len(body) > most:
                        raise too_large
                return bytes(body)
        except TimeoutError:
            message = f"the body did not arrive within {patience:g} seconds"
            raise ProblemError(408, message, code="body_too_slow", headers=_CLOSE) from None

    async def _until_gone(self, scope: Scope, body: bytes, receive: Receive, reply: "_Reply") -> None:
        """Run the application on a request until it has answered, or the client has gone."""
        unread = [body]

        async def leave() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        async def whole() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            await asyncio.wait([leaving])
            return {"type": "http.disconnect"}

        leaving, answering = asyncio.create_task(leave()), asyncio.ensure_future(self._app(scope, whole, reply.send))
        try:
            await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
            # A server also says that the client is gone when the answer is complete.
            left = not answering.done() and not reply.complete
            if left:
                answering.cancel()
            await asyncio.wait([answering])
        finally:
            leaving.cancel()
            answering.cancel()
        if answering.cancelled():
            raise ClientDisconnect
        if not left:
            answering.result()


class _Reply:
    def __init__(self, send: Send) -> None:
        self._send, self.status, self.complete = send, 0, False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self.complete = True
        await self._send(message)

    async def refuse(self, scope: Scope, receive: Receive, problem: ProblemError) -> None:
        """Answer with a problem, unless an answer has begun."""
        if not self.status:
            await JSONResponse(problem.body, problem.status, problem.headers)(scope, receive, self.send)


def _is_address(name: str) -> bool:
    with suppress(ValueError):
        return bool(ipaddress.ip_address(name))
    return False


def _place(origin: str) -> str:
    # A bracket may lack its end.
    with suppress(ValueError):
        return urlsplit(origin).netloc.lower()
    return ""


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()
