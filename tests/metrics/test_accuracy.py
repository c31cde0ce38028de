from fractions import Fraction

import pytest

from keqa.metrics.accuracy import agrees, consistency_label, contains_answer, holds_answer, mastery
from keqa.metrics.utility import utility


@pytest.mark.parametrize(
    ("prediction", "golds", "contains"),
    [
        ("The capital of Norway is Oslo.", ["Oslo"], True),
        ("The capital of Norway is Oslo.", ["Bergen", "Oslo"], True),
        ("Oslofjord", ["Oslo"], False),
        ("New and old York", ["New York"], False),
        ("in New York, of course", ["New York"], True),
        ("York", ["New York"], False),
        ("它是北京市。", ["北京"], True),
        ("", ["Oslo"], False),
        (None, ["Oslo"], False),
        ("whatever", ["..."], False),
    ],
)
def test_contains_answer(prediction, golds, contains):
    assert contains_answer(prediction, golds) is contains


@pytest.mark.parametrize(
    ("prediction", "gold", "answer_type", "contains"),
    [
        ("A good question, the answer is no", "A", "choice", False),
        ("Oslo or Bergen", "Oslo", "choice", False),
        ("(a)", "Oslo", "choice", True),
        ("Both say no", "no", "yes/no", False),
        ("No, they do not", "no", "yes/no", True),
    ],
)
def test_a_sentence_contains_no_option(prediction, gold, answer_type, contains):
    assert contains_answer(prediction, [gold], answer_type, ("Oslo", "Bergen")) is contains


def test_mastery_is_exact():
    assert mastery(["Oslo"] * 27 + ["Bergen", None, "unknown"], ["Oslo"]) == Fraction(9, 10)
    # An abstention is not mastered even where it is gold, but an option is an answer.
    assert mastery(["unknown"], ["unknown"]) == 0
    assert mastery(["true", "No, it is not", "yes"], ["yes"], "yes/no") == Fraction(2, 3)
    assert mastery(["B", "unknown", "a"], ["Unknown"], "choice", ("Known", "Unknown")) == Fraction(2, 3)
    for draws, golds, missing in (([], ["Oslo"], "at least one sample"), (["Oslo"], [], "gold")):
        with pytest.raises(ValueError, match=missing):
            mastery(draws, golds)


@pytest.mark.parametrize(
    ("text", "gold", "right"),
    [
        ("Torman", "Robert Torman", True),
        ("Robert Torman", "Robert Torman", True),
        ("Robert Isvik", "Robert Torman", False),
        ("1926", "1 September 1926", True),
        ("September 1, 1926", "1 September 1926", True),
        ("2 September 1926", "1 September 1926", False),
        ("the mayor Robert Torman", "Robert Torman", True),
        ("yes", "no", False),
        ("no one", "no", False),
        ("", "Robert Torman", False),
        ("Torman", "...", False),
        ("yes", "yes it is", False),
        ("Yes, sir", "Yes sir!", True),
        # One word of seven may differ, one of six may not.
        ("one two three four five six seven", "one two three four five six eight", True),
        ("one two three four five six", "one two three four five seven", False),
    ],
)
def test_an_answer_agrees_in_whatever_form(text, gold, right):
    assert agrees(text, [gold]) is right


def test_other_types_agree_where_they_are_equal():
    assert agrees("Yes.", ["yes"], "yes/no")
    assert not agrees("no", ["yes"], "yes/no")
    assert agrees("b", ["Rome"], "choice", ["Paris", "Rome"])
    assert not agrees("New", ["New York"], "choice", ["New York", "York"])
    assert agrees("Elquist", ["Robert Torman", "Ada Elquist"])
    with pytest.raises(ValueError, match="gold"):
        agrees("Oslo", [])


@pytest.mark.parametrize(
    ("first", "second", "answer_type", "label"),
    [
        # A surname beside the full name: both are right, though exact match knows one of them only.
        ("Hugo Sorley", "Sorley", "short", True),
        ("Hugo Sorley", "Emil Sorley", "short", False),
        ("Emil", "Simon", "short", None),
        ("the Sorley", "Sorley", "short", None),
        ("Sorley", "I don't know", "short", None),
        ("yes", "true", "yes/no", None),
        ("Yes, he is", "no", "yes/no", False),
        ("A", "Known", "choice", None),
        ("A", "b", "choice", False),
        # An option is an answer, whatever it reads like.
        ("Unknown", "Known", "choice", False),
        ("C", "Known", "choice", None),
    ],
)
def test_what_gold_answers_say_of_two_answers(first, second, answer_type, label):
    choices = ("Known", "Unknown", "Never known") if answer_type == "choice" else ()
    golds = {"short": ["Hugo Sorley"], "yes/no": ["yes"], "choice": ["Unknown"]}[answer_type]
    assert consistency_label(first, second, golds, answer_type, choices) is label
    assert consistency_label(second, first, golds, answer_type, choices) is label


@pytest.mark.parametrize(
    ("texts", "golds", "answer_type", "held"),
    [
        (["He played.", "He ended with the Boston Braves."], ["Boston Braves"], "short", True),
        (["He played.", "He ended with the Boston Braves."], ["The Braves", "boston braves"], "short", True),
        # In one piece, of one text.
        (["He came from Boston.", "Braves won."], ["Boston Braves"], "short", False),
        (["Bostonian."], ["Boston"], "short", False),
        ([], ["Boston"], "short", False),
        (["yes"], ["yes"], "short", None),
        (["yes"], ["yes"], "yes/no", None),
        (["Boston"], ["Boston"], "choice", None),
    ],
)
def test_whether_what_was_selected_holds_the_answer(texts, golds, answer_type, held):
    assert holds_answer(texts, golds, answer_type) is held


@pytest.mark.parametrize(
    ("with_candidate", "without", "label"),
    # Rounding is no utility.
    [(1.0, 0.0, 1), (0.5, 0.25, 1), (0.5, 0.5, 0), (0.4, 0.8, -1), (0.1 + 0.2, 0.3, 0), (0.55, 0.5, 1)],
)
def test_the_three_cases_of_the_equation(with_candidate, without, label):
    assert utility(with_candidate, without) == label
