"""Arguments of a program's constructor as attributes that can be assigned, wherever the program keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dspy
from dspy.predict.parameter import Parameter

from keqa.programs.arguments import check
from keqa.programs.predictor_state import Predictor
from keqa.programs.prompts import prompts_of
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


def become(program: Program, before: Any, after: Any) -> None:
    """Change a program in all in which two others differ; language models, retriever and all else stay.

    Args:
        program: A predictor whose prompt is the same in both stays the same object, with what it learned; another one
            takes the language model of the one that it replaces.
        before: Set up as the program is.
        after: Set up as it is to be.
    """
    lms = {name: (id(predictor), predictor.lm) for name, predictor in program.named_predictors()}
    asked = {id(lm): lm for _, lm in lms.values()}
    only = next(iter(asked.values())) if len(asked) == 1 else None
    _change(program, before, after)
    roles = program._lms.value
    role_of: dict[int, str] = {}
    for _, stage in program.named_sub_modules(Stage):
        stage.bound = program.bound
        role_of |= {id(getattr(stage, name, None)): role for name, role in stage.roles.items()}
    for name, predictor in program.named_predictors():
        old, lm = lms.get(name, (None, None))
        if old is None:
            lm = only if roles is None else getattr(roles, role_of.get(id(predictor), "task"))
        if id(predictor) != old:
            predictor.lm = lm
        if isinstance(predictor, Predictor):
            predictor.fixed = program.demonstrations
    fit = getattr(program, "fit_documents", None)
    if fit is not None:
        # The others have no retriever, by which a program may know what its documents are.
        fit()


def _change(part: Any, before: Any, after: Any) -> None:
    for name in sorted(({*vars(before), *vars(after)}) - _OWN_AFFAIR):
        ours, old, new = (vars(one).get(name) for one in (part, before, after))
        if name not in vars(after):
            if isinstance(old, dspy.Module):
                vars(part).pop(name, None)
        elif _is_whole(ours) and type(ours) is type(old) is type(new):
            _change(ours, old, new)
        elif not _same(old, new):
            part.__dict__[name] = new


def _is_whole(part: object) -> bool:
    return isinstance(part, dspy.Module) and not isinstance(part, Parameter)


def _same(old: Any, new: Any) -> bool:
    """Whether two values of an attribute come to the same; of predictors, whether their prompts do."""
    if type(old) is not type(new):
        return False
    if isinstance(old, list | tuple):
        return len(old) == len(new) and all(map(_same, old, new))
    if isinstance(old, dspy.Module):
        return prompts_of(old) == prompts_of(new)
    try:
        return bool(old == new)
    except ValueError:
        # Arrays are compared element by element, and have no truth.
        return False
