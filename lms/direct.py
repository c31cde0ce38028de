"""Chat requests to a server of one's own that speaks OpenAI's interface, sent without LiteLLM on the way.

LiteLLM takes two thirds of the processor time of a call, for translations that such a request does not need. What it
would translate, count or log goes through it as before, and it reads every reply and every error, so that both are
the same either way. The client is aiohttp: a request takes it 0.2 ms of processor time, the openai library 2.7, or 1.9
where its answer is not parsed (over aiohttp 0.7), beside the 2.6 ms that a whole call of KEQA's takes.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Set
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dspy.utils.exceptions import LMServerError, LMTimeoutError, LMTransportError

from keqa.lms.faults import UNREADABLE
from keqa.lms.loops import Listener, questions, requests
from keqa.storage.replies import ReplyTooLargeError, Unpacker, quiet_litellm

if TYPE_CHECKING:
    import aiohttp

# What is sent as it is given.
_SENT = frozenset(
    "messages temperature max_tokens top_p n stop seed logprobs top_logprobs presence_penalty frequency_penalty".split()
)
# What is not sent, or says where to.
_KEPT = frozenset("model api_base api_key timeout rollout_id litellm_trace_id additional_drop_params cache".split())
PROVIDERS = ("openai", "hosted_vllm")
"""Whose models a server of one's own may have."""
# Who sets one of these wants LiteLLM to see each call or to change it, or to connect in a way of its own.
_HOOKS = (
    "callbacks success_callback failure_callback input_callback headers organization cache drop_params modify_params "
    "aclient_session ssl_certificate ssl_security_level"
).split()
_VARIABLES = (
    "OPENAI_ORGANIZATION OPENAI_ORG_ID OPENAI_PROJECT_ID SSL_VERIFY SSL_CERTIFICATE SSL_SECURITY_LEVEL "
    "LITELLM_DROP_PARAMS LITELLM_MODIFY_PARAMS"
).split()
_KEPT_OPEN = 4.0
"""Seconds that an idle connection is kept; the servers of vLLM and others close theirs after five."""
_clients: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}
_inherited: list[Any] = []


def known_as(model: str, api_base: str | None = None) -> tuple[str, str, str | None] | None:
    """Name, provider and usual address of a model as LiteLLM knows them; None of a string that it does not know."""
    try:
        name, provider, _, address = quiet_litellm().get_llm_provider(model, api_base=api_base)
    except Exception:
        # LiteLLM raises errors of its own without a common base.
        return None
    return name, str(provider), address


def is_direct(request: Mapping[str, Any]) -> bool:
    # Nobody has set anything in a library that is not there yet.
    litellm = sys.modules.get("litellm")
    return (
        request.keys() <= _SENT | _KEPT
        and _is_own(request["model"], request.get("api_base"))
        and request.get("additional_drop_params") is None
        and getattr(litellm, "ssl_verify", True) is True
        and not any(getattr(litellm, name, None) for name in _HOOKS)
        and not any(map(os.environ.get, _VARIABLES))
    )


def is_plain(model: str) -> bool:
    """Whether a model is one of which LiteLLM knows nothing but its provider: neither prices nor oddities."""
    provider, _, name = model.partition("/")
    return provider in PROVIDERS and bool(name) and not {name, model} & _priced()


def _is_own(model: str, api_base: str | None) -> bool:
    parts = urlsplit(api_base or "")
    asked = parts.query or parts.fragment or parts.path.rstrip("/").endswith("/completions")
    return bool(api_base) and is_plain(model) and not asked


def _priced() -> Set[str]:
    """The models that LiteLLM has a price of; read from its file as long as it is not imported, which takes seconds."""
    local = os.environ.get("LITELLM_LOCAL_MODEL_COST_MAP", "True").lower() == "true"
    if local and getattr(sys.modules.get("litellm"), "model_cost", None) is None:
        return _packaged()
    import litellm

    found: Set[str] = litellm.model_cost.keys()
    return found


@functools.cache
def _packaged() -> Set[str]:
    spec = find_spec("litellm")
    folder = Path((spec.submodule_search_locations or [""])[0]) if spec is not None else Path()
    found: Set[str] = json.loads((folder / "model_prices_and_context_window_backup.json").read_bytes()).keys()
    return found


@asynccontextmanager
async def within_time(limit: object, model: str) -> AsyncIterator[None]:
    """Bounds the seconds until a reply is whole, where they have a limit."""
    clock = asyncio.timeout(limit if isinstance(limit, int | float) else None)
    try:
        async with clock:
            yield
    except TimeoutError as error:
        if not clock.expired():
            raise
        raise LMTimeoutError(f"no whole reply within {limit:g} seconds", model=model) from error


