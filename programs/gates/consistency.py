"""KEQA's own gate: the consistency of samples."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from keqa.programs.arguments import Threshold, Word, checked
from keqa.programs.gates.base import LeaderGate
from keqa.programs.gates.votes import Votes, leader_is_fixed, smallest_wave


@checked
@dataclass(frozen=True)
class VoteGate(LeaderGate):
    """KEQA's gate: known where T_c reaches α (section 3.3).

    Attributes:
        threshold: α. Votes are compared with it as fractions, so that 27 of 30 reach .9.
    """

    method = "gate-votes"
    title = "KEQA's vote"
    kind = "votes"

    threshold: Annotated[Fraction, Threshold] = Fraction(4, 5)
    name: Word = "votes"
    needs_all_draws: bool = False

    def decide(self, votes: Votes) -> bool | None:
        """Known once enough agree and none can overtake them; unknown once too few draws are left."""
        if votes.consistency >= self.threshold:
            return True if leader_is_fixed(votes) else None
        reachable = Fraction(votes.largest + votes.left, votes.tries)
        return False if reachable < self.threshold else None

    def wave(self, votes: Votes) -> int:
        """At first the smallest number of votes that reaches α."""
        return smallest_wave(votes, lambda then: self.decide(then) is not None)
