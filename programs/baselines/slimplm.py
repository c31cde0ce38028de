"""SlimPLM: a proxy's answer shows when and what to retrieve (Tan et al., 2024)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from keqa.data.question import Question, clean
from keqa.programs.arguments import Steps
from keqa.programs.baselines.base import ExaminingBaseline, Gathered, from_memory, unread, verdicts
from keqa.programs.calls.ask import ask
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import gather, note
from keqa.programs.predictor import Predictor
from keqa.programs.program import RecordBuilder
from keqa.programs.records import AnswerSource, PassageVerdict
from keqa.retrievers.base import Hit
from keqa.signatures import JudgeHeuristicAnswer, ReasonFromMemory, RewriteQueries


class SlimPLM(ExaminingBaseline):
    """Judges by a small model's answer whether the large one knows, and searches for the claims that it does not.

    "Small Models, Big Insights: Leveraging Slim Proxy Models To Decide When and What to Retrieve for LLMs" (ACL 2024,
    section 3): heuristic answer, retrieval necessity judgement, query rewriting, a filter by which a query is judged by
    the heuristic answer as the question is and left out where its answer is known, and the answer, from memory or from
    passages. The proxy is the language model of role ``consistency``, and always reasons step by step.

    Attributes:
        top_k: Passages to search for with each query, and to answer from in all.
        max_queries: Further queries are left out.
    """

    method: ClassVar[str] = "slimplm"
    roles: ClassVar[Mapping[str, str]] = dict.fromkeys(("propose", "judge", "rewrite"), "consistency") | dict.fromkeys(
        ("recall", "read"), "task"
    )

    class Settings(ExaminingBaseline.Settings):
        """Those that it adds."""

        max_queries: Steps = 5

    def set_up(self) -> None:
        """See `Baseline.set_up`."""
        super().set_up()
        self.propose = Predictor(ReasonFromMemory)
        self.judge = Predictor(JudgeHeuristicAnswer)
        self.rewrite = Predictor(RewriteQueries)

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        """Judge, then answer from memory or from passages; see `Program.solve`."""
        heuristic = await self._proposed(asked)
        known = heuristic is not None and await self._known(asked.question, heuristic)
        queries = [] if known else await self._queries(asked, heuristic)
        found = await gather([self.search(query, 1) for query in queries])
        hits = Gathered(self.top_k).add_in_turn(found)
        reply = await self.answered(asked, hits)
        source: AnswerSource = "passages" if hits else "memory" if known else "closed_book"
        passages = _verdicts(hits, reply.read, queries, found) if reply.read else unread(hits)
        self.conclude(story, asked, reply, source, known=known, passages=passages)

    async def _proposed(self, asked: Question) -> str | None:
        """The heuristic answer: claims, and what follows from them."""
        try:
            reply = await from_memory(self.propose, asked)
        except CallError as error:
            note("propose", error.cause, error.message, "took the question for unknown")
            return None
        return f"{reply.reasoning} The answer is {reply.answer.removesuffix('.')}.".strip()

    async def _known(self, question: str, heuristic: str) -> bool:
        try:
            inputs: dict[str, Any] = {"question": question, "heuristic_answer": heuristic}
            said = await ask(self.judge, "judge_heuristic", **inputs)
        except CallError as error:
            note("judge_heuristic", error.cause, error.message, "took it for unknown")
            return False
        return bool(said.known)

    async def _queries(self, asked: Question, heuristic: str | None) -> list[str]:
        """What to search for: the queries whose answer is not known, or the question where there is none."""
        if heuristic is None:
            return [asked.question]
        try:
            said = await ask(self.rewrite, "rewrite", question=asked.question, heuristic_answer=heuristic)
        except CallError as error:
            note("rewrite", error.cause, error.message, "searched with the question")
            return [asked.question]
        written = list(dict.fromkeys(filter(None, (clean(str(query)) for query in said.queries or []))))
        queries = written[: self.max_queries]
        if len(queries) > 1:
            known = await gather([self._known(query, heuristic) for query in queries])
            queries = [query for query, is_known in zip(queries, known, strict=True) if not is_known]
        return queries or [asked.question]


def _verdicts(
    hits: Sequence[Hit], read: int, queries: Sequence[str], found: Sequence[Sequence[Hit]]
) -> list[PassageVerdict]:
    """The passages, each with the queries that found it."""
    by: dict[str, list[str]] = {}
    for query, those in zip(queries, found, strict=True):
        for hit in those:
            by.setdefault(hit.passage.id, []).append(query)
    return [
        verdict.model_copy(update={"why": f"found by: {' | '.join(by[verdict.passage_id])}"})
        if verdict.kept
        else verdict
        for verdict in verdicts(hits, read)
    ]
