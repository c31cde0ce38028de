"""Whether the servers of language models can be asked at all, found out within seconds and before any work starts.

What is slow is not refused: a server that has accepted a connection may be loading its model.
"""

from __future__ import annotations

import asyncio
import os
import re
import urllib.request
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from keqa.errors import ConfigurationError
from keqa.lms.direct import PROVIDERS
from keqa.lms.served import KEYLESS, address_in_environment, is_address, quiet_litellm
from keqa.storage.replies import bounded

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
_MOST_NAMES, _LONGEST_NAME = 5, 80
_LONGEST_LISTING = 2_000_000
# What a call says about the text, and not about the server.
_GENERATION = ("temperature", "max_tokens", "max_completion_tokens", "n", "rollout_id", "stop", "seed", "timeout")
_ATTEMPTS = 2
"""Requests that decide where a server closes the connection, or sends what is no reply: once that may be chance."""


def check_reachable(lms: Iterable[dspy.BaseLM]) -> None:
    """Send one short request to each server, and say what is wrong where none could be answered.

    A server without a key is asked which models it has, any other for one token. Models in this process need nothing.
    It takes five seconds at most, beside the import of LiteLLM. What may pass, such as a server that is overloaded or
    loads its model, is no reason to refuse.

    Args:
        lms: Any language models; each is asked once, however often it occurs.

    Raises:
        ConfigurationError: Nothing listens at an address, what listens there is something else, the key is refused, or
            there is no such model. The message names the address, the model and what to check.
    """
    import dspy

    from keqa.lms import background

    served = {_identity(lm): lm for lm in lms if isinstance(lm, dspy.LM) and isinstance(lm.engine, str)}
    if not served:
        return

    async def all_of_them() -> list[str | None]:
        return list(await asyncio.gather(*(_problem(lm) for lm in served.values())))

    problems = [problem for problem in background.requests.run(all_of_them) if problem is not None]
    if problems:
        raise ConfigurationError("\n".join(dict.fromkeys(problems)))


def check_listening(models: Iterable[tuple[str, str | None]]) -> None:
    """The first part of `check_reachable`, before anything is loaded that takes long to load: does anybody listen."""
    from keqa.lms import background
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

    try:
        background.requests.run(all_of_them)
    except _UnreachableError as error:
        raise ConfigurationError(str(error)) from error


def _identity(lm: dspy.LM) -> tuple[str, str, str]:
    return (lm.model, *(str(lm.kwargs.get(name) or "") for name in ("api_base", "api_key")))


class _UnreachableError(Exception):
    """Nothing accepts connections at an address; the text says how to put that right."""


async def _problem(lm: dspy.LM) -> str | None:
    """What is wrong with a language model's server; None where it can be asked, or is only slow."""
    asked = _Asked(lm)
    try:
        async with asyncio.timeout(_SECONDS) as limit:
            await asked.connect()
            if asked.is_keyless and asked.serves(await asked.names()):
                return None
            # LiteLLM's import takes seconds, which are not the server's.
            now = asyncio.get_running_loop().time
            left = (limit.when() or now()) - now()
            limit.reschedule(None)
            await asyncio.to_thread(quiet_litellm)
            limit.reschedule(now() + left)
            return await asked.complete()
    except _UnreachableError as error:
        return str(error)
    except TimeoutError:
        # It has accepted the connection.
        return None


class _Server:
    """Where a language model is served."""

    def __init__(self, model: str, provider: str, name: str, address: str | None) -> None:
        self.model, self.provider, self.name = model, provider, name
        self.address = address if is_address(address) else None

    @property
    def place(self) -> str:
        """The address as it may be shown: without a name, a password or a query."""
        if self.address is None:
            return f"the server of {self.provider}"
        parts = urlsplit(self.address)
        host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
        return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path.rstrip('/')}"

    def unreached(self, why: str) -> str:
        """That nothing answers, and what to do."""
        start = "Start the server"
        if self.provider in _OLLAMA:
            start = "Start Ollama (ollama serve)"
        elif self.provider == "hosted_vllm":
            start = f"Start the server (vllm serve {self.name})"
        check = "or check the address (--api-base, or that in the environment)"
        return f"{self.model} cannot be reached: {self.place} {why}. {start}, {check}"

    async def connect(self) -> None:
        """Open a connection and close it again, where the address is known and no proxy stands before it."""
        if self.address is None:
            return
        parts = urlsplit(self.address)
        host = str(parts.hostname)
        if parts.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host):
            return
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                _, writer = await asyncio.open_connection(host, port)
        except TimeoutError:
            why = f"accepts no connection within {_CONNECT_SECONDS:g} seconds"
            raise _UnreachableError(self.unreached(why)) from None
        except OSError as error:
            raise _UnreachableError(self.unreached(_reason(error))) from error
        writer.close()


