from types import SimpleNamespace

import dspy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.data import Answered, Example, as_examples
from keqa.data.example import as_example
from keqa.errors import InputError
from keqa.testbed import testbed

UP = Example(
    id="up",
    question="When was the director of Up born?",
    answers=("October 9, 1968", "1968"),
    quizzes=("Who directed Up?", "When was #1 born?"),
    quiz_answers=("Pete Docter", "October 9, 1968"),
)


def test_an_example_stays_what_it_is():
    answered: Answered = UP
    assert as_examples([answered]) == [UP]


def test_a_testbed_question_is_an_example():
    question = testbed.TestbedQuestion(
        id="t1",
        question="Is Elm older than Ash?",
        answers=("yes",),
        answer_type="yes/no",
        shape="comparison",
        quizzes=("How old is Elm?", "How old is Ash?"),
        quiz_answers=("9", "8"),
        tiers=(),
    )
    assert as_examples([question]) == [
        Example("t1", "Is Elm older than Ash?", ("yes",), "yes/no", (), question.quizzes, question.quiz_answers)
    ]


@pytest.mark.parametrize(
    "item",
    [
        {"id": "a", "question": "Who?", "answer": "Ann", "answers": ["Ann", "Anne"], "shape": "ignored"},
        dspy.Example(id="a", question="Who?", answers=["Ann", "Anne"]).with_inputs("question"),
        SimpleNamespace(id="a", question=" Who? ", answers=("Ann", "Anne", "Ann")),
    ],
)
def test_mappings_and_objects(item):
    assert as_examples([item]) == [Example("a", "Who?", ("Ann", "Anne"))]


def test_a_list_under_answer_as_in_nq_open():
    item = {"question": "who won the american league pennant in 2017", "answer": ["Houston Astros", "the Astros"]}
    assert as_examples([item])[0].answers == ("Houston Astros", "the Astros")


def test_an_id_is_made_from_the_question_and_its_choices():
    first, again = (as_examples([{"question": q, "answer": "x"}])[0] for q in ("Who  is it?", "Who is it?"))
    assert first.id == again.id == "q-8c4cdb6a52457cd1"
    choice = {"question": "Who is it?", "answer": "A", "answer_type": "choice", "choices": ["Ann", "Bo"]}
    assert as_examples([choice])[0].id != first.id


def test_numbers_and_truth_values_become_text():
    assert as_examples([{"id": 7, "question": "How many?", "answer": 42}])[0] == Example("7", "How many?", ("42",))
    polar = as_examples([{"question": "Is it?", "answer": True, "answer_type": "yes/no"}])[0]
    assert polar.answers == ("yes",)


@pytest.mark.parametrize("nothing", [float("nan"), np.float64("nan"), type("NAType", (), {})()])
def test_what_pandas_has_for_nothing_is_nothing(nothing):
    item = {"question": "Who?", "answer": "Ann", "answers": nothing, "choices": nothing, "id": nothing}
    assert as_examples([item]) == as_examples([{"question": "Who?", "answer": "Ann"}])
    for empty in ({"question": "When?", "answer": nothing}, dspy.Example(question="When?", answer=nothing)):
        with pytest.raises(InputError, match=r"^example 2: there is no answer$"):
            as_examples([UP, empty])


def test_a_whole_number_is_written_as_one():
    item = {"id": 7.0, "question": "When?", "answer": 1871.0, "answers": [2.5]}
    assert as_examples([item]) == [Example("7.0", "When?", ("1871", "2.5"))]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"answer": "x"}, "there is no question, found answer$"),
        ({"Question": "Who?", 7: "x"}, "there is no question, found Question, 7$"),
        (dspy.Example(question="Who?", gold="x"), "there is no answer, found question, gold$"),
        (SimpleNamespace(question="Who?", gold="x"), "there is no answer, found question, gold$"),
        (dict, "there is no question"),
        (7, "there is no question$"),
        ({"question": " ", "answer": "x"}, "the question is empty"),
        ({"question": ["Who?"], "answer": "x"}, "the question must be text, not list"),
        ({"question": "Who?"}, "there is no answer"),
        ({"question": "Who?", "answers": []}, "there is no answer"),
        ({"question": "Who?", "answer": ""}, "the answer is empty"),
        ({"question": "Who?", "answers": ["Ann", "\t"]}, r"the answers\[1\] is empty"),
        ({"question": "Who?", "answer": "..."}, "nothing but punctuation"),
        ({"question": "Who?", "answer": {"text": "Ann"}}, "the answer must be text, not dict"),
        ({"question": "Who?", "answer": "Ann", "answer_type": "yes/no"}, "neither yes nor no"),
        ({"question": "Who?", "answer": "Ann", "answer_type": "choice"}, "needs choices"),
        (
            {"question": "Who?", "answer": "Cy", "answer_type": "choice", "choices": ["Ann", "Bo"]},
            "none of the choi",
        ),
        (
            {"question": "Who?", "answer": "Ann", "answer_type": "long"},
            "answer_type must be one of short, yes/no, c",
        ),
        ({"question": "Who?", "answer": "Ann", "quizzes": ["a", "b"], "quiz_answers": ["a"]}, "2 quizzes and 1 quiz_a"),
        ({"question": "Who?", "answer": "Ann", "quizzes": ["Who is #2?"]}, "quiz 1 refers to #2, which is not there"),
        ({"question": "Who?", "answer": "Ann", "id": " "}, "the id is empty"),
        ("Who?", "a question with its answers is expected, not str"),
        (None, "a question with its answers is expected, not NoneType"),
    ],
)
def test_what_cannot_be_used_is_named(item, message):
    with pytest.raises(InputError, match=f"^example 2: .*{message}"):
        as_examples([UP, item])


@pytest.mark.parametrize("again", [UP, {"id": "up", "question": "Another?", "answer": "x"}])
def test_two_examples_with_one_id_are_refused(again):
    with pytest.raises(InputError, match=r"^example 2: its id 'up' is taken"):
        as_examples([UP, again])


@pytest.mark.slow
@given(st.text(), st.lists(st.text(), min_size=1))
def test_any_text_is_an_example_or_an_input_error(question, answers):
    try:
        (example,) = as_examples([{"question": question, "answers": answers}])
    except InputError:
        return
    assert as_examples([example]) == [example]
    assert example.question.encode()


@pytest.mark.parametrize(
    ("item", "allowed", "refused"),
    [
        ({"answer": None}, True, "there is no answer"),
        ({"unanswerable": True}, True, "there is no answer"),
        ({"answers": [], "unanswerable": "yes"}, True, "there is no answer"),
        ({"answer": None, "unanswerable": False}, False, "there is no answer"),
        ({"answers": []}, False, "there is no answer"),
        ({"answer": float("nan")}, False, "there is no answer"),
        ({"answer": "Ann", "unanswerable": True}, False, "marked as unanswerable, and there is an answer"),
        ({"answer": None, "unanswerable": "perhaps"}, False, "unanswerable must be true or false, not 'perhaps'"),
    ],
)
def test_a_question_that_documents_do_not_answer_is_taken_where_it_may_be(item, allowed, refused):
    item = {"question": "Who?", **item}
    with pytest.raises(InputError, match=refused):
        as_example(item)
    if not allowed:
        with pytest.raises(InputError, match=refused):
            as_example(item, unanswerable=True)
        return
    found = as_example(item, unanswerable=True)
    assert (found.answers, found.unanswerable) == ((), True)
    assert as_example(found, unanswerable=True) == found
