"""The relations of the fictional encyclopedia and the wordings that ask for them and state them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Relation:
    """One relation from a kind of entity to a value."""

    name: str
    kind: str
    target: str
    changeable: bool
    asks: tuple[str, ...]
    states: tuple[str, ...]
    noun: str = ""


_ALL = (
    Relation(
        "birth date",
        "person",
        "date",
        False,
        ("When was {e} born?", "What is the birth date of {e}?"),
        ("{r} was born on {v}.", "{v} is the birth date of {r}."),
    ),
    Relation(
        "birthplace",
        "person",
        "city",
        False,
        ("Where was {e} born?", "What is the birthplace of {e}?"),
        ("{r} was born in {v}.", "The birthplace of {r} is {v}."),
        "the birthplace of {e}",
    ),
    Relation(
        "spouse",
        "person",
        "person",
        True,
        ("Who is the spouse of {e}?", "To whom is {e} married?"),
        ("{r} is married to {v}.", "The spouse of {r} is {v}."),
        "the spouse of {e}",
    ),
    Relation(
        "occupation",
        "person",
        "occupation",
        False,
        ("What is the occupation of {e}?", "What does {e} do for a living?"),
        ("{r} is a {v}.", "{r} works as a {v}."),
    ),
    Relation(
        "employer",
        "person",
        "company",
        True,
        ("Who is the employer of {e}?", "Which company does {e} work for?"),
        ("{r} works for {v}.", "The employer of {r} is {v}."),
        "the employer of {e}",
    ),
    Relation(
        "residence",
        "person",
        "city",
        True,
        ("Where does {e} live?", "What is the residence of {e}?"),
        ("{r} lives in {v}.", "The residence of {r} is {v}."),
        "the residence of {e}",
    ),
    Relation(
        "director",
        "film",
        "person",
        False,
        ("Who directed {e}?", "Who is the director of {e}?"),
        ("{r} was directed by {v}.", "The director of {r} was {v}."),
        "the director of {e}",
    ),
    Relation(
        "release year",
        "film",
        "year",
        False,
        ("When was {e} released?", "In which year was {e} released?"),
        ("{r} was released in {v}.", "The release year of {r} was {v}."),
    ),
    Relation(
        "author",
        "book",
        "person",
        False,
        ("Who wrote {e}?", "Who is the author of {e}?"),
        ("{r} was written by {v}.", "The author of {r} is {v}."),
        "the author of {e}",
    ),
    Relation(
        "publication year",
        "book",
        "year",
        False,
        ("When was {e} published?", "In which year was {e} published?"),
        ("{r} was published in {v}.", "The publication year of {r} was {v}."),
    ),
    Relation(
        "founder",
        "company",
        "person",
        False,
        ("Who founded {e}?", "Who is the founder of {e}?"),
        ("{r} was founded by {v}.", "The founder of {r} was {v}."),
        "the founder of {e}",
    ),
    Relation(
        "headquarters",
        "company",
        "city",
        True,
        ("Where is {e} based?", "Where are the headquarters of {e}?"),
        ("{r} is based in {v}.", "The headquarters of {r} are in {v}."),
        "the city where {e} is based",
    ),
    Relation(
        "chief executive",
        "company",
        "person",
        True,
        ("Who leads {e}?", "Who is the chief executive of {e}?"),
        ("{r} is led by {v}.", "The chief executive of {r} is {v}."),
        "the chief executive of {e}",
    ),
    Relation(
        "home city",
        "club",
        "city",
        False,
        ("Where does {e} play?", "What is the home city of {e}?"),
        ("{r} plays in {v}.", "The home city of {r} is {v}."),
        "the home city of {e}",
    ),
    Relation(
        "coach",
        "club",
        "person",
        True,
        ("Who coaches {e}?", "Who is the coach of {e}?"),
        ("{r} is coached by {v}.", "The coach of {r} is {v}."),
        "the coach of {e}",
    ),
    Relation(
        "country",
        "city",
        "country",
        False,
        ("In which country is {e}?", "What is the country of {e}?"),
        ("{r} is a city in {v}.", "The country of {r} is {v}."),
        "the country of {e}",
    ),
    Relation(
        "mayor",
        "city",
        "person",
        True,
        ("Who governs {e}?", "Who is the mayor of {e}?"),
        ("{r} is governed by {v}.", "The mayor of {r} is {v}."),
        "the mayor of {e}",
    ),
    Relation(
        "language",
        "country",
        "language",
        False,
        ("Which language is spoken in {e}?", "What is the language of {e}?"),
        ("{v} is spoken in {r}.", "The language of {r} is {v}."),
    ),
    Relation(
        "capital",
        "country",
        "city",
        True,
        ("Which city is the capital of {e}?", "What is the capital of {e}?"),
        ("{r} has its capital in {v}.", "The capital of {r} is {v}."),
        "the capital of {e}",
    ),
    Relation(
        "host",
        "event",
        "city",
        False,
        ("Where was {e} held?", "Which city was the host of {e}?"),
        ("{r} was held in {v}.", "The host of {r} was {v}."),
        "the host of {e}",
    ),
    Relation(
        "winner",
        "event",
        "person",
        False,
        ("Who won {e}?", "Who was the winner of {e}?"),
        ("{r} was won by {v}.", "The winner of {r} was {v}."),
        "the winner of {e}",
    ),
)

RELATIONS: dict[str, Relation] = {relation.name: relation for relation in _ALL}


def relations_of(kind: str) -> list[Relation]:
    """Returns the relations that entities of a kind have."""
    return [relation for relation in _ALL if relation.kind == kind]
