"""The registry of skills: each signature brings its own training examples, so new prompts are added in one place."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import dspy
import yaml  # type: ignore[import-untyped]

from keqa.testbed import words
from keqa.testbed.relations import RELATIONS
from keqa.testbed.world import Convention, Fact, World

_WORDINGS = files("keqa.testbed.skills") / "rewordings.yaml"
REWORDINGS: dict[str, list[str]] = yaml.safe_load(_WORDINGS.read_text("utf-8"))
"""Other instructions for the same job, by signature."""

Example = tuple[dict[str, Any], dict[str, Any]]
"""Inputs and outputs of one call."""


@dataclass
class Setting:
    """What is hidden from a bare prompt and shared by the examples of one prompt."""

    world: World
    rng: random.Random
    convention: Convention = field(default_factory=Convention)
    stale: tuple[str, ...] = ()
    relations: tuple[str, ...] = ()
    passages: int = 10
    easy: bool = False
    brief: bool = True
    memory: tuple[Fact, ...] = ()
    shape: str = ""

    @classmethod
    def draw(cls, world: World, rng: random.Random, passages: int = 10, *, shown: bool = False) -> "Setting":
        """Draws conventions: from the prior that a bare prompt leaves open, or evenly where the prompt shows them."""
        changeable = [r.name for r in RELATIONS.values() if r.changeable]
        fixed = [r.name for r in RELATIONS.values() if not r.changeable]
        return cls(
            world,
            rng,
            Convention(
                rng.choices((0, 1, 2), None if shown else (0.7, 0.2, 0.1))[0], rng.random() < (0.5 if shown else 0.15)
            ),
            tuple(rng.sample(words.SOURCES, 2)) if rng.random() < (0.8 if shown else 0.5) else (),
            (rng.choice(changeable), rng.choice(changeable), rng.choice(fixed)),
            passages,
        )

    @property
    def form(self) -> Convention:
        """How values are written on the way to an answer: people by their full names, dates in full."""
        return Convention(self.convention.date if self.convention.date < 2 else 0)

    def hints(self) -> list[str]:
        """Sentences that an instruction may add to reveal what is hidden."""
        date = ("March 4, 1921", "4 March 1921", "1921")[self.convention.date]
        name = "surname alone" if self.convention.surname_only else "full name"
        stale = " and ".join(f"the {source}" for source in self.stale) or "no source"
        return [f"Write dates like {date}.", f"Give the {name} of a person.", f"Out of date: {stale}."]


Make = Callable[[Setting], Example]
"""Draws an example in a setting."""


@dataclass(frozen=True)
class Skill:
    """One signature's job."""

    signature: type[dspy.Signature]
    make: Make
    rewordings: tuple[str, ...]
    share: float
    hint: tuple[int, ...] = ()
    scored: str = "answer"
    introspective: bool = False


SKILLS: dict[str, Skill] = {}


def skill(signature: type[dspy.Signature], **how: Any) -> Callable[[Make], Make]:
    """Makes a skill of the function that draws its examples; the training data and the skill check then include it."""

    def register(make: Make) -> Make:
        name = signature.__name__
        if name in SKILLS:
            raise ValueError(f"{name} has a skill already")
        if name not in REWORDINGS:
            raise ValueError(f"{name} has no rewordings in keqa/testbed/skills/rewordings.yaml")
        SKILLS[name] = Skill(signature, make, tuple(REWORDINGS[name]), **how)
        return make

    return register


def nearest(pool: list[Example], example: Example, count: int) -> list[Example]:
    """Picks demonstrations as a reference retriever finds them: those most like the example, the nearest last."""
    if len(pool) <= count:
        return pool
    return sorted(pool, key=lambda demo: _likeness(demo, example))[len(pool) - count :]


def _likeness(demo: Example, example: Example) -> int:
    shared = 0
    for name, value in example[0].items():
        mine, theirs = set(_words(value)), set(_words(demo[0].get(name, "")))
        shared += len(mine & theirs)
        if name == "passage" and str(value).split()[-1] == str(demo[0][name]).split()[-1]:
            shared += 3
    return shared


def _words(value: Any) -> list[str]:
    return str(value).replace("?", " ").replace(".", " ").split()
