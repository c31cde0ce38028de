"""What some benchmarks give beside the answer: supporting facts, triples and the passages of the question."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from keqa.errors import InputError
from keqa.retrievers.text import clean_text, one_line

PassageRole = Literal["unknown", "supporting", "distractor", "counterfactual"]


@dataclass(frozen=True, slots=True)
class SupportingFact:
    """Something that the annotators needed for the answer.

    Attributes:
        title: The page it stands on; empty where it is only a sentence.
        position: The sentence within the page (HotpotQA, 2WikiMultihopQA) or the paragraph (MuSiQue: within the
            question's own passages; StrategyQA: within the page).
        text: The fact itself, where the benchmark gives it.
    """

    title: str = ""
    position: int | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Triple:
    """A step of reasoning as subject, relation and object, as KS-LLM constructs them.

    Attributes:
        subject: The entity that it is about.
        relation: What is said about it.
        object: The other entity, or a value.
    """

    subject: str
    relation: str
    object: str


@dataclass(frozen=True, slots=True)
class ContextPassage:
    """A passage that comes with the question.

    Attributes:
        title: Its page; may be empty.
        text: The passage.
        role: Whether it supports the answer, distracts from it or gives a wrong one (RGB); ``unknown`` where the
            benchmark does not say.
    """

    title: str
    text: str
    role: PassageRole = "unknown"


def one_text(value: Any, what: str) -> str:
    """A text of the evidence on one line; a list of sentences as one text."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | dict):
        parts = list(value)
        if all(isinstance(part, str) for part in parts):
            value = " ".join(parts)
    if not isinstance(value, str):
        raise InputError(f"{what} must be text, not {type(value).__name__}")
    # Contexts are long and mostly plain English; there the careful way would take most of the time of loading.
    return one_line(value if value.isascii() and value.isprintable() else clean_text(value))
