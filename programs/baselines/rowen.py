"""Rowen: retrieve only where answers to perturbed questions disagree (Ding et al., 2024)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import dspy

from keqa.data.question import Question
from keqa.errors import ConfigurationError
from keqa.metrics.answers import is_abstention
from keqa.programs.arguments import Seed, Steps, Temperature, Threshold, Word
from keqa.programs.baselines.base import ExaminingBaseline, Gathered, Reply, from_memory, unread, verdicts
from keqa.programs.calls.ask import DRAW, ask, runs_in_process
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import CallLimiter, gather, note
from keqa.programs.calls.texts import text_of
from keqa.programs.examination import draw_identity, means_the_same
from keqa.programs.predictor import Predictor
from keqa.programs.program import RecordBuilder, UnansweredError
from keqa.programs.records import AnswerSource, fraction_text
from keqa.programs.stages.stage import Stage
from keqa.retrievers.base import Hit
from keqa.signatures import AnswerQuestion, JudgeConsistency, ReasonFromMemory, RephraseQuestion, TranslateQuestion


class Rephrasing(Stage):
    """Draws other wordings of a question, so many tries of them, all side by side."""

    roles: ClassVar[Mapping[str, str]] = {"rephrase": "task"}

    def __init__(self, tries: int, temperature: float, seed: int, bound: CallLimiter) -> None:
        super().__init__(bound)
        self.rephrase = Predictor(RephraseQuestion)
        self.tries, self.temperature, self.seed = tries, temperature, seed

    async def run(self, asked: Question) -> list[str]:
        """The different wordings of a question other than its own; a degradation reports each that failed."""
        drawn = await gather([self._draw(asked, position) for position in range(self.tries)])
        return list(dict.fromkeys(text for text in drawn if text and text != asked.question))

    async def _draw(self, asked: Question, position: int) -> str | None:
        identity = draw_identity(self.seed, asked.question, asked.answer_type, asked.choices, f"rephrase {position}")
        config: dict[str, Any] = {"temperature": self.temperature, "rollout_id": identity}
        if runs_in_process(self.rephrase.lm or dspy.settings.lm):
            config["seed"] = identity & 0x7FFFFFFF
        try:
            said = await ask(self.rephrase, "rephrase", draws=DRAW, config=config, question=asked.question)
        except CallError as error:
            note("rephrase", error.cause, error.message, "left the rephrasing out")
            return None
        return text_of(said.rephrased)


class Rowen(ExaminingBaseline):
    """Rephrases the question, compares the answers, and repairs an inconsistent one with retrieved passages.

    "Retrieve Only When It Needs: Adaptive Retrieval Augmentation for Hallucination Mitigation in Large Language Models"
    (section 3: perturbation, consistency check, repair). Three of its checks are here. Cross-language, the default:
    each rephrased question is answered in its own language and in another one, which is Chinese in the paper.
    Cross-model: it is answered by the language model and by a verifier, the LM of role ``consistency``. Hybrid: both.
    For LMs that speak one language there is a form without either, which is none of the paper's: the answer to each
    rephrased question is compared with the answer to the question itself.

    The consistency score is the share of rephrased questions whose two answers mean the same. Repairing searches with
    the question and with each of its other wordings, and the best that each search found come first. An answer that
    says that it is not known is repaired without a check, with the question as the only search. Number of rephrasings,
    their temperature and the least consistency are those of the authors' code.

    Attributes:
        top_k: Passages to search for with each wording, and to answer from in all.
        language: That of the cross-language check, other than that of the questions; None leaves it out.
        cross_model: Whether a verifier answers too.
        cross_model_weight: Where both checks are made, the weight of the cross-model score beside 1 for the
            cross-language score (the paper's α); the score is their weighted mean.
        rephrasings: k, how often to rephrase, at the temperature. Equal ones count once; another seed draws others.
        min_consistency: A lower consistency score leads to retrieval.
    """

    method: ClassVar[str] = "rowen"
    roles: ClassVar[Mapping[str, str]] = {
        "recall": "task",
        "translate": "task",
        "verify": "consistency",
        "same": "consistency",
        "read": "task",
    }

    class Settings(ExaminingBaseline.Settings):
        """Those that it adds."""

        language: Word | None = "Chinese"
        cross_model: bool = False
        cross_model_weight: Annotated[Fraction, Threshold] = Fraction(1)
        rephrasings: Steps = 6
        min_consistency: Annotated[Fraction, Threshold] = Fraction(1, 2)
        temperature: Temperature = 1.0
        seed: Seed = 0

    def set_up(self) -> None:
        """See `Baseline.set_up`."""
        if self.language is not None and not self.language.strip():
            raise ConfigurationError("language must name a language, such as 'Chinese'")
        super().set_up()
        self.verify = Predictor(ReasonFromMemory if self.reason else AnswerQuestion)
        self.rephrasing = Rephrasing(self.rephrasings, self.temperature, self.seed, self.bound)
        self.translate = Predictor(TranslateQuestion)
        self.same = Predictor(JudgeConsistency)

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        """Answer, check and repair; see `Program.solve`."""
        first = await self._first(asked)
        # An answer that says that it is not known needs no check to be repaired.
        score, wordings = Fraction(0), []
        if first is not None and not is_abstention(first.answer, asked.choices):
            wordings = await self.rephrasing.acall(asked)
            score = await self._consistency(asked, first, wordings)
        known = score >= self.min_consistency
        hits = [] if known else await self._found([asked.question, *wordings])
        # The first answer, which was not consistent, does not replace that from passages (section 3, repair).
        repaired = await self.answered(asked, hits) if hits else None
        reply = repaired or first
        if reply is None:
            raise UnansweredError("answer", "NoAnswer", "neither memory nor passages gave an answer")
        source: AnswerSource = "passages" if repaired else "memory" if known else "closed_book"
        passages = verdicts(hits, repaired.read) if repaired else unread(hits)
        exact = {"consistency": float(score), "consistency_exact": fraction_text(score), "passages": passages}
        self.conclude(story, asked, reply, source, known=known, threshold=self.min_consistency, **exact)

    async def _first(self, asked: Question) -> Reply | None:
        try:
            return await from_memory(self.recall, asked)
        except CallError as error:
            note("answer", error.cause, error.message, "went on to retrieve")
            return None

    async def _found(self, queries: Sequence[str]) -> list[Hit]:
        """The passages that the queries find, the best of each first."""
        found = await gather([self.search(query, 1) for query in queries])
        return Gathered(self.top_k).add_in_turn(found)

    async def _consistency(self, asked: Question, first: Reply, texts: Sequence[str]) -> Fraction:
        """The consistency score over the rephrased questions; 0 where none could be had."""
        if not texts:
            note("rephrase", "NoRephrasing", "there is no other wording", "took the answer for inconsistent")
            return Fraction(0)
        scores = await gather([self._agreement(asked, text, first) for text in texts])
        return sum(scores, Fraction(0)) / len(scores)

    async def _agreement(self, asked: Question, text: str, first: Reply) -> Fraction:
        """What a rephrased question adds to the score; an answer that cannot be had agrees with none."""
        try:
            own = await from_memory(self.recall, asked, question=text)
            if self.language is None and not self.cross_model:
                return Fraction(await self._agree(asked, first.answer, own.answer))
            score = weights = Fraction(0)
            if self.language is not None:
                said = await ask(self.translate, "translate", question=text, language=self.language)
                other = await from_memory(self.recall, asked, question=text_of(said.translated) or text)
                score, weights = score + await self._agree(asked, own.answer, other.answer), weights + 1
            if self.cross_model:
                other = await from_memory(self.verify, asked, question=text)
                agree, weight = await self._agree(asked, own.answer, other.answer), self.cross_model_weight
                score, weights = score + weight * agree, weights + weight
        except CallError as error:
            note("judge_consistency", error.cause, error.message, "taken for different answers")
            return Fraction(0)
        return score / weights

    async def _agree(self, asked: Question, one: str, other: str) -> bool:
        """Whether two answers mean the same: equal after normalisation, or judged so."""
        if is_abstention(one, asked.choices) or is_abstention(other, asked.choices):
            return False
        kind = (asked.answer_type, asked.choices)
        return await means_the_same(self.same, asked.question, one, other, *kind)
