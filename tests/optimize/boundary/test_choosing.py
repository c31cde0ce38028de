"""The chooser: what it learns to believe, and what it does where steps cost nothing or too much."""

import json

import pytest
from fixtures.outcomes import outcomes

from keqa.errors import ConfigurationError, InputError
from keqa.optimize.boundary.choosing import APART, READING, Learner
from keqa.optimize.boundary.outcomes import RecordedOutcome
from keqa.programs.boundary.chooser import Seen, read_chooser

pytestmark = pytest.mark.slow

LEARNED = [RecordedOutcome.model_validate(line) for line in outcomes(60)]
OTHERS = [RecordedOutcome.model_validate(line) for line in outcomes(30, 600)]


@pytest.fixture(scope="module")
def learner():
    return Learner(LEARNED)


@pytest.fixture(scope="module")
def chooser(learner):
    return learner.chooser().chooser


def settled(chooser, outcome):
    """How many answers a question took, and whether the one that is believed is right."""
    count = 1
    while (choice := chooser.choose(outcome.seen.first(count))).asks_on:
        count += 1
    return count, outcome.rights[("draft", "reading", "quizzes").index(choice.believed)]


def test_each_kind_of_question_goes_as_far_as_it_has_to(learner):
    found = learner.chooser(0.0, 0.02)
    assert found.accuracy > 0.9
    assert found.settled == pytest.approx({"draft": 1 / 3, "reading": 1 / 3, "quizzes": 1 / 3}, abs=0.1)
    assert (found.calls, found.retrievals) == pytest.approx((1 + 2 / 3 + 2, 2 / 3 + 2.5 / 3), abs=0.5)
    ends = [settled(found.chooser, one) for one in OTHERS]
    assert sum(right for _, right in ends) >= 27
    assert sum(count == place % 3 + 1 for place, (count, _) in enumerate(ends)) >= 25


@pytest.mark.parametrize("costs", [(0.0, 1.0), (1.0, 0.0)])
def test_where_a_step_costs_all_it_could_gain_memory_is_believed(learner, costs):
    found = learner.chooser(*costs)
    assert (found.calls, found.retrievals, found.settled["draft"]) == (1.0, 0.0, 1.0)
    assert {settled(found.chooser, one)[0] for one in OTHERS} == {1}


@pytest.mark.parametrize(("calls", "retrievals"), [(-0.1, 0.0), (0.0, -0.1)])
def test_a_step_costs_nothing_at_least(learner, calls, retrievals):
    with pytest.raises(InputError, match="0 or more"):
        learner.chooser(calls, retrievals)


def test_its_file_is_numbers_and_says_the_same(chooser, tmp_path):
    path = tmp_path / "chooser.json"
    path.write_text(json.dumps(chooser.written()))
    again = read_chooser(path)
    assert [again.choose(one.seen) for one in OTHERS] == [chooser.choose(one.seen) for one in OTHERS]
    assert chooser.steps[0].cost == pytest.approx(0.002 * READING.calls + 0.02 * READING.retrievals)
    assert chooser.steps[1].cost == pytest.approx(0.002 * APART.calls + 0.02 * APART.retrievals)
    # Nothing that was asked or answered is in it.
    assert "Town" not in path.read_text()
    with pytest.raises(ConfigurationError, match="1 to 3 answers, not 4"):
        again.choose(Seen("Who?", "", ("a", "b", "c", "d")))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"steps": []}, "steps"), ({"format": "other"}, "format"), ({"code": "x"}, "code"), ({"version": 2}, "version")],
)
def test_files_that_are_no_chooser(chooser, tmp_path, change, message):
    path = tmp_path / "chooser.json"
    path.write_text(json.dumps(chooser.written() | change))
    with pytest.raises(ConfigurationError, match=message):
        read_chooser(path)


def test_outcomes_with_drafts_alone_have_one_step():
    drafts = [one.model_copy(update={"reading_right": None, "quizzes_right": None}) for one in LEARNED]
    found = Learner(drafts).chooser()
    assert (len(found.chooser.steps), found.calls, found.retrievals) == (1, 1.0, 0.0)
    assert not found.chooser.choose(OTHERS[0].seen.first(1)).asks_on


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        (LEARNED[:20], "20 questions are too few"),
        ([one.model_copy(update={"id": str(place % 40)}) for place, one in enumerate(LEARNED)], "40 questions are too"),
        ([one.model_copy(update={"right": False}) for one in LEARNED], "every one wrong"),
    ],
)
def test_what_nothing_can_be_learned_from(outcomes, message):
    with pytest.raises(InputError, match=message):
        Learner(outcomes)


def test_where_memory_was_not_asked_the_first_step_is_to_read():
    unasked = [one.model_copy(update={"draft": "", "chain": "", "right": False}) for one in LEARNED]
    found = Learner(unasked).chooser(0.0, 0.02)
    assert all(found.chooser.choose(one.seen.first(1)).asks_on for one in unasked)
    assert found.settled.keys() == {"reading", "quizzes"}
    assert (found.calls, found.retrievals) > (1.0, 1.0)
    assert found.accuracy == pytest.approx(2 / 3, abs=0.1)
