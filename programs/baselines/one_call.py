"""One call with what the language model remembers, or with all that is found for the question."""

# Annotations are evaluated here, as in `keqa.programs.baselines.base`.
from collections.abc import Mapping
from typing import ClassVar

import dspy

from keqa.data.question import Question
from keqa.programs.baselines.base import (
    Baseline,
    SearchingBaseline,
    answer_from,
    conclude,
    from_memory,
    unanswered,
)
from keqa.programs.predictor import Predictor
from keqa.programs.program import RecordBuilder
from keqa.signatures import AnswerQuestion, AnswerWithKnowledge, ReasonFromMemory, ReasonWithKnowledge


class OneCallBaseline(Baseline):
    """A method that answers in one call, at once or, with `reason`, after a chain of thought: each has its prompt."""

    roles: ClassVar[Mapping[str, str]] = {"answer": "task"}
    asks: ClassVar[tuple[type[dspy.Signature], type[dspy.Signature]]]

    class Settings(Baseline.Settings):
        """Those that it adds."""

        reason: bool = False

    def set_up(self) -> None:
        """See `Baseline.set_up`."""
        self.answer = Predictor(self.asks[self.reason])


class ClosedBook(OneCallBaseline):
    """Answers from memory."""

    method: ClassVar[str] = "closed book"
    asks = (AnswerQuestion, ReasonFromMemory)

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        """Answer in one call; see `Program.solve`."""
        with unanswered("answer"):
            reply = await from_memory(self.answer, asked)
        conclude(story, reply, "closed_book")


class AlwaysRetrieve(OneCallBaseline, SearchingBaseline):
    """Searches with the question and answers from all that was found, whatever the LM knows (Lewis et al., 2020)."""

    method: ClassVar[str] = "always retrieve"
    asks = (AnswerWithKnowledge, ReasonWithKnowledge)

    class Settings(OneCallBaseline.Settings, SearchingBaseline.Settings):
        """Those that it adds."""

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        """Search once and answer; see `Program.solve`."""
        hits = await self.search(asked.question, 0)
        await answer_from(self.answer, asked, hits, story)
