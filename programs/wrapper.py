"""A module that stands for the one inside it, wherever DSPy or KEQA looks at it."""

from __future__ import annotations

import copy
from typing import Any, Generic, Self, TypeVar

import dspy

from keqa.errors import ConfigurationError
from keqa.programs.program import Program

M = TypeVar("M", bound=dspy.Module)


class ModuleWrapper(dspy.Module, Generic[M]):
    """Asked, nested, streamed, copied and loaded as the module inside it, with something beside it.

    Within a module of somebody's its predictors have the names that those of the inner module would have there, so that
    a state that was saved with one is loaded with the other. What it has not itself is the inner module's: attributes
    are read and set there.

    Attributes:
        program: The module inside.
    """

    program: M

    def __init__(self, program: M, **beside: Any) -> None:
        """Take the module, and what is kept beside it."""
        super().__init__()
        # All at once, as names that the inner module has too would otherwise be set there.
        self.__dict__.update(beside, program=program)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module inside."""
        return self.program(*args, **kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module inside from within an event loop."""
        return await self.program.acall(*args, **kwargs)

    forward = __call__
    aforward = acall

    def named_parameters(self) -> list[tuple[str, Any]]:
        """Those of the module inside, by the names that they have there."""
        found: list[tuple[str, Any]] = self.program.named_parameters()
        return found

    def load_state(self, state: Any, *, allow_unsafe_lm_state: bool = False) -> None:
        """Load into the module inside."""
        self.program.load_state(state, allow_unsafe_lm_state=allow_unsafe_lm_state)

    def set_lm(self, lm: Any) -> None:
        """Give the module inside a language model."""
        self.program.set_lm(lm)

    def get_lm(self) -> Any:
        """The language model of the module inside."""
        return self.program.get_lm()

    def reset_copy(self) -> Any:
        """A copy of the module inside without what was learned."""
        return self.program.reset_copy()

    def inspect_history(self, n: int = 1, file: Any = None) -> None:
        """Show the last calls of the module inside."""
        self.program.inspect_history(n, file=file)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "program" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.program, name)

    def __setattr__(self, name: str, value: Any) -> None:
        inside = self.__dict__.get("program")
        if inside is not None and name not in self.__dict__ and hasattr(inside, name):
            setattr(inside, name, value)
        else:
            super().__setattr__(name, value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = copy.copy(self)
        memo[id(self)] = new
        new.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return new

    def __copy__(self) -> Self:
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new


def program_within(given: Any, caller: str) -> Program:
    """The program that somebody gave, also where a wrapper such as ``keqa.compile`` returns stands for it.

    Args:
        given: A program or a wrapper.
        caller: For the message.

    Raises:
        ConfigurationError: It is something else, such as a module of somebody's own.
    """
    found = given.program if isinstance(given, ModuleWrapper) else given
    if not isinstance(found, Program):
        raise ConfigurationError(
            f"{caller} takes a KEQA or one of keqa.programs.baselines, not a {type(found).__name__}; of a module that "
            "contains one, give it the part"
        )
    return found
