"""Questions and passages as vectors whose inner product ranks passages (KEQA, Table 3: with the retriever DPR)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keqa.errors import ConfigurationError, InputError, RetrievalError
from keqa.retrievers.base import Passage
from keqa.retrievers.dense.models import LOCAL, EmbeddingModel, Side, Vectors, open_model
from keqa.retrievers.manifest import SIMILARITIES, EncoderSettings
from keqa.storage.terminal import visible_line

__all__ = ["Encoder", "EncoderSettings", "same_weights"]

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
        """Use `choose` for a new index and `open` for one that is there."""
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
    ) -> Encoder:
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
    def recognised(cls, settings: EncoderSettings, probe: Vectors, where: Path | str, model: str | None) -> Encoder:
        """Open the model that questions to an index need, and see that it is the one that the index was built with.

        To open a model is to fetch it where it is not here, and to run what comes with it. So only the one that comes
        as a package is opened because an index says so, and every other one because its user does.
        """
        name = _named(settings.query_model, model, where, "questions")
        try:
            encoder = cls(settings, open_model(name), None)
        except ConfigurationError as error:
            raise ConfigurationError(f"the index in {where} needs the model that it was built with: {error}") from error
        if not _alike(encoder.query_probe(), probe, _SAME):
            raise RetrievalError(
                f"the model {name!r} is not the one that the index in {where} was built with: it gives other vectors. "
                "Name or put back that model, or build the index again"
            )
        return encoder

    @classmethod
    def open_for_passages(cls, settings: EncoderSettings, where: Path | str, model: str | None = None) -> Encoder:
        """Open the model that further passages of an index need; whether it is the one of before is not looked at."""
        opened = open_model(_named(settings.model, model, where, "passages"))
        return cls(settings, opened, opened)

    def passage_probe(self) -> list[float]:
        """What distinguishes the model of passages from others, for the note of a build under way."""
        row: list[float] = self.passages([Passage("", "", _PROBE)])[0].tolist()
        return row

    def price(self, size: int) -> str:
        """About how much it costs to encode passages of so many bytes, in words; empty where it costs nothing."""
        return "" if self._for_passages is None else self._for_passages.price(size)

    def query_probe(self) -> Vectors:
        """What distinguishes the model of questions from others."""
        row: Vectors = self.queries([_PROBE])[0]
        return row

    def queries(self, texts: Sequence[str]) -> Vectors:
        """One row for each question."""
        return self._embed(self._for_queries, texts, "query", self.settings.query_prefix)

    def passages(self, passages: Sequence[Passage]) -> Vectors:
        """One row for each passage."""
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


def same_weights(probe: Sequence[float], earlier: object, *, hosted: bool = False) -> bool:
    """Whether two of `Encoder.passage_probe` are of one model, so that vectors of both can be in one index."""
    least = _SAME if hosted else _SAME_WEIGHTS
    try:
        return _alike(np.asarray(probe, np.float32), np.asarray(earlier, np.float32), least)
    except (TypeError, ValueError):
        return False


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


def _alike(one: Vectors, other: Vectors, least: float) -> bool:
    """Whether the cosine of two vectors is at least so much."""
    if one.shape != other.shape:
        return False
    return float(one @ other) >= least * float(np.linalg.norm(one) * np.linalg.norm(other))
