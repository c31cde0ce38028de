"""What the shipped LM is made to know of the encyclopedia, fact by fact."""

import copy
import random
from dataclasses import dataclass
from typing import Literal

from keqa.testbed.relations import RELATIONS
from keqa.testbed.world import Fact, World

Tier = Literal["often", "sometimes", "never", "stale"]

SHARES: dict[Tier, float] = {"often": 0.45, "sometimes": 0.1, "stale": 0.16, "never": 0.29}
"""Shares of all facts; stale ones are drawn from the facts that can change."""


@dataclass(frozen=True)
class Tiers:
    """The tier of each fact, and how often the facts of the middle tier occur in training."""

    tier: dict[Fact, Tier]
    exposures: dict[Fact, int]

    def of(self, tier: Tier) -> list[Fact]:
        """Returns the facts of a tier in a fixed order."""
        return [fact for fact, name in self.tier.items() if name == tier]


def assign(world: World, seed: int = 0) -> Tiers:
    """Draws the tier of each fact of a world (seeded)."""
    rng = random.Random(seed)
    facts = world.facts()
    count = {tier: round(share * len(facts)) for tier, share in SHARES.items()}
    changeable = [fact for fact in facts if RELATIONS[fact.relation].changeable]
    stale = set(rng.sample(changeable, count["stale"]))
    rest = [fact for fact in facts if fact not in stale]
    rng.shuffle(rest)
    tier: dict[Fact, Tier] = dict.fromkeys(facts, "never")
    tier.update(dict.fromkeys(stale, "stale"))
    tier.update(dict.fromkeys(rest[: count["often"]], "often"))
    sometimes = rest[count["often"] : count["often"] + count["sometimes"]]
    tier.update(dict.fromkeys(sometimes, "sometimes"))
    return Tiers(tier, {fact: rng.randint(3, 10) for fact in sometimes})


def believed(world: World, tiers: Tiers) -> World:
    """The world as the LM learns it: stale facts have the value that was true once."""
    belief = copy.copy(world)
    belief.values = dict(world.values)
    belief.values.update({fact: world.past[fact] for fact in tiers.of("stale")})
    return belief
