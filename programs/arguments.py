"""What the settings of methods and gates may be, as annotations: one schema for Python, options and saved programs.

Types are strict: ``1.5``, ``"5"`` and ``True`` are no whole numbers, NaN and infinity no numbers. Every number has a
least and a greatest value, so that neither a typing error nor a stranger's program asks for a million draws.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass
from fractions import Fraction
from numbers import Rational
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from keqa.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")

# Exponents of two digits at most: of 1e-999999999 the exact fraction would fill the memory.
_EXACT = re.compile(
    r"[+-]?(?:\d{1,400}/\d{1,400}|(?:\d{1,60}(?:\.\d{0,60})?|\.\d{1,60})(?:[eE][+-]?\d{1,2})?)", re.ASCII
)


@dataclass(frozen=True, eq=False)
class Kind:
    """What an argument may be where no type says it, written in an annotation as ``Annotated[TYPE, Kind(...)]``.

    `allowed` says it as a message does after "must be"; a ValueError of `read` refuses it, and its message is advice.
    """

    allowed: str
    read: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.read)


@dataclass(frozen=True, eq=False)
class Bounds:
    """The limits of a number or text, written in an annotation like a `Kind`."""

    allowed: str
    kind: Literal["int", "float", "str"]
    limits: Mapping[str, Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return getattr(core_schema, f"{self.kind}_schema")(strict=True, **self.limits)


def whole(least: int, greatest: int) -> Bounds:
    return Bounds(f"a whole number from {least:,} to {greatest:,}", "int", {"ge": least, "le": greatest})


def number(allowed: str, **limits: float) -> Bounds:
    """Stands in an annotation for a number, which is finite."""
    return Bounds(allowed, "float", {**limits, "allow_inf_nan": False})


def exact(value: object) -> Fraction:
    """A number as the exact fraction that its writing says, else a ValueError: 0.8 is 4/5, not the nearest binary."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    text = str(value).strip()
    if _EXACT.fullmatch(text) is None:
        raise ValueError
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError from None


def _fraction(allowed: str, holds: Callable[[Fraction], bool]) -> Kind:
    def read(value: object) -> Fraction:
        found = exact(value)
        if not holds(found):
            raise ValueError
        return found

    return Kind(allowed, read)


Tries = Annotated[int, whole(1, 1_000)]  # samples of one quiz or question
TopK = Annotated[int, whole(1, 1_000)]  # passages that one search finds
Count = Annotated[int, whole(1, 1_000)]  # sentences or passages that are kept
Further = Annotated[int, whole(0, 1_000)]  # passages beside those that one search finds
Steps = Annotated[int, whole(1, 100)]  # quizzes, steps, rounds, queries or rephrasings of one question
Workers = Annotated[int, whole(1, 1_000)]  # calls in flight
InFlight = Annotated[int, whole(1, 1_000)]  # questions in work at once
Characters = Annotated[int, whole(1, 1_000_000)]  # the length of a question
Seed = Annotated[int, Bounds("a whole number of at most 64 bits", "int", {"ge": -(2**63), "lt": 2**63})]
Temperature = Annotated[float, number("a number above 0 and at most 10", gt=0, le=10)]
TopP = Annotated[float, number("a number above 0 and at most 1", gt=0, le=1)]
Probability = Annotated[float, number("a number from 0 to 1", ge=0, le=1)]
Weight = Annotated[float, number("a number from 0 to 1,000", ge=0, le=1_000)]
Word = Annotated[str, Bounds("text of 1 to 300 characters", "str", {"min_length": 1, "max_length": 300})]

Threshold = _fraction("a number above 0 and at most 1, such as 0.8 or '4/5'", lambda fraction: 0 < fraction <= 1)
Share = _fraction("a number from 0 to 1, such as 0.4 or '2/5'", lambda fraction: 0 <= fraction <= 1)
# In the form ``plain`` a certainty may be below 0.
Certainty = _fraction("a number from -10 to 1, such as 0.8 or '4/5'", lambda fraction: -10 <= fraction <= 1)


def _has(value: Any, advice: str, *names: str) -> Any:
    """An object that has all of some attributes; of another, there is advice."""
    if isinstance(value, type) or not all(hasattr(value, name) for name in names):
        raise ValueError(advice)
    return value


def _adapted(value: Any) -> Any:
    from keqa.retrievers.adapters import adapted

    return value if value is None else adapted(value)


def _shown(value: Any) -> str:
    from keqa.retrievers.text import shown

    return shown(value)


def _read_lms(value: Any) -> Any:
    named = _shown(value) if isinstance(value, str) else repr("NAME")
    advice = f"make them with keqa.build_roles({named}); a language model of DSPy's is given to all roles with "
    return _has(value, f"{advice}the program's set_lm", "task", "consistency", "utility")