async def complete(request: Mapping[str, Any], listener: Listener | None = None) -> Any:
    """Send a request, and read the reply as LiteLLM does; who listens hears it while it is written."""
    import aiohttp

    # Its import takes seconds, in which the server may answer.
    loading = asyncio.get_running_loop().run_in_executor(None, _converter)
    model = request["model"]
    body = {name: value for name, value in request.items() if name in _SENT and value is not None}
    provider, _, body["model"] = model.partition("/")
    if listener is not None:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        listener(None)
    key = request.get("api_key") or os.environ.get(f"{provider.upper()}_API_KEY")
    sending: dict[str, Any] = {"json": body, "headers": {"Authorization": f"Bearer {key}"} if key else None}
    url = f"{request['api_base'].rstrip('/')}/chat/completions"
    # What LiteLLM's import takes longer is not the server's.
    timed = within_time(request.get("timeout"), model)
    try:
        async with timed, _client() as client, client.post(url, **sending, allow_redirects=False) as response:
            status = response.status
            sent, written = await _received(response, listener)
    except ReplyTooLargeError as error:
        raise LMServerError(str(error), model=model, status=200, provider_code=UNREADABLE) from error
    except (aiohttp.ClientError, OSError) as error:
        raise LMTransportError(f"{type(error).__name__}: {error}", model=model, provider=provider) from error
    if listener is not None and status in (400, 422):
        # A server that streams nothing, or knows no usage in a stream.
        return await complete(request)
    body_sent = _read(sent) if written is None else written.reply()
    if body_sent is None and written is not None:
        raise LMTransportError("the stream ended before the reply", model=model, provider=provider)
    if status != 200:
        await loading
        raise _refused(status, sent, body_sent, response.headers, model)
    if not isinstance(body_sent, dict):
        text = "the server answered with what is no reply"
        raise LMServerError(text, model=model, status=200, provider_code=UNREADABLE)
    return (await loading)(body_sent)


@functools.cache
def _converter() -> Callable[[Any], Any]:
    litellm = quiet_litellm()
    from litellm.litellm_core_utils.llm_response_utils.convert_dict_to_response import convert_to_model_response_object

    return lambda reply: convert_to_model_response_object(
        response_object=reply, model_response_object=litellm.ModelResponse()
    )


async def _received(response: Any, listener: Listener | None) -> tuple[bytes, _StreamedReply | None]:
    """All that is sent; where somebody listens, and the reply comes as events, what they are put together to."""
    unpacker, parts, written = Unpacker(response.headers.get("Content-Encoding")), [], None
    if listener is not None and response.status == 200 and response.content_type == "text/event-stream":
        written = _StreamedReply(listener)
    async for part in response.content.iter_any():
        unpacked = unpacker.take(part)
        if written is None:
            parts.append(unpacked)
        else:
            written.take(unpacked)
    return b"".join(parts), written


class _StreamedReply:
    """A reply that comes as events, which are put together to what the server would have sent whole."""

    def __init__(self, listener: Listener) -> None:
        self._listener, self._rest, self._texts = listener, b"", dict[str, list[str]]()
        self._about: dict[str, Any] = {}
        self._reason: str | None = None

    def take(self, part: bytes) -> None:
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            if line.startswith(b"data:") and isinstance(event := _read(line[5:]), dict):
                self._hear(event)
            elif self._texts and line.replace(b" ", b"").strip() == b"data:[DONE]":
                # Not every server gives a reason; a whole reply without one has stopped, too.
                self._reason = self._reason or "stop"

    def _hear(self, event: dict[str, Any]) -> None:
        self._about |= {name: value for name, value in event.items() if value is not None and name != "choices"}
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        self._reason = choice.get("finish_reason") or self._reason
        delta = choice.get("delta")
        for name in ("content", "reasoning_content"):
            if isinstance(delta, dict) and isinstance(text := delta.get(name), str) and text:
                self._texts.setdefault(name, []).append(text)
                if name == "content":
                    self._listener(text)

    def reply(self) -> dict[str, Any] | None:
        """The reply; None where it is not whole."""
        if "error" in self._about:
            return self._about
        if self._reason is None:
            return None
        texts = {name: "".join(texts) for name, texts in {"content": [], **self._texts}.items()}
        choice = {"index": 0, "message": {"role": "assistant", **texts}, "finish_reason": self._reason}
        return {**self._about, "object": "chat.completion", "choices": [choice]}


def _read(sent: bytes) -> Any:
    """The JSON that a server sent; None where it is none."""
    try:
        return json.loads(sent)
    except (ValueError, RecursionError):
        return None


def _refused(status: int, sent: bytes, body: Any, headers: Mapping[str, str], model: str) -> Exception:
    """What LiteLLM makes of a refusal that its client meets; it chooses the class by status, code and words."""
    import litellm
    from litellm.llms.openai.common_utils import OpenAIError

    provider, _, name = model.partition("/")
    error: Exception = OpenAIError(
        status_code=status,
        message=f"Error code: {status} - {sent.decode(errors='replace') if body is None else body}",
        headers={name.lower(): value for name, value in headers.items()},
        body=body.get("error", body) if isinstance(body, dict) else body,
    )
    try:
        litellm.exception_type(model=name, original_exception=error, custom_llm_provider=provider)
    except Exception as raised:
        raised.__cause__ = error
        return raised
    return error


@asynccontextmanager
async def _client() -> AsyncIterator[aiohttp.ClientSession]:
    """The connections of the running event loop; in one that is run for a single call, some that end with it."""
    loop = asyncio.get_running_loop()
    if loop in _clients:
        yield _clients[loop]
    elif questions.is_here() or requests.is_here():
        if not _clients:
            atexit.register(_close)
        _clients[loop] = _opened()
        yield _clients[loop]
    else:
        async with _opened() as client:
            yield client


def _opened() -> aiohttp.ClientSession:
    """Connections that trust whom httpx trusts; the time of a call is limited where it is awaited."""
    import aiohttp
    import dspy
    import httpx

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT_OPEN, ssl=httpx.create_ssl_context()),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        headers={"User-Agent": f"DSPy/{dspy.__version__}", "Accept-Encoding": "gzip, deflate"},
        # What is unpacked is counted.
        auto_decompress=False,
        json_serialize=partial(json.dumps, ensure_ascii=False),
        trust_env=True,
    )


def _close() -> None:
    for loop, client in _clients.items():
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(client.close(), loop).result(1)


def _inherit() -> None:
    """A forked process has its parent's connections, which are not its to close."""
    _inherited.extend(_clients.values())
    _clients.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_inherit)
