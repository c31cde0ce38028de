"""What a saved predictor may hold: an instruction, descriptions of fields, demonstrations, and nothing else.

``dspy.Predict.load_state`` sets every key of a state as an attribute, so that a ``config`` in a file would send calls,
with the key of whoever loads it, to a server of the file's choice. A state may come from a stranger: it is checked here
before DSPy sees it, and what DSPy sees is written from what was checked.
"""

from __future__ import annotations

import copy
import copyreg
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import dspy
from dspy.adapters.types.base_type import CUSTOM_TYPE_END_IDENTIFIER, CUSTOM_TYPE_START_IDENTIFIER
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from keqa.errors import ConfigurationError
from keqa.programs.demonstrations import fixed_for

_MAX_DEMOS = 1_000
_MAX_CHARS = 4_000_000
_MAX_VALUES = 100_000
_MAX_DEPTH = 8

# DSPy writes these with every predictor; they say nothing unless there is something in them.
_EMPTY = ("traces", "train", "lm")
_CUSTOM_TYPES = (CUSTOM_TYPE_START_IDENTIFIER, CUSTOM_TYPE_END_IDENTIFIER)
_AUGMENTED = "augmented"
"""DSPy's note that a demonstration was bootstrapped."""


class Predictor(dspy.Predict):
    """A predictor whose language model belongs to the machine, and whose saved state is a prompt and nothing else.

    Modules that contain it treat it as they treat any predictor: they reset, copy, save and load it by itself. So it is
    here that the language model of its role is kept by ``reset_copy`` and ``load_state``, shared by copies, and left
    out of whatever is saved, with its address and key.

    Attributes:
        fixed: Whether it shows the fixed demonstrations of its signature while it has none of its own; they are never
            among its `demos`, so that they are neither saved nor taken for something that was learned.
        prompt: The name of the signature that it was made with.
        like: Another predictor of the same fields, whose learned demonstrations it shows while it has none of its own.
    """

    fixed = True
    like: Predictor | None = None

    def __init__(self, signature: Any, **arguments: Any) -> None:
        """Set up; see ``dspy.Predict``."""
        super().__init__(signature, **arguments)
        # New instructions make a signature without a name.
        self.prompt = self.signature.__name__

    def forward(self, **kwargs: Any) -> Any:
        """Ask; see ``dspy.Predict``."""
        return super().forward(**self._demonstrated(kwargs))

    async def aforward(self, **kwargs: Any) -> Any:
        """Ask from within an event loop; see ``dspy.Predict``."""
        return await super().aforward(**self._demonstrated(kwargs))

    def _demonstrated(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return kwargs if "demos" in kwargs else {**kwargs, "demos": demos_of(self, kwargs.get("lm"))}

    def reset(self) -> None:
        """Forget what an optimizer added; the language model stays."""
        lm: Any = getattr(self, "lm", None)
        super().reset()
        self.lm = lm

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """The prompt, with what it shows of its demonstrations; no language model."""
        twin = copy.copy(self)
        twin.lm, twin.demos = None, shown(self.demos, self.signature)
        state: dict[str, Any] = super(Predictor, twin).dump_state(json_mode=json_mode)
        return state

    def load_state(self, state: Mapping[str, Any], *, allow_unsafe_lm_state: bool = False) -> Any:
        """Load a saved state as `keqa.programs.stages.stage.Stage.load_state` does.

        Raises:
            ConfigurationError: It holds what a state may not, by name.
        """
        lm: Any = getattr(self, "lm", None)
        loaded = super().load_state(checked_state(state, self.signature, self.signature.__name__))
        self.lm = lm
        return loaded

    def __copy__(self) -> Self:
        new = type(self).__new__(type(self))
        new.__setstate__(self.__getstate__())
        return new

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        memo[id(self.lm)] = self.lm
        new.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return new

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickled, it has no language model: an address and a key would travel with it."""
        attributes: Any = self.__getstate__()
        return (copyreg.__newobj__, (type(self),), {**attributes, "lm": None})  # type: ignore[attr-defined]


def demos_of(predictor: dspy.Predict, lm: Any = None) -> list[Any]:
    """The demonstrations that a predictor shows where a call brings none: its own, or else the fixed ones.

    Args:
        predictor: Which.
        lm: The language model of the call; the predictor's where None.
    """
    learned = learned_demos(predictor)
    if learned or not (isinstance(predictor, Predictor) and predictor.fixed):
        return learned
    return list(fixed_for(predictor.prompt, predictor.signature, lm or predictor.lm or dspy.settings.lm))


def learned_demos(predictor: dspy.Predict) -> list[Any]:
    """The demonstrations that a predictor learned, or else those of the one that it is like."""
    like = getattr(predictor, "like", None)
    return list(predictor.demos or ([] if like is None else like.demos))


def checked_states(
    state: Mapping[str, Any], parts: Mapping[str, Any], optional: Mapping[str, type[dspy.Signature]], owner: str
) -> dict[str, Any]:
    """The states of all predictors of a module, each checked; those of other parameters check themselves.

    Args:
        state: By the name of a part, from anywhere.
        parts: The parameters of the module.
        optional: Signatures of predictors that it may be without.
        owner: What messages call the module.

    Raises:
        ConfigurationError: There is a part that the module cannot have; or see `checked_state`.
    """
    named_values(state, f"the state of {owner}")
    signatures = {name: part.signature for name, part in parts.items() if isinstance(part, dspy.Predict)}
    # DSPy notes in "metadata" which versions wrote a file; nothing else is read from there.
    unknown = sorted(set(state) - {*parts, *optional, "metadata"})
    if unknown:
        raise ConfigurationError(f"a {owner} has no part {unknown[0][:80]!a}")
    found: dict[str, Any] = {}
    for name in state:
        signature = signatures.get(name) or optional.get(name)
        if name != "metadata":
            found[name] = state[name] if signature is None else checked_state(state[name], signature, name)
    return found


def checked_state(state: Any, signature: type[dspy.Signature], name: str) -> dict[str, Any]:
    """A predictor's state with what may be in it, and nothing else.

    Args:
        state: From anywhere.
        signature: Of the predictor.
        name: What messages call the predictor.

    Returns:
        A new state for ``dspy.Predict.load_state``.

    Raises:
        ConfigurationError: It holds something else, by name, or is of other types or larger than any of KEQA's.
    """
    named_values(state, name)
    _refuse_unknown(state, {"signature", "demos", "fields", *_EMPTY}, f"the predictor {name}")
    filled = [part for part in _EMPTY if state.get(part)]
    if filled:
        raise ConfigurationError(f"the predictor {name} may not hold {filled[0]!r}: a language model is not saved")
    missing = [part for part in ("signature", "demos") if part not in state]
    if missing:
        raise ConfigurationError(f"the predictor {name} has no {missing[0]!r}")
    size = _Size(name)
    demos = _demos(state["demos"], signature, name)
    checked = {
        "signature": _prompt(state["signature"], signature, name),
        "demos": demos,
        **{part: None if part == "lm" else [] for part in _EMPTY},
    }
    if state.get("fields"):
        checked["fields"] = _decisions(state["fields"], signature, name)
    size.add(checked)
    for demo in demos:
        for field in signature.fields.keys() & dict(demo).keys():
            what = f"{field} in a demonstration of {name}"
            _check_demo_value(demo[field], signature.fields[field].annotation, what)
    return checked


def named_values(value: Any, what: str) -> Mapping[str, Any]:
    """A value from anywhere as the named values that it has to be.

    Args:
        value: From anywhere.
        what: What messages call it.

    Raises:
        ConfigurationError: It is something else.
    """
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ConfigurationError(f"{what} is not described by named values")
    return value


def shown(demos: Iterable[Any], signature: type[dspy.Signature]) -> list[Any]:
    """Demonstrations with what a prompt shows of them; optimizers of DSPy take whole training examples.

    Args:
        demos: Mappings or examples; each stays of its kind.
        signature: Of the predictor.
    """
    names = {*signature.fields, _AUGMENTED}
    return [
        type(demo)({name: value for name, value in dict(demo).items() if name in names})
        if set(dict(demo)) - names
        else demo
        for demo in demos
    ]


def _prompt(state: Any, signature: type[dspy.Signature], name: str) -> dict[str, Any]:
    named_values(state, f"the signature of {name}")
    _refuse_unknown(state, {"instructions", "fields"}, f"the signature of {name}")
    fields = state.get("fields")
    if not isinstance(state.get("instructions"), str) or not isinstance(fields, list):
        raise ConfigurationError(f"the signature of {name} has no instructions, or no fields")
    if len(fields) != len(signature.fields):
        raise ConfigurationError(f"the signature of {name} has {len(fields)} fields, not {len(signature.fields)}")
    for field in fields:
        named_values(field, f"a field of {name}")
        _refuse_unknown(field, {"prefix", "description"}, f"a field of {name}")
        if not all(isinstance(field.get(part), str) for part in ("prefix", "description")):
            raise ConfigurationError(f"a field of {name} has no prefix, or no description")
    texts = [state["instructions"], *(text for field in fields for text in field.values())]
    if any(marker in text for marker in _CUSTOM_TYPES for text in texts):
        raise ConfigurationError(f"the signature of {name} holds markers of DSPy's, which no prompt has")
    return {"instructions": state["instructions"], "fields": [dict(field) for field in fields]}


def _demos(demos: Any, signature: type[dspy.Signature], name: str) -> list[Any]:
    if not isinstance(demos, list) or len(demos) > _MAX_DEMOS:
        raise ConfigurationError(f"the demonstrations of {name} are no list of at most {_MAX_DEMOS:,}")
    for demo in demos:
        given = demo.toDict() if isinstance(demo, dspy.Example) else demo
        named_values(given, f"a demonstration of {name}")
        _refuse_unknown(given, {*signature.fields, _AUGMENTED}, f"a demonstration of {name}")
    return list(demos)


def _check_demo_value(value: Any, annotation: Any, what: str) -> None:
    """Refuse a value that a prompt cannot show: it is text, or of its field's type."""
    if value is None or isinstance(value, str | int | float):
        return
    try:
        TypeAdapter(annotation).validate_python(value)
    except (ValidationError, PydanticSchemaGenerationError) as error:
        raise ConfigurationError(f"{what} is not of its type") from error


def _decisions(fields: Any, signature: type[dspy.Signature], name: str) -> dict[str, Any]:
    """Thresholds and the like of decisions; what they may be, DSPy checks."""
    from dspy.adapters.decision_state import DecisionState

    named_values(fields, f"the fields of {name}")
    _Size(name).add(fields)
    try:
        DecisionState(signature, fields)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigurationError(f"the fields of {name} cannot be used: {error}") from error
    return dict(fields)


def _refuse_unknown(given: Mapping[str, Any], known: set[str], what: str) -> None:
    unknown = sorted(set(given) - known)
    if unknown:
        raise ConfigurationError(f"{what} may not hold {unknown[0][:80]!a}: only {', '.join(sorted(known))}")


class _Size:
    """Counts what a state holds, and refuses what is not plain or too much."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values = self.chars = 0

    def add(self, value: Any, depth: int = 0) -> None:
        """Count a value and all in it."""
        self.values += 1
        if isinstance(value, dspy.Example):
            value = value.toDict()
        if isinstance(value, str):
            self.chars += len(value)
        elif isinstance(value, Mapping):
            self._all([*value, *value.values()], depth)
        elif isinstance(value, Sequence):
            self._all(value, depth)
        elif not (
            value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))
        ):
            raise ConfigurationError(f"the predictor {self.name} holds a value that is no plain text, number or list")
        if self.values > _MAX_VALUES or self.chars > _MAX_CHARS:
            raise ConfigurationError(
                f"the predictor {self.name} holds more than {_MAX_CHARS:,} characters or {_MAX_VALUES:,} values"
            )

    def _all(self, values: Sequence[Any], depth: int) -> None:
        if depth == _MAX_DEPTH:
            raise ConfigurationError(f"the predictor {self.name} holds values nested deeper than {_MAX_DEPTH} levels")
        for value in values:
            self.add(value, depth + 1)
