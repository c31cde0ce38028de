"""What methods are set up with, as pydantic models of what `keqa.programs.declared` declares."""

from collections.abc import Mapping
from os import PathLike
from typing import Any, Self, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from keqa.errors import ConfigurationError, meant
from keqa.programs import declared
from keqa.programs.arguments import refusal


def as_asked(*, cites: bool) -> dict[str, Any]:
    """How one's own documents are asked where nothing was compiled: one call for several, and one reading first.

    What is read plainly is checked where it must not be guessed; for who wants passages judged, what is read is cited.
    """
    reads = {"cite": True} if cites else {"pick": False, "read_together": True}
    return {"draft": True, "settle": "cascade", "expand": 3, **reads}


class Settings(declared.CommonSettings, BaseModel):
    """The settings that every method has; a method's own class of them adds its own, as annotated fields."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, arbitrary_types_allowed=True)

    @classmethod
    def read(cls, values: Mapping[str, Any], method: str) -> Self:
        for name in values:
            if name not in cls.model_fields:
                near = meant(name, [*cls.model_fields, "lms"])
                raise TypeError(f"{method} got an unexpected keyword argument {name!r}{near}")
        try:
            return cls(**values)
        except ValidationError as error:
            name = str(error.errors()[0]["loc"][0])
            hint = get_type_hints(cls, include_extras=True)[name]
            raise refusal(error, hint, f"{method}: {name}", values.get(name)) from None

    def changed(self, changes: Mapping[str, Any], method: str) -> Self:
        own = {name: getattr(self, name) for name in self.model_fields_set}
        return self.read({**own, **changes}, method)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Copies of a program have its gate and the like in common."""
        return self


CHOOSERS = ("chooser", "arbiter")
"""The settings that are choosers."""


class KeqaSettings(declared.DeclaredKeqa, Settings):
    """The settings of KEQA."""

    @model_validator(mode="before")
    @classmethod
    def _one_gate(cls, given: dict[str, Any]) -> dict[str, Any]:
        """KEQA's vote gate is its threshold."""
        gate = given.get("gate")
        if gate is not None:
            from keqa.programs.gate import VoteGate

            if isinstance(gate, VoteGate) and gate == VoteGate(gate.threshold):
                return {**given, "threshold": gate.threshold, "gate": None}
        return given

    @model_validator(mode="before")
    @classmethod
    def _choosers(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Choosers from their files, or from JSON values."""
        written = {name: given[name] for name in CHOOSERS if isinstance(given.get(name), str | PathLike | Mapping)}
        if not written:
            return given
        from keqa.programs.boundary.chooser import chooser_from, read_chooser

        made = {
            name: chooser_from(value, f"the {name}") if isinstance(value, Mapping) else read_chooser(value)
            for name, value in written.items()
        }
        return {**given, **made}

    @model_validator(mode="after")
    def _can_choose(self) -> Self:
        if self.arbiter is not None and len(self.arbiter.steps) < 2:
            raise ConfigurationError("an arbiter sees two answers, and this chooser only the first: train it with both")
        return self

    @model_validator(mode="after")
    def _one_word(self) -> Self:
        if self.select is True:
            self.__dict__["select"] = "beside"
        return self

    def changed(self, changes: Mapping[str, Any], method: str) -> Self:
        # A threshold takes the place of any gate.
        voting = changes.get("threshold") is not None and "gate" not in changes
        return super().changed({**changes, "gate": None} if voting else changes, method)
