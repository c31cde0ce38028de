"""The relations of the fictional encyclopedia and the wordings that ask for them and state them."""

from dataclasses import dataclass
from importlib.resources import files

import yaml  # type: ignore[import-untyped]


@dataclass(frozen=True)
class Relation:
    """One relation from a kind of entity to a value: of a kind of entity, or a date, year, language or occupation.

    Where it is changeable, a source or a memory can be out of date. In quizzes ``{e}`` stands for the entity, in
    sentences ``{r}`` for a reference to it and ``{v}`` for the value; the noun phrase nests into another quiz.
    """

    name: str
    kind: str
    target: str
    changeable: bool = False
    asks: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    noun: str = ""


RELATIONS: dict[str, Relation] = {
    name: Relation(name, kind, **one | {wordings: tuple(one[wordings]) for wordings in ("asks", "states")})
    for kind, relations in yaml.safe_load((files("keqa.testbed") / "relations.yaml").read_text("utf-8")).items()
    for name, one in relations.items()
}


LISTED = [name for name, relation in RELATIONS.items() if relation.target not in ("date", "year")]
"""Those of which several entities may have the same value, so that a list of them can be asked for."""


def relations_of(kind: str) -> list[Relation]:
    return [relation for relation in RELATIONS.values() if relation.kind == kind]
