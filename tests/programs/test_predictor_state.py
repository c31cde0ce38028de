"""What a predictor's saved state may hold, to the last value that is allowed."""

from __future__ import annotations

import dspy
import pytest

from keqa.errors import ConfigurationError
from keqa.programs import predictor_state
from keqa.programs.predictor_state import checked_state, checked_states
from keqa.signatures import AnswerQuestion, JudgeUtility

FINE = dspy.Predict(JudgeUtility).dump_state()
PROMPT = FINE["signature"]
FIELDS = PROMPT["fields"]
PART = "the predictor judge"


def refusal(state: object) -> str:
    with pytest.raises(ConfigurationError) as refused:
        checked_state(state, JudgeUtility, "judge")
    return str(refused.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"code": 1}, f"{PART} may not hold 'code': only "),
        ({"lm": {"model": "x"}}, f"{PART} may not hold 'lm': a language model is not saved"),
        ({"signature": []}, "the signature of judge is not described by named values"),
        ({"signature": {**PROMPT, "code": 1}}, "the signature of judge may not hold 'code': only fields, instructions"),
        ({"signature": {"fields": FIELDS}}, "the signature of judge has no instructions, or no fields"),
        ({"signature": {**PROMPT, "fields": {}}}, "the signature of judge has no instructions, or no fields"),
        ({"signature": {**PROMPT, "instructions": 3}}, "the signature of judge has no instructions, or no fields"),
        ({"signature": {**PROMPT, "fields": FIELDS[:2]}}, "the signature of judge has 2 fields, not 3"),
        ({"signature": {**PROMPT, "fields": [3, *FIELDS[1:]]}}, "a field of judge is not described by named values"),
        (
            {"signature": {**PROMPT, "fields": [{**FIELDS[0], "code": 1}, *FIELDS[1:]]}},
            "a field of judge may not hold 'code': only description, prefix",
        ),
        (
            {"signature": {**PROMPT, "fields": [{"prefix": "p"}, *FIELDS[1:]]}},
            "a field of judge has no prefix, or no description",
        ),
        (
            {"signature": {**PROMPT, "instructions": "<<CUSTOM-TYPE-START-IDENTIFIER>>"}},
            "the signature of judge holds markers of DSPy's, which no prompt has",
        ),
        ({"demos": {}}, "the demonstrations of judge are no list of at most "),
        ({"demos": [3]}, "a demonstration of judge is not described by named values"),
        ({"demos": [{"quiz": "q", "x": 1}]}, "a demonstration of judge may not hold 'x': only augmented, helpful, "),
        ({"demos": [{"quiz": ["q"]}]}, "quiz in a demonstration of judge is not of its type"),
        ({"demos": [{"quiz": {1: 2}}]}, "quiz in a demonstration of judge is not of its type"),
        ({"demos": [{"quiz": float("nan")}]}, f"{PART} holds a value that is no plain text, number or list"),
        ({"demos": [{"quiz": object()}]}, f"{PART} holds a value that is no plain text, number or list"),
        ({"fields": [1]}, "the fields of judge is not described by named values"),
        ({"fields": {"helpful": {"threshold": object()}}}, f"{PART} holds a value that is no plain text"),
        ({"fields": {"nothing": 3}}, "the fields of judge cannot be used: "),
    ],
)
def test_a_state_that_holds_what_it_may_not(change, message):
    assert refusal({**FINE, **change}).startswith(message)


@pytest.mark.parametrize(("part", "message"), [("signature", "has no 'signature'"), ("demos", "has no 'demos'")])
def test_a_state_without_a_part(part, message):
    assert refusal({name: value for name, value in FINE.items() if name != part}) == f"{PART} {message}"
    assert refusal([]) == "judge is not described by named values"
    assert refusal({1: 2}) == "judge is not described by named values"


def test_a_state_comes_back_as_a_new_one_without_a_language_model():
    demos = [{"quiz": "q", "helpful": True, "augmented": True}, {"passage": None, "quiz": 1.5}]
    checked = checked_state({**FINE, "demos": demos}, JudgeUtility, "judge")
    assert checked == {"signature": PROMPT, "demos": demos, "lm": None, "traces": [], "train": []}
    assert checked["demos"] is not demos
    assert checked["signature"]["fields"][0] is not FIELDS[0]


