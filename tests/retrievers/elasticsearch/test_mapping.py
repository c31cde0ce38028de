import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.errors import InputError, RetrievalError
from keqa.retrievers.elasticsearch.mapping import analyzer_settings, check_analyzer, index_settings, key, query_body
from keqa.retrievers.text import AnalyzerSettings

ENGLISH, CHINESE = analyzer_settings("en"), analyzer_settings("zh")


def analyzer_of(body):
    return body["query"]["bool"]["should"][0]["match"]["text"]["analyzer"]


def test_stop_words_count_where_nothing_else_is_left():
    assert analyzer_of(query_body("The Who", ENGLISH, 1)) == "keqa_every_word"
    assert analyzer_of(query_body("The Who band", ENGLISH, 1)) == "keqa_query"
    assert analyzer_of(query_body("谁", CHINESE, 1)) == "keqa_every_word"
    assert analyzer_of(query_body("谁发明", CHINESE, 1)) == "keqa_query"


@given(st.text(st.characters(exclude_categories=())), st.sampled_from([ENGLISH, CHINESE]))
def test_every_query_can_be_sent(query, settings):
    body = query_body(query, settings, 1)
    if body is None:
        assert not any(character.isascii() and character.isalnum() for character in query)
    else:
        assert str(body).encode()


@pytest.mark.parametrize(
    ("language", "filters"),
    [
        (
            "en",
            [*"keqa_possessive cjk_width lowercase cjk_bigram keqa_stop porter_stem unique keqa_most".split()],
        ),
        ("zh", ["cjk_width", "lowercase", "cjk_bigram", "keqa_stop", "unique", "keqa_most"]),
    ],
)
def test_stop_words_go_when_terms_are_words(language, filters):
    analyzers = index_settings(language, 1)["analysis"]["analyzer"]
    assert analyzers["keqa_query"]["filter"] == filters
    assert analyzers["keqa_every_word"]["filter"] == [name for name in filters if name != "keqa_stop"]


def test_a_key_is_the_id_unless_it_is_too_long():
    assert key("wiki#1") == "wiki#1"
    assert key("é" * 256) == "é" * 256
    assert len(key("é" * 257)) == 71
    assert key("é" * 257) != key("é" * 258)


def test_settings_of_another_version_are_refused():
    check_analyzer(ENGLISH, "the index")
    with pytest.raises(RetrievalError, match="the index was built with analyzer settings that this version does not"):
        check_analyzer(AnalyzerSettings(3, "en", "english", 0.5), "the index")
    # Its queries would lose the function words within words.
    with pytest.raises(RetrievalError, match=r"does not know .*Load it again"):
        check_analyzer(AnalyzerSettings(1, "zh", "cjk", 0.5), "the index")
    with pytest.raises(RetrievalError, match="does not know"):
        check_analyzer(AnalyzerSettings(1, "fr", "french", 0.5), "the index")
    with pytest.raises(InputError, match="'fr'"):
        analyzer_settings("fr")
