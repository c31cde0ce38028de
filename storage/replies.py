"""How much a server's reply may hold: it is counted as it is unpacked, and reading ends where it is too much.

A few kilobytes of gzip unpack to gigabytes, and clients of HTTP have no bound. Those that KEQA uses are given one where
they are made; it holds for the requests of KEQA, and for no others that share LiteLLM with them.
"""

from __future__ import annotations

import functools
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


def too_large(error: BaseException | None) -> ReplyTooLargeError | None:
    """What an error of a client came from, where a reply was too large."""
    for _ in range(50):
        if error is None or isinstance(error, ReplyTooLargeError):
            break
        error = error.__cause__ or error.__context__
    return error if isinstance(error, ReplyTooLargeError) else None


class Unpacker:
    """Unpacks what comes, and counts it."""

    def __init__(self, encoding: str | None, most: int = MOST) -> None:
        """Begin a reply."""
        self._most = self._left = most
        named = (encoding or "identity").strip().lower()
        if named not in ("identity", "gzip", "x-gzip", "deflate"):
            raise ReplyTooLargeError("the server's reply is compressed in a way that was not asked for")
        self._unpack = None if named == "identity" else zlib.decompressobj(zlib.MAX_WBITS | 32)

    def take(self, data: bytes) -> bytes:
        """What a part holds."""
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
    """Bound the replies to the requests that are made within, by clients of LiteLLM."""
    token = _bounded.set(True)
    try:
        yield
    finally:
        _bounded.reset(token)


@functools.cache
def bound_litellm() -> None:
    """Let the clients that LiteLLM makes from now on count what they unpack, where that is `bounded`."""
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler, HTTPHandler
    from litellm.llms.openai.common_utils import BaseOpenAILLM

    def counting(make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*arguments: Any, **settings: Any) -> Any:
            client = make(*arguments, **settings)
            for transport in () if client is None else (client._transport, *client._mounts.values()):
                if transport is not None:
                    _count(transport)
            return client

        return made

    BaseOpenAILLM._get_async_http_client = staticmethod(counting(BaseOpenAILLM._get_async_http_client))
    BaseOpenAILLM._get_sync_http_client = staticmethod(counting(BaseOpenAILLM._get_sync_http_client))
    for handler in (AsyncHTTPHandler, HTTPHandler):
        handler.create_client = counting(handler.create_client)


def _count(transport: Any) -> None:
    """Have a transport of httpx give unpacked replies."""
    is_async = hasattr(transport, "handle_async_request")
    name = "handle_async_request" if is_async else "handle_request"
    send = getattr(transport, name)

    def prepared(request: Any) -> Any:
        if _bounded.get():
            request.headers["Accept-Encoding"] = "gzip, deflate"
        return request

    def unpacked(response: Any) -> Any:
        if _bounded.get():
            unpacker = Unpacker(response.headers.pop("content-encoding", None))
            response.stream = _unpacked_stream()(response.stream, unpacker)
        return response

    async def send_async(request: Any) -> Any:
        return unpacked(await send(prepared(request)))

    setattr(transport, name, send_async if is_async else lambda request: unpacked(send(prepared(request))))


@functools.cache
def _unpacked_stream() -> Any:
    """The class of a reply's parts, as httpx has them."""
    from httpx import AsyncByteStream, SyncByteStream

    class Unpacked(AsyncByteStream, SyncByteStream):
        def __init__(self, stream: Any, unpacker: Unpacker) -> None:
            self._stream, self._take = stream, unpacker.take

        def __iter__(self) -> Iterator[bytes]:
            return map(self._take, self._stream)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for part in self._stream:
                yield self._take(part)

        def close(self) -> None:
            self._stream.close()

        async def aclose(self) -> None:
            await self._stream.aclose()

    return Unpacked
