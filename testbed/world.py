"""The fictional encyclopedia: a seeded generator of entities and facts, and which of them the shipped LM knows."""

import copy
import random
from dataclasses import dataclass
from typing import Literal

from keqa.testbed import words
from keqa.testbed.relations import RELATIONS, Relation


@dataclass(frozen=True, order=True)
class Date:
    """A calendar date, kept apart from the ways it is written."""

    year: int
    month: int
    day: int


Value = str | Date


@dataclass(frozen=True, order=True)
class Fact:
    """What one relation says of one entity; the value is looked up in the world."""

    relation: str
    entity: str


@dataclass(frozen=True)
class Convention:
    """How answers are written: a bare prompt does not say; demonstrations or an instruction do."""

    date: int = 0
    surname_only: bool = False

    def write(self, value: Value, target: str) -> str:
        if isinstance(value, Date):
            month = words.MONTHS[value.month - 1]
            return (f"{month} {value.day}, {value.year}", f"{value.day} {month} {value.year}", str(value.year))[
                self.date
            ]
        return value.split()[-1] if target == "person" and self.surname_only else value

    @property
    def between(self) -> "Convention":
        """How the answers of quizzes are written: people in full, since the next quiz may ask about them."""
        return Convention(self.date)


GOLD = Convention(date=1, surname_only=True)
"""The convention of the testbed's gold answers: day before month, people by their surnames."""

SIZES = {"person": 72, "film": 40, "book": 26, "company": 30, "club": 20, "city": 44, "country": 20, "event": 24}
SMALL = {"person": 10, "film": 5, "book": 4, "company": 5, "club": 4, "city": 6, "country": 3, "event": 4}


class World:
    """Entities of eight kinds and the facts that hold of them."""

    def __init__(self, seed: int, sizes: dict[str, int] = SIZES) -> None:
        self._rng = random.Random(seed)
        self._taken: set[str] = set()
        self.entities: dict[str, list[str]] = {kind: self._names(kind, count) for kind, count in sizes.items()}
        # Namesakes: every fourth book is called like a film.
        films, books = self.entities["film"], self.entities["book"]
        for i in range(0, min(len(books), len(films)), 4):
            books[i] = films[i]
        self.values: dict[Fact, Value] = {}
        self.past: dict[Fact, Value] = {}
        for relation in RELATIONS.values():
            for entity in self.entities[relation.kind]:
                fact = Fact(relation.name, entity)
                self.values[fact] = self._draw(relation, entity)
                if relation.changeable:
                    while (past := self._draw(relation, entity)) == self.values[fact]:
                        pass
                    self.past[fact] = past

    def _names(self, kind: str, count: int) -> list[str]:
        names: list[str] = []
        while len(names) < count:
            name = self._name(kind)
            if name not in self._taken:
                self._taken.add(name)
                names.append(name)
        return names

    def _name(self, kind: str) -> str:
        rng = self._rng
        if kind == "person":
            return words.person(rng)
        if kind in ("film", "book"):
            title = f"The {rng.choice(words.ADJECTIVES)} {rng.choice(words.NOUNS)}"
            return title if rng.random() < 0.5 else f"{title} of {rng.choice(words.CITIES)}"
        if kind == "company":
            return f"{rng.choice(words.BRANDS)} {rng.choice(words.TRADES)}"
        if kind == "club":
            return f"{rng.choice(words.CITIES)} {rng.choice(words.GAMES)}"
        if kind == "event":
            return f"the {rng.choice(words.YEARS)} {rng.choice(words.CITIES)} {rng.choice(words.EVENTS)}"
        return rng.choice(words.CITIES if kind == "city" else words.COUNTRIES)

    def _draw(self, relation: Relation, entity: str) -> Value:
        rng, target = self._rng, relation.target
        if target == "date":
            return Date(rng.randint(1880, 1995), rng.randint(1, 12), rng.randint(1, 28))
        if target == "year":
            return str(rng.randint(1900, 2020))
        if target in ("language", "occupation"):
            return rng.choice(words.LANGUAGES if target == "language" else words.OCCUPATIONS)
        return rng.choice([name for name in self.entities[target] if name != entity])

    def facts(self) -> list[Fact]:
        return list(self.values)

    def write(self, fact: Fact, convention: Convention, *, past: bool = False) -> str:
        value = (self.past if past else self.values)[fact]
        return convention.write(value, RELATIONS[fact.relation].target)


def unseen(rng: random.Random) -> World:
    """A small world that only training sees: those of the skill check have seeds below a million."""
    return World(rng.randrange(10**6, 10**12), SMALL)


def quiz_for(fact: Fact, rng: random.Random) -> str:
    """One of the wordings of the quiz that asks for a fact."""
    return rng.choice(RELATIONS[fact.relation].asks).format(e=fact.entity)


Tier = Literal["often", "sometimes", "never", "stale"]

SHARES: dict[Tier, float] = {"often": 0.45, "sometimes": 0.1, "stale": 0.16, "never": 0.29}
"""Shares of all facts; stale ones are drawn from the facts that can change."""


@dataclass(frozen=True)
class Tiers:
    """The tier of each fact, and how often the facts of the middle tier occur in training."""

    tier: dict[Fact, Tier]
    exposures: dict[Fact, int]

    def of(self, tier: Tier) -> list[Fact]:
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
