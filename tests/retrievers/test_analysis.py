import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keqa.errors import InputError
from keqa.retrievers import Passage
from keqa.retrievers.analysis import MAX_QUERY_TERMS, analyzer, language_of, query_terms, settings_for

any_text = st.text(st.characters(exclude_categories=()))


@given(any_text, st.sampled_from(["en", "zh"]))
def test_any_text_is_a_query(query, language):
    terms = query_terms(query, language)
    assert len(set(terms)) == len(terms) <= MAX_QUERY_TERMS
    assert all(terms)


def test_stop_words_go_unless_nothing_is_left():
    assert query_terms("Who is the director of the films?", "en") == ["director", "film"]
    assert query_terms("The Who", "en") == ["the", "who"]
    assert query_terms("?!…", "en") == []


def test_operators_are_plain_text():
    assert query_terms('Who said "to be…? OR foo:bar^2 -(x', "en") == ["said", "foo", "bar", "2", "x"]


def test_chinese_is_one_term_a_character_and_latin_stays_whole():
    assert query_terms("谁是iPhone 15的发明者？", "zh") == ["iphon", "15", "发", "明", "者"]
    assert query_terms("谁", "zh") == ["谁"]


def test_a_huge_question_is_cut():
    assert len(query_terms(" ".join(f"w{n}" for n in range(20_000)), "en")) == MAX_QUERY_TERMS


def test_composed_and_decomposed_letters_are_one_term():
    assert query_terms("cafe\u0301", "en") == query_terms("caf\u00e9", "en") == ["café"]


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_chinese_analyzer_never_raises(text):
    assert all(analyzer("zh").analyze(text))


def test_language_is_reported_from_the_text():
    english = Passage("1", "", "The Chinese name of Beijing is 北京, and it is the capital of the country of China.")
    chinese = Passage("2", "", "北京是中华人民共和国的首都。")
    assert language_of("auto", [english]) == "en"
    assert language_of("auto", [chinese]) == "zh"
    assert language_of("auto", [english] * 3 + [chinese]) == "zh"
    assert language_of("auto", []) == "en"
    assert language_of("zh", [english]) == "zh"


def test_unknown_language_is_refused():
    for refuse in (settings_for, lambda name: language_of(name, [])):
        with pytest.raises(InputError, match="'fr'"):
            refuse("fr")
