"""Whether what was searched for had to be: over-search of what memory knows, under-search of what it does not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SearchRates:
    """Searches beside what is known.

    Attributes:
        known: Quizzes that memory answers rightly.
        over_searched: How many of these were searched for all the same.
        unknown: Quizzes that it does not.
        under_searched: How many of these were not searched for.
    """

    known: int
    over_searched: int
    unknown: int
    under_searched: int

    @classmethod
    def of(cls, decisions: Iterable[tuple[bool, bool]]) -> SearchRates:
        """Count.

        Args:
            decisions: Of each quiz whether memory knows it, and whether it was searched for.
        """
        pairs = list(decisions)
        searched = [one for known, one in pairs if known]
        wanted = [one for known, one in pairs if not known]
        return cls(len(searched), sum(searched), len(wanted), len(wanted) - sum(wanted))

    @property
    def over(self) -> float | None:
        """The share of the known that was searched for; None where nothing is known."""
        return self.over_searched / self.known if self.known else None

    @property
    def under(self) -> float | None:
        """The share of the unknown that was not; None where everything is known."""
        return self.under_searched / self.unknown if self.unknown else None
