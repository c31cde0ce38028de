"""A chain of queries that retrieval verifies and completes (SearChain, Xu et al., 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from keqa.data.question import Question
from keqa.metrics.answers import is_abstention, normalize
from keqa.programs.arguments import Steps, TopK
from keqa.programs.baselines.base import Gathered, SearchingBaseline, answer_from, search_record, unanswered
from keqa.programs.calls.ask import ask
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import note
from keqa.programs.examination import means_the_same
from keqa.programs.predictor import Predictor
from keqa.programs.program import RecordBuilder
from keqa.programs.records import QuizRecord
from keqa.programs.stages.stage import Answering, Summarizing
from keqa.retrievers.base import Hit
from keqa.signatures import JudgeConsistency, PlanQueryChain, ReasonWithKnowledge
from keqa.signatures.baselines import UNSOLVED


@dataclass
class _Chain:
    """The queries so far: all in normal form, and those with answers that passages confirmed or gave."""

    verified: list[tuple[str, str]] = field(default_factory=list)
    tried: set[str] = field(default_factory=set)
    records: list[QuizRecord] = field(default_factory=list)


class SearChain(SearchingBaseline):
    """Plans the queries that lead to an answer, each with its own; retrieval corrects and completes them.

    A round plans what is left of the chain (section 3.1, Chain-of-Query) and goes through it node by node: an unsolved
    query is completed from passages, an answer that the passages contradict is corrected (section 3.2), and the
    language model then plans again from there, which grows another branch of the tree (section 3.3). A plan that stands
    as it is ends the search. The task LM reads, and plans from memory; a judge, the consistency LM, compares the two
    answers. The answer is concluded from the chain by KEQA's summary.

    Attributes:
        max_rounds: r, plans at most.
        max_queries: Queries of one plan that are gone through at most.
    """

    method: ClassVar[str] = "searchain"
    roles: ClassVar[Mapping[str, str]] = {"plan": "task", "same": "consistency", "answer": "task"}

    class Settings(SearchingBaseline.Settings):
        """Those that it adds."""

        top_k: TopK = 3
        max_rounds: Steps = 5
        max_queries: Steps = 8

    def set_up(self) -> None:
        """See `Baseline.set_up`."""
        self.plan, self.same = Predictor(PlanQueryChain), Predictor(JudgeConsistency)
        self.answering, self.summarizing = Answering(self.bound), Summarizing(self.bound)
        self.answer = Predictor(ReasonWithKnowledge)

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        """Plan and verify round by round, then answer from the chain; see `Program.solve`."""
        chain = _Chain()
        story.quizzes = chain.records
        for _ in range(self.max_rounds):
            try:
                planned = await self._plan(asked, chain)
            except CallError as error:
                note("plan", error.cause, error.message, "answered from the chain so far")
                break
            if await self._stands(chain, planned):
                break
        if not chain.verified:
            note("plan", "EmptyChainError", "no query was answered", "answered the question with retrieval")
            hits = await self.search(asked.question, 0)
            await answer_from(self.answer, asked, Gathered().add(hits), story)
            story.answer_source = "fallback"
            return
        with unanswered("summarize"):
            story.explanation, story.answer = await self.summarizing.acall(
                asked.question, chain.verified, asked.answer_type, asked.choices
            )
        story.answer_source = "summary"

    async def _plan(self, asked: Question, chain: _Chain) -> list[tuple[str, str | None]]:
        """The further queries that were not tried before, with the answers that the LM gives itself."""
        verified = [f"{query} {answer}" for query, answer in chain.verified]
        prediction = await ask(self.plan, "plan", question=asked.question, verified=verified)
        queries = [str(query).strip() for query in prediction.queries or []]
        answers: list[str | None] = [str(answer).strip() for answer in prediction.answers or []]
        answers += [None] * (len(queries) - len(answers))
        planned: dict[str, tuple[str, str | None]] = {}
        for query, answer in zip(queries, answers, strict=False):
            key = normalize(query)
            if key and key not in chain.tried:
                planned.setdefault(key, (query, answer if _solved(answer) else None))
        return list(planned.values())[: self.max_queries]

    async def _stands(self, chain: _Chain, planned: list[tuple[str, str | None]]) -> bool:
        """Go through a plan; whether nothing in it had to be corrected or completed."""
        stands = True
        for query, own in planned:
            number = len(chain.records) + 1
            chain.tried.add(normalize(query))
            hits = await self.search(query, number)
            read = await self._read(query, hits, number)
            confirmed = own is not None and (read is None or await self._agree(query, own, read, number))
            answer = own if confirmed else read
            record = search_record(number, query, hits, answer)
            chain.records.append(record.model_copy(update={"source": "memory"}) if confirmed else record)
            if answer is not None:
                chain.verified.append((query, answer))
            if own is None:
                stands = stands and answer is None
            elif not confirmed:
                # What follows was planned with the wrong answer.
                return False
        return stands

    async def _read(self, query: str, hits: list[Hit], number: int) -> str | None:
        """The answer that the passages give; None where they give none.

        Raises:
            UnansweredError: They could not be read, so that the LM's own answer is neither confirmed nor corrected.
        """
        if not hits:
            return None
        passages = [hit.passage.rendered for hit in hits]
        with unanswered("verify"):
            answer = await self.answering.acall(query, passages, number=number)
        return None if is_abstention(answer) else str(answer)

    async def _agree(self, query: str, own: str, read: str, number: int) -> bool:
        """Whether the LM's answer means what the passages say; a judge that fails lets them prevail."""
        try:
            return await means_the_same(self.same, query, own, read, number=number)
        except CallError as error:
            note("judge_consistency", error.cause, error.message, "taken for different answers", number)
            return False


def _solved(answer: str | None) -> bool:
    return bool(answer) and UNSOLVED not in str(answer).casefold() and not is_abstention(str(answer))
