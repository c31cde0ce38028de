"""The draws of a quiz in clusters of one meaning: what gates and boundary models read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import zip_longest
from typing import Any, Self

from keqa.data.question import AnswerType


@dataclass
class Draw:
    """One try.

    Attributes:
        text: As drawn; None where it failed.
        error: Class name of the error that it failed with.
        abstained: Whether it says that it does not know, or nothing.
        cluster: Position of its cluster.
        probability: That the LM gave to it, normalised by its length, where it was asked for.
        first_token: The probability of its first token, likewise.
    """

    text: str | None = None
    error: str | None = None
    abstained: bool = False
    cluster: int | None = None
    probability: float | None = None
    first_token: float | None = None

    @property
    def answer(self) -> str | None:
        """Its text; None for an abstention or a failure."""
        return None if self.abstained else self.text


@dataclass
class Draws:
    """What is known of a quiz after some of its draws.

    Attributes:
        quiz: Its resolved text.
        answer_type: What kind of answer it wants.
        choices: The options of a choice.
        tries: N_c, the draws there will be at most.
        made: The draws so far, in the order in which Algorithm 1 reads them.
        reply: What the LM replied to the gate's own question (`keqa.programs.gates.GateQuestion`); None where it was
            not asked.
    """

    quiz: str = ""
    answer_type: AnswerType = "short"
    choices: tuple[str, ...] = ()
    tries: int = 1
    made: list[Draw] = field(default_factory=list)
    reply: Any = None

    @classmethod
    def of(
        cls,
        answers: Sequence[str | None],
        probabilities: Sequence[float | None] = (),
        first_tokens: Sequence[float | None] = (),
        **asked: Any,
    ) -> Self:
        """Draws of these answers, None for an abstention, that are in no clusters."""
        drawn = zip_longest(answers, probabilities, first_tokens)
        made = [Draw(one, None, one is None, None, whole, first) for one, whole, first in drawn]
        return cls(**{"made": made, "tries": len(made), **asked})

    @property
    def drawn(self) -> int:
        """Draws made, abstentions and failures included."""
        return len(self.made)

    @property
    def left(self) -> int:
        """Draws not made yet."""
        return self.tries - self.drawn

    @property
    def answers(self) -> tuple[str | None, ...]:
        """The text of each draw; None for an abstention or a failure."""
        return tuple(draw.answer for draw in self.made)

    @property
    def clusters(self) -> list[list[int]]:
        """Positions of draws by cluster, in the order of their first members; CS of Algorithm 1."""
        found: dict[int, list[int]] = {}
        for place, draw in enumerate(self.made):
            if draw.cluster is not None:
                found.setdefault(draw.cluster, []).append(place)
        return list(found.values())

    @property
    def sizes(self) -> list[int]:
        """Sizes of the clusters, in the order of their first members."""
        return [len(members) for members in self.clusters]

    @property
    def largest(self) -> int:
        """Size of the largest cluster, 0 where there is none."""
        return max(self.sizes, default=0)

    @property
    def consistency(self) -> Fraction:
        """T_c, exactly: the largest cluster over all tries."""
        return Fraction(self.largest, self.tries)

    @property
    def leading(self) -> str | None:
        """A_c so far, the first member of the largest cluster; None where there is none."""
        position = leader(self.sizes)
        return None if position is None else self.made[self.clusters[position][0]].text

    @property
    def leader_is_fixed(self) -> bool:
        """Whether no outcome of the draws that are left changes which cluster is the largest."""
        return leader_is_fixed(self.sizes, self.left)

    @property
    def has_probabilities(self) -> bool:
        """Whether every answer was drawn with its probability; an abstention needs none."""
        return bool(self.made) and all(draw.answer is None or draw.probability is not None for draw in self.made)

    def first(self, count: int) -> Self:
        """The first draws alone."""
        return replace(self, made=self.made[:count])


def leader(sizes: Sequence[int]) -> int | None:
    """Position of the largest cluster, the first one of equals (Algorithm 1, line 15)."""
    return max(range(len(sizes)), key=lambda position: sizes[position]) if sizes else None


def leader_is_fixed(sizes: Sequence[int], left: int) -> bool:
    """Whether no outcome of the remaining draws changes which cluster is the largest."""
    first = leader(sizes)
    if first is None:
        return left == 0
    # An earlier cluster overtakes by drawing level; a later one, or a new one, has to be larger.
    rivals = [other + (position < first) for position, other in enumerate(sizes) if position != first]
    return max([0, *rivals]) + left <= sizes[first]
