"""Gates: from the clustered samples of a quiz to the verdict whether the language model knows its answer.

All of them are here by name; KEQA's own is `VoteGate`.

=============================  ==================================================================  ================
gate                           known where                                                         draws
=============================  ==================================================================  ================
`VoteGate`                     T_c reaches α (KEQA)                                                as few as decide
`CertaintyGate`                certainty reaches a threshold (KBM)                                 all
`LexicalSimilarityGate`        the draws share their words                                         all
`ConfidenceGate`               the LM says that it is sure of the leading answer                   few, and a call
`ProbabilityGate`              the LM gives its draws a high probability                           all, with tokens
`AlwaysRetrieveGate`           nowhere                                                             none
`NeverRetrieveGate`            everywhere                                                          as few as decide
`PromptGate`                   the LM says that it needs no retrieval (KBM's Prompt)               few, and a call
`RandomGate`                   chance says so, at a given ratio                                    as few as decide
`MatchedRandomGate`            chance says so, as often as another run searched (KBM's Random)     as few as decide
`OracleGate`                   the leading answer is right                                         as few as decide
=============================  ==================================================================  ================
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from keqa.programs.arguments import Threshold, Word, checked
from keqa.programs.gates.bounds import AlwaysRetrieveGate, Golds, NeverRetrieveGate, OracleGate
from keqa.programs.gates.random import MatchedRandomGate, RandomGate
from keqa.programs.gates.uncertainty import (
    CertaintyGate,
    ConfidenceGate,
    LexicalSimilarityGate,
    ProbabilityGate,
    PromptGate,
)
from keqa.programs.gates.votes import (
    AskingGate,
    Asks,
    Gate,
    Votes,
    as_fraction,
    asks,
    leader,
    leader_is_fixed,
    reaches,
    score_of,
    smallest_wave,
)

__all__ = [
    "AlwaysRetrieveGate",
    "AskingGate",
    "Asks",
    "CertaintyGate",
    "ConfidenceGate",
    "Gate",
    "Golds",
    "LexicalSimilarityGate",
    "MatchedRandomGate",
    "NeverRetrieveGate",
    "OracleGate",
    "ProbabilityGate",
    "PromptGate",
    "RandomGate",
    "VoteGate",
    "Votes",
    "as_fraction",
    "asks",
    "leader",
    "leader_is_fixed",
    "reaches",
    "score_of",
]


@checked
@dataclass(frozen=True)
class VoteGate:
    """KEQA's gate: known where T_c reaches α (section 3.3).

    Attributes:
        threshold: α. Votes are compared with it as fractions, so that 27 of 30 reach .9.
    """

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

    def measure(self, votes: Votes) -> None:
        """Its measure is T_c."""
        return None
