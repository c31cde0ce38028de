"""The relations of the fictional encyclopedia and the wordings that ask for them and state them."""

from collections.abc import Callable
from dataclasses import dataclass

_CHANGEABLE = frozenset(
    ("capital", "chief executive", "coach", "employer", "headquarters", "mayor", "residence", "spouse")
)
_PLAIN = ("date", "year", "language", "occupation")


@dataclass(frozen=True)
class Relation:
    """One relation from a kind of entity to a value: of a kind of entity, or a date, year, language or occupation.

    Where it is changeable, a source or a memory can be out of date. In quizzes ``{e}`` stands for the entity, in
    sentences ``{r}`` for a reference to it and ``{v}`` for the value; the noun phrase nests into another quiz.
    """

    name: str
    kind: str
    target: str
    changeable: bool
    asks: tuple[str, ...]
    states: tuple[str, ...]
    noun: str = ""


def _relation(
    name: str, target: str, ask: str, state: str, *, again: str = "", told: str = "", verb: str = "is", noun: str = ""
) -> Callable[[str], Relation]:
    asks = ask, again or f"{'Who' if target == 'person' else 'What'} is the {name} of {{e}}?"
    states = state, told or f"The {name} of {{r}} {verb} {{v}}."
    noun = noun or ("" if target in _PLAIN else f"the {name} of {{e}}")
    return lambda kind: Relation(name, kind, target, name in _CHANGEABLE, asks, states, noun)


def _of(kind: str, *relations: Callable[[str], Relation]) -> dict[str, Relation]:
    return {relation.name: relation for relation in (made(kind) for made in relations)}


RELATIONS: dict[str, Relation] = {
    **_of(
        "person",
        _relation(
            "birth date", "date", "When was {e} born?", "{r} was born on {v}.", told="{v} is the birth date of {r}."
        ),
        _relation("birthplace", "city", "Where was {e} born?", "{r} was born in {v}."),
        _relation(
            "spouse", "person", "Who is the spouse of {e}?", "{r} is married to {v}.", again="To whom is {e} married?"
        ),
        _relation(
            "occupation",
            "occupation",
            "What is the occupation of {e}?",
            "{r} is a {v}.",
            again="What does {e} do for a living?",
            told="{r} works as a {v}.",
        ),
        _relation(
            "employer",
            "company",
            "Who is the employer of {e}?",
            "{r} works for {v}.",
            again="Which company does {e} work for?",
        ),
        _relation("residence", "city", "Where does {e} live?", "{r} lives in {v}."),
    ),
    **_of(
        "film",
        _relation("director", "person", "Who directed {e}?", "{r} was directed by {v}.", verb="was"),
        _relation(
            "release year",
            "year",
            "When was {e} released?",
            "{r} was released in {v}.",
            again="In which year was {e} released?",
            verb="was",
        ),
    ),
    **_of(
        "book",
        _relation("author", "person", "Who wrote {e}?", "{r} was written by {v}."),
        _relation(
            "publication year",
            "year",
            "When was {e} published?",
            "{r} was published in {v}.",
            again="In which year was {e} published?",
            verb="was",
        ),
    ),
    **_of(
        "company",
        _relation("founder", "person", "Who founded {e}?", "{r} was founded by {v}.", verb="was"),
        _relation(
            "headquarters",
            "city",
            "Where is {e} based?",
            "{r} is based in {v}.",
            again="Where are the headquarters of {e}?",
            told="The headquarters of {r} are in {v}.",
            noun="the city where {e} is based",
        ),
        _relation("chief executive", "person", "Who leads {e}?", "{r} is led by {v}."),
    ),
    **_of(
        "club",
        _relation("home city", "city", "Where does {e} play?", "{r} plays in {v}."),
        _relation("coach", "person", "Who coaches {e}?", "{r} is coached by {v}."),
    ),
    **_of(
        "city",
        _relation("country", "country", "In which country is {e}?", "{r} is a city in {v}."),
        _relation("mayor", "person", "Who governs {e}?", "{r} is governed by {v}."),
    ),
    **_of(
        "country",
        _relation("language", "language", "Which language is spoken in {e}?", "{v} is spoken in {r}."),
        _relation("capital", "city", "Which city is the capital of {e}?", "{r} has its capital in {v}."),
    ),
    **_of(
        "event",
        _relation(
            "host",
            "city",
            "Where was {e} held?",
            "{r} was held in {v}.",
            again="Which city was the host of {e}?",
            verb="was",
        ),
        _relation(
            "winner", "person", "Who won {e}?", "{r} was won by {v}.", again="Who was the winner of {e}?", verb="was"
        ),
    ),
}


def relations_of(kind: str) -> list[Relation]:
    """The relations that entities of a kind have."""
    return [relation for relation in RELATIONS.values() if relation.kind == kind]
