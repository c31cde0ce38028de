"""States of predictors, and what a program learned from: it is recognised by its text, and not shown to itself."""

from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keqa
from keqa.data.question import question_digest
from keqa.errors import ConfigurationError
from keqa.programs.baselines import ClosedBook
from keqa.programs.calls.predictor import (
    NOTHING,
    LearnedQuestions,
    checked_state,
    checked_states,
    demonstration_digest,
    learned_from_json,
)
from keqa.programs.saving import save
from keqa.signatures.baselines import AnswerQuestion
from keqa.signatures.keqa import JudgeUtility
from keqa.testbed.testbed import Testbed

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


def question(name: str, text: str, choices: tuple[str, ...] = ()) -> Any:
    return SimpleNamespace(id=name, question=text, choices=choices)


LEARNED = NOTHING.and_from([question("t1", "Who governs Town1?")], [question("v1", "Which?", ("a", "b"))])


def test_a_question_is_recognised_by_its_text_and_not_by_its_id():
    assert LEARNED.ids_of("who  governs town1?") == ("t1",)
    assert LEARNED.ids_of("Which?", ("b", "a")) == ("v1",)
    assert LEARNED.ids_of("Which?") == ()
    assert LEARNED.ids_of("t1") == ()


@given(st.text(), st.lists(st.text(), max_size=3))
def test_any_text_has_a_digest_and_choices_have_no_order(text, choices):
    assert question_digest(text, choices) == question_digest(f" {text} ", reversed(choices))


def test_what_is_learned_later_is_added():
    more = LEARNED.and_from(
        [question("t1", "Who governs Town1?"), question("t2", "Who governs Town2?")], [], {"d": "e"}
    )
    assert [name for name, _ in more.train] == ["t1", "t2"]
    assert [name for name, _ in more.validation] == ["v1"]
    assert more.demonstrations == {"d": ("e",)}
    assert not LearnedQuestions(complete=False).and_from([question("t1", "Who?")], []).complete


@pytest.mark.parametrize(
    "damaged",
    [
        [],
        {},
        {**LEARNED.as_json(), "more": 1},
        {**LEARNED.as_json(), "complete": "yes"},
        {**LEARNED.as_json(), "train": [["t1"]]},
        {**LEARNED.as_json(), "train": [["t1", 3]]},
        {**LEARNED.as_json(), "train": [["t" * 1001, "x"]]},
        {**LEARNED.as_json(), "validation": {"a": "b"}},
        {**LEARNED.as_json(), "demonstrations": {"a": "b"}},
    ],
)
def test_what_a_stranger_wrote_is_checked(damaged):
    with pytest.raises(ConfigurationError, match="learned"):
        learned_from_json(damaged)


@pytest.fixture
def taught(programmed):
    """A closed-book program with two demonstrations, of which one comes from the question of Town1."""
    program, engine = programmed(ClosedBook(), lambda name, inputs, config: {"answer": "Ann"})
    own, other = (
        dspy.Example(question=f"Which mayor has Town{n}?", answer_type="short", choices=[], answer=f"Mayor{n}")
        for n in (1, 2)
    )
    program.answer.demos = [own, other]
    digest = demonstration_digest(own, program.answer.signature)
    program.learned = LEARNED.and_from([], [], {digest: [question_digest("Who governs Town1?")]})
    return program, engine


def test_a_question_is_not_shown_the_demonstrations_that_come_from_it(taught):
    program, engine = taught
    program("Who governs Town1?")
    program("Who governs Town3?")
    of_itself, of_another = engine.prompts
    assert "Mayor1" not in of_itself
    assert "Mayor2" in of_itself
    assert "Mayor1" in of_another
    assert len(program.answer.demos) == 2


def test_copies_and_saved_programs_remember(taught, tmp_path):
    program, _ = taught
    assert program.deepcopy().learned == program.reset_copy().learned == program.learned
    save(program, tmp_path / "program")
    loaded = keqa.load(tmp_path / "program", None)
    assert loaded.learned == program.learned
    [_, kept] = loaded.answer.demos
    assert not loaded.learned.hides("Who governs Town1?", (), kept, loaded.answer.signature)
    assert loaded.learned.hides("Who governs Town1?", (), loaded.answer.demos[0], loaded.answer.signature)


def test_the_program_that_ships_tells_what_it_learned_from():
    program, testbed = keqa.load("testbed", None), Testbed()
    assert program.learned.complete
    assert [name for name, _ in program.learned.train] == [one.id for one in testbed.train[:200]]
    assert [name for name, _ in program.learned.validation] == [one.id for one in testbed.dev]
    assert not any(program.learned.ids_of(one.question) for one in testbed.test)
    demos = [(p.signature, demo) for p in program.predictors() for demo in p.demos]
    assert demos
    assert all(program.learned.demonstrations[demonstration_digest(demo, signature)] for signature, demo in demos)
