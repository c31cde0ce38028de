"""Whether the servers of language models can be asked at all, found out within seconds and before any work starts.

What is slow is not refused: a server that has accepted a connection may be loading its model.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
import urllib.request
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from keqa.errors import ConfigurationError
from keqa.lms.direct import PROVIDERS, known_as
from keqa.lms.discover import listed
from keqa.lms.loops import requests
from keqa.lms.served import KEYLESS, address_in_environment, as_served, is_address
from keqa.storage.replies import chain, is_of_httpx, quiet_litellm

if TYPE_CHECKING:
    import dspy

_CONNECT_SECONDS = 3.0
_SECONDS = 4.5
"""For one language model, the connection included."""

_OLLAMA = ("ollama", "ollama_chat")
_DEFAULTS = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    **dict.fromkeys(_OLLAMA, "http://localhost:11434"),
}
_AWS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_KEYS = {
    "bedrock": f"{_AWS}, or AWS_BEARER_TOKEN_BEDROCK,",
    "gemini": "GEMINI_API_KEY or GOOGLE_API_KEY",
    "sagemaker": _AWS,
    "together_ai": "TOGETHERAI_API_KEY",
    "vertex_ai": "GOOGLE_APPLICATION_CREDENTIALS",
}
"""The variables that hold the key of a provider, where they are not called after it."""
_ADVICE = {
    "SSLError": "the connection to {place} is not secure: its certificate is not trusted, or it has none",
    "LMConfigurationError": "{error}",
    "LMAuthError": "{place} does not accept the key: check {variable} in the environment, or api_key",
    "without a key": "{place} asks for a key: set {variable} in the environment",
    "LMBillingError": "{place} refuses to answer until the account of the key has credit",
    "no reply": "what answers at {place} is no server of language models: check the address",
    "LMTransportError": "{place} accepts connections and does not answer as a server of language models does",
}
"""What a failure means; any other may pass, as that of a server which is overloaded or loads its model."""
_MOST_NAMES, _LONGEST_NAME = 5, 80
# What a call says about the text, and not about the server.
_GENERATION = ("temperature", "max_tokens", "max_completion_tokens", "n", "rollout_id", "stop", "seed")
_ATTEMPTS = 2
"""Requests that decide where a server closes the connection, or sends what is no reply: once that may be chance."""


class _UnreachableError(ConfigurationError):
    """Nothing accepts connections at an address."""


def check_reachable(lms: Iterable[dspy.BaseLM]) -> None:
    """Send one short request to each server, and say what is wrong where none could be answered.

    A server without a key is asked which models it has, any other for one token. Models in this process need nothing.
    It takes five seconds at most, beside the import of LiteLLM. What may pass, such as a server that is overloaded or
    loads its model, is no reason to refuse. The error names the address, the model and what to check.
    """
    import dspy

    served = [lm for lm in lms if isinstance(lm, dspy.LM) and isinstance(lm.engine, str)]
    settings = {(lm.model, *(str(lm.kwargs.get(name) or "") for name in ("api_base", "api_key"))): lm for lm in served}

    async def all_of_them() -> list[str | None]:
        with dspy.context(usage_tracker=None, callbacks=[], disable_history=True, send_stream=None):
            return list(await asyncio.gather(*(_problem(lm) for lm in settings.values())))

    problems = [problem for problem in requests.run(all_of_them) if problem] if settings else []
    if problems:
        raise ConfigurationError("\n".join(dict.fromkeys(problems)))


def check_listening(models: Iterable[tuple[str, str | None]]) -> None:
    """Whether anybody listens where model strings lead, each with its address: before what takes long to load is."""
    from keqa.lms.factory import IN_PROCESS

    servers = []
    for model, given in dict.fromkeys(models):
        provider, _, name = model.strip().partition("/")
        if provider not in IN_PROCESS:
            # Of a provider's own address a missing key is reported first, and that takes LiteLLM.
            usual = _DEFAULTS[provider] if provider in _OLLAMA else None
            address = given or address_in_environment(provider) or usual
            servers.append(_Server(model.strip(), provider, name, address))

    async def all_of_them() -> None:
        await asyncio.gather(*(server.connect() for server in servers))

    requests.run(all_of_them)


class _Server:
    """Where a language model is served; without an address where only the provider's own library knows it."""

    def __init__(
        self, model: str, provider: str, name: str, address: str | None, kwargs: Mapping[str, Any] | None = None
    ) -> None:
        self.model, self.provider, self.name, self.kwargs = model, provider, name, kwargs or {}
        self.address = address if is_address(address) else None
        self.variable = _KEYS.get(provider, f"{provider.upper()}_API_KEY")
        key = self.kwargs.get("api_key")
        own = key or any(os.environ.get(name) for name in self.variable.split(" or "))
        # Without a key a list of models says enough; with one another request would have to prove it.
        self.is_keyless = key == KEYLESS or (provider in (*_OLLAMA, "hosted_vllm") and not own)
        # The address as it may be shown: without a name, a password or a query.
        parts = urlsplit(self.address or "")
        host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
        shown = f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path.rstrip('/')}"
        self.place = shown if self.address else f"the server of {provider}"

    @classmethod
    def of(cls, lm: dspy.LM) -> _Server:
        given = lm.kwargs.get("api_base") or lm.kwargs.get("base_url")
        provider, _, name = lm.model.partition("/")
        usual = None
        if not (given and provider in PROVIDERS) and (found := known_as(lm.model, given)):
            name, provider, usual = found
        address = given or address_in_environment(provider) or usual or _DEFAULTS.get(provider)
        return cls(lm.model, provider, name, address, lm.kwargs)

    def unreached(self, why: str) -> _UnreachableError:
        vllm = f"Start the server (vllm serve {self.name})" if self.provider == "hosted_vllm" else "Start the server"
        start = "Start Ollama (ollama serve)" if self.provider in _OLLAMA else vllm
        check = "or check the address (--api-base, or that in the environment)"
        return _UnreachableError(f"{self.model} cannot be reached: {self.place} {why}. {start}, {check}")

    async def connect(self) -> None:
        """Open a connection and close it again, where the address is known and no proxy stands before it."""
        parts = urlsplit(self.address or "")
        host = str(parts.hostname)
        proxied = parts.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host)
        if self.address is None or proxied:
            return
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                _, writer = await asyncio.open_connection(host, parts.port or (443 if parts.scheme == "https" else 80))
        except TimeoutError:
            raise self.unreached(f"accepts no connection within {_CONNECT_SECONDS:g} seconds") from None
        # A host with an empty part, or too long a one, cannot be written as hosts are looked up.
        except (OSError, UnicodeError) as error:
            why = f"accepts no connection ({getattr(error, 'strerror', None) or type(error).__name__})"
            if isinstance(error, socket.gaierror | UnicodeError):
                why = "names a host that is not known"
            elif isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
                why = "refuses the connection: nothing listens there"
            raise self.unreached(why) from error
        writer.close()

    async def names(self) -> list[str]:
        """The models that the server says it has, as not every server does; Ollama's have a tag."""
        if self.address is None:
            return []
        path, *keys = ("api/tags", "models", "name") if self.provider in _OLLAMA else ("models", "data", "id")
        headers = {**(self.kwargs.get("headers") or {}), **(self.kwargs.get("extra_headers") or {})}
        if (key := self.kwargs.get("api_key")) and not self.is_keyless:
            headers.setdefault("Authorization", f"Bearer {key}")
        return await listed(f"{self.address.rstrip('/')}/{path}", *keys, wait=_SECONDS, headers=headers)

    async def advice(self, error: Exception) -> str | None:
        """What to put right; None where the server is there, and the fault may pass."""
        from dspy.utils.exceptions import LMUnsupportedModelError

        from keqa.lms.faults import UNREADABLE

        causes = tuple(chain(error))
        if isinstance(error, LMUnsupportedModelError):
            return self.lacks_model(await self.names())
        found = [kind.__name__ for kind in type(error).__mro__]
        if any(isinstance(one, ssl.SSLError) for one in causes):
            found = ["SSLError"]
        elif any(is_of_httpx(one, "ConnectError") for one in causes):
            raise self.unreached("accepts no connection")
        elif any(is_of_httpx(one, "TimeoutException") for one in causes):
            found = []
        elif getattr(error, "provider_code", None) == UNREADABLE:
            found = ["no reply"]
        elif self.is_keyless and "LMAuthError" in found:
            found = ["without a key"]
        words = next((_ADVICE[one] for one in found if one in _ADVICE), None)
        return words and words.format(place=self.place, variable=self.variable, error=error)

    def lacks_model(self, names: list[str]) -> str:
        """That there is no such model, with the first few that there are, without what could change a terminal."""
        shown = [re.sub(r"[^\w.:/@+-]", "?", name, flags=re.ASCII)[:_LONGEST_NAME] for name in names[:_MOST_NAMES]]
        more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
        has = f" It has {', '.join(shown)}{more}." if names else ""
        else_ = f", or fetch it (ollama pull {self.name})" if self.provider in _OLLAMA else ""
        if self.provider not in _OLLAMA and "/v" not in self.place:
            else_ = ", and whether the address lacks a /v1"
        return f"{self.place} has no model {self.name!r}.{has} Check the model's name{else_}"


