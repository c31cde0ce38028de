"""How well T_c separates what an LM knows from what it does not, on facts whose knowledge tier is known."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean
from typing import NamedTuple

from keqa.data.question import Question
from keqa.metrics.answers import same_answer
from keqa.metrics.confidence import auroc
from keqa.programs.calls.batch import in_parallel
from keqa.programs.examination import Examination
from keqa.programs.gates import CertaintyGate
from keqa.programs.stage import RoleLMs
from keqa.testbed.relations import RELATIONS
from keqa.testbed.testbed import Testbed
from keqa.testbed.world import Convention, Fact

TIERS = ("often", "sometimes", "stale", "never")
"""How often an LM saw a fact in training; see `keqa.testbed.world`."""

_THRESHOLD = Fraction(4, 5)
_IN_FLIGHT = 16


class ExaminedFact(NamedTuple):
    """One fact, examined."""

    tier: str
    consistency: Fraction
    right: bool


@dataclass(frozen=True)
class Boundary:
    """What was found."""

    facts: tuple[ExaminedFact, ...]

    @property
    def tiers(self) -> list[str]:
        found = {fact.tier for fact in self.facts}
        return [tier for tier in TIERS if tier in found]

    def scores(self, *tiers: str) -> list[float]:
        return [float(fact.consistency) for fact in self.facts if fact.tier in tiers]

    def figures(self, tier: str) -> dict[str, float]:
        """Of a tier: how many facts, mean T_c, the shares with T_c of at least .8 and with the right answer."""
        facts = [fact for fact in self.facts if fact.tier == tier]
        return {
            "facts": len(facts),
            "consistency": fmean(self.scores(tier)),
            "known": fmean(fact.consistency >= _THRESHOLD for fact in facts),
            "right": fmean(fact.right for fact in facts),
        }

    @property
    def auroc(self) -> float:
        """T_c of facts seen often in training against those of facts never seen."""
        return auroc(self.scores("often"), self.scores("never"))

    @property
    def auroc_of_all(self) -> float:
        """Over all tiers, where stale facts count as unknown; no gate on consistency can see them."""
        return auroc(self.scores("often", "sometimes"), self.scores("never", "stale"))


def draw_boundary(
    lms: RoleLMs, *, facts: int = 400, tries: int = 5, progress: Callable[[], None] = lambda: None
) -> Boundary:
    """Examine facts of the default testbed, drawn over all tiers in their shares."""
    testbed = Testbed()
    world = testbed.world
    chosen = random.Random("boundary").sample(world.facts(), facts)
    # A gate that needs all draws: what is measured is T_c, not the cost of finding a verdict.
    examination = Examination(tries=tries, gate=CertaintyGate())
    examination.bind_lms(lms)

    def examine(fact: Fact) -> tuple[Fact, ExaminedFact]:
        found = examination(Question(RELATIONS[fact.relation].asks[0].format(e=fact.entity)))
        progress()
        golds = {world.write(fact, Convention(form, short)) for form in range(3) for short in (False, True)}
        right = any(same_answer(found.leading or "", gold) for gold in golds)
        return fact, ExaminedFact(testbed.tiers.tier[fact], found.consistency, right)

    examined = dict(in_parallel(examine, chosen, _IN_FLIGHT))
    return Boundary(tuple(examined[fact] for fact in chosen))
