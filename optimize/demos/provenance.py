"""Which training question a demonstration comes from, so that no question is chosen by its own answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from keqa.optimize.demos.candidate import Candidate
from keqa.programs.fingerprint import digest
from keqa.programs.program import Program

P = TypeVar("P", bound=Program)


class DemoProvenance:
    """Remembers demonstrations by the training questions that they come from.

    Where there are too few questions to hold some out, the same ones are learned from and chosen by.
    """

    def __init__(self) -> None:
        self._demos: dict[str, set[str]] = {}

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Remember where these come from."""
        for one in candidates:
            self._demos.setdefault(one.root, set()).add(_named(one.demo))

    def roots_of(self, demo: Any) -> list[str]:
        """The ids of the questions that a demonstration comes from."""
        name = _named(demo)
        return [root for root, demos in self._demos.items() if name in demos]

    def without(self, program: P, root: str) -> P:
        """The program itself, or a copy without the demonstrations that come from a question.

        Args:
            program: It stays as it is.
            root: Id of the question that is about to be asked.
        """
        own = self._demos.get(root, set())

        def excluded(demo: Any) -> bool:
            return _named(demo) in own

        return without_demos(program, excluded) if own else program


def without_demos(program: P, excluded: Callable[[Any], bool]) -> P:
    """The program itself, or a copy without some of its demonstrations.

    Args:
        program: It stays as it is.
        excluded: Whether a demonstration is left out.
    """
    if not any(excluded(demo) for predictor in program.predictors() for demo in predictor.demos):
        return program
    twin: P = program.deepcopy()
    for predictor in twin.predictors():
        predictor.demos = [demo for demo in predictor.demos if not excluded(demo)]
    return twin


def _named(demo: Mapping[str, Any]) -> str:
    # DSPy's optimizers mark those that they make.
    return digest({name: value for name, value in dict(demo).items() if name != "augmented"})
