"""Models behind a server, through LiteLLM: provider, address and key are checked before any work starts."""

import asyncio
import functools
import hashlib
import logging
import os
import weakref
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import dspy
from dspy.clients import execution
from dspy.clients.call_result import CallResult
from dspy.clients.engines.litellm_errors import litellm_errors
from dspy.clients.errors import error_boundary
from dspy.utils.callback import with_callbacks
from dspy.utils.exceptions import LMConfigurationError, LMError, LMUnsupportedFeatureError

from keqa.errors import ConfigurationError
from keqa.lms.direct import PROVIDERS, complete, is_direct, is_plain, known_as, within_time
from keqa.lms.faults import VOID, check_reply, hide_echoes, is_tried_again, known
from keqa.lms.loops import Listener, questions, requests, streams_here, who_listens
from keqa.storage.replies import bounded, quiet_litellm

EXAMPLES = (
    "openai/gpt-4o-mini, anthropic/claude-haiku-4-5, ollama_chat/qwen3 (Ollama on this host), "
    "hosted_vllm/<served name> with an api_base such as http://127.0.0.1:8000/v1, transformers/<folder>, "
    "local/smollm2, keqa/tiny"
)
KEYLESS = "no-key-needed"
_log = logging.getLogger("keqa.lms")
_TOKENS = 1024
"""So many tokens a reply may have, thoughts included, where nobody says how many."""
_MORE_TOKENS = 4096
"""So many, where one with fewer was cut off, unless the server refuses them."""
_SHORT_REPLIES = 2
"""After so many requests in succession that brought fewer replies than asked for, a server ignores ``n``."""


class _SharedCount:
    """A number that copies of a language model share."""

    number = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> "_SharedCount":
        return self


