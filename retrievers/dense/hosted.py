"""Embedding models behind an API: ``openai/text-embedding-3-small``, ``hosted_vllm/…`` and what else LiteLLM reaches.

Keys and addresses come from the environment, by the names that LiteLLM has for them: ``OPENAI_API_KEY`` and
``OPENAI_BASE_URL``, ``HOSTED_VLLM_API_KEY`` and ``HOSTED_VLLM_API_BASE``, and so on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np

from keqa.errors import ConfigurationError, KeqaError, RetrievalError
from keqa.retrievers.dense.models import EmbeddingModel, Side, Vectors
from keqa.retrievers.text import one_line
from keqa.storage.redaction import without_keys
from keqa.storage.replies import bound_litellm, bounded, too_large

PROVIDERS: Final = frozenset(
    "azure bedrock cohere databricks deepinfra fireworks_ai gemini hosted_vllm infinity jina_ai litellm_proxy "
    "lm_studio mistral nvidia_nim ollama openai openrouter together_ai vertex_ai voyage watsonx xinference".split()
)
"""What the name of such a model begins with, before a slash; any other name is of sentence-transformers."""

# A request holds fewer texts and tokens than any provider allows.
_BATCH = 128
_BATCH_CHARACTERS = 200_000
_IN_FLIGHT = 4
_TIMEOUT = 60.0
# What fails in passing is asked again, in ever longer pauses, for so many seconds: a limit by the minute is over then.
_PATIENCE = 90.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 20.0
# Nobody answers at an address that is wrong, however often it is asked.
_UNREACHED = 3
# Of English text; Chinese has about as many, as a character is three bytes.
_BYTES_PER_TOKEN = 4
_LONGEST_REASON = 300


def is_hosted(name: str) -> bool:
    """Whether a model is behind an API; a folder that is there may have any name."""
    provider, found, rest = name.partition("/")
    return bool(found and rest) and provider in PROVIDERS and not Path(name).is_dir()


class HostedModel(EmbeddingModel):
    """An embedding model behind an API. Safe to use from many threads."""

    def __init__(self, name: str) -> None:
        """Take its name, which LiteLLM reads; nothing is asked yet."""
        # Its list of prices comes with it, and is not fetched.
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        import dspy
        import litellm

        # It would print advice beside every error.
        litellm.suppress_debug_info = True
        bound_litellm()
        # Vectors are kept in the index; a second copy in a cache of responses would be as large.
        super().__init__(name, dspy.Embedder(name, batch_size=_BATCH, caching=False, timeout=_TIMEOUT, max_retries=0))

    def embed(
        self, texts: Sequence[str], *, side: Side | None = None, prefix: str | None = None, unit: bool = True
    ) -> Vectors:
        """One row for each text; several requests are on their way at a time."""
        # An empty text is refused.
        given = [f"{prefix or ''}{text}" or " " for text in texts]
        with ThreadPoolExecutor(_IN_FLIGHT, thread_name_prefix="keqa-embed") as pool:
            parts = list(pool.map(self._ask, _batches(given)))
        rows = np.concatenate(parts) if parts else np.empty((0, 0), np.float32)
        if unit and rows.size:
            rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        return np.ascontiguousarray(rows, np.float32)

    def _ask(self, texts: list[str]) -> Vectors:
        pause, end, unreached = _FIRST_PAUSE, time.monotonic() + _PATIENCE, 0
        while True:
            try:
                with bounded():
                    rows: Vectors = np.asarray(self._model(texts), np.float32)
            except Exception as error:
                failure, passing, reached = _failure(self.name, error)
                unreached += not reached
                if not passing or unreached >= _UNREACHED or time.monotonic() + pause > end:
                    raise failure from None
            else:
                if rows.ndim != 2 or len(rows) != len(texts):
                    raise RetrievalError(f"the model {self.name!r} gave {len(rows)} vectors for {len(texts)} texts")
                return rows
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def embed_tokens(self, texts: Sequence[str]) -> list[Vectors]:
        """Refused: an API gives no vectors of tokens."""
        raise ConfigurationError(f"the model {self.name!r} gives no vectors of single tokens: name a local model")

    def prefix(self, side: Side) -> str:
        """Empty: it says nothing of itself."""
        return ""

    @property
    def similarity(self) -> str:
        """``cosine``: what all of these models are made for."""
        return "cosine"

    def price(self, size: int) -> str:
        """About how much it costs to embed so many bytes of text, in words."""
        import litellm

        tokens = max(1, size // _BYTES_PER_TOKEN)
        short = self.name.partition("/")[2]
        listed: Any = litellm.model_cost.get(self.name) or litellm.model_cost.get(short) or {}
        each = listed.get("input_cost_per_token")
        if each is None:
            return f"about {tokens:,} tokens, at a price that is not known here"
        return f"about {tokens:,} tokens, ${tokens * each:,.2f} at ${each * 1e6:g} a million"


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) == _BATCH or size + len(text) > _BATCH_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch


def _failure(name: str, error: Exception) -> tuple[KeqaError, bool, bool]:
    """What a failure is to the user, whether it may pass by itself, and whether anyone answered at all."""
    import litellm

    if large := too_large(error):
        return RetrievalError(f"the embedding model {name!r} gives no vectors: {large}"), False, True
    said = one_line(without_keys(str(error)))[:_LONGEST_REASON]
    status = getattr(error, "status_code", None)
    if isinstance(error, litellm.APIConnectionError | litellm.Timeout):
        return RetrievalError(f"the embedding model {name!r} cannot be reached: {said}"), True, False
    if status == 429 or (isinstance(status, int) and status >= 500):
        reached = "Connection error" not in said
        return RetrievalError(f"the embedding model {name!r} did not answer: {said}"), True, reached
    if isinstance(error, litellm.AuthenticationError | litellm.PermissionDeniedError):
        return ConfigurationError(f"the embedding model {name!r} refuses the key, or none is set: {said}"), False, True
    if isinstance(status, int):
        return ConfigurationError(f"the embedding model {name!r} cannot be asked: {said}"), False, True
    return RetrievalError(f"the embedding model {name!r} failed: {type(error).__name__}: {said}"), False, True
