"""Questions in the four shapes of the papers' benchmarks, with gold decomposition, reasoning and answers."""

import random
from dataclasses import dataclass, field

from keqa.data.question import AnswerType
from keqa.testbed.relations import RELATIONS, Relation, relations_of
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
        """The answer, written by a convention."""
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
        """Draws a question of a shape."""
        return {
            "one hop": self._one_hop,
            "bridge": self._bridge,
            "comparison": self._comparison,
            "yes/no": self._yes_no,
        }[shape]()

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
        kind, name, verb = rng.choice(
            (
                ("person", "birth date", "born"),
                ("film", "release year", "released"),
                ("book", "publication year", "published"),
            )
        )
        relation = RELATIONS[name]
        while True:
            first, second = rng.sample(self.world.entities[kind], 2)
            facts = (Fact(name, first), Fact(name, second))
            years = [self._year(fact) for fact in facts]
            if years[0] != years[1]:
                break
        earlier = rng.random() < 0.5
        asked = rng.choice(("earlier", "first")) if earlier else rng.choice(("later", "last"))
        head = "Who" if kind == "person" else f"Which {kind}"
        ask = relation.asks[0]
        answer = first if (years[0] < years[1]) == earlier else second
        return Composed(
            "comparison",
            f"{head} was {verb} {asked}, {first} or {second}?",
            (ask.format(e=first), ask.format(e=second)),
            facts,
            answer,
            compared=(years[0], years[1]),
        )

    def _year(self, fact: Fact) -> str:
        value = self.world.values[fact]
        return str(value.year) if isinstance(value, Date) else value

    def _yes_no(self) -> Composed:
        rng, world = self.rng, self.world
        name, text = rng.choice(
            (
                ("country", "Are {a} and {b} in the same country?"),
                ("birthplace", "Were {a} and {b} born in the same city?"),
                ("director", "Do {a} and {b} have the same director?"),
                ("occupation", "Do {a} and {b} have the same occupation?"),
                ("author", "Do {a} and {b} have the same author?"),
                ("employer", "Do {a} and {b} work for the same company?"),
            )
        )
        relation = RELATIONS[name]
        first, second = rng.sample(world.entities[relation.kind], 2)
        if rng.random() < 0.5:
            alike = [
                e
                for e in world.entities[relation.kind]
                if e != first and world.values[Fact(name, e)] == world.values[Fact(name, first)]
            ]
            second = rng.choice(alike) if alike else second
        facts = (Fact(name, first), Fact(name, second))
        ask = relation.asks[0]
        same = world.values[facts[0]] == world.values[facts[1]]
        return Composed(
            "yes/no",
            text.format(a=first, b=second),
            (ask.format(e=first), ask.format(e=second)),
            facts,
            "yes" if same else "no",
            answer_type="yes/no",
        )
