import pytest
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


@pytest.mark.slow
def test_every_character_that_an_index_refuses_is_cleaned_wherever_it_stands():
    spaces = [c for c in map(chr, range(0x110000)) if clean_text(f"é{c}b") == clean_text("é b") and c != " "]
    assert spaces == [*map(chr, [*range(9), *range(0x0B, 0x20), *range(0x7F, 0xA0)])]
    gone = [c for c in map(chr, range(0xD000, 0x10000)) if clean_text(f"a{c}b") == "ab"]
    assert gone == [*map(chr, range(0xD800, 0xE000)), "\ufeff"]


def test_two_spellings_of_a_letter_are_one():
    assert clean_text("Cafe\u0301") == "Café"


def test_length_counts_words_and_characters():
    assert text_length("three plain words") == 15
    assert text_length("我爱北京。") == 4 * 3 + 5
    assert text_length("") == 0


def test_share_of_unspaced_letters():
    assert unspaced_share("北京ab") == 0.5
    assert unspaced_share("123") == 0
