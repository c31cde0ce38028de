from types import SimpleNamespace

import dspy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.data.benchmark import make, usable
from keqa.data.example import ContextPassage, Example, as_example, as_examples, is_polar
from keqa.data.own import sort_examples
from keqa.data.question import Question, refuse_table
from keqa.errors import InputError
from keqa.metrics.answers import normalize
from keqa.testbed import testbed

UP = Example(
    id="up",
    question="When was the director of Up born?",
    answers=("October 9, 1968", "1968"),
    quizzes=("Who directed Up?", "When was #1 born?"),
    quiz_answers=("Pete Docter", "October 9, 1968"),
)


def test_an_example_stays_what_it_is_and_a_testbed_question_is_one():
    with_evidence = make(question="What?", answers=["a film"], context=[ContextPassage("Up", "A film.")])
    assert as_examples([UP, with_evidence]) == [UP, with_evidence]
    said = {"id": "t1", "question": "Is Elm older than Ash?", "answers": ("yes",), "answer_type": "yes/no"}
    said |= {"quizzes": ("How old is Elm?", "How old is Ash?"), "quiz_answers": ("9", "8")}
    assert as_examples([testbed.TestbedQuestion(**said, shape="comparison", tiers=())]) == [Example(**said)]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"kind": "bridge"}, "bridge"),
        ({"kind": [" one\nhop", "fast"]}, "one hop; fast"),
        *(({"kind": odd}, "") for odd in ("", None, 3, {"of": "it"})),
    ],
)
def test_the_kind_of_a_question_is_read_from_mappings_too(given, kind):
    (example,) = as_examples([{"question": "Who?", "answer": "Ann", **given}])
    assert example.kind == kind


@pytest.mark.parametrize(
    "item",
    [
        {"id": "a", "question": "Who?", "answer": "Ann", "answers": ["Ann", "Anne"], "shape": "ignored"},
        dspy.Example(id="a", question="Who?", answers=["Ann", "Anne"]).with_inputs("question"),
        SimpleNamespace(id="a", question=" Who? ", answers=("Ann", "Anne", "Ann")),
        # As in NQ-open, and as pandas has it from a file of Parquet and one of CSV.
        *({"id": "a", "question": "Who?", "answer": answer} for answer in (["Ann", "Anne"], "['Ann', 'Anne']")),
        {"id": "a", "question": "Who?", "answer": np.array(["Ann", "Anne"], dtype=object)},
    ],
)
def test_mappings_and_objects(item):
    assert as_examples([item]) == [Example("a", "Who?", ("Ann", "Anne"))]


def test_an_id_is_made_from_the_question_and_its_choices():
    first, again = (as_examples([{"question": q, "answer": "x"}])[0] for q in ("Who  is it?", "Who is it?"))
    assert first.id == again.id == "q-8c4cdb6a52457cd1"
    # In messages a question is called as its owner knows it.
    assert (first.name, UP.name) == ("“Who is it?”", "up")
    choice = as_examples([{"question": "Who is it?", "answer": "A", "choices": ["Ann", "Bo"]}])[0]
    assert (choice.id != first.id, choice.answer_type) == (True, "choice")


def test_numbers_and_truth_values_become_text_and_whole_numbers_stay_whole():
    assert as_examples([{"id": 7, "question": "How many?", "answer": 42}])[0] == Example("7", "How many?", ("42",))
    whole = {"id": 7.0, "question": "When?", "answer": 1871.0, "answers": [2.5]}
    assert as_examples([whole]) == [Example("7.0", "When?", ("1871", "2.5"))]
    item = {"question": "Is it?", "answer": True}
    polar, short, typed = as_examples({**item, "id": kind, "answer_type": kind} for kind in (None, "short", "yes/no"))
    assert polar.answers == short.answers == typed.answers == ("yes",)
    # Of questions of one's own without a type the gold answer says how it is scored: "Yes, it is." is right.
    assert [(one.answer_type, one.scored_as) for one in (polar, short, typed)] == [
        ("short", "yes/no"),
        ("short", ""),
        ("yes/no", ""),
    ]


def test_of_a_solution_the_line_that_is_marked_is_the_answer():
    answers = ("She sold 24.\n#### 72\r\n", "A\n#### Setup\n" + "Run it.\n" * 20_000, "#### 72")
    found = [as_example({"question": "How many?", "answer": answer}).answers for answer in answers]
    assert found == [("72",), ("A #### Setup" + " Run it." * 20_000,), ("#### 72",)]


