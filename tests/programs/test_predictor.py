"""What a predictor's saved state may hold, to the last value that is allowed."""

from __future__ import annotations

import dspy
import pytest

from keqa.errors import ConfigurationError
from keqa.programs import predictor
from keqa.programs.predictor import checked_state, checked_states
from keqa.signatures import AnswerQuestion, JudgeUtility

FINE = dspy.Predict(JudgeUtility).dump_state()
PROMPT = FINE["signature"]
FIELDS = PROMPT["fields"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"code": 1}, "^the predictor judge may not hold 'code'$"),
        ({"lm": {"model": "x"}}, "may not hold 'lm'"),
        ({"signature": []}, "'signature'"),
        ({"signature": {**PROMPT, "code": 1}}, "in signature, may not hold 'code'"),
        ({"signature": {"fields": FIELDS}}, "'signature.instructions'"),
        ({"signature": {**PROMPT, "instructions": 3}}, "'signature.instructions'"),
        ({"signature": {**PROMPT, "fields": FIELDS[:2]}}, "the signature of judge has 2 fields, not 3"),
        ({"signature": {**PROMPT, "fields": [{**FIELDS[0], "code": 1}, *FIELDS[1:]]}}, "may not hold 'code'"),
        ({"signature": {**PROMPT, "fields": [{"prefix": "p"}, *FIELDS[1:]]}}, "'signature.fields.0.description'"),
        ({"signature": {**PROMPT, "instructions": "<<CUSTOM-TYPE-START-IDENTIFIER>>"}}, "holds markers of DSPy's"),
        ({"demos": {}}, "'demos'"),
        ({"demos": [3]}, "'demos.0'"),
        ({"demos": [{"quiz": "q", "x": 1}]}, "a demonstration of judge may not hold 'x'"),
        ({"demos": [{"quiz": ["q"]}]}, "quiz in a demonstration of judge is not of its type"),
        ({"demos": [{"quiz": float("nan")}]}, "holds a value that is no plain text, number or list"),
        ({"demos": [{"quiz": object()}]}, "holds a value that is no plain text, number or list"),
        ({"fields": [1]}, "'fields'"),
        ({"fields": {"nothing": 3}}, "the fields of judge cannot be used: "),
    ],
)
def test_a_state_that_holds_what_it_may_not(change, message):
    with pytest.raises(ConfigurationError, match=message):
        checked_state({**FINE, **change}, JudgeUtility, "judge")


@pytest.mark.parametrize("state", [[], {1: 2}, {}, {"signature": PROMPT}, {"demos": []}])
def test_a_state_that_lacks_a_part_or_is_none(state):
    with pytest.raises(ConfigurationError, match=r"^the predictor judge(: '\w+'| is not described by named values)"):
        checked_state(state, JudgeUtility, "judge")


def test_a_state_comes_back_as_a_new_one_without_a_language_model():
    demos = [{"quiz": "q", "helpful": True, "augmented": True}, {"passage": None, "quiz": 1.5}]
    checked = checked_state({**FINE, "demos": demos}, JudgeUtility, "judge")
    assert checked == {"signature": PROMPT, "demos": demos, "lm": None, "traces": [], "train": []}
    fields = {"helpful": {"threshold": 0.7}}
    assert checked_state({**FINE, "fields": fields}, JudgeUtility, "judge")["fields"] == fields


def test_a_state_may_be_as_large_as_the_limit(monkeypatch):
    def checked(*demos):
        return checked_state({**FINE, "demos": list(demos)}, JudgeUtility, "judge")

    checked(*[{}] * 1000)
    with pytest.raises(ConfigurationError, match="'demos'"):
        checked(*[{}] * 1001)
    checked({"augmented": [[[[[["x"]]]]]]})
    with pytest.raises(ConfigurationError, match="nested deeper than 8 levels"):
        checked({"augmented": [[[[[[["x"]]]]]]]})
    monkeypatch.setattr(predictor, "_MAX_CHARS", 2_000)
    checked({"quiz": "x" * 500})
    with pytest.raises(ConfigurationError, match="holds more than 2,000 characters"):
        checked({"quiz": "x" * 2000})


def test_the_states_of_a_module_are_those_of_its_parts():
    parts = {"judge": dspy.Predict(JudgeUtility), "shelf": object()}
    optional = {"answer": AnswerQuestion}
    state = {"judge": FINE, "shelf": {"any": 1}, "answer": dspy.Predict(AnswerQuestion).dump_state(), "metadata": 3}
    checked = checked_states(state, parts, optional, "Shop")
    assert set(checked) == {"judge", "shelf", "answer"}
    assert (checked["shelf"], checked["judge"]["lm"]) == ({"any": 1}, None)
    for wrong in ({**state, "till": {}}, {**state, "answer": {}}, {**state, "judge": 3}, []):
        with pytest.raises(ConfigurationError):
            checked_states(wrong, parts, optional, "Shop")
