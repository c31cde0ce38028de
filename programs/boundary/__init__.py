"""Boundary models: from what a quiz asks and a few cheap signals, how probably the answer from memory is right.

`keqa.optimize.boundary` makes them, `keqa.programs.gates.BoundaryGate` decides by one. Each has its file, a JSON file
that may come from a stranger.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from keqa.errors import ConfigurationError
from keqa.programs.boundary.asked import FinetunedModel, PromptedModel
from keqa.programs.boundary.light import (
    FORMAT,
    VERSION,
    BoundaryError,
    BoundaryModel,
    Judgement,
    LightModel,
    Reads,
    read_json,
)
from keqa.storage.untrusted import reasons

__all__ = [
    "BoundaryError",
    "BoundaryModel",
    "FinetunedModel",
    "Judgement",
    "LightModel",
    "PromptedModel",
    "Reads",
    "model_from",
    "read_model",
]

_KINDS: Mapping[Any, type[FinetunedModel | LightModel | PromptedModel]] = {
    "finetuned": FinetunedModel,
    "light": LightModel,
    "prompted": PromptedModel,
}


def model_from(value: Any, where: str | Path = "the boundary model", lm: str | None = None) -> BoundaryModel:
    """A boundary model from JSON values, which may come from a stranger: they name no file."""
    if not isinstance(value, Mapping) or value.get("format") != FORMAT:
        chooser = " but a chooser" if isinstance(value, Mapping) and value.get("format") == "keqa-chooser" else ""
        raise ConfigurationError(f"{where} is no boundary model{chooser}; keqa boundary train makes one")
    kind = value.get("kind")
    if value.get("version") != VERSION or not isinstance(kind, str) or kind not in _KINDS:
        raise ConfigurationError(f"{where} is a boundary model of another version of KEQA; train it again")
    if kind != "light" and "lm" in value:
        raise ConfigurationError(f"{where} names a language model, which what is saved with a program may not")
    try:
        return _KINDS[kind].model_validate(dict(value) if lm is None else {**value, "lm": _beside(where, lm)})
    except ValidationError as error:
        raise ConfigurationError(f"{where} cannot be used: {reasons(error)}") from None


def read_model(path: str | Path) -> BoundaryModel:
    """Read the file of a boundary model; that of a fine-tuned one names the folder of its weights, beside it."""
    value, lm = read_json(path), None
    if isinstance(value, dict) and value.get("kind") == "finetuned" and isinstance(value.get("lm"), str):
        lm = value.pop("lm")
    return model_from(value, path, lm)


def _beside(file: str | Path, name: str) -> str:
    place = Path(file).resolve().parent / name
    if Path(name).name != name or name in ("", ".", "..") or not place.is_dir():
        raise ConfigurationError(f"{file} names {name[:80]!a}, which is no folder beside it")
    return str(place)
