"""Arguments of a program's constructor as attributes that can be assigned, wherever the program keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dspy.predict.parameter import Parameter

from keqa.programs.arguments import check
from keqa.programs.stages.stage import Stage

if TYPE_CHECKING:
    from keqa.programs.program import Program

# What belongs to the machine, to other parameters, or to DSPy.
_OWN_AFFAIR = frozenset({"history", "callbacks", "_compiled", "bound", "_lms", "_retriever", "reference"})


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


def become(program: Program, fresh: Program) -> None:
    """Set a program up as another one is; it keeps its language models and retriever, and what their prompts learned.

    Args:
        program: The predictors whose prompt stays the same stay the same objects.
        fresh: Of the same class; its parts are taken over.
    """
    retriever, before = program.given_retriever, {id(predictor) for predictor in program.predictors()}
    _take_over(program, fresh)
    lms = program._lms.value
    for _, stage in program.named_sub_modules(Stage):
        stage.bound = program.bound
        for name, role in stage.roles.items():
            if id(getattr(stage, name)) not in before:
                getattr(stage, name).lm = None if lms is None else getattr(lms, role)
    if retriever is not None:
        program.bind_retriever(retriever)


def _take_over(stage: Stage, fresh: Stage) -> None:
    for name in sorted(({*vars(stage), *vars(fresh)}) - _OWN_AFFAIR):
        ours, theirs = vars(stage).get(name), vars(fresh).get(name)
        if isinstance(ours, Stage) and isinstance(theirs, Stage) and type(ours) is type(theirs):
            _take_over(ours, theirs)
        elif name not in vars(fresh):
            if isinstance(ours, Stage):
                delattr(stage, name)
        elif not (isinstance(ours, Parameter) and _prompt(ours) == _prompt(theirs)):
            stage.__dict__[name] = theirs


def _prompt(part: object) -> object:
    return getattr(part, "prompt", type(part))
