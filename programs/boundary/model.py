"""What every boundary model is given and says, and what those have in common that are JSON files.

Such a file may come from a stranger.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from keqa.errors import KeqaError
from keqa.programs.gate import Draws
from keqa.programs.reference.embedding import Embedder, Remembering, is_built_in, open_built_in

Reads = Literal["quiz", "draft", "draws"]
"""What a boundary model reads, which is what it costs: the quiz alone, one draw beside it, or all draws."""


class BoundaryError(KeqaError):
    """A boundary model has no judgement on a quiz; a gate takes the quiz for unknown."""


@dataclass(frozen=True)
class Judgement:
    """What a boundary model says of a quiz (KBM, section 2.3), each from 0 to 1.

    Attributes:
        mastery: How probably the answer from memory is right.
        certainty: How much the draws would agree with each other.
    """

    mastery: float
    certainty: float


class BoundaryModel(Protocol):
    """Judges whether a language model knows the answer to a quiz. Safe to call from many threads."""

    @property
    def reads(self) -> Reads:
        """What it needs before it can judge."""

    @property
    def uses_probabilities(self) -> bool:
        """Whether its judgement is better where the draws come with the probabilities of their tokens."""

    def judge(self, quiz: str, draws: Draws, reference: str | None = None) -> Judgement:
        """Judge a quiz.

        Args:
            quiz: Its resolved text.
            draws: Those that were made, and what the quiz asks for; of more than it reads, the first ones count.
            reference: Passages that the LM would be given, for models that judge with them; others read none.

        Raises:
            BoundaryError: It cannot judge.
        """

    def written(self) -> dict[str, Any]:
        """All that it is, as JSON values."""

    def spec(self) -> Mapping[str, Any]:
        """What its judgements depend on, in short: for fingerprints and the headers of run files."""


FORMAT: Literal["keqa-boundary"] = "keqa-boundary"
VERSION: Literal[1] = 1
ROLE = "boundary"
"""The role that calls of models that ask a language model are made in, and counted under."""

Root = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
"""Digest of the id of a question; see `root_digest`."""


def _built_in(embedder: str) -> str:
    if not is_built_in(embedder):
        raise ValueError(f"the embedder {embedder!a:.80} is none of the built-in ones")
    return embedder


EmbedderName = Annotated[str, Field(max_length=100), AfterValidator(_built_in)]
"""An embedder that a file may name."""


class Strict(BaseModel):
    """Values of a file that may come from a stranger: nothing converted, nothing unknown, no changes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class SavedModel(Strict):
    """A boundary model that is written to a file."""

    format: Literal["keqa-boundary"] = FORMAT
    version: Literal[1] = VERSION
    # Digests of the ids of the questions that it learned from; and how it came to be, on which nothing depends.
    roots: Annotated[list[Root], Field(max_length=100_000)] = Field(default_factory=list)
    about: dict[str, JsonValue] = Field(default_factory=dict)

    def written(self) -> dict[str, Any]:
        """All that it is, as JSON values."""
        return self.model_dump(mode="json")

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """What its judgements depend on, in short."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.spec().items())})"

    __str__ = __repr__


def root_digest(root: str) -> str:
    """The id of a question as a model keeps it: what is in it stays with its owner."""
    return hashlib.blake2b(root.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def digest(value: Any) -> str:
    """A short name for JSON values that judgements depend on."""
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=10).hexdigest()


@cache
def shared_embedder(name: str) -> Embedder:
    """A built-in embedder, which all models share."""
    return Remembering(open_built_in(name))
