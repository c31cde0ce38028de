"""Which compiled program serves which method of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from keqa.errors import InputError
from keqa.programs.registry import Method, Spec

Folders: TypeAlias = Path | Sequence[Path] | None
"""A folder that ``keqa compile`` wrote, several of them, or none."""


def program_of(method: Method, folders: Folders) -> Path | None:
    """The compiled program that serves a method.

    A program serves the method that it was compiled for. That of a KEQA serves what is made of KEQA as well: ablations,
    gates, and reasoning with its demonstrations.

    Args:
        method: Which.
        folders: Of several each serves its own method. A single one has to be this method's, or a KEQA's.

    Returns:
        Its folder; None where the method is used as it is.

    Raises:
        InputError: The only program is another method's, two serve one method, or there is none in a folder.
    """
    found, wanted = _by_method(folders), _compiled_as(method)
    if isinstance(folders, Path) and not found.keys() & {wanted, "keqa"}:
        raise InputError(
            f"{folders} holds a compiled {next(iter(found))}, not {wanted}: give a program that keqa compile --method "
            f"{wanted} wrote"
        )
    return found.get(wanted)


def served_by(method: Method, folders: Folders) -> str:
    """The method that the program was compiled for that serves a method; empty where none does.

    Raises:
        InputError: As in `program_of`.
    """
    return "" if program_of(method, folders) is None else _compiled_as(method)


def check_programs(specs: Sequence[Spec], folders: Folders) -> None:
    """Refuse a compiled program that serves none of the methods.

    Raises:
        InputError: There is such a one; or as in `program_of`.
    """
    wanted = {_compiled_as(spec.method) for spec in specs}
    for name, folder in _by_method(folders).items():
        if name not in wanted:
            names = ", ".join(dict.fromkeys(spec.method.name for spec in specs))
            raise InputError(f"{folder} holds a compiled {name}, which means nothing to {names}: leave it out")


def _by_method(folders: Folders) -> dict[str, Path]:
    from keqa.programs.saving.folder import about

    found: dict[str, Path] = {}
    for folder in [folders] if isinstance(folders, Path) else folders or ():
        name = about(folder)["method"]
        if name in found:
            raise InputError(f"{found[name]} and {folder} both hold a compiled {name}: give one of them")
        found[name] = folder
    return found


def _compiled_as(method: Method) -> str:
    """The method of the programs that serve a method."""
    return method.name if method.kind == "baseline" and method.learned is None else "keqa"
