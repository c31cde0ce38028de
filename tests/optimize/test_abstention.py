import random

import pytest

from keqa.errors import InputError
from keqa.metrics.confidence import risk_p_value
from keqa.optimize.abstention import CalibrationAnswer, UnheldRiskError, calibrate
from keqa.programs.records import QuestionRecord, QuizRecord


def outcome(number, firm, right, answer="Ann"):
    """A question from memory, held as firmly as is said."""
    quiz = QuizRecord(index=1, text="Who governs Oslo?", consistency=firm, answer=answer, source="memory")
    record = QuestionRecord(question="Who governs Oslo?", quizzes=[quiz], answer=answer, answer_source="memory")
    return CalibrationAnswer(f"q{number}", record, right)


def outcomes(count, seed=0, good=0.97, bad=0.3):
    """Half are held firmly and mostly right, the others loosely and mostly wrong."""
    draw = random.Random(seed)
    return [
        outcome(number, firm, draw.random() < (good if firm > 0.5 else bad))
        for number in range(count)
        for firm in [draw.choice([1.0, 0.2])]
    ]


@pytest.mark.slow
def test_what_is_firm_is_answered_and_the_rest_withheld():
    held = calibrate(outcomes(300), 0.1)
    gate, found = held.abstention, held.controlled
    assert found.questions == 180
    assert 0.4 < found.coverage < 0.6
    assert risk_p_value(found.wrong, found.answered, 0.1) <= 0.1
    assert [gate.applied(outcome(0, firm, True).record).answer for firm in (1.0, 0.2)] == ["Ann", "I do not know"]
    assert (gate.risk, gate.delta) == (0.1, 0.1)
    assert str(held) == (
        f'expects to say "I do not know" to {1 - found.coverage:.0%} of the questions, as to '
        f"{180 - found.answered} of 180 that it was calibrated on; of the {found.answered} others {found.wrong} were "
        "wrong. With a chance of 90% at most 10% of its answers to such questions are wrong"
    )


def test_it_refuses_what_cannot_be_held_and_says_what_can():
    with pytest.raises(UnheldRiskError, match=r"no threshold holds a risk of 0\.01 with a chance of 0\.9") as found:
        calibrate(outcomes(300), 0.01)
    assert 0.01 < found.value.lowest < 0.15
    calibrate(outcomes(300), found.value.lowest)


def test_it_refuses_where_every_answer_abstains():
    silent = [outcome(number, 1.0, False, answer="unknown") for number in range(100)]
    with pytest.raises(UnheldRiskError, match="no risk is held by it") as found:
        calibrate(silent, 0.5)
    assert found.value.lowest is None


def test_too_few_questions_and_shares_that_are_none():
    with pytest.raises(InputError, match="39 answered questions are too few to calibrate on: 40 at least"):
        calibrate(outcomes(39) * 2, 0.1)
    with pytest.raises(InputError, match="risk must be above 0 and below 1, not 1"):
        calibrate(outcomes(50), 1)
    with pytest.raises(InputError, match="delta must be above 0 and below 1, not 0"):
        calibrate(outcomes(50), 0.1, 0)


def test_the_same_questions_calibrate_alike_in_whatever_order():
    some = outcomes(200)
    first, second = calibrate(some, 0.1), calibrate(some[::-1], 0.1)
    assert first == second
    assert calibrate(some, 0.1, seed=1).abstention.calibrated_on != first.abstention.calibrated_on
