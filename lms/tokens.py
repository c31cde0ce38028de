"""Texts cut to a number of tokens, as the language model that reads them counts."""

from __future__ import annotations

from typing import Any


def cut_to_tokens(lm: Any, text: str, most: int) -> tuple[str, int]:
    """The beginning of a text, as it was where it is no longer, and how many tokens it has.

    A model in this process counts with its own tokenizer. Which one a served model has is not known here, and none is
    fetched: those are counted by the one that LiteLLM brings (cl100k).
    """
    if most < 1:
        return "", 0
    tokenizer = getattr(getattr(getattr(lm, "engine", None), "texts", None), "tokenizer", None)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        offsets = backend.encode(text, add_special_tokens=False).offsets
        return (text, len(offsets)) if len(offsets) <= most else (text[: offsets[most - 1][1]].rstrip(), most)
    if tokenizer is not None:
        found, decode = tokenizer.encode(text, add_special_tokens=False), tokenizer.decode
    else:
        import litellm

        found = litellm.encode(model="", text=text)

        def decode(tokens: list[int]) -> str:
            # A character may be cut in the middle of its bytes.
            return str(litellm.decode(model="", tokens=tokens)).rstrip("\ufffd")

    return (text, len(found)) if len(found) <= most else (str(decode(found[:most])).rstrip(), most)