def test_decisions_come_back_as_they_are():
    fields = {"helpful": {"threshold": 0.7}}
    checked = checked_state({**FINE, "fields": fields}, JudgeUtility, "judge")
    assert checked["fields"] == fields
    assert checked["fields"] is not fields
    assert "fields" not in checked_state({**FINE, "fields": {}}, JudgeUtility, "judge")


@pytest.mark.parametrize(
    ("limit", "demos", "message"),
    [
        ("_MAX_DEMOS", lambda count: [{}] * count, "the demonstrations of judge are no list of at most {:,}"),
        ("_MAX_CHARS", lambda count: [{"quiz": "x" * count}], "more than {:,} characters"),
        ("_MAX_VALUES", lambda count: [{"quiz": 1}] * count, "more than .* or {:,} values"),
        ("_MAX_DEPTH", lambda count: nested(count), "nested deeper than {} levels"),
    ],
)
def test_a_state_may_be_as_large_as_the_limit(monkeypatch, limit, demos, message):
    """The largest count that passes is found, the next is refused, and a limit higher by one lets it pass."""
    state = {name: dict(value) if isinstance(value, dict) else value for name, value in FINE.items()}
    monkeypatch.setattr(predictor_state, "_MAX_DEPTH", 10)

    def passes(count: int) -> bool:
        try:
            checked_state({**state, "demos": demos(count)}, JudgeUtility, "judge")
        except ConfigurationError:
            return False
        return True

    least = {"_MAX_DEMOS": 3, "_MAX_CHARS": 2_000, "_MAX_VALUES": 100, "_MAX_DEPTH": 6}[limit]
    monkeypatch.setattr(predictor_state, limit, least)
    most = next(count for count in range(5_000) if not passes(count)) - 1
    known = {"_MAX_DEMOS": 3, "_MAX_DEPTH": 3}
    assert most == known.get(limit, most) > 0
    with pytest.raises(ConfigurationError, match=message.format(least)):
        checked_state({**state, "demos": demos(most + 1)}, JudgeUtility, "judge")
    monkeypatch.setattr(predictor_state, limit, least + 1)
    more = {"_MAX_VALUES": 0}.get(limit, 1)
    assert passes(most + more)
    assert not passes(most + 2)


@pytest.mark.parametrize(("limit", "fits"), [("_MAX_CHARS", ["xx", "x"]), ("_MAX_VALUES", [1, 2])])
def test_what_is_exactly_as_much_as_the_limit_passes(monkeypatch, limit, fits):
    monkeypatch.setattr(predictor_state, limit, 3)
    size = predictor_state._Size("judge")
    size.add(fits)
    with pytest.raises(ConfigurationError, match="the predictor judge holds more than"):
        size.add("x")


def nested(depth: int) -> list[object]:
    """A demonstration whose own field holds lists within lists, which any value may be."""
    value: object = "x"
    for _ in range(depth):
        value = [value]
    return [{"augmented": value}]


def test_the_states_of_a_module_are_those_of_its_parts():
    parts = {"judge": dspy.Predict(JudgeUtility), "shelf": object()}
    optional = {"answer": AnswerQuestion}
    state = {"judge": FINE, "shelf": {"any": 1}, "answer": dspy.Predict(AnswerQuestion).dump_state(), "metadata": 3}
    checked = checked_states(state, parts, optional, "Shop")
    assert set(checked) == {"judge", "shelf", "answer"}
    assert (checked["shelf"], checked["judge"]["lm"]) == ({"any": 1}, None)
    for change, message in (
        ({"till": {}}, "a Shop has no part 'till'"),
        ({"answer": {}}, "the predictor answer has no 'signature'"),
        ({"judge": 3}, "judge is not described by named values"),
    ):
        with pytest.raises(ConfigurationError) as refused:
            checked_states({**state, **change}, parts, optional, "Shop")
        assert str(refused.value) == message
    with pytest.raises(ConfigurationError, match="the state of Shop is not described by named values"):
        checked_states([], parts, optional, "Shop")
