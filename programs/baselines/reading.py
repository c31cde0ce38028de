"""Methods that answer at once: from memory, from all that is found, or from an evidence document, as KS-LLM does."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import dspy

from keqa.data.question import Question
from keqa.lms.local.tokenizing import cut_to_tokens
from keqa.programs.arguments import Count, Word, whole
from keqa.programs.baselines.base import (
    Baseline,
    SearchingBaseline,
    answer_from,
    conclude,
    examined,
    from_memory,
    from_passages,
    unanswered,
    verdicts,
)
from keqa.programs.calls.ask import ANSWER, ask
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.predictor import Predictor
from keqa.programs.calls.session import NoCopy, in_thread, noted
from keqa.programs.records import EvidenceSentence
from keqa.programs.stage import RecordBuilder, Reply, asked_inputs
from keqa.programs.stages.picking import unjudged, verdict_on
from keqa.programs.stages.selection import Distance, DistanceMeter, nearest, triples_of
from keqa.retrievers.base import Hit
from keqa.retrievers.embedding import Pooling
from keqa.retrievers.splitting import stripped_sentences
from keqa.signatures.baselines import AnswerQuestion, ReasonFromMemory, ReasonWithKnowledge
from keqa.signatures.keqa import AnswerWithKnowledge
from keqa.signatures.ks_llm import AnswerWithEvidence, ExpandSubject

_DIGITS = 6
"""Of a distance in a record: beyond them machines differ."""


class OneCallBaseline(Baseline):
    """A method that answers in one call, at once or, with `reason`, after a chain of thought: each has its prompt."""

    roles: ClassVar[Mapping[str, str]] = {"answer": "task"}
    asks: ClassVar[tuple[type[dspy.Signature], type[dspy.Signature]]] = (AnswerWithKnowledge, ReasonWithKnowledge)

    reason: bool = False

    def set_up(self) -> None:
        self.answer = Predictor(self.asks[self.reason])


class ClosedBook(OneCallBaseline):
    """Answers from memory."""

    method: ClassVar[str] = "closed book"
    asks = (AnswerQuestion, ReasonFromMemory)

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        with unanswered("answer"):
            reply = await from_memory(self.answer, asked)
        conclude(story, reply, "closed_book")


class Standard(ClosedBook):
    """Answers from memory: KS-LLM's baseline without a document, which is `ClosedBook` under the paper's name."""

    method: ClassVar[str] = "standard"


class AlwaysRetrieve(OneCallBaseline, SearchingBaseline):
    """Searches with the question and answers from all that was found, whatever the LM knows (Lewis et al., 2020)."""

    method: ClassVar[str] = "always retrieve"

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        hits = await self.search(asked.question, 0)
        await answer_from(self.answer, asked, hits, story)


class DocumentReader(OneCallBaseline, SearchingBaseline):
    """Answers from the beginning of the evidence document, at once or after a chain of thought: the +doc baselines.

    The document is what is found for the question, one document or several passages in succession. So many tokens of it
    are read, as the language model counts them; 300 in the paper.
    """

    method: ClassVar[str] = "standard-doc"

    document_tokens: Annotated[int, whole(1, 100_000)] = 300

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        hits = await self.search(asked.question, 0)
        lm = self.answer.lm or dspy.settings.lm
        read = await in_thread(lambda: beginning(hits, lm, self.document_tokens))
        with unanswered("answer"):
            reply = await from_passages(self.answer, asked, read)
        found = verdicts(read, reply.read)
        first = f"the first {self.document_tokens:,} tokens of the document"
        if read and read[-1].passage.text != hits[len(read) - 1].passage.text:
            found[-1] = found[-1].model_copy(update={"why": f"{found[-1].why}: {first} end in it"})
        story.passages = found + unjudged(hits[len(read) :], f"beyond {first}", kept=False)
        conclude(story, reply, "passages" if hits else "closed_book")


def beginning(hits: Sequence[Hit], lm: object, tokens: int) -> list[Hit]:
    """The passages of a document up to so many tokens of its text; the last one is cut."""
    kept: list[Hit] = []
    for hit in hits:
        if tokens < 1:
            break
        text, used = cut_to_tokens(lm, hit.passage.text, tokens)
        tokens -= used
        kept.append(hit if text == hit.passage.text else replace(hit, passage=replace(hit.passage, text=text)))
    return kept


class KSLLM(SearchingBaseline):
    """Writes triples from memory, selects the sentences nearest to them, and answers from triples and sentences.

    "KS-LLM: Knowledge Selection of Large Language Models with Evidence Document for Question Answering", section 3: the
    triples are those of the question's subject entity, filled from the language model's memory (equation 1), sentences
    are selected from the whole evidence document, by the distance of embeddings (equations 2 and 3), and triples and
    sentences are answered from (equation 4). The document is what is found for the question, as of `DocumentReader`.
    The defaults are the paper's, but for the embeddings, which need a model.

    With `one_text` the triples are embedded together, as in equation 2; by default each is compared by itself, and
    those of several subjects choose in turn. Where the language model gives no triple, which is a degradation, the
    question selects. Without a retriever there is no document. `evidence_sentences` is the paper's k; for similarity,
    distance and pooling see `DistanceMeter`. Of the forms of section 4.1 ``KS-Q`` selects sentences by the question and
    writes no triples, ``KS-S`` answers from the sentences alone, and ``KS-T`` from the triples alone, and searches for
    nothing.
    """

    method: ClassVar[str] = "ks-llm"
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"expand": ExpandSubject, "answer": AnswerWithEvidence}

    evidence_sentences: Count = 2
    similarity: Word | None = None
    distance: Distance = "euclidean"
    pooling: Pooling | None = None
    form: Literal["KS-LLM", "KS-Q", "KS-T", "KS-S"] = "KS-LLM"
    one_text: bool = False

    def set_up(self) -> None:
        self._meter = NoCopy(DistanceMeter(self.similarity, self.distance, self.pooling))

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        searches = self.form != "KS-T" and self.retriever is not None
        hits = await self.search(asked.question, 1) if searches else []
        triples = [] if self.form == "KS-Q" else await self._expanded(asked.question, bool(hits))
        wanted = ["; ".join(triples)] if self.one_text and triples else triples or [asked.question]
        selected = await in_thread(lambda: self._selected(wanted, hits))
        evidence = [one.text for one in selected]
        shown = [] if self.form == "KS-S" else triples
        knowledge = {"triples": shown, "evidence": evidence, **asked_inputs(asked)}
        with unanswered("answer"):
            found = await ask(self.answer, "answer", for_answer=True, numbered=bool(shown or evidence), **knowledge)
        conclude(story, Reply.of(found, asked), "passages" if selected else "closed_book")
        why = ("no sentence of it was selected", "evidence sentences are of it")
        read = {one.passage_id for one in selected}
        passages = [verdict_on(hit, "unjudged", kept := hit.passage.id in read, why[kept]) for hit in hits]
        outcome = {"evidence": evidence, "selected": selected, "triples": triples, "answer": story.answer}
        outcome |= {"retrieved": searches, "passages": passages, "source": story.answer_source}
        story.quizzes = [examined(asked, **outcome)]

    async def _expanded(self, question: str, found: bool) -> list[str]:
        """The triples (equation 1), asked for as often as an answer is, so that no row of a table is better mended."""
        with noted("expand", "selected by the question, without triples", 1) if found else unanswered("expand"):
            return triples_of(await ask(self.expand, "expand", 1, draws=ANSWER, usable=_has_triples, question=question))
        return []

    def _selected(self, wanted: Sequence[str], hits: Sequence[Hit]) -> list[EvidenceSentence]:
        found: dict[str, str] = {}
        for hit in hits:
            # A title is not a part of the first sentence, and each sentence counts once.
            for sentence in stripped_sentences(hit.passage.text):
                found.setdefault(sentence, hit.passage.id)
        if not found:
            return []
        candidates = list(found)
        measured = self._meter.value.measure([as_text(one) for one in wanted], candidates)
        return [
            EvidenceSentence(
                text=candidates[one.position],
                passage_id=found[candidates[one.position]],
                nearest_to=wanted[one.wanted],
                distance=round(one.distance, _DIGITS),
            )
            for one in nearest(measured, self.evidence_sentences, [subject_of(one) for one in wanted])
        ]


def subject_of(triple: str) -> str:
    """What a triple is about, whatever its letter case: what stands before the first bar."""
    return " ".join(triple.partition("|")[0].casefold().split())


def as_text(triple: str) -> str:
    """A triple as it is embedded: subject, relation and object without the bars between them."""
    return " ".join(triple.replace("|", " ").split())


def _has_triples(prediction: dspy.Prediction) -> None:
    if not triples_of(prediction):
        raise CallError("EmptyTriplesError", "the reply holds no triple", unusable=True)
