"""How often the passages of a source, or of an age, helped, by the labels of the utility reference.

A judge of single passages cannot see that a source, or a document, is out of date: what it states reads as well as what
is true. The labels can, for its passages help less often than others do.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from keqa.programs.reference.entries import UtilityEntry

# As corpora of several publications write it at the end of a passage.
_NAMED = re.compile(r"\bSource:\s*([^\n.;|]{1,80}?)\s*\.?\s*\Z", re.IGNORECASE)
_DATE = re.compile(r"\d{4}(?:-\d{2}(?:-\d{2})?)?", re.ASCII)
_CHANCE = 0.01
_LOWEST = 0.75


def source_of(passage: str) -> str | None:
    found = _NAMED.search(passage)
    return None if found is None else found[1].strip() or None


@dataclass(frozen=True)
class SourceRecord:
    """How many labelled passages of a source or an age helped, and whether that is too few to be chance."""

    name: str
    helped: int
    labelled: int
    unreliable: bool
    of: str = " of its passages"

    def __str__(self) -> str:
        return f"{self.name}: {self.helped} of {self.labelled}{self.of} helped"


class Reliability:
    """The sources and dates of a reference; what comes from given training questions can be left out of their counts.

    Of dates there are two groups, the older and the newer half: one comparison, so that no cut is chosen.
    """

    def __init__(self, entries: Iterable[UtilityEntry]) -> None:
        entries = list(entries)
        dates = sorted(date for entry in entries if (date := _day(entry.date)))
        # Where all have one date there is no older half.
        self._cut = dates[len(dates) // 2] if dates else ""
        self._sources = _Counts(((entry, source_of(entry.passage)) for entry in entries), " of its passages")
        self._ages = _Counts((entry, self._age(entry.date)) for entry in entries)

    def unreliable(self) -> list[SourceRecord]:
        """The sources, and the side of a date, that are unreliable by all labels, the least helpful first."""
        known = [*map(self._sources.of, self._sources.names), *map(self._ages.of, self._ages.names)]
        return sorted((one for one in known if one and one.unreliable), key=lambda one: one.helped / one.labelled)

    def of(self, passage: str, without: Iterable[str] = ()) -> SourceRecord | None:
        """What is known of a passage's source, if any, by other labels than those of some training questions."""
        return self._sources.of(source_of(passage), without)

    def of_date(self, date: str, without: Iterable[str] = ()) -> SourceRecord | None:
        """What is known of passages as old as one, likewise."""
        return self._ages.of(self._age(date), without)

    def _age(self, date: str) -> str | None:
        day = _day(date)
        if not day or not self._cut:
            return None
        return f"passages dated before {self._cut}" if day < self._cut else f"passages dated {self._cut} or later"


class _Counts:
    """How many labels of each name there are that say that the passage helped, and that it did not."""

    def __init__(self, named: Iterable[tuple[UtilityEntry, str | None]], of: str = "") -> None:
        self._of, self._all = of, Counter[tuple[str, bool]]()
        self._of_root = defaultdict[str, Counter[tuple[str, bool]]](Counter)
        for entry, name in named:
            if name is not None:
                self._all[name, entry.helpful] += 1
                self._of_root[entry.root][name, entry.helpful] += 1
        self.names = list(dict.fromkeys(name for name, _ in self._all))

    def of(self, name: str | None, without: Iterable[str] = ()) -> SourceRecord | None:
        """What is known of a name: what helps three quarters as often as the others at most, and not by chance."""
        if name is None:
            return None
        from scipy.stats import hypergeom

        counts = Counter(self._all)
        for root in without:
            counts.subtract(self._of_root.get(root, ()))
        helped, labelled = counts[name, True], counts[name, True] + counts[name, False]
        if not labelled:
            return None
        total = counts.total()
        others, all_helped = total - labelled, sum(count for (_, helpful), count in counts.items() if helpful)
        share = (all_helped - helped) / others if others else 0.0
        seldom = helped <= _LOWEST * share * labelled
        # The labels of the others may be few as well.
        unreliable = seldom and float(hypergeom.cdf(helped, total, all_helped, labelled)) < _CHANCE
        return SourceRecord(name, helped, labelled, unreliable, self._of)


def _day(date: str) -> str:
    """The day of a date as documents write it, or as much of ``2024-05-31`` as is there; may be empty."""
    found = _DATE.match(date)
    return "" if found is None else found[0]
