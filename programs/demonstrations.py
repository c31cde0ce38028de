"""Fixed demonstrations: four for each prompt, written by hand, which ship as data and which nothing was learned from.

The KEQA paper prompts with a few examples written by hand (section 3.3). These are in our own words and of its shapes:
questions of one hop and of several, comparisons, yes/no questions and choices. A predictor shows them while it has no
demonstrations of its own, to any language model but the one that ships and those fine-tuned here, which were trained to
do without.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import dspy

_SHIPPED = "keqa/"
"""The model strings of the language model that ships begin so."""


def fixed_for(prompt: str, signature: type[dspy.Signature], lm: Any) -> list[dspy.Example]:
    """The fixed demonstrations of a prompt.

    Args:
        prompt: The name of the signature in `keqa.signatures`.
        signature: As it is asked with: its instructions may have been changed, and its name with them. One with other
            fields has no demonstrations.
        lm: The language model that reads it; None where that is not known yet.

    Returns:
        New examples with a value for every field; none for the language model that ships, and for one fine-tuned here.
    """
    if lm is None or trained_on_prompts(lm):
        return []
    demos = _written().get(prompt, ())
    if any(demo.keys() != signature.fields.keys() for demo in demos):
        return []
    return [dspy.Example(**demo) for demo in demos]


def trained_on_prompts(lm: Any) -> bool:
    """Whether a language model was trained on the papers' prompts: the one that ships, and those fine-tuned here."""
    return str(getattr(lm, "model", "")).startswith(_SHIPPED) or getattr(lm, "finetuned", False) is True


@cache
def _written() -> Mapping[str, list[dict[str, Any]]]:
    """The demonstrations by the names of the signatures, as they are in the package."""
    written: dict[str, list[dict[str, Any]]] = json.loads(
        (files("keqa.programs") / "demonstrations.json").read_text(encoding="utf-8")
    )
    return written
