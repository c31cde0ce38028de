"""Questions that a program learned from: it is not measured by them unless that is asked for, and then it is marked."""

from __future__ import annotations

from collections.abc import Iterable

from keqa.data.example import Example
from keqa.errors import InputError
from keqa.programs.program import Program

MARK = "*"
"""What stands after the name of a row some of whose questions were learned from."""

_NAMED = 3


def learned_from(program: Program, examples: Iterable[Example]) -> list[str]:
    """The ids of the questions that a program learned from, by training on them or by being chosen by them."""
    learned = program.learned
    # Questions may come from a large file, which is then not read once more.
    if not (learned.train or learned.validation):
        return []
    return [one.id for one in examples if learned.ids_of(one.question, one.choices)]


def refuse_overlap(found: list[str], asked: int, label: str) -> None:
    """Refuse to measure a program by what it learned from."""
    if found:
        named = ", ".join(found[:_NAMED]) + (" and so on" if len(found) > _NAMED else "")
        raise InputError(
            f"{label}: {_count(len(found), asked)} ({named}), so its answers to them are no measure of it. Ask other "
            "questions, or give --allow-overlap (allow_overlap=True), and every table marks the row"
        )


def overlap_notes(rows: Iterable[tuple[str, int, int, bool]]) -> tuple[str, ...]:
    """What is said under a table of runs: which rows hold questions that were learned from."""
    rows = list(rows)
    marked = [f"{name.removesuffix(MARK)}: {_count(found, asked)}" for name, found, asked, _ in rows if found]
    unknown = [name for name, _, _, unsaid in rows if unsaid]
    notes = [f"{MARK} after the name of a row: {'; '.join(marked)}."] if marked else []
    if unknown:
        notes.append(
            "It is not known whether questions were learned from in these rows, for their program was compiled by "
            f"a version of KEQA that did not keep them: {', '.join(unknown)}."
        )
    return tuple(notes)


def _count(found: int, asked: int) -> str:
    return f"{found} of {asked} questions {'was' if found == 1 else 'were'} learned from"
