"""Questions in the four shapes of the papers' benchmarks, with gold decomposition, reasoning and answers."""

import random
from dataclasses import dataclass, field
from typing import Any

from keqa.data.question import AnswerType
from keqa.testbed.relations import LISTED, RELATIONS, Relation, relations_of
from keqa.testbed.world import GOLD, Convention, Date, Fact, World

SHAPES = ("one hop", "bridge", "comparison", "yes/no")


@dataclass(frozen=True)
class Composed:
    """A question and the facts it is made of."""

    shape: str
    text: str
    quizzes: tuple[str, ...]
    facts: tuple[Fact, ...]
    answer: Fact | str
    answer_type: AnswerType = "short"
    compared: tuple[str, str] | None = None

    def resolved(self, world: World, convention: Convention = GOLD) -> list[str]:
        """The quizzes with the answers they refer to filled in."""
        names = [world.write(fact, convention.between) for fact in self.facts]
        texts = list(self.quizzes)
        for i, name in enumerate(names, 1):
            texts = [text.replace(f"#{i}", name) for text in texts]
        return texts

    def written_answer(self, world: World, convention: Convention = GOLD) -> str:
        return self.answer if isinstance(self.answer, str) else world.write(self.answer, convention)


@dataclass
class QuestionMaker:
    """Draws questions over a world."""

    world: World
    rng: random.Random
    _bridges: list[Relation] = field(init=False)

    def __post_init__(self) -> None:
        self._bridges = [r for r in RELATIONS.values() if r.noun and relations_of(r.target)]

    def draw(self, shape: str) -> Composed:
        return (self._one_hop, self._bridge, self._comparison, self._yes_no)[SHAPES.index(shape)]()

    def _entity(self, kind: str) -> str:
        return self.rng.choice(self.world.entities[kind])

    def _one_hop(self) -> Composed:
        relation = self.rng.choice(list(RELATIONS.values()))
        entity = self._entity(relation.kind)
        text = self.rng.choice(relation.asks).format(e=entity)
        fact = Fact(relation.name, entity)
        return Composed("one hop", text, (text,), (fact,), fact)

    def _bridge(self) -> Composed:
        rng, world = self.rng, self.world
        relation = rng.choice(self._bridges)
        entity = self._entity(relation.kind)
        facts, phrase = [Fact(relation.name, entity)], relation.noun.format(e=entity)
        # Quizzes have one wording, so that a decomposition can be scored as right or wrong.
        quizzes = [relation.asks[0].format(e=entity)]
        for hop in range(rng.choice((1, 1, 2))):
            nexts = relations_of(relation.target)
            if hop == 0 and len(facts) == 1 and rng.random() < 0.5:
                nexts = [r for r in nexts if r.noun] or nexts
            entity = str(world.values[facts[-1]])
            previous, relation = relation, rng.choice([r for r in nexts if r.name != relation.name] or nexts)
            facts.append(Fact(relation.name, entity))
            quizzes.append(relation.asks[0].format(e=f"#{len(facts) - 1}"))
            text = rng.choice(relation.asks).format(e=phrase)
            if not relation.noun or not relations_of(relation.target) or relation.target == previous.kind == "city":
                break
            phrase = relation.noun.format(e=phrase)
        return Composed("bridge", text, tuple(quizzes), tuple(facts), facts[-1])

    def _comparison(self) -> Composed:
        rng = self.rng
        kind, name, verb = rng.choice(_COMPARED)
        while True:
            first, second = rng.sample(self.world.entities[kind], 2)
            years = self._year(Fact(name, first)), self._year(Fact(name, second))
            if years[0] != years[1]:
                break
        earlier = rng.random() < 0.5
        asked = rng.choice(("earlier", "first")) if earlier else rng.choice(("later", "last"))
        head = "Who" if kind == "person" else f"Which {kind}"
        answer = first if (years[0] < years[1]) == earlier else second
        text = f"{head} was {verb} {asked}, {first} or {second}?"
        return _of_two("comparison", name, first, second, text, answer, compared=years)

    def _year(self, fact: Fact) -> str:
        value = self.world.values[fact]
        return str(value.year) if isinstance(value, Date) else value

    def _yes_no(self) -> Composed:
        rng, values = self.rng, self.world.values
        name, text = rng.choice(_ALIKE)
        entities = self.world.entities[RELATIONS[name].kind]
        first, second = rng.sample(entities, 2)
        value = values[Fact(name, first)]
        if rng.random() < 0.5:
            alike = [entity for entity in entities if entity != first and values[Fact(name, entity)] == value]
            second = rng.choice(alike) if alike else second
        answer = "yes" if values[Fact(name, second)] == value else "no"
        return _of_two("yes/no", name, first, second, text.format(a=first, b=second), answer, answer_type="yes/no")


_COMPARED = (
    ("person", "birth date", "born"),
    ("film", "release year", "released"),
    ("book", "publication year", "published"),
)
_ALIKE = (
    ("country", "Are {a} and {b} in the same country?"),
    ("birthplace", "Were {a} and {b} born in the same city?"),
    ("director", "Do {a} and {b} have the same director?"),
    ("occupation", "Do {a} and {b} have the same occupation?"),
    ("author", "Do {a} and {b} have the same author?"),
    ("employer", "Do {a} and {b} work for the same company?"),
)


def _of_two(shape: str, name: str, first: str, second: str, text: str, answer: str, **more: Any) -> Composed:
    """A question about the same relation of two entities."""
    facts, ask = (Fact(name, first), Fact(name, second)), RELATIONS[name].asks[0]
    return Composed(shape, text, (ask.format(e=first), ask.format(e=second)), facts, answer, **more)


_PLURALS = {"person": "people", "company": "companies", "city": "cities", "country": "countries"}
_LISTED = ("List every {kind} whose {relation} is {v}.", "List all {kinds} whose {relation} is {v}.")


def list_question(rng: random.Random, relation: str, value: str) -> str:
    kind = RELATIONS[relation].kind
    return rng.choice(_LISTED).format(kind=kind, kinds=_PLURALS.get(kind, f"{kind}s"), relation=relation, v=value)


def lists(world: World, least: int = 3, most: int = 40) -> list[tuple[str, str, list[str]]]:
    """All lists that can be asked for of a size: a relation, its value, and the entities of which it has that value."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in LISTED:
        for entity in world.entities[RELATIONS[name].kind]:
            found.setdefault((name, str(world.values[Fact(name, entity)])), []).append(entity)
    return [(name, value, of) for (name, value), of in found.items() if least <= len(of) <= most]
