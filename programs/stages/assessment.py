"""A quiz under examination: its draws, their clusters, and what a gate reads of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from keqa.data.question import AnswerType
from keqa.programs.gates import Votes, leader


@dataclass
class Draw:
    """One try: its text, or the error it failed with.

    Attributes:
        text: As drawn.
        error: Class name of the error.
        abstained: Whether it says that it does not know, or nothing.
        cluster: Position of its cluster.
        first_token: The probability of the answer's first token, where it was asked for.
    """

    text: str | None = None
    error: str | None = None
    abstained: bool = False
    cluster: int | None = None
    first_token: float | None = None


@dataclass
class Assessment:
    """A quiz under examination.

    Attributes:
        quiz: Its resolved text.
        number: Its number, for degradations.
        answer_type: What kind of answer it wants.
        choices: The options of a choice.
        tries: N_c.
        draws: The draws so far, in the order in which Algorithm 1 reads them.
        clusters: Positions of draws, by cluster; CS of Algorithm 1.
        known: The gate's verdict.
        certainty: The gate's measure, where it has one of its own.
        reply: What the LM replied to the gate's own question, where it has one.
        probabilities: Of the answers drawn, by position, where they are asked for.
        place: Which quiz of which question it is; empty where it is asked by itself.
        stopped: Why no further draw was made.
        predictor: Draws, where it is not the examination's own.
        ready: Draws that are made already, of which a gate takes some.
    """

    quiz: str
    number: int | None
    answer_type: AnswerType
    choices: list[str]
    tries: int
    draws: list[Draw] = field(default_factory=list)
    clusters: list[list[int]] = field(default_factory=list)
    known: bool | None = None
    certainty: float | None = None
    reply: Any = None
    probabilities: dict[int, float | None] = field(default_factory=dict)
    judged: dict[tuple[str, str], bool] = field(default_factory=dict)
    place: str = ""
    stopped: str | None = None
    predictor: Any = None
    ready: list[Draw] = field(default_factory=list)

    @property
    def votes(self) -> Votes:
        """As gates read it."""
        return Votes(
            sizes=tuple(map(len, self.clusters)),
            drawn=len(self.draws),
            tries=self.tries,
            answers=tuple(None if draw.abstained else draw.text for draw in self.draws),
            quiz=self.quiz,
            answer_type=self.answer_type,
            choices=tuple(self.choices),
            leading=self.answer,
            reply=self.reply,
            probabilities=tuple(map(self.probabilities.get, range(len(self.draws)))) if self.probabilities else (),
            place=self.place,
            first_tokens=tuple(draw.first_token for draw in self.draws) if self.probabilities else (),
        )

    @property
    def lost(self) -> list[int]:
        """Positions of the draws that failed."""
        return [position for position, draw in enumerate(self.draws) if draw.error is not None]

    def votes_without(self, positions: Sequence[int]) -> Votes:
        """As gates would read it if some draws had not been made yet; they must be none that joined a cluster."""
        votes, out = self.votes, set(positions)
        return replace(
            votes,
            drawn=votes.drawn - len(out),
            answers=tuple(one for place, one in enumerate(votes.answers) if place not in out),
            probabilities=tuple(one for place, one in enumerate(votes.probabilities) if place not in out),
            first_tokens=tuple(one for place, one in enumerate(votes.first_tokens) if place not in out),
        )

    @property
    def answer(self) -> str | None:
        """A_c, the first member of the largest cluster; None where there is none."""
        position = leader([len(members) for members in self.clusters])
        return None if position is None else self.first(position)

    def first(self, cluster: int) -> str:
        """The member of a cluster with which others are compared."""
        return str(self.draws[self.clusters[cluster][0]].text)


def draw_identity(seed: int, quiz: str, answer_type: str, choices: Sequence[str], position: int | str) -> int:
    """The number that makes a draw itself, whatever the cache does.

    The same program asked the same quiz draws the same samples, a further try is a new draw, and no two tries are one.
    """
    key = json.dumps([seed, quiz, answer_type, list(choices), position])
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=6).digest(), "big")
