"""How much a server's reply may hold: it is counted as it is unpacked, and reading ends where it is too much.

A few kilobytes of gzip unpack to gigabytes, and clients of HTTP have no bound; and LiteLLM's follow redirects, though a
question is for the server that the user named alone. It has no setting for either, and a client of one's own would be
shared by all event loops. So the transports of its clients are wrapped, for the requests of KEQA and no others.
"""

import functools
import os
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

MOST = 8 << 20
"""Bytes that a reply of a language model may have, unpacked."""

_bounded: ContextVar[bool] = ContextVar("bounded", default=False)


class ReplyTooLargeError(ValueError):
    """A server sends more than any reply has, or in a form in which that cannot be counted."""


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what it came from, the innermost last."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def is_of_httpx(error: BaseException, *names: str) -> bool:
    """Whether an error is of these classes of httpx, or of that which OpenAI's client has since its version 3."""
    return any(one.__name__ in names and one.__module__ in ("httpx", "httpx2") for one in type(error).__mro__)


def too_large(error: BaseException) -> ReplyTooLargeError | None:
    """What an error of a client came from, where a reply was too large."""
    return next((one for one in chain(error) if isinstance(one, ReplyTooLargeError)), None)


class Unpacker:
    """Unpacks what comes in the encoding of a reply's header, and counts it."""

    def __init__(self, encoding: str | None, most: int = MOST) -> None:
        self._most = self._left = most
        named = (encoding or "identity").strip().lower()
        if named not in ("identity", "gzip", "x-gzip", "deflate"):
            raise ReplyTooLargeError("the server's reply is compressed in a way that was not asked for")
        self._unpack = None if named == "identity" else zlib.decompressobj(zlib.MAX_WBITS | 32)

    def take(self, data: bytes) -> bytes:
        if data and self._unpack is not None and self._unpack.eof:
            # What follows has no end that is counted, and would be kept.
            raise ReplyTooLargeError("the server sends more behind the end of its compressed reply")
        try:
            found = data if self._unpack is None else self._unpack.decompress(data, self._left + 1)
        except zlib.error as error:
            raise ReplyTooLargeError("the server's reply is compressed, and damaged") from error
        self._left -= len(found)
        if self._left < 0:
            raise ReplyTooLargeError(f"the server's reply has more than {self._most >> 20} MB, the most that is read")
        return found


@contextmanager
def bounded() -> Iterator[None]:
    """Bound the replies to the requests that clients of LiteLLM make within, and follow none to another server."""
    token = _bounded.set(True)
    try:
        yield
    finally:
        _bounded.reset(token)


class _UnpackedReply:
    """A reply's parts, unpacked."""

    def __init__(self, stream: Any, encoding: str | None) -> None:
        self._stream, self._take = stream, Unpacker(encoding).take

    def __iter__(self) -> Iterator[bytes]:
        return map(self._take, self._stream)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield self._take(part)

    def close(self) -> None:
        self._stream.close()

    async def aclose(self) -> None:
        await self._stream.aclose()


@functools.cache
def _unpacking(kind: type) -> type[_UnpackedReply]:
    """As the httpx has them whose streams are of a kind: that of OpenAI's client is another one since its version 3."""
    streams = [one for one in kind.__mro__ if one.__name__ in ("SyncByteStream", "AsyncByteStream")]
    return type("UnpackedReply", (_UnpackedReply, *streams), {})


def _asking(request: Any) -> Any:
    if _bounded.get():
        request.headers["Accept-Encoding"] = "gzip, deflate"
    return request


def _answered(response: Any) -> Any:
    if _bounded.get():
        # Without its place a redirect is for httpx what it is: no reply.
        response.headers.pop("location", None)
        kind: Any = type(response.stream)
        response.stream = _unpacking(kind)(response.stream, response.headers.pop("content-encoding", None))
    return response


def _wrap(transport: Any) -> None:
    if hasattr(transport, "handle_async_request"):
        send = transport.handle_async_request

        async def send_async(request: Any) -> Any:
            return _answered(await send(_asking(request)))

        transport.handle_async_request = send_async
    else:
        send_now = transport.handle_request
        transport.handle_request = lambda request: _answered(send_now(_asking(request)))


def bound_client(client: Any) -> Any:
    """Wrap the transports of a client of httpx; see `bounded`."""
    for transport in filter(None, () if client is None else (client._transport, *client._mounts.values())):
        _wrap(transport)
    return client


def _wrapping(make: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, **settings: bound_client(make(*arguments, **settings))


def quiet_litellm() -> Any:
    """LiteLLM, which would otherwise fetch a price list at import and print advice at errors."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    litellm.suppress_debug_info = True
    _bound_litellm()
    return litellm


@functools.cache
def _bound_litellm() -> None:
    """Wrap the transports of the clients that LiteLLM makes from now on; see `bounded`."""
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler, HTTPHandler
    from litellm.llms.openai.common_utils import BaseOpenAILLM

    for name in ("_get_async_http_client", "_get_sync_http_client"):
        setattr(BaseOpenAILLM, name, staticmethod(_wrapping(getattr(BaseOpenAILLM, name))))
    for handler in (AsyncHTTPHandler, HTTPHandler):
        handler.create_client = _wrapping(handler.create_client)
