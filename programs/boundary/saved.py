"""What boundary models have in common that are JSON files, which may come from strangers."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from keqa.programs.boundary.model import Reads
from keqa.programs.reference.embedding import Embedder, Remembering, is_built_in, open_built_in

FORMAT: Literal["keqa-boundary"] = "keqa-boundary"
VERSION: Literal[1] = 1
ROLE = "boundary"
"""The role that calls of models that ask a language model are made in, and counted under."""

Root = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
"""Digest of the id of a question; see `root_digest`."""

Roots = Annotated[list[Root], Field(max_length=100_000)]


class Strict(BaseModel):
    """Values of a file that may come from a stranger: nothing converted, nothing unknown, no changes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class SavedModel(Strict):
    """A boundary model that is written to a file."""

    format: Literal["keqa-boundary"] = FORMAT
    version: Literal[1] = VERSION

    def written(self) -> dict[str, Any]:
        """All that it is, as JSON values."""
        return self.model_dump(mode="json")

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """What its judgements depend on, in short."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.spec().items())})"

    __str__ = __repr__


class AskedModel(SavedModel):
    """A boundary model that asks a language model before any draw, and so reads the quiz alone."""

    roots: Roots = Field(default_factory=list)
    about: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def reads(self) -> Reads:
        """The quiz alone."""
        return "quiz"

    @property
    def uses_probabilities(self) -> bool:
        """Of draws it reads none."""
        return False


def root_digest(root: str) -> str:
    """The id of a question as a model keeps it: what is in it stays with its owner."""
    return hashlib.blake2b(root.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def digest(value: Any) -> str:
    """A short name for JSON values that judgements depend on."""
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=10).hexdigest()


def refuse_unknown(embedder: str) -> None:
    """Refuse an embedder that a file may not name."""
    if not is_built_in(embedder):
        raise ValueError(f"the embedder {embedder!a:.80} is none of the built-in ones")


@cache
def shared_embedder(name: str) -> Embedder:
    """A built-in embedder, which all models share."""
    return Remembering(open_built_in(name))
