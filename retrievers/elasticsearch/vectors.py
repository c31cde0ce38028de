"""Vectors beside the text of an index: how they lie in Elasticsearch, and how a question becomes a kNN search.

They are those of `keqa.retrievers.dense`, of the same models. What they were made with, and by what its model is
recognised, stands in the manifest of the index.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from keqa.errors import ConfigurationError, InputError, RetrievalError
from keqa.retrievers.base import Passage
from keqa.retrievers.dense.encoding import Encoder, EncoderSettings, same_weights
from keqa.retrievers.dense.hosted import is_hosted
from keqa.retrievers.dense.models import Vectors
from keqa.retrievers.elasticsearch.mapping import VECTOR, ordered
from keqa.retrievers.manifest import Manifest

MOST_CANDIDATES: Final = 10_000
LONGEST_VECTOR: Final = 4096
"""The most dimensions that Elasticsearch takes."""

_LEAST_CANDIDATES = 300
_SIMILARITY = {"cosine": "cosine", "dot": "max_inner_product"}


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorManifest(Manifest):
    """What an index with vectors says about itself; see also `keqa.retrievers.manifest.Manifest`.

    Attributes:
        encoder: The models, and how texts are given to them.
        probe: The vector that the model of questions gave for a question that never changes.
    """

    encoder: EncoderSettings
    probe: tuple[float, ...]

    def problems(self) -> Iterator[str]:
        """What is wrong with entries that are of the right type."""
        yield from Manifest.problems(self)
        yield from self.encoder.problems()
        if len(self.probe) != self.encoder.dimension or not all(map(math.isfinite, self.probe)):
            yield f"probe must be {self.encoder.dimension} numbers"

    @property
    def without_vectors(self) -> Manifest:
        """What it says about its text, as an index without vectors does."""
        return Manifest(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Manifest)})


def chosen_encoder(model: str, **options: Any) -> Encoder:
    """Open the models of a new index.

    Args:
        model: Encodes passages; questions too where the options have no ``query_model``.
        **options: See `keqa.retrievers.dense.encoding.Encoder.choose`.

    Raises:
        InputError: The vectors are longer than Elasticsearch takes.
        ConfigurationError: A model cannot be opened, or the two are no pair.
        MissingExtraError: A package is missing.
    """
    encoder = Encoder.choose(model, **options)
    if encoder.settings.dimension > LONGEST_VECTOR:
        raise InputError(
            f"the vectors of {model} have {encoder.settings.dimension} dimensions, and Elasticsearch takes "
            f"{LONGEST_VECTOR} at most: name another model"
        )
    return encoder


def plan_of(encoder: Encoder) -> dict[str, Any]:
    """What of an encoder a load writes down, to be resumed with the same only."""
    return {"encoder": dataclasses.asdict(encoder.settings), "probe": encoder.passage_probe()}


def same_plan(plan: Mapping[str, Any], earlier: Mapping[str, Any]) -> bool:
    """Whether a load with one plan may resume what one with another began.

    Settings must be equal; a model is recognised by a vector, which need not be the same to the last digit.
    """
    one, other = dict(plan), dict(earlier)
    probes = one.pop("probe", None), other.pop("probe", None)
    if one != other:
        return False
    if "encoder" not in one:
        return True
    return same_weights(probes[0] or (), probes[1], hosted=is_hosted(str(one["encoder"]["model"])))


def vector_field(encoder: Mapping[str, Any]) -> dict[str, Any]:
    """Return the field of the vectors.

    Args:
        encoder: Entries of `EncoderSettings`.
    """
    return {
        VECTOR: {
            "type": "dense_vector",
            "dims": encoder["dimension"],
            "index": True,
            "similarity": _SIMILARITY[encoder["similarity"]],
            # All four bytes of a number, so that scores are exact; the default of later servers keeps one of them.
            "index_options": {"type": "hnsw", "m": 16, "ef_construction": 100},
        }
    }


def encoded(encoder: Encoder, passages: Sequence[Passage]) -> list[list[float]]:
    """The vectors of some passages, as they are sent: the shortest numbers that are read back as they were."""
    # Texts of like length together: a model works on all texts of a batch as on its longest.
    order = sorted(range(len(passages)), key=lambda place: -len(passages[place].text))
    rows = cast("list[list[float]]", [[]] * len(passages))
    for place, row in zip(order, encoder.passages([passages[place] for place in order]), strict=True):
        rows[place] = as_sent(row)
    return rows


def as_sent(row: Vectors) -> list[float]:
    """A vector as JSON has it."""
    return [float(str(value)) for value in row]


def knn_body(vector: Vectors, k: int) -> dict[str, Any]:
    """Return the request for the passages whose vectors are the most like one."""
    candidates = min(MOST_CANDIDATES, max(_LEAST_CANDIDATES, 2 * k))
    knn = {"field": VECTOR, "query_vector": as_sent(vector), "k": k, "num_candidates": candidates}
    return {"knn": knn, **ordered(k)}


def score_of(similarity: str, score: float) -> float:
    """The cosine or inner product behind a score of Elasticsearch, which is never negative."""
    if similarity == "cosine":
        return 2 * score - 1
    return score - 1 if score >= 1 else 1 - 1 / score


def check_same(encoder: Encoder, passage: Passage, vector: Sequence[float], where: str) -> None:
    """Make sure that an encoder gives the vectors that an index has.

    Args:
        encoder: Opened for passages.
        passage: One of the index.
        vector: Which it has there.
        where: What to call the index in messages.

    Raises:
        RetrievalError: It gives another.
    """
    row = encoder.passages([passage])[0]
    # As another machine, or its graphics card, rounds otherwise.
    if not same_weights(row.tolist(), np.asarray(vector, np.float32), hosted=True):
        raise RetrievalError(
            f"the model {encoder.settings.model!r} does not give the vectors that {where} has: name the model that it "
            "was built with, or build it again"
        )


def with_vectors(manifest: Manifest, where: str) -> VectorManifest:
    """The manifest of an index that has vectors.

    Raises:
        ConfigurationError: It has none.
    """
    if not isinstance(manifest, VectorManifest):
        raise ConfigurationError(
            f"{where} has no vectors: load it again with `keqa index … --engine elasticsearch --model MODEL`, or "
            "search its text as elasticsearch://…"
        )
    return manifest
