"""The settings of a program as plain values, and those of a KEQA back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any

from keqa.errors import ConfigurationError
from keqa.programs.arguments import check, fraction_text
from keqa.programs.gates import Gate, VoteGate
from keqa.programs.gates.registry import saved_gate
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program
from keqa.programs.registry import arguments_of
from keqa.programs.stages.selection import EmbeddingSimilarity, Similarity, lexical_similarity

OWN = "own"
"""Stands for a gate or a similarity that is code of the user's: it cannot be written down and has to be given again."""

_PARTS = ("retriever", "lms", "reference", "threshold", "gate", "similarity")
"""Arguments that are no plain values."""


def settings_of(program: Program) -> dict[str, Any]:
    """What a program was set up with, retriever, language models and reference excepted.

    Args:
        program: As it is now, changes since it was made included. Other methods than KEQA keep their settings under
            the names of their constructor's arguments.

    Returns:
        The constructor's arguments as JSON values; thresholds are exact, such as ``"4/5"``.
    """
    if not isinstance(program, KEQA):
        names = [name for name in arguments_of(type(program)) if name not in ("retriever", "lms")]
        values = {name: program.bound.workers if name == "workers" else getattr(program, name) for name in names}
        return {name: _written(value) for name, value in values.items()}
    settings = {name: getattr(program, name) for name in arguments_of(KEQA) if name not in _PARTS}
    settings["select"] = settings["select"] or False
    gate = program.gate
    plain = isinstance(gate, VoteGate) and gate == VoteGate(gate.threshold)
    settings["threshold"] = _written(gate.threshold) if plain else None
    settings["gate"] = None if plain else _gate(gate)
    settings["similarity"] = _similarity(program.similarity)
    return settings


def arguments(saved: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The constructor's arguments from saved settings.

    Args:
        saved: What `settings_of` gave.
        given: Arguments that take the place of saved ones. A threshold takes the place of any gate.

    Raises:
        ConfigurationError: A part is not given that could not be written down.
    """
    found = {**saved, **given}
    if "threshold" in given and "gate" not in given:
        found["gate"] = None
    for part in ("gate", "similarity"):
        if found.get(part) == OWN:
            raise ConfigurationError(f"the program was compiled with a {part} of your own; give it again as {part}=…")
    if isinstance(found.get("gate"), Mapping):
        found["gate"] = _made(found["gate"])
    elif "gate" not in given and found.get("gate") is not None:
        raise ConfigurationError(f"a saved gate is described by its kind and settings, not by {found['gate']!a:.80}")
    if found.get("threshold") is None:
        found.pop("threshold", None)
    return found


def _similarity(similarity: Similarity) -> str | None:
    if isinstance(similarity, EmbeddingSimilarity):
        return similarity.name
    return None if similarity is lexical_similarity else OWN


def _gate(gate: Gate) -> Any:
    if type(gate) is not saved_gate(type(gate).__name__):
        return OWN
    values = {one.name: _written(getattr(gate, one.name)) for one in fields(gate)}  # type: ignore[arg-type]
    return {"kind": type(gate).__name__, **values}


def _made(written: Mapping[str, Any]) -> Gate:
    values = dict(written)
    kind = values.pop("kind", None)
    cls = saved_gate(kind)
    if cls is None:
        raise ConfigurationError(f"unknown gate {kind!a:.80}; one of your own is registered before a program is loaded")
    cls.check_saved(values)
    # A gate of another package need not check its arguments, and these may come from a stranger.
    values = check(cls, values, cls.__name__)
    try:
        gate: Gate = cls(**values)
    except TypeError as error:
        raise ConfigurationError(f"no gate {kind} is set up like this: {error}") from error
    return gate


def _written(value: Any) -> Any:
    if isinstance(value, Fraction):
        return fraction_text(value)
    # A part that is more than a value says itself what it is.
    written = getattr(value, "written", None)
    return written() if callable(written) else value
