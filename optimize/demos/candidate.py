"""Possible demonstrations, draws of a few of them with mixed kinds, and the questions that they come from."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from keqa.programs.fingerprint import digest
from keqa.programs.program import Program

P = TypeVar("P", bound=Program)

_LONGEST = 6000
"""Characters of one demonstration; longer ones would leave a small context window no room for the question."""


@dataclass(frozen=True)
class Candidate:
    """A possible demonstration."""

    demo: Mapping[str, Any]
    kind: str
    root: str


def complete(signature: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A demonstration with every field of a signature, in its order; DSPy moves incomplete ones apart."""
    demo = {}
    for name, field in signature.fields.items():
        if name not in fields and field.is_required():
            raise KeyError(f"a demonstration of {signature.__name__} needs the field '{name}'")
        demo[name] = fields[name] if name in fields else field.get_default(call_default_factory=True)
    return demo


def choose(pool: Sequence[Candidate], count: int, rng: random.Random, *, balanced: bool = False) -> list[Candidate]:
    """Draw demonstrations of mixed kinds, and from as many questions as there are."""
    kinds: dict[str, list[Candidate]] = {}
    for one in pool:
        if sum(len(str(value)) for value in one.demo.values()) <= _LONGEST:
            kinds.setdefault(one.kind, []).append(one)
    groups = [kinds[kind] for kind in sorted(kinds)]
    for group in groups:
        rng.shuffle(group)
    rng.shuffle(groups)
    if balanced:
        if len(groups) < 2:
            return []
        count = min(count // len(groups), *map(len, groups)) * len(groups)
    chosen: list[Candidate] = []
    while len(chosen) < count and any(groups):
        for group in groups:
            if group and len(chosen) < count:
                roots = {one.root for one in chosen}
                fresh = next((place for place, one in enumerate(group) if one.root not in roots), 0)
                chosen.append(group.pop(fresh))
    rng.shuffle(chosen)
    return chosen


def kind_of(answer: str, answer_type: str) -> str:
    """The kind of an answer: demonstrations of dates alone would not teach how people are named."""
    if answer_type != "short":
        return f"{answer_type} {answer.lower()}" if answer_type == "yes/no" else answer_type
    words = answer.split()
    form = "number" if any(char.isdigit() for char in answer) else "text"
    return f"{form}, {'one word' if len(words) == 1 else 'words'}"


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
        """The program itself, or a copy without the demonstrations that come from a question."""
        own = self._demos.get(root, set())

        def excluded(demo: Any) -> bool:
            return _named(demo) in own

        return without_demos(program, excluded) if own else program


def without_demos(program: P, excluded: Callable[[Any], bool]) -> P:
    """The program itself, or a copy without some of its demonstrations."""
    if not any(excluded(demo) for predictor in program.predictors() for demo in predictor.demos):
        return program
    twin: P = program.deepcopy()
    for predictor in twin.predictors():
        predictor.demos = [demo for demo in predictor.demos if not excluded(demo)]
    return twin


def _named(demo: Mapping[str, Any]) -> str:
    # DSPy's optimizers mark those that they make.
    return digest({name: value for name, value in dict(demo).items() if name != "augmented"})
