"""The light boundary model: an embedding of the quiz and a few signals, weighed by a calibrated logistic regression.

A model is a JSON file. It may come from a stranger: it holds nothing but numbers and names, all of them bounded, and
the embedders that it may name are the built-in ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from keqa.programs.boundary.features import masked, signal_values
from keqa.programs.boundary.model import (
    BoundaryError,
    Judgement,
    Reads,
    SavedModel,
    Signals,
    Strict,
    digest,
    refuse_unknown,
    shared_embedder,
)

Number = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]
Aspect = Literal["mastery", "certainty"]
Variant = Literal["probabilities", "texts"]


class Signal(Strict):
    """The weight of one signal."""

    mean: Number
    scale: Annotated[float, Field(ge=1e-6, le=1e6, allow_inf_nan=False)]
    weight: Number


class Regression(Strict):
    """A logistic regression with Platt's calibration of its score."""

    bias: Number
    signals: Annotated[dict[str, Signal], Field(max_length=32)]
    words: Annotated[list[Number], Field(max_length=16_384)]
    slope: Number
    offset: Number

    def probability(self, signals: Mapping[str, float], embedding: Any) -> float:
        """What it says of a quiz."""
        score = self.bias + float(embedding @ self._weights(len(embedding)))
        score += sum(one.weight * (signals[name] - one.mean) / one.scale for name, one in self.signals.items())
        calibrated = self.slope * score + self.offset
        return 1 / (1 + math.exp(-calibrated)) if calibrated > -700 else 0.0

    def _weights(self, length: int) -> Any:
        import numpy as np

        if length != len(self.words):
            raise BoundaryError(f"the embedding of a quiz has {length} places, the model weights for {len(self.words)}")
        return np.asarray(self.words)


class LightModel(SavedModel):
    """A light boundary model; see `keqa.optimize.boundary.train_light`, which makes one."""

    kind: Literal["light"] = "light"
    reads: Reads
    embedder: Annotated[str, Field(max_length=100)]
    heads: dict[Aspect, dict[Variant, Regression]]

    def model_post_init(self, context: Any) -> None:
        """Refuse what is well-formed and cannot judge."""
        refuse_unknown(self.embedder)
        if self.heads.keys() != {"mastery", "certainty"}:
            raise ValueError("heads has mastery and certainty")
        for aspect, variants in self.heads.items():
            if "texts" not in variants:
                raise ValueError(f"{aspect} lacks the weights of texts")
            for variant, head in variants.items():
                wanted = signal_values(self.reads, Signals((None,), (None,)), variant == "probabilities").keys()
                if head.signals.keys() != wanted:
                    raise ValueError(f"{aspect}, {variant}: the signals of this version are {', '.join(wanted)}")
        shared_embedder(self.embedder)

    @property
    def uses_probabilities(self) -> bool:
        """Whether it was trained on draws with the probabilities of their tokens."""
        return all("probabilities" in variants for variants in self.heads.values()) and self.reads != "quiz"

    def judge(self, quiz: str, signals: Signals, reference: str | None = None) -> Judgement:
        """Judge a quiz; see `keqa.programs.boundary.BoundaryModel`."""
        read = signals.draft if self.reads == "draft" else signals
        if self.reads != "quiz" and not read.answers:
            raise BoundaryError(f"the boundary model reads {self.reads}, and nothing was drawn")
        likely = self.uses_probabilities and read.has_probabilities
        values = signal_values(self.reads, read, likely)
        try:
            embedding = shared_embedder(self.embedder).embed([masked(quiz)])[0]
        except (RuntimeError, OSError, ValueError) as error:
            raise BoundaryError(f"the embedder {self.embedder} failed: {error}") from error
        variant: Variant = "probabilities" if likely else "texts"
        judged = {aspect: heads[variant].probability(values, embedding) for aspect, heads in self.heads.items()}
        return Judgement(judged["mastery"], judged["certainty"])

    def spec(self) -> dict[str, Any]:
        """Kind, what it reads, and a digest of its weights."""
        weights = {"embedder": self.embedder, "heads": self.written()["heads"]}
        return {"kind": self.kind, "reads": self.reads, "weights": digest(weights)}
