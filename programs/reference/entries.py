"""What a utility reference holds: passages whose utility to a quiz is known."""

from dataclasses import asdict, dataclass
from typing import Any

from keqa.errors import ConfigurationError
from keqa.programs.arguments import check

OPTIONAL = ("question", "date")


@dataclass(frozen=True, slots=True)
class UtilityEntry:
    """A passage, as the judge reads it, whose utility to a quiz is known: `helpful` where U(quiz, passage) is 1."""

    root: str
    """Id of the training question."""
    quiz: str
    passage: str
    helpful: bool
    question: str = ""
    """The `keqa.data.question.question_digest` of the training question; may be empty."""
    date: str = ""
    """When the passage's document was last changed, as it says itself; may be empty."""


def entry_values(entry: UtilityEntry) -> dict[str, Any]:
    return {name: value for name, value in asdict(entry).items() if value != "" or name not in OPTIONAL}


def entry_from(value: Any, where: str) -> UtilityEntry:
    """An entry from its JSON value, which may come from a stranger; a ConfigurationError says where it is none."""
    names = UtilityEntry.__match_args__
    if not isinstance(value, dict) or value.keys() | set(OPTIONAL) != set(names):
        raise ConfigurationError(f"{where} is no entry of a utility reference, which has {', '.join(names)} only")
    return UtilityEntry(**check(UtilityEntry, value, where))
