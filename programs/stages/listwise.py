"""Judging all passages found for a quiz in one call: the listwise form of knowledge picking (KEQA, section 3.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import dspy

from keqa.programs.calls.ask import ask
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import note
from keqa.programs.records import Verdict
from keqa.programs.stages.stage import Stage
from keqa.signatures import JudgeUtilities

_MOST_SHOWN = 20
"""So many passages the demonstrations of a call show at most; with those to be judged they have to fit a prompt."""


class Listwise(Stage):
    """Judges passages one beside the other; what its reply says nothing of is left to whoever judges one by one."""

    roles: ClassVar[Mapping[str, str]] = {"judge": "utility"}
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"judge": JudgeUtilities}

    judge: dspy.Predict

    async def run(
        self,
        quiz: str,
        passages: Sequence[str],
        number: int | None = None,
        *,
        demos: Callable[[], Iterable[Any]] | None = None,
    ) -> list[Verdict | None]:
        """Judge.

        Args:
            quiz: Resolved text.
            passages: As the language model reads them, best first.
            number: The quiz's number, for degradations.
            demos: Finds demonstrations of single passages, which are shown as lists in the place of the predictor's
                own; where it finds none, these are.

        Returns:
            A verdict for each, None where the reply holds none that can be read.
        """
        listed = dict(enumerate(passages, 1))
        shown = None if demos is None else lambda: as_lists(demos()) or self.judge.demos
        try:
            prediction = await ask(self.judge, "judge_utility", number, demos=shown, quiz=quiz, passages=listed)
        except CallError as error:
            action = "judged each passage by itself"
            note("judge_utility", error.cause, error.message, action, number, harmless=True)
            return [None] * len(passages)
        said: dict[str, Verdict] = {}
        for key, helpful in dict(prediction.helpful or {}).items():
            said[str(key)] = "helpful" if helpful else "not helpful"
        found = [said.get(str(place)) for place in listed]
        missing = found.count(None)
        if missing:
            message = f"the reply says nothing of {missing} of {len(found)} passages"
            note("judge_utility", "NoVerdict", message, "judged these by themselves", number, harmless=True)
        return found


def as_lists(demos: Iterable[Any]) -> list[dspy.Example]:
    """Demonstrations of single passages as lists: those of one quiz together, the longest lists last.

    Args:
        demos: With `quiz`, `passage` and `helpful`; one that comes again counts once.
    """
    by_quiz: dict[str, dict[str, bool]] = {}
    for demo in demos:
        by_quiz.setdefault(demo["quiz"], {}).setdefault(demo["passage"], bool(demo["helpful"]))
    chosen: list[dspy.Example] = []
    shown = 0
    for quiz, judged in sorted(by_quiz.items(), key=lambda item: -len(item[1])):
        if chosen and shown + len(judged) > _MOST_SHOWN:
            break
        shown += len(judged)
        passages = dict(enumerate(judged, 1))
        verdicts = dict(enumerate(judged.values(), 1))
        chosen.append(dspy.Example(quiz=quiz, passages=passages, helpful=verdicts))
    return chosen[::-1]
