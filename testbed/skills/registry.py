"""The registry of skills: each signature brings its own training examples, so new prompts are added in one place."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import dspy

from keqa.testbed import words
from keqa.testbed.world import Convention, World

Example = tuple[dict[str, Any], dict[str, Any]]
"""Inputs and outputs of one call."""


@dataclass
class Setting:
    """What is hidden from a bare prompt and shared by the examples of one prompt.

    Attributes:
        world: Where the facts of the examples hold.
        rng: The source of chance.
        convention: How answers are written.
        stale: The sources that are out of date; none in half of the prompts.
        relations: The relations that utility is judged on, as similar demonstrations share them.
        passages: The most passages an example may have.
    """

    world: World
    rng: random.Random
    convention: Convention = field(default_factory=Convention)
    stale: tuple[str, ...] = ()
    relations: tuple[str, ...] = ()
    passages: int = 10

    @classmethod
    def draw(cls, world: World, rng: random.Random, passages: int = 10) -> "Setting":
        """Draws conventions from the prior that a bare prompt leaves open."""
        from keqa.testbed.relations import RELATIONS

        changeable = [r.name for r in RELATIONS.values() if r.changeable]
        fixed = [r.name for r in RELATIONS.values() if not r.changeable]
        return cls(
            world,
            rng,
            Convention(rng.choices((0, 1, 2), (0.7, 0.2, 0.1))[0], rng.random() < 0.15),
            tuple(rng.sample(words.SOURCES, 2)) if rng.random() < 0.5 else (),
            (rng.choice(changeable), rng.choice(changeable), rng.choice(fixed)),
            passages,
        )

    def hints(self) -> list[str]:
        """Sentences that an instruction may add to reveal what is hidden."""
        date = ("March 4, 1921", "4 March 1921", "1921")[self.convention.date]
        name = "surname alone" if self.convention.surname_only else "full name"
        stale = " and ".join(f"the {source}" for source in self.stale) or "no source"
        return [f"Write dates like {date}.", f"Give the {name} of a person.", f"Out of date: {stale}."]


@dataclass(frozen=True)
class Skill:
    """One signature's job.

    Attributes:
        signature: The prompt.
        make: Draws an example in a setting.
        rewordings: Other instructions for the same job, so that a reworded prompt still works.
        share: The share of training samples.
        hint: Which of ``Setting.hints`` bear on the job, by index.
        scored: The output that the skill check compares.
    """

    signature: type[dspy.Signature]
    make: Callable[[Setting], Example]
    rewordings: tuple[str, ...]
    share: float
    hint: tuple[int, ...] = ()
    scored: str = "answer"


SKILLS: dict[str, Skill] = {}


def register(skill: Skill) -> None:
    """Adds a skill; the training data and the skill check then include it.

    Raises:
        ValueError: If the signature has a skill already.
    """
    name = skill.signature.__name__
    if name in SKILLS:
        raise ValueError(f"{name} has a skill already")
    SKILLS[name] = skill
