"""The methods that a compiled program may be: what each is called, how it is set up, and making it again."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keqa.errors import ConfigurationError
from keqa.programs.keqa import KEQA
from keqa.programs.prompts import Prompts, prompt_of, prompts_of
from keqa.programs.reference.embedding import is_built_in, portable
from keqa.programs.registry import METHODS, Method, arguments_of, load_class
from keqa.programs.saving.files import must_be_named
from keqa.programs.settings import OWN, arguments, settings_of

if TYPE_CHECKING:
    from keqa.programs.program import Program
    from keqa.programs.reference.utility_reference import UtilityReference
    from keqa.programs.stages.stage import RoleLMs
    from keqa.retrievers import Retriever

_NAME = "keqa"
_SIMILARITY = "similarity"
_DEMONSTRATIONS = "demonstrations"
_LONGEST = 1_000
_EXPONENT = re.compile(r"[\d_.\s+-]*[eE][+-]?[\d_]{3,}\s*")


def compilable(method: Method) -> bool:
    """Whether a method is compiled by itself; the others are made from a compiled KEQA."""
    return method.name == _NAME or (method.kind == "baseline" and method.learned is None and not method.masked)


def name_of(program: Program) -> str:
    """What a program is called where methods are named, such as ``keqa`` or ``rag-cot``.

    Raises:
        ConfigurationError: It is of a class that cannot be saved.
    """
    if type(program) is KEQA:
        return _NAME
    fitting = [
        method
        for method in METHODS.values()
        if compilable(method)
        and load_class(method.target) is type(program)
        # Fixed demonstrations are a setting of the program, whatever the method goes without.
        and all(getattr(program, name) == value for name, value in method.fixed.items() if name != _DEMONSTRATIONS)
    ]
    if not fitting:
        raise ConfigurationError(
            f"only a KEQA can be saved, or one of keqa.programs.baselines, not a {type(program).__name__}: register a "
            "class of your own with keqa.programs.registry.register_method before"
        )
    return max(fitting, key=lambda method: len(method.fixed)).name


def set_up(program: Program) -> dict[str, Any]:
    """What a program was set up with, as JSON values; no place on this machine is in it."""
    found = settings_of(program)
    if isinstance(found.get(_SIMILARITY), str):
        found[_SIMILARITY] = portable(found[_SIMILARITY])
    return found


def arguments_from(
    name: str, saved: Mapping[str, Any], given: Mapping[str, Any], embedder: str | None = None
) -> dict[str, Any]:
    """The arguments with which a method is made again.

    Args:
        name: What `name_of` gave.
        saved: What `set_up` gave.
        given: Arguments that take the place of saved ones.
        embedder: The embedding model that the user names, by which the settings' own is opened.

    Raises:
        ConfigurationError: The method is unknown, has no argument of a name, or its settings name a model that the
            user does not.
    """
    _refuse_long(saved)
    if isinstance(saved.get("model"), str):
        raise ConfigurationError(f"a saved {name} holds its model, and opens no file")
    given = _with_similarity(saved, given, embedder)
    if name not in METHODS or not compilable(METHODS[name]):
        raise ConfigurationError(
            f"unknown method {name!a:.80}: it is one of another version of KEQA, or of your own, which is registered "
            "before a program is loaded"
        )
    known = set(arguments_of(load_class(METHODS[name].target))) - {"retriever", "lms", "reference"}
    if _DEMONSTRATIONS in known:
        # What was saved before there were fixed ones was compiled without them.
        saved = {_DEMONSTRATIONS: False, **saved}
    unknown = sorted(set(saved) - known)
    if unknown:
        raise ConfigurationError(f"unknown settings {unknown!a:.200}: they are those of another version of KEQA")
    strange = sorted(set(given) - known)
    if strange:
        raise ConfigurationError(f"{name} has no {strange[0]}; it has {', '.join(sorted(known))}")
    return arguments(saved, given) if name == _NAME else {**saved, **given}


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


def _with_similarity(saved: Mapping[str, Any], given: Mapping[str, Any], embedder: str | None) -> Mapping[str, Any]:
    """The arguments given, and the model that compares sentences where the user names it.

    A model of the hub would be fetched with the user's token, and a folder opened, because a stranger's file says so.
    """
    wanted = None if _SIMILARITY in given else saved.get(_SIMILARITY)
    if wanted is None or wanted == OWN or is_built_in(wanted):
        return given
    # A hub's name and a folder that the model was brought to differ in what comes before the last component.
    if isinstance(wanted, str) and embedder is not None and Path(embedder).name == Path(wanted).name:
        return {**given, _SIMILARITY: embedder}
    raise ConfigurationError(must_be_named("the comparison of sentences", wanted))


def _refuse_long(saved: Mapping[str, Any]) -> None:
    """Refuse texts that no setting has, and numbers whose exact value would fill the memory."""
    for name, value in saved.items():
        for text in (value, *(value.values() if isinstance(value, dict) else ())):
            if isinstance(text, str) and (len(text) > _LONGEST or _EXPONENT.fullmatch(text)):
                raise ConfigurationError(f"the setting {name[:80]!a} cannot be {text[:80]!a}")
