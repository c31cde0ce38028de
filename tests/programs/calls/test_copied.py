"""What a weak language model copies from a demonstration is refused until none is shown."""

from __future__ import annotations

import dspy
import pytest

from keqa.programs.calls.errors import CallError
from keqa.programs.calls.texts import Copies
from keqa.programs.predictor import Predictor
from keqa.signatures import AnswerFromDocuments

INPUTS = ["Who is the CFO of Meridian Rail?", "The CFO of Meridian Rail is Ida Holm; it has four offices."]


def asked() -> Copies:
    predictor = Predictor(AnswerFromDocuments)
    shown = ["Mercury (planet): It is small.", "Where was #1 born?"]
    predictor.demos = [dspy.Example(passages=shown, question="Which?", answer="Mercury")]
    return Copies(predictor, INPUTS)


@pytest.mark.parametrize(
    ("answer", "names", "copied"),
    [
        ("Mercury (planet)", False, True),
        ("Mercury", False, True),
        ("Is it Mercury?", True, True),
        ("Ida Holm of Mercury", False, True),
        ("Ida Holm", False, False),
        ("Ann Lee", False, False),
        ("yes", False, False),
        ("UNKNOWN", False, False),
        ("small offices", False, False),
        ("Who is #1 of Mercury?", True, True),
        ("To whom is #1 married?", True, False),
    ],
)
def test_what_is_of_a_demonstration_and_not_of_the_inputs(answer, names, copied):
    copies, said = asked(), dspy.Prediction(answer=[answer] if names else answer)
    if not copied:
        copies.check(said)
        assert copies.demos(1) is None
        return
    with pytest.raises(CallError, match="CopiedDemonstrationError"):
        copies.check(said)


def test_it_is_asked_again_and_then_without_demonstrations():
    copies = asked()
    # A server may reply otherwise to the same request.
    for attempt in (0, 0):
        assert copies.demos(attempt) is None
        with pytest.raises(CallError):
            copies.check(dspy.Prediction(answer="Mercury"))
    assert copies.demos(1)() == []
    copies.check(dspy.Prediction(answer="Mercury"))
