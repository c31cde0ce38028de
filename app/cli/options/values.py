"""The flag that an option is written with, and the value that it was given."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from keqa.errors import InputError


def flag_of(name: str) -> str:
    """The flag of an option.

    Args:
        name: The option, as the field of its group or the parameter of the command is called.
    """
    return "--json" if name == "as_json" else f"--{name.replace('_', '-')}"


def refuse_empty(flag: str, value: str | None) -> None:
    """Refuse an option that was given and holds nothing: its default would be taken for it in silence.

    Args:
        flag: The option.
        value: What it was given; None where it was not.

    Raises:
        InputError: It is empty.
    """
    if value is not None and not value.strip():
        raise InputError(f"{flag} is empty: give it a value, or leave it out")


def given(*groups: Any) -> dict[str, Any]:
    """The options of groups that are not what they are by default, by the names that they are written with."""
    found: dict[str, Any] = {}
    for group in groups:
        for field in fields(group):
            value = getattr(group, field.name)
            if is_dataclass(value):
                found |= given(value)
            elif value != field.default and value != []:
                found[flag_of(field.name)] = value
    return found