class ServedLM(dspy.LM):
    """`dspy.LM` through LiteLLM, whose saved state holds neither addresses nor headers, so no secret in them.

    ``timeout`` is the time of one attempt until its reply is whole, however slowly a server sends it. An attempt that
    fails for a reason that may pass is made again, ``num_retries`` times: after the seconds that the server asks for
    (Retry-After, up to `keqa.lms.faults.LONGEST_WAIT`), or else after 1, 2, 4 and so on. Each attempt is reported to
    the usage tracker, as a request that went out.
    """

    def __init__(self, model: str, *arguments: Any, num_retries: int = 3, **kwargs: Any) -> None:
        # Attempts are made and counted here, and not by DSPy as well.
        super().__init__(model, *arguments, num_retries=0, **kwargs)
        self.retries = num_retries
        # How many requests brought too few replies, which copies share.
        self._short = _SharedCount()

    @property
    def ignores_n(self) -> bool:
        """Whether the server was seen to give fewer replies than a request asked for."""
        return self._short.number >= _SHORT_REPLIES

    def __call__(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        if streams_here():
            quiet_litellm()
            with bounded():
                return super().__call__(prompt, messages=messages, **kwargs)
        return requests.run(lambda: self._ask(prompt, messages, kwargs))

    async def acall(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        if streams_here():
            quiet_litellm()
            with bounded():
                return await super().acall(prompt, messages=messages, **kwargs)
        if questions.is_here() and self._is_direct(prompt, messages, kwargs):
            return await self._ask(prompt, messages, kwargs)
        # A loop that may end soon has no connections of its own.
        return await requests.awaited(lambda: self._ask(prompt, messages, kwargs))

    def _is_direct(self, prompt: Any, messages: Any, kwargs: dict[str, Any]) -> bool:
        """Whether LiteLLM has nothing to do for a call."""
        if dspy.settings.send_stream is not None or self.model_type != "chat":
            return False
        texts = [prompt] if not messages else [message.get("content") for message in messages]
        plain = all(type(text) is str for text in texts) and all(len(message) == 2 for message in messages or ())
        return plain and is_direct({"model": self.model, **self.kwargs, **kwargs})

    async def _ask(self, prompt: Any, messages: Any, kwargs: dict[str, Any]) -> Any:
        # What was streamed cannot be taken back.
        retries = self.retries if dspy.settings.send_stream is None else 0
        for attempt in range(1 + retries):
            try:
                replies = await self._attempt(prompt, messages, kwargs)
                break
            except LMError as error:
                if attempt == retries or not is_tried_again(error):
                    raise
                wait = execution._delay(error, attempt)
                _log.info("a call failed (%s) and is made again after %.0f seconds", type(error).__name__, wait)
                await asyncio.sleep(wait)
        asked = kwargs.get("n", self.kwargs.get("n")) or 1
        if isinstance(replies, list) and asked > 1:
            self._short.number = self._short.number + 1 if len(replies) < asked else 0
        return replies

    async def _attempt(self, prompt: Any, messages: Any, kwargs: dict[str, Any]) -> Any:
        try:
            with bounded():
                return await self._sent(prompt, messages, kwargs)
        except LMError as error:
            # These two are of what is never sent, and DSPy reports what a reply took that holds nothing.
            if not (isinstance(error, LMConfigurationError | LMUnsupportedFeatureError) or error.provider_code == VOID):
                _tell_of_failed()
            raised = known(error, self.model)
            if raised is error:
                raise
            raise raised from error

    async def _sent(self, prompt: Any, messages: Any, kwargs: dict[str, Any]) -> Any:
        if self._is_direct(prompt, messages, kwargs):
            return await self._directly(prompt, messages=messages, **kwargs)
        # Nothing before may have wrapped its clients.
        quiet_litellm()
        async with within_time(kwargs.get("timeout", self.kwargs.get("timeout")), self.model):
            if (listener := self._listener(kwargs)) is None or self.engine != "litellm":
                return await super().acall(prompt, messages=messages, **kwargs)
            listener(None)
            with dspy.context(send_stream=_Drafts(listener), track_usage=True):
                return await super().acall(prompt, messages=messages, **kwargs)

    def _listener(self, kwargs: dict[str, Any]) -> Listener | None:
        """Who hears of a reply while it is written: of one alone, and of none whose probabilities are wanted."""
        asked = {**self.kwargs, **kwargs}
        streams = self.model_type == "chat" and (asked.get("n") or 1) == 1 and not asked.get("logprobs")
        return who_listens() if streams and dspy.settings.send_stream is None else None

    @with_callbacks  # type: ignore[untyped-decorator]
    async def _directly(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        """As `dspy.LM.acall`, with its cache and its history, where the request is sent as it is."""
        call = execution.prepare(self, prompt, messages, kwargs, asynchronous=True)
        result = await asyncio.to_thread(execution._cached, self, call, True) if call.cache else None
        if result is None:
            with error_boundary(self.model, unexpected=True), litellm_errors(model=self.model):
                reply = await complete(call.legacy, self._listener(kwargs))
            self._check_truncation(reply)
            try:
                result = CallResult.legacy(self, reply, kwargs=call.legacy)
            except LMError:
                # It was sent and paid for, whatever is in it.
                if (tracker := dspy.settings.usage_tracker) is not None:
                    tracker.add_usage(self.model, dict(getattr(reply, "usage", None) or {}))
                raise
            if call.cache:
                # As plain data, DSPy's other form: to read LiteLLM's classes again takes its import.
                key = call.key(self, asynchronous=True)
                await asyncio.to_thread(dspy.cache.put, key, result.dump(), execution.IGNORED_CACHE_KEYS)
        return execution.finalize(self, call, result)

    def _process_completion(self, response: Any, merged_kwargs: dict[str, Any]) -> Any:
        """As DSPy, which gives no outputs for a reply without choices and fails on them later."""
        check_reply(response, self.model)
        hide_echoes(response, self)
        return super()._process_completion(response, merged_kwargs)

    def copy(self, **kwargs: Any) -> "ServedLM":
        retries = kwargs.pop("num_retries", self.retries)
        made: ServedLM = super().copy(**kwargs)
        made.retries = retries
        return made

    def dump_state(self) -> dict[str, Any]:
        """The state that a program saves with this LM, loadable as a plain `dspy.LM`."""
        state = dict(super().dump_state())
        for name in ("api_key", "api_base", "base_url", "headers", "extra_headers", "azure_ad_token_provider"):
            state.pop(name, None)
        own, plain = (f"{cls.__module__}.{cls.__qualname__}" for cls in (type(self), dspy.LM))
        return {key: plain if value == own else value for key, value in state.items()} | {"num_retries": self.retries}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"


class _Drafts:
    """Stands in for DSPy's stream of the chunks that LiteLLM gives."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    async def send(self, chunk: Any) -> None:
        for choice in chunk.choices:
            if choice.delta.content:
                self._listener(choice.delta.content)


def _tell_of_failed() -> None:
    """Report a request that was sent and failed to the usage tracker; DSPy reports answered ones only."""
    add = getattr(dspy.settings.usage_tracker, "add_failed", None)
    if add is not None:
        add()


def supports_n(lm: dspy.LM) -> bool:
    """Whether one request can carry several samples.

    So it is for providers that take ``n`` through LiteLLM, but for a server that was seen to give fewer replies than it
    was asked for. Models in this process read an identical prompt once anyway; elsewhere samples are concurrent calls.
    """
    if getattr(lm, "ignores_n", False) or getattr(lm, "engine", None) != "litellm" or lm.model_type != "chat":
        return False
    return "n" in _supported(lm.model)


@functools.lru_cache(maxsize=256)
def _supported(model: str) -> frozenset[str]:
    if is_plain(model):
        return frozenset(("n", "seed"))
    with suppress(Exception):
        # Of LiteLLM's own, without a common base.
        name, provider, _ = known_as(model) or ("", "", None)
        return frozenset(quiet_litellm().get_supported_openai_params(name, custom_llm_provider=provider) or ())
    return frozenset()


def served(model: str, *, api_base: str | None, api_key: str | None, max_tokens: int | None, **kwargs: Any) -> dspy.LM:
    if api_base and not is_address(api_base):
        raise ConfigurationError(f"api_base must be an address such as http://127.0.0.1:8000/v1, not {api_base!r}")
    if api_base and (urlsplit(api_base).username or urlsplit(api_base).password):
        raise ConfigurationError("api_base holds a name or password; give the secret as api_key instead")
    provider = provider_of(model, api_base)
    given = {"api_base": api_base or None, "api_key": _checked_key(model, provider, api_base, api_key)}
    kwargs |= {name: value for name, value in given.items() if value is not None}
    _complete(kwargs, model, api_base or address_in_environment(provider))
    try:
        return ServedLM(model, engine="litellm", max_tokens=max_tokens or _TOKENS, **kwargs)
    except dspy.LMConfigurationError:
        if max_tokens is not None:
            raise
        # OpenAI's reasoning models choose both themselves and refuse these settings.
        return ServedLM(model, engine="litellm", **{**kwargs, "temperature": None}, max_tokens=None)


def more_tokens(lm: Any) -> int | None:
    """How many tokens another reply may have where one was cut off; None where somebody has chosen how many."""
    return _MORE_TOKENS if isinstance(lm, ServedLM) and lm.kwargs.get("max_tokens") == _TOKENS else None


def as_served(lm: Any) -> Any:
    """A plain ``dspy.LM`` as `keqa.lms.factory.build_lm` would have made it; any other language model itself.

    A plain one leaves to DSPy how a request is sent, which asks once for each of several samples, and again for as long
    as a server keeps it waiting. Settings, callbacks and history are its own.
    """
    if type(lm) is not dspy.LM or lm.engine != "auto" or lm.model_type != "chat" or "prompt_cache" in lm.kwargs:
        return lm
    if not _supported(lm.model):
        return lm
    twin = _twins.get(lm)
    if twin is None:
        twin = ServedLM.__new__(ServedLM)
        twin.__setstate__(lm.__getstate__())
        twin._engine_spec, twin._short = "litellm", _SharedCount()
        twin = _twins.setdefault(lm, twin)
    kwargs = dict(lm.kwargs)
    api_base = kwargs.get("api_base") or kwargs.get("base_url")
    _complete(kwargs, lm.model, api_base or address_in_environment(lm.model.partition("/")[0]))
    # Settings may have changed since the last call; history and callbacks are the very same lists.
    twin.kwargs, twin.cache, twin.history, twin.callbacks = kwargs, lm.cache, lm.history, lm.callbacks
    twin.retries, twin.num_retries = lm.num_retries, 0
    return twin


_twins: "weakref.WeakKeyDictionary[dspy.LM, ServedLM]" = weakref.WeakKeyDictionary()


def _complete(kwargs: dict[str, Any], model: str, served_from: str | None) -> None:
    """Add to an LM's settings what LiteLLM and DSPy's cache need."""
    if served_from:
        # DSPy's cache key leaves the address out. LiteLLM uses this one for logging and does not send it.
        kwargs.setdefault("litellm_trace_id", f"keqa-{hashlib.sha256(served_from.encode()).hexdigest()[:12]}")
    if "seed" not in _supported(model):
        kwargs.setdefault("additional_drop_params", ["seed"])


def is_address(text: str | None) -> bool:
    try:
        parts = urlsplit(text or "")
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        # A port that is none, or an IPv6 address without its end.
        return False


def provider_of(model: str, api_base: str | None) -> str:
    provider, _, name = model.partition("/")
    if provider in PROVIDERS and name:
        return provider
    if (found := known_as(model)) is None:
        hint = f" For the server at {api_base} write hosted_vllm/{model} or openai/{model}." if api_base else ""
        unknown = f"{model!r} names no provider that LiteLLM knows. A model string is provider/model.{hint}"
        raise ConfigurationError(f"{unknown} Examples: {EXAMPLES}")
    if not found[0]:
        raise ConfigurationError(f"{model!r} names a provider but no model. Examples: {EXAMPLES}")
    return found[1]


def _checked_key(model: str, provider: str, api_base: str | None, api_key: str | None) -> str | None:
    if provider == "hosted_vllm" and not (api_base or address_in_environment(provider)):
        example = "api_base (--api-base), such as http://127.0.0.1:8000/v1"
        raise ConfigurationError(f"{model} needs the server's address: {example}")
    if api_key:
        return api_key
    if provider in PROVIDERS:
        missing = ["OPENAI_API_KEY"] if provider == "openai" and "OPENAI_API_KEY" not in os.environ else []
    else:
        needed = quiet_litellm().validate_environment(model).get("missing_keys", [])
        missing = [name for name in needed if name.endswith("_API_KEY")]
    if not missing or api_base:
        # A server of one's own mostly wants no key, but the client library insists on one.
        return KEYLESS if missing else None
    needed = (" or " if provider == "gemini" else " and ").join(missing)
    own = "For a server of your own give its address as api_base (--api-base)."
    raise ConfigurationError(f"{model} needs a key: set {needed} in the environment, or give api_key. {own}")


def address_in_environment(provider: str) -> str | None:
    """The address that a provider's variable in the environment names; None where there is none."""
    names = [f"{provider.upper()}_{ending}" for ending in ("API_BASE", "BASE_URL")]
    return next((os.environ[name] for name in names if os.environ.get(name)), None)
