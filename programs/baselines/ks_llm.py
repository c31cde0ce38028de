"""KS-LLM: triples select sentences of the passages, and both are answered from (Zheng et al., 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from keqa.data.question import Question
from keqa.programs.arguments import Count, Word, checked
from keqa.programs.baselines.base import SearchingBaseline
from keqa.programs.baselines.reading import examined, unanswered, verdicts
from keqa.programs.program import RecordBuilder
from keqa.programs.runtime.session import Session
from keqa.programs.stages.answering import Answering
from keqa.programs.stages.selection import Selection
from keqa.retrievers.base import Hit

Form = Literal["KS-LLM", "KS-Q", "KS-T", "KS-S"]
"""The method and the baselines that take a part of it away (section 4.1)."""


@checked
@dataclass(kw_only=True, eq=False, repr=False)
class KSLLM(SearchingBaseline):
    """Constructs triples, selects the sentences closest to them, and answers from triples and sentences.

    "KS-LLM: Knowledge Selection of Large Language Models with Evidence Document for Question Answering", section 3. The
    evidence document is what is found for the question. The paper's three parts are KEQA's own stages: its prompts, of
    which the first asks for the triples of the question rather than of its subject entity. Where no sentence can be
    selected, the whole passages are answered from. The defaults are the paper's.

    Attributes:
        retriever: The first argument: where the passages come from; with None nothing is found.
        evidence_sentences: How many sentences to select from all of them, the paper's k.
        similarity: Name of the embedder by whose vectors they are compared, as in the paper's equations 2 and 3, such
            as ``local/minilm`` (see `keqa.programs.reference.embedding.open_embedder`); by words where None.
        form: ``KS-LLM``; ``KS-Q`` selects sentences by the question and constructs no triples; ``KS-S`` answers from
            the sentences alone; ``KS-T`` from the triples alone, and searches for nothing.
    """

    method: ClassVar[str] = "ks-llm"

    evidence_sentences: Count = 2
    similarity: Word | None = None
    form: Form = "KS-LLM"

    def set_up(self) -> None:
        """See `Baseline.set_up`.

        Raises:
            ConfigurationError: There is no such embedder.
            MissingExtraError: A package is missing that the embedder needs.
        """
        self.selection = Selection(self.evidence_sentences, self.similarity, self.bound)
        self.answering = Answering(self.bound)

    async def solve(self, session: Session, asked: Question, story: RecordBuilder) -> None:
        """Search, select and answer; see `Program.solve`."""
        hits = await self._found(session, asked.question)
        passages = [hit.passage.rendered for hit in hits]
        triples, evidence = await self._selected(session, asked.question, passages)
        with unanswered("answer"):
            answer = await self.answering.acall(
                asked.question,
                [] if evidence else passages,
                asked.answer_type,
                asked.choices,
                evidence=evidence,
                triples=[] if self.form == "KS-S" else triples,
                session=session,
            )
        story.answer, story.answer_source = str(answer), "passages" if hits else "closed_book"
        story.quizzes = [
            examined(
                asked,
                retrieved=self.form != "KS-T" and self._retriever.value is not None,
                passages=verdicts(hits),
                evidence=evidence,
                triples=triples,
                answer=story.answer,
                source=story.answer_source,
            )
        ]

    async def _found(self, session: Session, question: str) -> list[Hit]:
        if self._retriever.value is None or self.form == "KS-T":
            return []
        return await self.search(session, question, 1)

    async def _selected(self, session: Session, question: str, passages: Sequence[str]) -> tuple[list[str], list[str]]:
        """Triples and sentences."""
        if self.form == "KS-Q":
            return [], await self.selection.evidence(session, [question], passages)
        with unanswered("select"):
            triples, evidence = await self.selection.acall(question, passages, session=session)
        return triples, evidence
