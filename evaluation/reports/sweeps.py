"""Which rows are points of one curve: a method run several times, with one setting changed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Literal, get_args

from keqa.evaluation.reports.rows import KEQA, Entry, of_method

Facet = Literal["threshold", "top_k", "gate", "retriever", "lm"]

# Another language model may have been compiled with demonstrations of its own, and is compared as it is used.
_ANY_PROMPTS = ("retriever", "lm")


def sweep(entries: Sequence[Entry], method: str, facet: Facet) -> list[Entry]:
    """The rows of a method that differ in one setting alone.

    Args:
        entries: All rows.
        method: The method's name.
        facet: The setting.

    Returns:
        The rows in the order of the setting, one for each of its values; none where it has one value only. Where
        several settings were changed, the longest such curve.
    """
    curves: dict[Any, dict[Any, Entry]] = {}
    for entry in entries:
        value = getattr(entry.settings, facet)
        if entry.method != method or value is None:
            continue
        same = (_facets(entry, besides=facet), None if facet in _ANY_PROMPTS else entry.base)
        curves.setdefault(same, {}).setdefault(value, entry)
    longest = max(curves.values(), key=len, default={})
    if len(longest) < 2:
        return []
    ordered = sorted(longest) if all(isinstance(value, int | float) for value in longest) else list(longest)
    return [longest[value] for value in ordered]


def _facets(entry: Entry, besides: str = "") -> tuple[Any, ...]:
    """What a run was set up with, as far as figures and tables are about it."""
    return tuple(getattr(entry.settings, name) for name in get_args(Facet) if name != besides)


def main_rows(entries: Sequence[Entry]) -> list[Entry]:
    """The rows of Table 1: gates, and points of the other figures and tables, are left to those.

    A row is such a point where it differs from the one that is called like its method in nothing but a setting that a
    figure or table is about, in nothing at all, or has the label of an earlier one with another language model or
    retriever. Where none is called so, as of a method that was run for a figure alone, all of them are.
    """
    kept = [entry for entry in entries if entry.kind != "gate" and not _is_point(entry, entries)]
    return kept or list(entries)


def _is_point(entry: Entry, entries: Sequence[Entry]) -> bool:
    others = [one for one in entries if one.method == entry.method and one is not entry and one.base == entry.base]
    usual = of_method(entries, entry.method)
    earlier = takewhile(lambda one: one is not entry, entries)
    if any((one.label, one.method) == (entry.label, entry.method) and one.means != entry.means for one in earlier):
        return True
    if usual is None or not others or usual.base != entry.base:
        return False
    if entry.label == entry.method or (entry.method == KEQA and entry is usual):
        return False
    named = usual.label == usual.method or entry.method == KEQA
    if named and entry.asked == usual.asked:
        return True
    return any(_facets(other) != _facets(entry) for other in ([usual] if named else others))
