"""What ``keqa compile`` is given: a method, and questions to learn from and to choose by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keqa.errors import InputError

if TYPE_CHECKING:
    from keqa.programs.registry import Spec

__all__ = ["method_of", "questions_of", "retrieves"]


def method_of(method: str, settings: Mapping[str, Any]) -> Spec:
    """What is to be compiled.

    Args:
        method: A specification, as for ``keqa evaluate``.
        settings: The settings that were given.

    Raises:
        InputError: There is no such method, it is made from a compiled KEQA, or it has no such setting.
    """
    from keqa.programs.registry import parse_spec, takes
    from keqa.programs.saving.methods import compilable

    spec = parse_spec(method)
    name = spec.method.name
    if not compilable(spec.method):
        raise InputError(
            f"{name} is made from a compiled keqa: compile that, and give it to keqa evaluate {name} with --program"
        )
    for setting in settings:
        if setting not in takes(spec.method):
            flag = f"no-{setting}" if setting in ("decompose", "examine", "pick") else setting.replace("_", "-")
            raise InputError(f"--{flag} means nothing to {name}: leave it out")
    return spec


def retrieves(spec: Spec) -> bool:
    """Whether a method searches for passages."""
    from keqa.programs.registry import arguments_of, load_class

    return "retriever" in arguments_of(load_class(spec.method.target))


def questions_of(
    train: Path | None, val: Path | None, limit: int | None, val_limit: int | None
) -> tuple[list[Any], list[Any] | None, list[str], Mapping[str, Mapping[str, Any]]]:
    """The questions to learn from and to choose by.

    Args:
        train: A file of the user's; the testbed's own split where None.
        val: Likewise; without it, and without the testbed, there are none to choose by.
        limit: The first so many.
        val_limit: Likewise.

    Returns:
        Training questions, validation questions, what of the files cannot be used, and by a method's name the arguments
        that it is given for these questions.
    """
    from keqa.data.own import read_examples
    from keqa.optimize.split import named

    own: Mapping[str, Mapping[str, Any]] = {}
    if train is None:
        from keqa.evaluation.questions import of_testbed

        world = of_testbed("train")
        learnt, own = list(world.examples), world.settings
        chosen: list[Any] | None = list(of_testbed("dev").examples)
        problems: list[str] = []
    else:
        reading = read_examples(train)
        learnt, chosen, problems = list(reading.examples), None, named(reading.problems)
    if val is not None:
        reading = read_examples(val)
        chosen = list(reading.examples)
        problems += named(reading.problems)
    return learnt[:limit], None if chosen is None else chosen[:val_limit], problems, own
