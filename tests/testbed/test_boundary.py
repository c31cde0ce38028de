from fractions import Fraction

import pytest

from keqa.lms import Roles
from keqa.testbed.boundary import Boundary, ExaminedFact, draw_boundary
from keqa.testbed.testbed import Testbed

pytestmark = pytest.mark.model


def test_figures_of_tiers():
    facts = [
        ("often", 1, True),
        ("often", "2/5", True),
        ("stale", 1, False),
        ("never", "4/5", False),
        ("never", 0, False),
    ]
    found = Boundary(tuple(ExaminedFact(tier, Fraction(consistency), right) for tier, consistency, right in facts))
    assert found.tiers == ["often", "stale", "never"]
    assert found.figures("often") == {"facts": 2, "consistency": 0.7, "known": 0.5, "right": 1.0}
    # .8 is known: 4 of 5 reaches it.
    assert found.figures("never")["known"] == 0.5
    # Of four pairs of often and never, three are in order.
    assert found.auroc == 0.75
    # The stale fact ties with one that was trained on often, and is ahead of the other: 3.5 of 6.
    assert found.auroc_of_all == pytest.approx(3.5 / 6)


def test_an_lm_that_is_never_sure(scripted):
    numbers = iter(range(10_000))

    def reply(name, inputs, config):
        return {"same": False} if name == "JudgeConsistency" else {"answer": f"guess {next(numbers)}"}

    lm, engine = scripted(reply)
    told = []
    found = draw_boundary(Roles(lm, lm, lm), facts=20, tries=3, progress=lambda: told.append(1))
    assert len(told) == 20
    assert {fact.consistency for fact in found.facts} == {Fraction(1, 3)}
    assert not any(fact.right for fact in found.facts)
    assert sum(name == "AnswerQuiz" for name, _, _ in engine.calls) == 60
    tiers = Testbed().tiers
    assert {fact.tier for fact in found.facts} <= set(tiers.tier.values())
    # A sample of a seed of its own: the same facts each time, in the shares of the tiers.
    assert [fact.tier for fact in draw_boundary(Roles(lm, lm, lm), facts=20).facts] == [f.tier for f in found.facts]
    # Who interrupts does not wait for all of them.
    engine.calls.clear()
    with pytest.raises(ZeroDivisionError):
        draw_boundary(Roles(lm, lm, lm), facts=100, tries=2, progress=lambda: 1 / 0)
    assert len(engine.calls) < 200
