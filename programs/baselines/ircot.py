"""Retrieval interleaved with a chain of thought (IRCoT, Trivedi et al., 2023)."""

from __future__ import annotations

from typing import ClassVar

from keqa.data.question import Question
from keqa.programs.arguments import Count, TopK
from keqa.programs.baselines.base import ChainBaseline
from keqa.programs.baselines.reading import Collected, answer_from, concluded, search_record
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import note
from keqa.programs.program import RecordBuilder, UnansweredError


class IRCoT(ChainBaseline):
    """Alternates a sentence of reasoning with a search for that sentence, then reads all that was collected.

    As in the paper: the chain guides the searches only, and a reader with a chain of thought of its own answers from
    the collected passages (section 3.2); the limits (section 4). Otherwise than in the paper, which shows the LM some
    fifteen annotated chains of thought with their passages (section 3.1): here an instruction asks for the next
    sentence, and the demonstrations are four, fixed or learned.

    Attributes:
        top_k: Passages to search for with each sentence; the paper chooses among 2, 4, 6 and 8 on its dev sets.
        max_passages: Passages to collect at most.
    """

    method: ClassVar[str] = "ircot"

    class Settings(ChainBaseline.Settings):
        """Those that it adds."""

        top_k: TopK = 4
        max_passages: Count = 15

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        """Collect passages, then answer from them; see `Program.solve`."""
        collected = Collected(self.max_passages)
        thoughts: list[str] = []
        query = asked.question
        for number in range(1, self.max_steps + 1):
            hits = await self.search(query, number)
            collected.add(hits)
            thought = await self._extend(asked, collected, thoughts, number)
            story.quizzes.append(search_record(number, query, hits, thought or None))
            # A sentence said before would search for the same again.
            if not thought or thought in thoughts or concluded(thought) is not None:
                break
            thoughts.append(thought)
            query = thought
        await answer_from(self.answer, asked, collected.hits, story)

    async def _extend(self, asked: Question, collected: Collected, thoughts: list[str], number: int) -> str:
        """The next sentence; empty where there is none, and a degradation says why.

        Raises:
            UnansweredError: There is none, and no passage to answer from either.
        """
        try:
            return await self.thought(asked, thoughts, collected.hits, number)
        except CallError as error:
            if not collected.hits:
                raise UnansweredError.at("reason", error) from error
            note("reason", error.cause, error.message, "answered from the passages found so far", number)
            return ""
