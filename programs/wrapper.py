"""A module that stands for the one inside it, wherever DSPy or KEQA looks at it."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import dspy

from keqa.errors import ConfigurationError
from keqa.programs.program import Program

M = TypeVar("M", bound=dspy.Module)


def _inside(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.program, name)(*args, **kwargs)

    return method


class ModuleWrapper(dspy.Module, Generic[M]):
    """Asked, nested, streamed, copied and loaded as the module inside it, with something beside it.

    Its predictors have the names of the inner module's, so that a state of the one is loaded into the other. What
    it has not itself is read and set there.
    """

    program: M

    def __init__(self, program: M, **beside: Any) -> None:
        super().__init__()
        # DSPy's notes, such as calls and callbacks, are the inner module's; what is beside it would be set there, too.
        self.__dict__.clear()
        self.__dict__.update(beside, program=program)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        return await self.program.acall(*args, **kwargs)

    aforward = acall
    __call__ = forward = _inside("__call__")
    # What DSPy's modules have themselves, and so would not be looked for in the module inside.
    named_parameters, load, load_state = _inside("named_parameters"), _inside("load"), _inside("load_state")
    set_lm, get_lm = _inside("set_lm"), _inside("get_lm")
    reset_copy = _inside("reset_copy")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "program" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.program, name)

    def __setattr__(self, name: str, value: Any) -> None:
        inside = self.__dict__.get("program")
        if inside is not None and name not in self.__dict__ and hasattr(inside, name):
            setattr(inside, name, value)
        else:
            if isinstance(inside, Program):
                inside.refuse_misspelt(name, value)
            super().__setattr__(name, value)


def program_within(given: Any, caller: str) -> Program:
    """The program that somebody gave, also where a wrapper such as ``keqa.compile`` returns stands for it."""
    found = given.program if isinstance(given, ModuleWrapper) else given
    if not isinstance(found, Program):
        raise ConfigurationError(
            f"{caller} takes a KEQA or one of keqa.programs.baselines, not a {type(found).__name__}; of a module that "
            "contains one, give it the part"
        )
    return found
