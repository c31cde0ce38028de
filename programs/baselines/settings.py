"""The settings of the methods that KEQA is compared with, as plain values."""

from __future__ import annotations

import inspect
from fractions import Fraction
from typing import Any

from keqa.programs.program import Program

__all__ = ["settings_of"]

_PARTS = ("self", "retriever", "lms")


def settings_of(program: Program) -> dict[str, Any]:
    """What a method was set up with, retriever and language models excepted.

    Args:
        program: It keeps its settings under the names of its constructor's arguments.

    Returns:
        The constructor's arguments as JSON values; fractions are exact, such as ``"1/2"``.
    """
    # DSPy's modules hide their arguments from `inspect.signature`.
    names = [name for name in inspect.signature(type(program).__init__).parameters if name not in _PARTS]
    found = {name: program.bound.workers if name == "workers" else getattr(program, name) for name in names}
    return {name: _written(value) for name, value in found.items()}


def _written(value: Any) -> Any:
    return f"{value.numerator}/{value.denominator}" if isinstance(value, Fraction) else value
