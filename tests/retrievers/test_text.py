from hypothesis import given
from hypothesis import strategies as st

from keqa.retrievers.text import clean_text, text_length, unspaced_share


def test_clean_text_drops_what_an_index_refuses():
    assert clean_text(None) == ""
    assert clean_text("a\ud800b\x00c\ufeff\r\nd\te") == "ab c\nd\te"
    assert clean_text(12) == "12"


@given(st.text(st.characters(exclude_categories=())))
def test_clean_text_can_be_encoded_and_stays_clean(text):
    clean = clean_text(text)
    clean.encode("utf-8")
    assert clean_text(clean) == clean


def test_length_counts_words_and_characters():
    assert text_length("three plain words") == 15
    assert text_length("我爱北京。") == 4 * 3 + 5
    assert text_length("") == 0


def test_share_of_unspaced_letters():
    assert unspaced_share("北京ab") == 0.5
    assert unspaced_share("123") == 0
