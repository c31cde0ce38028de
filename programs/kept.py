"""Arguments of a program's constructor as attributes that can be assigned, wherever the program keeps them."""

from __future__ import annotations

from typing import Any

from keqa.programs.arguments import check


class Kept:
    """An argument of a constructor that the program or a part of it keeps, as an attribute of the program.

    Without it, ``program.tries = 3`` would make an attribute that nothing reads. What is assigned is checked as the
    constructor checks its argument of that name.
    """

    def __init__(self, part: str = "", name: str = "") -> None:
        """Stand for an attribute.

        Args:
            part: The name of the part that keeps it; the program does where it is empty.
            name: The name of the part's attribute, where it is another.
        """
        self.part, self.name = part, name

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner, self.argument, self.name = owner, name, self.name or name

    def __get__(self, program: Any, owner: type | None = None) -> Any:
        if program is None:
            return self
        if self.part:
            return getattr(getattr(program, self.part), self.name)
        try:
            return vars(program)[self.name]
        except KeyError:
            raise AttributeError(f"{self.owner.__name__} has no {self.name} before it is set up") from None

    def __set__(self, program: Any, value: Any) -> None:
        read = check(self.owner, {self.argument: value}, self.owner.__name__)[self.argument]
        if self.part:
            setattr(getattr(program, self.part), self.name, read)
        else:
            vars(program)[self.name] = read
