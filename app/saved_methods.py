"""The methods that a compiled program may be: what each is called, how it is set up, and making it again."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any

from keqa.errors import ConfigurationError
from keqa.programs.keqa import KEQA
from keqa.programs.settings import arguments, settings_of
from keqa.prompts import Prompts, prompt_of, prompts_of
from keqa.runs.methods import METHODS, Method, arguments_of, load_class

if TYPE_CHECKING:
    from keqa.programs.program import Program
    from keqa.programs.stage import RoleLMs
    from keqa.programs.utility_reference import UtilityReference
    from keqa.retrievers import Retriever

__all__ = ["arguments_from", "compilable", "expected", "made", "name_of", "set_up"]

_NAME = "keqa"


def compilable(method: Method) -> bool:
    """Whether a method is compiled by itself; the others are made from a compiled KEQA."""
    return method.name == _NAME or (method.kind == "baseline" and method.learned is None)


def name_of(program: Program) -> str:
    """What a program is called where methods are named, such as ``keqa`` or ``rag-cot``.

    Raises:
        ConfigurationError: It is of a class that cannot be saved.
    """
    if type(program) is KEQA:
        return _NAME
    place = f"{type(program).__module__}:{type(program).__qualname__}"
    fitting = [
        method
        for method in METHODS.values()
        if compilable(method)
        and method.target == place
        and all(getattr(program, name) == value for name, value in method.fixed.items())
    ]
    if not fitting:
        raise ConfigurationError(
            f"only a KEQA can be saved, or one of keqa.programs.baselines, not a {type(program).__name__}"
        )
    return max(fitting, key=lambda method: len(method.fixed)).name


def set_up(program: Program) -> dict[str, Any]:
    """What a program was set up with, as JSON values."""
    if isinstance(program, KEQA):
        return settings_of(program)
    from keqa.programs.baselines.settings import settings_of as settings_of_baseline

    return settings_of_baseline(program)


def arguments_from(name: str, saved: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with which a method is made again.

    Args:
        name: What `name_of` gave.
        saved: What `set_up` gave.
        given: Arguments that take the place of saved ones.

    Raises:
        ConfigurationError: The method is unknown, or has no argument of a name.
    """
    if name not in METHODS or not compilable(METHODS[name]):
        raise ConfigurationError(f"unknown method {name!r}: it is one of another version of KEQA")
    if name == _NAME:
        return arguments(saved, given)
    known = set(arguments_of(load_class(METHODS[name].target))) - {"retriever", "lms"}
    unknown = sorted(set(saved) - known)
    if unknown:
        raise ConfigurationError(f"unknown settings {unknown}: they are those of another version of KEQA")
    strange = sorted(set(given) - known)
    if strange:
        raise ConfigurationError(f"{name} has no {strange[0]}; it has {', '.join(sorted(known))}")
    return {**saved, **given}


def made(
    name: str,
    settings: Mapping[str, Any],
    retriever: Retriever | None = None,
    lms: RoleLMs | None = None,
    reference: UtilityReference | None = None,
) -> Program:
    """Make a method from arguments.

    Args:
        name: See `arguments_from`.
        settings: What that gave.
        retriever: Where passages come from, for methods that search.
        lms: A language model for each role.
        reference: The utility reference, for KEQA.
    """
    if name == _NAME:
        return KEQA(retriever, lms=lms, reference=reference, **settings)
    cls = load_class(METHODS[name].target)
    searches = {"retriever": retriever} if "retriever" in arguments_of(cls) else {}
    program: Program = cls(**searches, **{**settings, "lms": lms})
    return program


def expected(name: str, settings: Mapping[str, Any], there: Container[str]) -> Prompts:
    """The prompts that the code has for a method, of optional predictors those that are there.

    Args:
        name: See `arguments_from`.
        settings: What that gave; the prompts of KEQA do not depend on them.
        there: Names of predictors.
    """
    fresh = made(name, {} if name == _NAME else settings)
    extra = {name: prompt_of(signature) for name, signature in fresh.optional.items() if name in there}
    return prompts_of(fresh) | extra