class _Asked(_Server):
    """One language model, and what it is asked."""

    def __init__(self, lm: dspy.LM) -> None:
        self.lm = lm
        given = lm.kwargs.get("api_base") or lm.kwargs.get("base_url")
        provider, _, name = lm.model.partition("/")
        usual = None
        try:
            if not (given and provider in PROVIDERS):
                name, provider, _, usual = quiet_litellm().get_llm_provider(lm.model, api_base=given)
        except Exception:
            # LiteLLM raises its own errors for a string it does not know, and has no common base for them.
            pass
        address = given or address_in_environment(provider) or usual or _DEFAULTS.get(provider)
        super().__init__(lm.model, provider, name, address)

    @property
    def is_keyless(self) -> bool:
        """Whether no key is sent, so that a list of models says enough; another request would have to prove the key."""
        key = self.lm.kwargs.get("api_key")
        return key == KEYLESS or (
            self.provider in (*_OLLAMA, "hosted_vllm")
            and not (key or any(os.environ.get(name) for name in self._key_variable.split(" or ")))
        )

    @property
    def _key_variable(self) -> str:
        return _KEYS.get(self.provider, f"{self.provider.upper()}_API_KEY")

    async def names(self) -> list[str] | None:
        """The models that the server says it has; None where it does not say."""
        import httpx

        if self.address is None:
            return None
        of_ollama = self.provider in _OLLAMA
        url = f"{self.address.rstrip('/')}/{'api/tags' if of_ollama else 'models'}"
        key = self.lm.kwargs.get("api_key")
        headers = {**(self.lm.kwargs.get("headers") or {}), **(self.lm.kwargs.get("extra_headers") or {})}
        # What is unpacked would have no bound.
        headers.setdefault("Accept-Encoding", "identity")
        if key and not self.is_keyless:
            headers.setdefault("Authorization", f"Bearer {key}")
        try:
            async with httpx.AsyncClient(timeout=_SECONDS) as client, client.stream("GET", url, headers=headers) as got:
                body = b""
                async for part in got.aiter_raw():
                    body += part
                    if len(body) > _LONGEST_LISTING:
                        return None
            found = httpx.Response(got.status_code, content=body).json() if got.status_code == 200 else None
        except (httpx.HTTPError, ValueError, RecursionError):
            # Not every server has such a list; then a completion decides.
            return None
        entries = found.get("models" if of_ollama else "data") if isinstance(found, dict) else None
        if not isinstance(entries, list):
            return None
        names = [entry.get("name" if of_ollama else "id") for entry in entries if isinstance(entry, dict)]
        return [name for name in names if isinstance(name, str)]

    def serves(self, names: list[str] | None) -> bool:
        """Whether the model is among the names; Ollama adds a tag where none is given."""
        return names is not None and bool({self.name, f"{self.name}:latest"} & set(names))

    async def complete(self) -> str | None:
        """Ask for one token, and say what is wrong where the server refuses."""
        problem = None
        for _ in range(_ATTEMPTS):
            error = await self._completion_error()
            problem = None if error is None else await self._told(error)
            if problem is None or not _may_be_chance(error):
                break
        return problem

    async def _completion_error(self) -> Exception | None:
        from keqa.lms.faults import known

        limit = "max_completion_tokens" if "max_completion_tokens" in self.lm.kwargs else "max_tokens"
        settings = {name: value for name, value in self.lm.kwargs.items() if name not in _GENERATION}
        settings |= {limit: 1, "timeout": _SECONDS, "num_retries": 0, "max_retries": 0}
        try:
            with bounded():
                await quiet_litellm().acompletion(
                    model=self.lm.model, messages=[{"role": "user", "content": "Hello"}], **settings
                )
        except Exception as error:
            raised = self.lm._wrap_litellm_exception(error)
            raised.__cause__ = error
            explained: Exception = known(raised, self.lm.model)
            return explained
        return None

    async def _told(self, error: Exception) -> str | None:
        """What to put right; None where the server is there, and the fault may pass."""
        import ssl

        import httpx
        from dspy.utils import exceptions

        from keqa.lms.faults import UNREADABLE, chain

        model, place, causes = self.lm.model, self.place, tuple(chain(error))
        if any(isinstance(one, ssl.SSLError) for one in causes):
            return f"{model}: the connection to {place} is not secure: its certificate is not trusted, or it has none"
        if any(isinstance(one, httpx.ConnectError) for one in causes):
            return self.unreached("accepts no connection")
        if isinstance(error, exceptions.LMConfigurationError):
            return str(error)
        if isinstance(error, exceptions.LMAuthError):
            if self.is_keyless:
                return f"{model}: {place} asks for a key: set {self._key_variable} in the environment"
            return (
                f"{model}: {place} does not accept the key: check {self._key_variable} in the environment, or api_key"
            )
        if isinstance(error, exceptions.LMBillingError):
            return f"{model}: {place} refuses to answer until the account of the key has credit"
        if isinstance(error, exceptions.LMUnsupportedModelError):
            names = await self.names()
            has = f" It has {_listed(names)}." if names else ""
            pull = f", or fetch it (ollama pull {self.name})" if self.provider in _OLLAMA else ""
            part = "" if self.provider in _OLLAMA or "/v" in place else ", and whether the address lacks a /v1"
            return f"{model}: {place} has no model {self.name!r}.{has} Check the model's name{pull}{part}"
        if isinstance(error, exceptions.LMServerError) and error.provider_code == UNREADABLE:
            return f"{model}: what answers at {place} is no server of language models: check the address"
        if any(isinstance(one, httpx.TransportError) and not isinstance(one, httpx.TimeoutException) for one in causes):
            return f"{model}: {place} accepts connections and does not answer as a server of language models does"
        return None


def _may_be_chance(error: Exception | None) -> bool:
    from dspy.utils.exceptions import LMServerError, LMTransportError

    return isinstance(error, LMServerError | LMTransportError)


def _reason(error: OSError) -> str:
    """Why there is no connection, in words that do not depend on the system."""
    import socket

    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return "refuses the connection: nothing listens there"
    if isinstance(error, socket.gaierror):
        return "names a host that is not known"
    return f"accepts no connection ({error.strerror or type(error).__name__})"


def _listed(names: list[str]) -> str:
    """Names from a server, the first few, without what could change a terminal."""
    shown = [re.sub(r"[^\w.:/@+-]", "?", name, flags=re.ASCII)[:_LONGEST_NAME] for name in names[:_MOST_NAMES]]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")
