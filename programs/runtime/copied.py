"""Replies of weak language models that copy a demonstration instead of reading what they are asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import dspy

from keqa.metrics.answers import is_abstention
from keqa.programs.predictor_state import demos_of
from keqa.programs.runtime.errors import CallError
from keqa.programs.subjects import content_words, names_of, stands_in, words_of

_REFERENCE = re.compile(r"#\d+")
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
        self._found = self._left_out = False

    def demos(self, attempt: int) -> Callable[[], Sequence[Any]] | None:
        """Finds no demonstrations for `Session.predict` once something was copied from one; None where any may do."""
        self._left_out = self._found and attempt > 0
        return list if self._left_out else None

    def refuse(self, text: str, *, names: bool = False) -> None:
        """Refuse a text that was copied.

        Args:
            text: An answer; one that is a yes, a no or none at all could be copied from anywhere, and was not.
            names: Whether its names alone count, as of a quiz, which has words of its own.

        Raises:
            CallError: It was.
        """
        if self.found_in(text, names=names):
            raise CallError(COPIED, f"{text!r} is of a demonstration, and not of what was asked", unusable=True)

    def found_in(self, text: str, *, names: bool = False) -> bool:
        """Whether a text was copied; see `refuse`."""
        if self._left_out or _needs_no_words(text):
            return False
        # The first word counts as well; the number of a reference is no number.
        named = names_of(f": {_REFERENCE.sub('', text)}")
        said = named if names else [content_words(text)]
        lacking = [[word for word in words if not stands_in(word, self._inputs)] for words in said]
        telling = {word for name in named for word in name}
        copied = [
            missing
            for missing, words in zip(lacking, said, strict=True)
            if missing and (missing == words or not telling.isdisjoint(missing))
        ]
        here = any(demo.issuperset(words) for words in copied for demo in self._shown)
        self._found |= here
        return here

    def touched_by(self, text: str) -> bool:
        """Whether a text has a word of the inputs, or needs none, so that it is about what was asked."""
        words = content_words(text) or words_of(text)
        return _needs_no_words(text) or any(stands_in(word, self._inputs) for word in words)


def _needs_no_words(text: str) -> bool:
    return is_abstention(text) or text.casefold().strip(" .") in ("yes", "no", "true", "false")
