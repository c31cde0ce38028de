"""A boundary model that reads one draft, and all draws where these are worth what they cost.

More draws can only help where they change the decision. What they are worth on average, the expected value of
information (Howard, 1966), follows from how far the judgement of all draws lies from that of the draft on quizzes
held out in training, and from how near the draft's lies to the gate's threshold.
"""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist, fmean
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from keqa.programs.boundary.light import Aspect, LightModel, Number
from keqa.programs.boundary.model import Judgement, Reads, Signals
from keqa.programs.boundary.saved import SavedModel, Strict, digest

_QUANTILES = 64
_LEAST = 1e-6


class Change(Strict):
    """How the judgement of all draws follows from that of the draft, both as log odds: a line, and the spread about it."""

    slope: Number
    offset: Number
    deviation: Annotated[float, Field(ge=0, le=1e3, allow_inf_nan=False)]

    def expected_gain(self, judged: float, threshold: float) -> float:
        """What deciding by all draws gains over deciding by the draft, before what they cost.

        A quiz decided by a judgement p is right with probability p from memory; searched for, it is worth the
        threshold, for that is what the threshold means. So a judgement is worth max(p, threshold).
        """
        middle = self.slope * log_odds(judged) + self.offset
        later = [1 / (1 + math.exp(-max(-30.0, middle + self.deviation * place))) for place in _quantiles()]
        return max(0.0, fmean(max(value - threshold, 0.0) for value in later) - max(judged - threshold, 0.0))


class StepwiseModel(SavedModel):
    """Two light models and how their judgements lie to each other; `keqa.optimize.boundary.train_stepwise` makes one."""

    kind: Literal["stepwise"] = "stepwise"
    draft: LightModel
    draws: LightModel
    changes: dict[Aspect, Change]
    about: dict[str, JsonValue] = Field(default_factory=dict)

    def model_post_init(self, context: Any) -> None:
        """Refuse what is well-formed and cannot judge."""
        if (self.draft.reads, self.draws.reads) != ("draft", "draws"):
            raise ValueError("draft has to read a draft, and draws the draws")
        if self.changes.keys() != {"mastery", "certainty"}:
            raise ValueError("changes has mastery and certainty")

    @property
    def reads(self) -> Reads:
        """One draft, and all draws as needed."""
        return "as-needed"

    @property
    def roots(self) -> list[str]:
        """Digests of the ids of the questions that it learned from."""
        return self.draft.roots

    @property
    def uses_probabilities(self) -> bool:
        """Whether it was trained on draws with the probabilities of their tokens."""
        return self.draft.uses_probabilities

    def judge(self, quiz: str, signals: Signals, reference: str | None = None) -> Judgement:
        """Judge a quiz by the draws that were made; see `keqa.programs.boundary.BoundaryModel`."""
        return (self.draft if len(signals.answers) < 2 else self.draws).judge(quiz, signals, reference)

    def wants_draws(self, draft: Judgement, of: Aspect, threshold: float, cost: float) -> bool:
        """Whether all draws are expected to gain more than they cost."""
        return self.changes[of].expected_gain(getattr(draft, of), threshold) > cost

    def spec(self) -> dict[str, Any]:
        """Kind, what it reads, and a digest of its weights."""
        parts = [self.draft.spec(), self.draws.spec(), self.model_dump(mode="json", include={"changes"})]
        return {"kind": self.kind, "reads": self.reads, "weights": digest(parts)}


def log_odds(probability: float) -> float:
    """The logarithm of the odds, finite at 0 and 1 too."""
    bounded = min(max(probability, _LEAST), 1 - _LEAST)
    return math.log(bounded / (1 - bounded))


@cache
def _quantiles() -> tuple[float, ...]:
    """Places that divide the normal distribution into parts of equal probability, each in the middle of one."""
    normal = NormalDist()
    return tuple(normal.inv_cdf((place + 0.5) / _QUANTILES) for place in range(_QUANTILES))
