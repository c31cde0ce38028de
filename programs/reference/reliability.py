"""How often the passages of a source helped, by the labels of the utility reference.

A judge of single passages cannot see that a source is out of date: what it states reads as well as what is true. The
labels can, for its passages help less often than those of other sources do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

# As corpora of several publications write it at the end of a passage.
_NAMED = re.compile(r"\bSource:\s*([^\n.;|]{1,80}?)\s*\.?\s*\Z", re.IGNORECASE)
_CHANCE = 0.01
_LOWEST = 0.75


class Labelled(Protocol):
    """What the reference holds of a passage."""

    @property
    def root(self) -> str:
        """Id of the training question."""
        ...

    @property
    def passage(self) -> str:
        """As the judge reads it."""
        ...

    @property
    def helpful(self) -> bool:
        """Whether it helped."""
        ...


def source_of(passage: str) -> str | None:
    """The source that a passage names at its end, as in ``… Source: Herald.``; None where it names none."""
    found = _NAMED.search(passage)
    return None if found is None else found[1].strip() or None


@dataclass(frozen=True)
class SourceRecord:
    """What is known of a source.

    Attributes:
        name: Of the source.
        helped: How many of its labelled passages helped.
        labelled: How many there are.
        unreliable: Whether they helped less often than those of the other sources, beyond chance.
    """

    name: str
    helped: int
    labelled: int
    unreliable: bool

    def __str__(self) -> str:
        return f"{self.name}: {self.helped} of {self.labelled} of its passages helped"


class Reliability:
    """The sources of a reference; what comes from given training questions can be left out of their counts."""

    def __init__(self, entries: Iterable[Labelled]) -> None:
        """Count.

        Args:
            entries: Of a utility reference.
        """
        self._counts: dict[str, tuple[int, int]] = {}
        self._of_roots: dict[str, dict[str, tuple[int, int]]] = {}
        for entry in entries:
            name = source_of(entry.passage)
            if name is not None:
                _add(self._counts, name, entry.helpful)
                _add(self._of_roots.setdefault(entry.root, {}), name, entry.helpful)

    def unreliable(self) -> list[SourceRecord]:
        """The sources that are unreliable by all labels, the least helpful first."""
        found = [SourceRecord(name, *self._counts[name], _unreliable(name, self._counts)) for name in self._counts]
        return sorted((one for one in found if one.unreliable), key=lambda one: one.helped / one.labelled)

    def of(self, passage: str, without: Iterable[str] = ()) -> SourceRecord | None:
        """What is known of a passage's source.

        Args:
            passage: As the judge reads it.
            without: Ids of training questions whose labels do not count.

        Returns:
            None where it names none, or one that no label is of.
        """
        name = source_of(passage)
        if name is None or name not in self._counts:
            return None
        counts = dict(self._counts)
        for root in without:
            for other, (helped, labelled) in self._of_roots.get(root, {}).items():
                counts[other] = counts[other][0] - helped, counts[other][1] - labelled
        helped, labelled = counts[name]
        return SourceRecord(name, helped, labelled, _unreliable(name, counts)) if labelled else None


def _add(counts: dict[str, tuple[int, int]], name: str, helpful: bool) -> None:
    helped, labelled = counts.get(name, (0, 0))
    counts[name] = helped + helpful, labelled + 1


def _unreliable(name: str, counts: Mapping[str, tuple[int, int]]) -> bool:
    """Whether a source helps three quarters as often as the others at most, and so seldom hardly by chance."""
    from scipy.stats import binom

    helped, labelled = counts[name]
    others = [count for other, count in counts.items() if other != name]
    seen = sum(labelled for _, labelled in others)
    share = sum(helped for helped, _ in others) / seen if seen else 0.0
    return helped <= _LOWEST * share * labelled and float(binom.cdf(helped, labelled, share)) < _CHANCE
