"""Replies of weak language models that copy a demonstration instead of reading what they are asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import dspy

from keqa.metrics.answers import is_abstention
from keqa.programs.predictor_state import demos_of
from keqa.programs.runtime.errors import CallError
from keqa.programs.subjects import content_words, names_of, stands_in, words_of

COPIED = "CopiedDemonstrationError"


class Copies:
    """Refuses what stands in a demonstration of the prompt and not in its inputs; then none is shown any more."""

    def __init__(self, predictor: dspy.Predict, inputs: Iterable[str]) -> None:
        """Set up for a call and its further attempts.

        Args:
            predictor: Who is asked.
            inputs: All that the prompt says beside its demonstrations.
        """
        self._shown = [set(words_of(str(dict(demo)))) for demo in demos_of(predictor)]
        self._inputs = {word for text in inputs for word in words_of(text)}
        self._found = False

    def demos(self, attempt: int) -> Callable[[], Sequence[Any]] | None:
        """Finds no demonstrations for `Session.predict` once something was copied from one; None where any may do."""
        return list if self._found and attempt else None

    def refuse(self, text: str, *, names: bool = False) -> None:
        """Refuse a text that was copied.

        Args:
            text: An answer; one that is a yes, a no or none at all could be copied from anywhere, and was not.
            names: Whether its names alone count, as of a quiz, which has words of its own.

        Raises:
            CallError: It was.
        """
        if self._found or is_abstention(text) or text.casefold().strip(" .") in ("yes", "no", "true", "false"):
            return
        found = names_of(text) if names else [content_words(text)]
        lacking = [words for words in found if words and not any(stands_in(word, self._inputs) for word in words)]
        if any(demo.issuperset(words) for words in lacking for demo in self._shown):
            self._found = True
            raise CallError(COPIED, f"{text!r} is of a demonstration, and not of what was asked", unusable=True)
