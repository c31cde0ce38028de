"""The composed program, its stages, and the methods it is compared with; each is loaded when it is named."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keqa.programs.keqa import KEQA
    from keqa.programs.prediction import UnansweredError

__all__ = ["KEQA", "UnansweredError"]

_HOMES = {"KEQA": "keqa", "UnansweredError": "prediction"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