@pytest.mark.parametrize("nothing", [float("nan"), np.float64("nan"), type("NAType", (), {})()])
def test_what_pandas_has_for_nothing_is_nothing(nothing):
    item = {"question": "Who?", "answer": "Ann", "answers": nothing, "choices": nothing, "id": nothing}
    assert as_examples([item]) == as_examples([{"question": "Who?", "answer": "Ann"}])
    for empty in ({"question": "When?", "answer": nothing}, dspy.Example(question="When?", answer=nothing)):
        with pytest.raises(InputError, match=r"^example 2: there is no answer$"):
            as_examples([UP, empty])


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
        ({"question": "Who?", "answer": "C", "answer_type": "choice", "choices": ["Ann", "Bo"]}, "none of the choices"),
        ({"question": "Who?", "answer": "Ann", "answer_type": "long"}, "answer_type must be one of short, yes/no, c"),
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
        ({"unanswerable": True}, True, "there is no answer, as it says itself, and one is needed"),
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


def test_polar_answers():
    answers = ["yes", "No", " NO. ", "True", "false.", "No, he is not.", "Yes; it is\nso"]
    others = ["No. 5", "No humans have been there.", "Yes (band)", "not", "", "Noah"]
    assert [answer for answer in answers + others if is_polar(answer)] == answers


@given(st.lists(st.text(max_size=8), max_size=5))
def test_usable_answers_are_unique_and_can_be_equalled(answers):
    assert usable("Up", None, ["???", "", " Up ", 42, "+"]) == ("Up", "42")
    try:
        found = usable(answers)
    except InputError:
        return
    assert found
    assert len(set(found)) == len(found)
    assert all(normalize(answer) for answer in found)
    assert as_examples([{"question": "Who?", "answers": found}])[0].answers == found


@pytest.mark.parametrize("quizzes", [["Who is #2?"], ["Who?", " "], ["Who is #1?"], ["Who is #2?", "Who is #1?"]])
def test_quizzes_of_a_benchmark_that_lead_nowhere_are_dropped(quizzes):
    fields = {"question": "Who?", "answers": ["Ann"], "quizzes": quizzes, "quiz_answers": ["Ann"] * len(quizzes)}
    assert make(**fields).quizzes == make(**fields).quiz_answers == ()
    assert make(**fields | {"quizzes": ["Who?", "Is it #1?"], "quiz_answers": ()}).quizzes == ("Who?", "Is it #1?")


def frame(name, *methods, **attributes):
    """A stand-in with the interface of a class whose package need not be installed."""
    return type(name, (), {"columns": ("question", "answer"), **dict.fromkeys(methods, print), **attributes})()


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        (frame("DataFrame", "to_dict"), 'df.to_dict("records")'),
        (frame("PolarsFrame", "to_dict", "to_dicts"), "df.to_dicts()"),
        (frame("Table", "to_pylist", columns=()), "df.to_pylist()"),
    ],
)
def test_a_table_in_memory_is_refused_with_how_to_give_its_rows(table, rows):
    for take in (as_examples, sort_examples):
        with pytest.raises(InputError) as refused:
            take(table)
        kind = type(table).__name__
        assert str(refused.value) == f"keqa takes a list of questions, not a {kind}: give its rows, {rows}"
    for other in ([], (), "questions.csv", iter([]), {"columns": 1}, object(), type(table)):
        refuse_table(other, "keqa")


def test_the_rows_of_a_table_with_nothing_in_it():
    pandas = pytest.importorskip("pandas")
    rows = [
        {"question": "When?", "answer": 1871, "answer_type": "short", "choices": None},
        {"question": "Which?", "answer": 2, "answer_type": "choice", "choices": ["1", "2"]},
        {"question": "Who?", "answer": None, "answer_type": None, "choices": None},
    ]
    given = pandas.DataFrame(rows).to_dict("records")
    read = sort_examples(given)
    assert [(one.answers, one.choices) for one in read.examples] == [(("1871",), ()), (("2",), ("1", "2"))]
    assert [str(problem) for problem in read.problems] == ["example 3: there is no answer"]
    assert [Question.arguments(row) for row in given] == [
        {"question": "When?", "answer_type": "short"},
        {"question": "Which?", "answer_type": "choice", "choices": ["1", "2"]},
        {"question": "Who?"},
    ]
