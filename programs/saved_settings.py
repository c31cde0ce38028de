"""Settings as the plain values that saved programs hold, and back: from anybody's file, so that none of them acts."""

from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

from keqa.errors import ConfigurationError
from keqa.programs.arguments import check
from keqa.programs.gates import BoundaryGate, saved_gate
from keqa.programs.records import fraction_text
from keqa.programs.reference.embedding import is_built_in, portable
from keqa.programs.settings import CHOOSERS, Settings
from keqa.programs.stages.selection import lexical_similarity

OWN = "own"
"""Stands for a part that is code of the user's: it cannot be written down and has to be given again."""
_JUDGING = ("model", *CHOOSERS)
"""Boundary models and choosers."""


def settings_of(program: Any) -> dict[str, Any]:
    """The settings as JSON values; thresholds are exact, such as ``"4/5"``, and no place on this machine is in them."""
    found = {name: _written(name, value) for name, value in program.settings}
    # Any other gate than KEQA's vote has a threshold of its own.
    return found if found.get("gate") is None else {**found, "threshold": None}


def _written(name: str, value: Any) -> Any:
    if isinstance(value, Fraction):
        return fraction_text(value)
    if name == "similarity":
        value = None if value is lexical_similarity else getattr(value, "name", OWN) if callable(value) else value
        return portable(value) if isinstance(value, str) else value
    if name == "gate" and value is not None:
        if type(value) is not saved_gate(type(value).__name__):
            return OWN
        named = isinstance(value, BoundaryGate)
        return {
            "kind": type(value).__name__,
            **{one.name: _written(one.name if named else "", getattr(value, one.name)) for one in fields(value)},
        }
    if name in _JUDGING and value is not None and not type(value).__module__.startswith("keqa."):
        return OWN
    # A part that is more than a value says itself what it is.
    written = getattr(value, "written", None)
    return written() if callable(written) else value


def is_own(written: Any) -> bool:
    """Whether a setting as it is written stands for code of the user's, or for a gate that judges by such code."""
    return bool(written == OWN or (isinstance(written, Mapping) and written.get("model") == OWN))


def read_values(
    settings: type[Settings],
    saved: Mapping[str, Any],
    given: Mapping[str, Any],
    embedder: str | None = None,
    method: str = "program",
) -> dict[str, Any]:
    """The settings of a saved program, from anywhere, checked; given ones replace them, and a threshold any gate."""
    found = dict(saved)
    if unknown := sorted(set(saved) - set(settings.model_fields)):
        raise ConfigurationError(f"unknown settings {unknown!a:.200}: they are those of another version of KEQA")
    if strange := sorted(set(given) - set(settings.model_fields)):
        raise ConfigurationError(f"{method} has no {strange[0]}; it has {', '.join(sorted(settings.model_fields))}")
    if given.get("threshold") is not None or "gate" in given:
        found.pop("gate", None)
    found = {name: value for name, value in found.items() if name not in given and (name, value) != ("threshold", None)}
    for name, value in found.items():
        if is_own(value) and name in ("gate", "similarity", *_JUDGING):
            raise ConfigurationError(f"the program was compiled with a {name} of your own; give it again as {name}=…")
    for part in _JUDGING:
        if isinstance(found.get(part), str):
            raise ConfigurationError(f"a saved {method} holds its {part}, and opens no file")
    if found.get("similarity") is not None:
        found["similarity"] = _named_model(found["similarity"], embedder)
    if found.get("gate") is not None:
        found["gate"] = _gate(found["gate"])
    return dict(settings.read({**found, **given}, method))


def must_be_named(part: str, name: Any) -> str:
    """What is said where a program names a model that the user has not named."""
    return (
        f"it names the embedding model {name!a:.100} for {part}. What a file names is not fetched from a hub or opened "
        "from a folder: if you want this model, name it yourself, with --embedder NAME or "
        "keqa.load(…, embedder=NAME), where NAME is a model of the hub or the folder that it lies in"
    )


def _named_model(wanted: Any, embedder: str | None) -> Any:
    """The model that compares sentences, where the user names it; see `open_built_in`."""
    if isinstance(wanted, str) and is_built_in(wanted):
        return wanted
    # A hub's name and a folder that the model was brought to differ in what comes before the last component.
    if isinstance(wanted, str) and embedder is not None and Path(embedder).name == Path(wanted).name:
        return embedder
    raise ConfigurationError(must_be_named("the comparison of sentences", wanted))


def _gate(written: Any) -> Any:
    if not isinstance(written, Mapping):
        raise ConfigurationError(f"a saved gate is described by its kind and settings, not by {written!a:.80}")
    values = dict(written)
    kind = values.pop("kind", None)
    cls = saved_gate(kind)
    if cls is None:
        raise ConfigurationError(f"unknown gate {kind!a:.80}; one of your own is registered before a program is loaded")
    cls.check_saved(values)
    # A gate of another package need not check its arguments, and these may come from a stranger.
    try:
        return cls(**check(cls, values, cls.__name__))
    except TypeError as error:
        raise ConfigurationError(f"no gate {kind} is set up like this: {error}") from error