async def _problem(lm: dspy.LM) -> str | None:
    """What is wrong with a server; None where it can be asked, or is only slow."""
    import dspy

    server, problem = _Server.of(lm), None
    limit = "max_completion_tokens" if "max_completion_tokens" in lm.kwargs else "max_tokens"
    asking: Any = as_served(lm).copy(**{**dict.fromkeys(_GENERATION), limit: 1, "timeout": _SECONDS, "num_retries": 0})
    asking.cache, asking.callbacks, asking._check_truncation = False, [], lambda reply: None
    try:
        async with asyncio.timeout(_SECONDS) as clock:
            await server.connect()
            if server.is_keyless and {server.name, f"{server.name}:latest"} & {*await server.names()}:
                return None
            # LiteLLM's import takes seconds, which are not the server's.
            now = asyncio.get_running_loop().time
            left = (clock.when() or now()) - now()
            clock.reschedule(None)
            await asyncio.to_thread(quiet_litellm)
            clock.reschedule(now() + left)
            for _ in range(_ATTEMPTS):
                try:
                    await asking.acall("Hello")
                    return None
                except dspy.LMError as error:
                    problem = await server.advice(error)
                    if problem is None or type(error) not in (dspy.LMServerError, dspy.LMTransportError):
                        break
        return problem and f"{lm.model}: {problem}"
    except _UnreachableError as error:
        return str(error)
    except TimeoutError:
        # It has accepted the connection.
        return None
