"""How often the passages of a source, or of an age, helped, by the labels of the utility reference.

A judge of single passages cannot see that a source is out of date: what it states reads as well as what is true. The
labels can, for its passages help less often than those of other sources do. So it is with old documents, where passages
say when theirs was last changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from keqa.programs.reference.index import UtilityEntry

# As corpora of several publications write it at the end of a passage.
_NAMED = re.compile(r"\bSource:\s*([^\n.;|]{1,80}?)\s*\.?\s*\Z", re.IGNORECASE)
_DATE = re.compile(r"\d{4}(?:-\d{2}(?:-\d{2})?)?", re.ASCII)
_CHANCE = 0.01
_LOWEST = 0.75


def source_of(passage: str) -> str | None:
    """The source that a passage names at its end, as in ``… Source: Herald.``; None where it names none."""
    found = _NAMED.search(passage)
    return None if found is None else found[1].strip() or None


@dataclass(frozen=True)
class SourceRecord:
    """How many labelled passages of a source helped, and whether that is less than of the others beyond chance."""

    name: str
    helped: int
    labelled: int
    unreliable: bool

    def __str__(self) -> str:
        return f"{self.name}: {self.helped} of {self.labelled} of its passages helped"


@dataclass(frozen=True)
class AgeRecord(SourceRecord):
    """The same of the passages on one side of a date; `name` is that side."""

    def __str__(self) -> str:
        return f"passages {self.name}: {self.helped} of {self.labelled} helped"


class Reliability:
    """The sources and dates of a reference; what comes from given training questions can be left out of their counts.

    Of dates there are two groups, the older and the newer half of the labelled passages that have one: one comparison,
    so that no cut is chosen for what it shows.
    """

    def __init__(self, entries: Iterable[UtilityEntry]) -> None:
        entries = list(entries)
        dates = sorted(date for entry in entries if (date := _day(entry.date)))
        # Where all have one date there is no older half.
        self._cut = dates[len(dates) // 2] if dates else ""
        self._sources = _Counts(((entry, source_of(entry.passage)) for entry in entries), SourceRecord)
        self._ages = _Counts(((entry, self._age(entry.date)) for entry in entries), AgeRecord)

    def unreliable(self) -> list[SourceRecord]:
        """The sources, and the side of a date, that are unreliable by all labels, the least helpful first."""
        found = [one for one in (*self._sources.all(), *self._ages.all()) if one.unreliable]
        return sorted(found, key=lambda one: one.helped / one.labelled)

    def of(self, passage: str, without: Iterable[str] = ()) -> SourceRecord | None:
        """What is known of a passage's source, by other labels than those of some training questions.

        None where it names none, or one that no label is of.
        """
        return self._sources.of(source_of(passage), without)

    def of_date(self, date: str, without: Iterable[str] = ()) -> SourceRecord | None:
        """What is known of passages as old as one, likewise."""
        return self._ages.of(self._age(date), without)

    def _age(self, date: str) -> str | None:
        day = _day(date)
        if not day or not self._cut:
            return None
        return f"dated before {self._cut}" if day < self._cut else f"dated {self._cut} or later"


class _Counts:
    """How many labels of each name there are, and how many of them say that the passage helped."""

    def __init__(self, named: Iterable[tuple[UtilityEntry, str | None]], kind: type[SourceRecord]) -> None:
        self._kind = kind
        self._counts: dict[str, tuple[int, int]] = {}
        self._of_roots: dict[str, dict[str, tuple[int, int]]] = {}
        for entry, name in named:
            if name is None:
                continue
            for counts in (self._counts, self._of_roots.setdefault(entry.root, {})):
                helped, labelled = counts.get(name, (0, 0))
                counts[name] = helped + entry.helpful, labelled + 1

    def all(self) -> list[SourceRecord]:
        """What is known of each name."""
        return [self._record(name, self._counts) for name in self._counts]

    def of(self, name: str | None, without: Iterable[str]) -> SourceRecord | None:
        """What is known of a name; None where no label is left of it."""
        if name is None or name not in self._counts:
            return None
        counts = dict(self._counts)
        for root in without:
            for other, (helped, labelled) in self._of_roots.get(root, {}).items():
                counts[other] = counts[other][0] - helped, counts[other][1] - labelled
        return self._record(name, counts) if counts[name][1] else None

    def _record(self, name: str, counts: Mapping[str, tuple[int, int]]) -> SourceRecord:
        """Unreliable helps three quarters as often as the others at most, and so seldom hardly by chance."""
        from scipy.stats import binom

        helped, labelled = counts[name]
        others = [count for other, count in counts.items() if other != name]
        seen = sum(labelled for _, labelled in others)
        share = sum(helped for helped, _ in others) / seen if seen else 0.0
        seldom = helped <= _LOWEST * share * labelled and float(binom.cdf(helped, labelled, share)) < _CHANCE
        return self._kind(name, helped, labelled, seldom)


def _day(date: str) -> str:
    """The day of a date as documents write it, or as much of ``2024-05-31`` as is there; may be empty."""
    found = _DATE.match(date)
    return "" if found is None else found[0]
