"""Self-RAG: retrieve on demand, answer from each passage by itself, and criticise (Asai et al., 2024)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import dspy

from keqa.data.question import Question
from keqa.programs.arguments import TopK, Weight
from keqa.programs.baselines.base import ExaminingBaseline, Reply, from_passages, unread
from keqa.programs.calls.ask import ask
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import CallLimiter, gather, note
from keqa.programs.gates.uncertainty import wants_retrieval
from keqa.programs.predictor import Predictor
from keqa.programs.program import RecordBuilder, UnansweredError
from keqa.programs.records import AnswerSource, PassageVerdict
from keqa.programs.stages.stage import Stage
from keqa.retrievers.base import Hit
from keqa.signatures import DecideRetrieval, JudgeRelevance, JudgeSupport, RateUsefulness

_SUPPORT = {"fully": 1.0, "partially": 0.5, "no": 0.0}
"""What the probability of each support token counts (appendix A.3)."""


@dataclass(frozen=True)
class Critique:
    """What the LM said of an answer and its passage, as the numbers that section 3.3 adds up.

    ISREL is 1 or 0, ISSUP 1, 0.5 or 0, and ISUSE from -1 to 1; the score is their weighted sum, S(Critique).
    """

    relevance: float
    support: float
    usefulness: float
    score: float


class Reflection(Stage):
    """Asks for the tokens ISREL, ISSUP and ISUSE, each a prompt of its own, all side by side."""

    roles: ClassVar[Mapping[str, str]] = dict.fromkeys(("relevance", "support", "usefulness"), "task")

    def __init__(self, weights: tuple[float, float, float], bound: CallLimiter) -> None:
        """Set up with the weights of ISREL, ISSUP and ISUSE in the score."""
        super().__init__(bound)
        self.relevance = Predictor(JudgeRelevance)
        self.support = Predictor(JudgeSupport)
        self.usefulness = Predictor(RateUsefulness)
        self.weights = weights

    async def run(self, question: str, answered: Sequence[tuple[str, str]]) -> list[Critique]:
        """A critique of each passage with the answer that was written from it, in their order.

        A token that cannot be had counts 0, and a degradation says why.
        """
        count, answers = len(answered), list(dict.fromkeys(answer for _, answer in answered))
        pairs = [{"passage": passage, "question": question, "answer": answer} for passage, answer in answered]
        alone = [{"passage": passage, "question": question} for passage, _ in answered]
        rated = [{"question": question, "answer": answer} for answer in answers]
        # The ratings 1 to 5 weigh -1, -0.5, 0, 0.5 and 1 (appendix A.3).
        asked: list[tuple[dspy.Predict, Callable[[dspy.Prediction], float], list[dict[str, str]]]] = [
            (self.relevance, lambda said: float(bool(said.relevant)), alone),
            (self.support, lambda said: _SUPPORT[said.support], pairs),
            (self.usefulness, lambda said: (int(said.usefulness) - 3) / 2, rated),
        ]
        scores = await gather([self._scored(judge, score, one) for judge, score, inputs in asked for one in inputs])
        useful = dict(zip(answers, scores[2 * count :], strict=True))
        critiques = []
        for i, (_, answer) in enumerate(answered):
            parts = (scores[i], scores[count + i], useful[answer])
            critiques.append(Critique(*parts, sum(w * part for w, part in zip(self.weights, parts, strict=True))))
        return critiques

    @staticmethod
    async def _scored(
        predictor: dspy.Predict, score: Callable[[dspy.Prediction], float], inputs: Mapping[str, Any]
    ) -> float:
        try:
            return score(await ask(predictor, "criticise", **inputs))
        except CallError as error:
            note("criticise", error.cause, error.message, "counted 0")
            return 0.0


class SelfRAG(ExaminingBaseline):
    """Decides whether to retrieve, answers from each passage, and keeps the answer that its own critique ranks first.

    Algorithm 1 and section 3.3 of "Self-RAG: Learning to Retrieve, Generate, and Critique through Self-Reflection"
    (ICLR 2024), with the defaults of section 4.3. Prompting replaces the model that is trained to write reflection
    tokens, each a question of its own. A prompt gives a verdict and no probabilities, so a token counts 1 where it was
    said, the probability of the answer is left out of the score, and retrieval has no threshold. Reasoning and answer
    are one segment, so there is no beam over segments. An answer from memory has no rivals and is not criticised.

    Attributes:
        top_k: Passages to search for; each takes up to four calls.
        relevance_weight: w of ISREL in the score of section 3.3; the others are those of ISSUP and ISUSE.
    """

    method: ClassVar[str] = "self-rag"
    roles: ClassVar[Mapping[str, str]] = dict.fromkeys(("retrieve", "recall", "read"), "task")

    class Settings(ExaminingBaseline.Settings):
        """Those that it adds."""

        top_k: TopK = 5
        relevance_weight: Weight = 1.0
        support_weight: Weight = 1.0
        usefulness_weight: Weight = 0.5

    def set_up(self) -> None:
        """See `Baseline.set_up`."""
        super().set_up()
        self.retrieve = Predictor(DecideRetrieval)
        weights = (self.relevance_weight, self.support_weight, self.usefulness_weight)
        self.reflection = Reflection(weights, self.bound)

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        """Algorithm 1; see `Program.solve`."""
        wanted = await wants_retrieval(self.retrieve, asked.question)
        hits: list[Hit] = []
        if wanted:
            hits = await self.search(asked.question, 1)
        replies = await gather([self._from_passage(asked, hit) for hit in hits])
        answered = {i: (hits[i].passage.rendered, reply.answer) for i, reply in enumerate(replies) if reply is not None}
        judged = await self.reflection.acall(asked.question, list(answered.values()))
        critiques = dict(zip(answered, judged, strict=True))
        # Of equals the first is taken: the passage that was found first.
        best = max(critiques, key=lambda i: critiques[i].score, default=None)
        reply = None if best is None else replies[best]
        if reply is None and hits:
            raise UnansweredError("answer", "NoAnswerError", "no passage that was found could be answered from")
        source: AnswerSource = "passages" if reply is not None else "closed_book"
        reply = reply or await self.answered(asked, [])
        passages = _verdicts(hits, replies, critiques, best)
        self.conclude(story, asked, reply, source, known=not wanted, passages=passages)

    async def _from_passage(self, asked: Question, hit: Hit) -> Reply | None:
        """The answer from one passage."""
        try:
            return await from_passages(self.read, asked, [hit])
        except CallError as error:
            message = f"{error.message} (passage {hit.passage.id})"
            note("answer", error.cause, message, "left the passage out")
            return None


def _verdicts(
    hits: Sequence[Hit], replies: Sequence[Reply | None], critiques: Mapping[int, Critique], best: int | None
) -> list[PassageVerdict]:
    """The passages with what became of their answers."""
    verdicts = []
    for i, (verdict, reply) in enumerate(zip(unread(hits), replies, strict=True)):
        if reply is None:
            verdicts.append(verdict)
            continue
        one = critiques[i]
        why = (
            f"{reply.answer!r}: relevance {one.relevance:g}, support {one.support:g}, "
            f"usefulness {one.usefulness:g}, score {one.score:g}"
        )
        judged = "helpful" if one.relevance else "not helpful"
        verdicts.append(verdict.model_copy(update={"verdict": judged, "kept": i == best, "why": why}))
    return verdicts
