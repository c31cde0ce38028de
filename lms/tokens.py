"""Texts cut to a number of tokens, as the language model that reads them counts."""

from __future__ import annotations

from typing import Any


def cut_to_tokens(lm: Any, text: str, most: int) -> tuple[str, int]:
    """The beginning of a text.

    A model in this process counts with its own tokenizer. Which one a served model has is not known here, and none is
    fetched: those are counted by the one that LiteLLM brings (cl100k).
    """
    if most < 1:
        return "", 0
    tokenizer = getattr(getattr(getattr(lm, "engine", None), "texts", None), "tokenizer", None)
    if tokenizer is None:
        return _by_litellm(text, most)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        found = tokenizer.encode(text, add_special_tokens=False)
        return (text, len(found)) if len(found) <= most else (str(tokenizer.decode(found[:most])).rstrip(), most)
    offsets = backend.encode(text, add_special_tokens=False).offsets
    if len(offsets) <= most:
        return text, len(offsets)
    return text[: offsets[most - 1][1]].rstrip(), most


def _by_litellm(text: str, most: int) -> tuple[str, int]:
    import litellm

    tokens = litellm.encode(model="", text=text)
    if len(tokens) <= most:
        return text, len(tokens)
    # A character may be cut in the middle of its bytes.
    return str(litellm.decode(model="", tokens=tokens[:most])).rstrip("\ufffd").rstrip(), most
