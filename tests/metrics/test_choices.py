"""Options that ordinary normalisation cannot tell apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.metrics.answers import exact_match, f1, is_abstention, normalize

# As they are in MMLU and CMMLU, and what they must not be mixed up for.
HARD = [
    ("不确定", "6或－4", "6或4", "6"),
    ("%", "//", "**", "not a number"),
    ("a < c", "a < b", "a > b", "a == b"),
    ("(~F ⊃ E) ∨ (C ≡ ~S)", "(~E ⊃ F) ∨ (C ⊃ S)", "(~F ⊃ E) ∨ (C ≡ S)", "~(F ⊃ E) ∨ (S ⊃ C)"),
    ("2", "1", "-i", "i"),
    ("2", "2 - e^-2", "2 + e^-2", "2 + e^-4"),
    ("TT", "Tt", "tt", "none of these"),
    ("C. elegans", "B. elegans", "S. pombe", "E. coli"),
]


@pytest.mark.parametrize("choices", HARD)
def test_only_the_option_itself_is_right(choices):
    letters = "ABCD"
    for place, gold in enumerate(choices):
        right = [exact_match(one, [gold], "choice", choices) for one in choices]
        assert right == [other == place for other in range(4)]
        assert [exact_match(one, [gold], "choice", choices) for one in letters] == right
        assert [exact_match(one, [letters[place]], "choice", choices) for one in choices] == right
        assert f1(gold, [gold], "choice", choices) == 1.0


def test_an_option_of_signs_is_an_answer():
    assert normalize("**", "choice", HARD[1]) == "**"
    assert normalize("**", "choice", ["+", "-"]) == ""
    assert not is_abstention("**", HARD[1])


def test_options_that_differ_are_compared_as_other_answers_are():
    choices = ["The Thames.", "the  SEINE", "6或－4", "6或4"]
    assert normalize("thames", "choice", choices) == normalize("a", "choice", choices) == "thames"
    assert exact_match("Seine!", ["B"], "choice", choices)


def test_what_could_be_either_is_neither():
    choices = HARD[0]
    assert [exact_match("6或+4", [gold], "choice", choices) for gold in choices] == [False] * 4
    assert [exact_match("tT", [gold], "choice", HARD[6]) for gold in HARD[6]] == [False] * 4
    # A label before it says which.
    assert exact_match("(B) 6或+4", ["6或－4"], "choice", choices)


def test_case_and_spaces_matter_only_where_they_have_to():
    choices = ["A  <  B", "a > b"]
    assert exact_match("a < b", ["A"], "choice", choices)
    assert exact_match("A. a > B", ["B"], "choice", choices)


def test_a_letter_is_a_text_only_where_an_option_is_written_so():
    choices = ["Error", "abc", "cba", "c"]
    assert [normalize(text, "choice", choices) for text in ("C", "(c)", "c")] == ["cba", "cba", "c"]
    assert normalize("c", "choice", ["A. c", "B. d", "C. e"]) == "c"


def test_the_same_text_twice_is_one_option():
    choices = ["0.015 joule.", "0.15 joule.", "0.015 joule.", "1.15 joule."]
    assert [exact_match(letter, ["0.015 joule"], "choice", choices) for letter in "ABCD"] == [True, False, True, False]


texts = st.text(st.sampled_from("aAbT -−+<>*/.()0146或的é"), min_size=1, max_size=6).filter(str.strip)


@given(st.lists(texts, min_size=2, max_size=4, unique_by=lambda text: " ".join(text.split())))
def test_a_wrong_option_is_never_right(choices):
    for place, gold in enumerate(choices):
        for other, text in enumerate(choices):
            assert exact_match(text, [gold], "choice", choices) == (place == other)