def _read_gate(value: Any) -> Any:
    if isinstance(value, type) or not callable(getattr(value, "decide", None)):
        raise ValueError("it has to have the method decide")
    threshold = _has(value, "it has to have the attributes name and threshold", "name", "threshold").threshold
    if not (threshold is None or isinstance(threshold, Rational)):
        raise ValueError(f"its threshold has to be a Fraction or None, not {_shown(threshold)}")
    return value


_CHOOSERS = "keqa boundary train --outcomes FILE --kind chooser makes one, and so does keqa compile"


def _function(value: Any) -> Any:
    if isinstance(value, type) or not callable(value):
        raise ValueError
    return value


RETRIEVER = Kind("an index, or another retriever or function that keqa.as_retriever takes", _adapted)
"""Stands in an annotation for a retriever, one of another make in the form that programs search.

None passes as well: without one a method can be looked at, if not asked.
"""

LMS = Kind("an object with the language models task, consistency and utility", _read_lms)
GATE = Kind("a gate, such as keqa.programs.gates.VoteGate()", _read_gate)
EMBEDDER = Kind(
    "an embedder, or the name of one", lambda value: value if isinstance(value, str) else _has(value, "", "embed")
)
CHOOSER = Kind("a chooser, or its file", lambda value: _has(value, _CHOOSERS, "choose", "steps"))
REFERENCE = Kind("a utility reference, or a function of a quiz and a passage", _function)
SIMILARITY = Kind("a function of triples and sentences", _function)
CORRECTNESS = Kind("a function of an answer and its gold answers", _function)
GOLDS = Kind(
    "a mapping from quizzes to gold answers, or a function",
    lambda value: value if isinstance(value, Mapping) else _function(value),
)


def checked(cls: type[T]) -> type[T]:
    """Make a class refuse arguments that its constructor's annotations do not allow; see `check`."""
    written: Callable[..., None] = vars(cls)["__init__"]
    signature = inspect.signature(written)

    @functools.wraps(written)
    def checking(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError:
            # Too many or too few: Python's own message names the constructor.
            written(self, *args, **kwargs)
            raise
        given = dict(list(bound.arguments.items())[1:])
        bound.arguments.update(check(written, given, type(self).__name__))
        written(*bound.args, **bound.kwargs)

    cls.__init__ = checking  # type: ignore[method-assign]
    return cls


def check(called: Callable[..., Any], arguments: Mapping[str, Any], of: str) -> dict[str, Any]:
    """Some arguments of a class or function as its annotations have them, such as thresholds as exact fractions."""
    from pydantic import ValidationError

    function = called.__init__ if isinstance(called, type) else called  # type: ignore[misc]
    schema = _schema(inspect.unwrap(function))
    read = dict(arguments)
    for name in (name for name in arguments if name in schema):
        hint, adapter = schema[name]
        try:
            read[name] = adapter.validate_python(arguments[name])
        except ValidationError as error:
            raise refusal(error, hint, f"{of}: {name}", arguments[name]) from None
    return read


def refusal(error: ValidationError, hint: Any, what: str, value: Any) -> ConfigurationError:
    """What is said of a value that an annotation does not allow."""
    ours = (one["ctx"]["error"] for one in error.errors() if one["type"] == "value_error")
    advice = next(filter(None, map(str, ours)), "")
    allowed = _allowed(hint)
    choices = " or ".join(filter(None, [", ".join(allowed[:-1]), allowed[-1]]))
    return ConfigurationError(f"{what} must be {choices}, not {_shown(value)}{f'; {advice}' if advice else ''}")


@functools.cache
def _schema(function: Callable[..., Any]) -> dict[str, tuple[Any, TypeAdapter[Any]]]:
    """Of each annotated argument, its annotation and what reads it."""
    from pydantic import ConfigDict, TypeAdapter

    hints = get_type_hints(function, include_extras=True)
    hints.pop("return", None)
    config = ConfigDict(strict=True, arbitrary_types_allowed=True)
    # An argument that a dataclass takes and does not keep.
    plain = {name: hint.type if isinstance(hint, InitVar) else hint for name, hint in hints.items()}
    return {name: (hint, TypeAdapter(hint, config=config)) for name, hint in plain.items()}


def _allowed(hint: Any) -> list[str]:
    """What a value of a type may be, in words."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        stated = [one.allowed for one in inner[1:] if isinstance(one, Kind | Bounds)]
        return stated or _allowed(inner[0])
    if origin in (Union, UnionType):
        return [one for part in inner for one in _allowed(part)]
    if origin is Literal:
        return [repr(one) for one in inner]
    if hint in (None, NoneType):
        return ["None"]
    if hint is bool:
        return ["True", "False"]
    return ["text" if hint is str else getattr(hint, "__name__", str(hint))]
