"""The boundary model that reads one draft and more as needed: what more draws are worth, and its file."""

from __future__ import annotations

import json

import pytest
from fixtures.boundary import make_stepwise
from hypothesis import given
from hypothesis import strategies as st

from keqa.errors import ConfigurationError
from keqa.programs.boundary.files import model_from
from keqa.programs.boundary.model import Judgement, Signals
from keqa.programs.boundary.stepwise import Change, log_odds

SHARE = st.floats(0, 1)


def test_more_draws_are_worth_most_where_the_draft_is_at_the_threshold():
    change = Change(slope=1, offset=0, deviation=1.5)
    gains = [change.expected_gain(judged, 0.8) for judged in (0.02, 0.5, 0.8, 0.99)]
    assert gains == pytest.approx([0.0, 0.0152, 0.0550, 0.0], abs=0.0002)


def test_draws_that_change_nothing_are_worth_nothing():
    same = Change(slope=1, offset=0, deviation=0)
    for judged in (0, 0.3, 0.8, 1):
        assert same.expected_gain(judged, 0.8) == pytest.approx(0, abs=1e-5)


def test_draws_that_are_known_to_raise_the_judgement_are_worth_the_rise():
    certain = Change(slope=0, offset=log_odds(0.95), deviation=0)
    assert certain.expected_gain(0.5, 0.8) == pytest.approx(0.15)
    assert certain.expected_gain(0.9, 0.8) == pytest.approx(0.05)


@given(judged=SHARE, threshold=SHARE, slope=st.floats(-5, 5), offset=st.floats(-50, 50), deviation=st.floats(0, 50))
def test_a_gain_is_a_share(judged, threshold, slope, offset, deviation):
    gain = Change(slope=slope, offset=offset, deviation=deviation).expected_gain(judged, threshold)
    assert 0 <= gain <= 1


def test_it_judges_by_what_was_drawn():
    model = make_stepwise()
    draft = Signals(("Bo",), (0.9,), (0.9,))
    draws = Signals(("Bo",) * 5, (0.9,) * 5, (0.9,) * 5)
    assert model.judge("Who?", draft) == model.draft.judge("Who?", draft)
    assert model.judge("Who?", draws) == model.draws.judge("Who?", draws)
    assert (model.reads, model.roots) == ("as-needed", model.draft.roots)


@pytest.mark.parametrize(("mastery", "cost", "wanted"), [(0.8, 0.01, True), (0.8, 0.2, False), (0.999, 0.01, False)])
def test_draws_are_wanted_where_they_gain_more_than_they_cost(mastery, cost, wanted):
    assert make_stepwise().wants_draws(Judgement(mastery, 0.5), "mastery", 0.8, cost) is wanted


def test_its_file_is_read_back():
    model = make_stepwise()
    assert model_from(json.loads(json.dumps(model.written()))) == model


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"draft": "draws"}, "draft has to read a draft"),
        ({"changes": {}}, "changes has mastery and certainty"),
        ({"lm": "/etc"}, "names a language model"),
        ({"kind": "stepwise", "more": 1}, "more"),
    ],
)
def test_a_file_that_cannot_judge_is_refused(changed, message):
    written = make_stepwise().written()
    if changed.get("draft") == "draws":
        changed = {"draft": written["draws"]}
    with pytest.raises(ConfigurationError, match=message):
        model_from({**written, **changed})
