"""What a program learned from is recognised by its text, and not shown to itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keqa
from keqa.data.question import question_digest
from keqa.errors import ConfigurationError
from keqa.programs import KEQA
from keqa.programs.baselines import ClosedBook
from keqa.programs.predictor import (
    NOTHING,
    LearnedQuestions,
    demonstration_digest,
    learned_from_json,
)
from keqa.programs.reference.utility_reference import UtilityEntry, UtilityReference
from keqa.programs.saving.folder import save
from keqa.testbed.testbed import Testbed


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


def test_it_is_written_and_read_again():
    assert learned_from_json(LEARNED.as_json()) == LEARNED


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
def taught(scripted):
    """A closed-book program with two demonstrations, of which one comes from the question of Town1."""
    lm, engine = scripted(lambda name, inputs, config: {"answer": "Ann"})
    program = ClosedBook()
    program.set_lm(lm)
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


def test_a_question_is_not_shown_its_own_utility_labels(scripted, retriever):
    replies = {
        "DecomposeQuestion": {"quizzes": '["Who governs Town1?"]'},
        "JudgeUtility": {"helpful": True},
        "AnswerWithKnowledge": {"answer": "Ann"},
        "Summarize": {"explanation": "", "answer": "Ann"},
    }
    lm, engine = scripted(lambda name, inputs, config: replies[name])
    entries = [UtilityEntry(f"t{n}", f"Who governs Town{n}?", f"label of t{n}", True) for n in (1, 2)]
    program = KEQA(
        retriever("Town1 is governed by Ann."),
        examine=False,
        decompose=False,
        reference=UtilityReference().fit(entries),
    )
    program.set_lm(lm)
    shown = _judging(engine, program)
    assert "label of t1" in shown
    program.learned = LEARNED
    shown = _judging(engine, program)
    assert "label of t1" not in shown
    assert "label of t2" in shown


def _judging(engine: Any, program: KEQA) -> str:
    before = len(engine.calls)
    program("Who governs Town1?")
    return next(
        prompt
        for (name, _, _), prompt in zip(engine.calls[before:], engine.prompts[before:], strict=True)
        if name == "JudgeUtility"
    )


def test_the_program_that_ships_tells_what_it_learned_from():
    program, testbed = keqa.load("testbed", None), Testbed()
    assert program.learned.complete
    assert [name for name, _ in program.learned.train] == [one.id for one in testbed.train[:200]]
    assert [name for name, _ in program.learned.validation] == [one.id for one in testbed.dev]
    assert not any(program.learned.ids_of(one.question) for one in testbed.test)
    demos = [(p.signature, demo) for p in program.predictors() for demo in p.demos]
    assert demos
    assert all(program.learned.demonstrations[demonstration_digest(demo, signature)] for signature, demo in demos)
