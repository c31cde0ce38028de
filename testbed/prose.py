"""Encyclopedia paragraphs: facts in varied wording, sentences that distract, and a named source."""

import random
from collections.abc import Sequence

from keqa.testbed import words
from keqa.testbed.relations import RELATIONS, relations_of
from keqa.testbed.world import Convention, Date, Fact, World

_REFERENCE = {"film": "the film", "book": "the book", "club": "the club", "city": "the city", "country": "the country"}


def reference(kind: str, entity: str) -> str:
    """A shorter way to refer to an entity that was just named, such as a person's surname."""
    if kind == "person":
        return entity.split()[-1]
    return entity.split()[0] if kind == "company" else _REFERENCE.get(kind, "it")


def capital(text: str) -> str:
    """Writes the first letter large, as at the start of a sentence or title."""
    return text[0].upper() + text[1:]


def random_date(rng: random.Random, convention: Convention) -> str:
    """Writes a random date of the last century by a convention."""
    return convention.write(Date(rng.randint(1880, 2020), rng.randint(1, 12), rng.randint(1, 28)), "date")


def distraction(rng: random.Random, name: str) -> str:
    """A sentence about an entity that answers no quiz and holds a date, a person or a place that may mislead."""
    person = words.person(rng)
    city, date = rng.choice(words.CITIES), random_date(rng, Convention(rng.randint(0, 1)))
    return rng.choice(
        (
            f"{person} wrote about {name} on {date}.",
            f"A museum in {city} shows letters about {name}.",
            f"{person} visited {city} to study {name}.",
            f"On {date} a stamp honored {name}.",
        )
    )


def statement(world: World, fact: Fact, rng: random.Random, name: str, *, past: bool = False) -> str:
    """One sentence that states a fact, or what was true before."""
    value = world.write(fact, Convention(date=rng.randint(0, 1)), past=past)
    return capital(rng.choice(RELATIONS[fact.relation].states).format(r=name, v=value))


def paragraph(
    world: World, kind: str, entity: str, relations: Sequence[str], source: str, rng: random.Random, *, stale: bool
) -> str:
    """Writes a paragraph on an entity, as one source states it."""
    sentences: list[str] = []
    for relation in relations:
        name = entity if not sentences or rng.random() < 0.3 else reference(kind, entity)
        past = stale and RELATIONS[relation].changeable
        sentences.append(statement(world, Fact(relation, entity), rng, name, past=past))
    for _ in range(rng.randint(0, 1) if sentences else rng.randint(1, 2)):
        sentences.insert(rng.randint(min(1, len(sentences)), len(sentences)), capital(distraction(rng, entity)))
    return " ".join([*sentences, f"Source: {source}."])


def passage(world: World, kind: str, entity: str, relations: Sequence[str], rng: random.Random) -> str:
    """A paragraph of any source, none of which is out of date, behind its title; see `paragraph`."""
    text = paragraph(world, kind, entity, relations, rng.choice(words.SOURCES), rng, stale=False)
    return f"{capital(entity)}: {text}"


def passage_on(
    world: World, kind: str, entity: str, rng: random.Random, *, without: str = "", including: str = ""
) -> str:
    """A passage of some relations of an entity; see `some_relations`."""
    return passage(world, kind, entity, some_relations(kind, rng, without=without, including=including), rng)


def some_relations(kind: str, rng: random.Random, *, without: str = "", including: str = "") -> list[str]:
    """Draws one to three relations of a kind, never ``without`` and always ``including`` where they are given."""
    names = [r.name for r in relations_of(kind) if r.name not in (without, including)]
    chosen = rng.sample(names, min(len(names), rng.randint(0 if including else 1, 2)))
    if including:
        chosen.insert(rng.randint(0, len(chosen)), including)
    return chosen
