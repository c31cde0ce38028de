import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.data import ContextPassage, Example, as_examples
from keqa.data.records import field, is_polar, items, make, usable
from keqa.errors import InputError
from keqa.metrics.answers import normalize


@pytest.mark.parametrize("value", [None, "x", True, 1.5])
def test_a_field_of_another_kind(value):
    with pytest.raises(InputError, match="there is no n" if value is None else "n must be int, not "):
        field({"n": value}, "n", int)


def test_a_list_of_objects():
    assert items({"n": [{"a": 1}]}, "n") == [{"a": 1}]
    with pytest.raises(InputError, match="n must be a list of objects"):
        items({"n": [1]}, "n")


def test_polar_answers():
    answers = ["yes", "No", " NO. ", "No, he is not.", "Yes; it is\nso"]
    others = ["No humans have been there.", "Yes (band)", "not", "", "Noah"]
    assert [answer for answer in answers + others if is_polar(answer)] == answers


def test_aliases_that_nothing_equals_are_dropped():
    assert usable("Up", None, ["???", "", " Up ", 42, "+"]) == ("Up", "42")


@given(st.lists(st.text(max_size=8), max_size=5))
def test_usable_answers_are_unique_and_can_be_equalled(answers):
    try:
        found = usable(answers)
    except InputError:
        return
    assert found
    assert len(set(found)) == len(found)
    assert all(normalize(answer) for answer in found)
    assert as_examples([{"question": "Who?", "answers": found}])[0].answers == found


def test_evidence_stays_with_the_example():
    context = (ContextPassage("Up", "A film."),)
    example = make({"id": "a", "question": "What is Up?", "answers": ["a film"], "context": context, "kind": "film"})
    assert example == Example("a", "What is Up?", ("a film",), context=context, kind="film")
    assert as_examples([example]) == [example]


@pytest.mark.parametrize("quizzes", [["Who is #2?"], ["Who?", " "], ["Who is #1?"], ["Who is #2?", "Who is #1?"]])
def test_quizzes_that_lead_nowhere_are_dropped(quizzes):
    fields = {"question": "Who?", "answers": ["Ann"], "quizzes": quizzes, "quiz_answers": ["Ann"] * len(quizzes)}
    assert make(fields).quizzes == make(fields).quiz_answers == ()


def test_quizzes_that_lead_somewhere_stay():
    assert make({"question": "Who?", "answers": ["Ann"], "quizzes": ["Who?", "Who is #1?"]}).quizzes == (
        "Who?",
        "Who is #1?",
    )
