"""What the boundary models that ask a language model have in common: they read the quiz alone, and are JSON files."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from keqa.programs.boundary.model import Reads

FORMAT: Literal["keqa-boundary"] = "keqa-boundary"
ROLE = "boundary"
"""The role that their calls are made in, and counted under."""


class AskedModel(BaseModel):
    """A boundary model that asks a language model before any draw.

    Attributes:
        format: What kind of file it is written to.
        version: Of that format.
        roots: Digests of the ids of the questions that it learned from.
        about: How it came to be; nothing depends on it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    format: Literal["keqa-boundary"] = FORMAT
    version: Literal[1] = 1
    roots: Annotated[list[Annotated[str, Field(pattern="^[0-9a-f]{16}$")]], Field(max_length=100_000, repr=False)] = []
    about: dict[str, JsonValue] = {}

    @property
    def reads(self) -> Reads:
        """The quiz alone."""
        return "quiz"

    @property
    def uses_probabilities(self) -> bool:
        """Of draws it reads none."""
        return False

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """What its judgements depend on."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.spec().items())})"

    __str__ = __repr__
