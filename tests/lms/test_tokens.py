"""Texts cut to a number of tokens."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from keqa.lms.tokens import cut_to_tokens

TEXT = "The quick brown fox, jumping over the lazy dog in München."


def test_a_model_in_this_process_counts_with_its_own_tokenizer():
    tokenizers = pytest.importorskip("tokenizers")
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    lm = SimpleNamespace(
        engine=SimpleNamespace(texts=SimpleNamespace(tokenizer=SimpleNamespace(backend_tokenizer=backend)))
    )
    assert cut_to_tokens(lm, TEXT, 4) == ("The quick brown fox,", 4)
    assert cut_to_tokens(lm, TEXT, 11) == (TEXT, 11)
    assert cut_to_tokens(lm, TEXT, 12) == (TEXT, 11)
    assert cut_to_tokens(lm, TEXT, 0) == ("", 0)


def test_a_tokenizer_without_places_is_decoded():
    slow = SimpleNamespace(
        encode=lambda text, add_special_tokens: text.split(" "), decode=lambda tokens: " ".join(tokens) + " "
    )
    lm = SimpleNamespace(engine=SimpleNamespace(texts=SimpleNamespace(tokenizer=slow)))
    assert cut_to_tokens(lm, TEXT, 2) == ("The quick", 2)
    assert cut_to_tokens(lm, TEXT, 20) == (TEXT, 11)


@pytest.mark.slow
def test_a_served_model_is_counted_by_litellm_and_no_character_is_broken():
    assert cut_to_tokens(None, "one two three", 2) == ("one two", 2)
    assert cut_to_tokens(None, "one two three", 3) == ("one two three", 3)
    for most in range(1, 12):
        cut, count = cut_to_tokens(SimpleNamespace(model="openai/x"), "北京的市长是谁😀", most)
        assert "北京的市长是谁😀".startswith(cut)
        assert count <= most
