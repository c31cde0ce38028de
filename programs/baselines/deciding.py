"""Methods that decide of the whole question whether to search for it: KBM, Rowen, Self-RAG and SlimPLM."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import dspy

from keqa.data.question import Question, clean
from keqa.errors import ConfigurationError
from keqa.metrics.answers import is_abstention
from keqa.programs.arguments import Seed, Share, Steps, Temperature, Threshold, TopK, Tries, Weight, Word
from keqa.programs.baselines.base import (
    ExaminingBaseline,
    from_memory,
    from_passages,
    unanswered,
    verdicts,
)
from keqa.programs.boundary import BoundaryError, Judgement, LightModel
from keqa.programs.calls.ask import DRAW, ask
from keqa.programs.calls.errors import CallError, UnansweredError
from keqa.programs.calls.predictor import Predictor
from keqa.programs.calls.session import gather, in_thread, note, noted
from keqa.programs.calls.texts import text_of
from keqa.programs.examination import Examination, means_the_same, settings_of_draw
from keqa.programs.gate import Draws, reaches
from keqa.programs.gates.boundary import MODEL, BoundaryGate
from keqa.programs.gates.uncertainty import wants_retrieval
from keqa.programs.records import AnswerSource, fraction_text
from keqa.programs.stage import RecordBuilder, Reply, Stage, asked_inputs
from keqa.programs.stages.picking import merged, unjudged, verdict_on
from keqa.retrievers.base import Hit
from keqa.signatures.baselines import (
    AnswerQuestion,
    JudgeHeuristicAnswer,
    JudgeRelevance,
    JudgeSupport,
    RateUsefulness,
    ReasonFromMemory,
    RephraseQuestion,
    RewriteQueries,
    TranslateQuestion,
)
from keqa.signatures.boundary import DecideRetrieval, JudgeKnowledge
from keqa.signatures.keqa import JudgeConsistency


class KBM(ExaminingBaseline):
    """Answers from memory what a boundary model says is known, and searches for the rest (Zhang et al., 2025).

    Any `keqa.programs.boundary.BoundaryModel` judges; one that reads draws is given draws of its own, made as KEQA's
    are. Without one a language model is asked (`JudgeKnowledge`), that of role ``consistency``: another one than the
    one that answers, where that is set up, as the paper's plug-in is. The question is never decomposed, and every
    passage found is read. Of the two judgements `of` says which counts: ``mastery`` is KBM-Acc, ``certainty`` KBM-Cer;
    the paper's model says True or False, which a half divides. With `rejudge` a question that is searched for is judged
    again with the passages as Reference (double judgement): where they do not settle it, it is answered from memory.
    """

    method: ClassVar[str] = "kbm"
    roles: ClassVar[Mapping[str, str]] = {"judge": "consistency", **ExaminingBaseline.roles}

    model: Annotated[Any, MODEL] | None = None
    of: Literal["mastery", "certainty"] = "mastery"
    threshold: Annotated[Fraction, Share] = Fraction(1, 2)
    rejudge: bool = False
    reason: bool = False
    tries: Tries = 5
    temperature: Temperature = 1.0

    def set_up(self) -> None:
        super().set_up()
        self.judge = Predictor(JudgeKnowledge)
        if self.rejudge and isinstance(self.model, LightModel):
            raise ConfigurationError(
                "rejudge judges again with the passages, and a light boundary model reads none: leave it out, or the "
                "model, and the language model of role consistency is asked"
            )
        if self.model is not None:
            gate = BoundaryGate(self.model, self.of, self.threshold)
            self.examination = Examination(self.tries, gate, self.temperature, bound=self.bound)

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        known, measure, draws = await self._examined(asked)
        hits = [] if known else await self.search(asked.question, 1)
        settled = not (hits and self.rejudge) or await self._settles(asked, draws, hits)
        reply = await self.answered(asked, hits if settled else [])
        passages = verdicts(hits, reply.read)
        if not settled:
            passages = unjudged(hits, "judged again with them: they do not settle it", kept=False)
        self.conclude(story, asked, reply, passages, known=known, threshold=self.threshold, certainty=measure)

    async def _examined(self, asked: Question) -> tuple[bool, float | None, Draws]:
        if self.model is None:
            draws = Draws(answer_type=asked.answer_type, choices=tuple(asked.choices))
            measure = await self._measured(asked, draws, ())
            return measure is not None and reaches(measure, self.threshold), measure, draws
        with unanswered("examine"):
            found = await self.examination.acall(asked, number=1)
        return found.known, found.verdict.measure, found

    async def _settles(self, asked: Question, draws: Draws, hits: Sequence[Hit]) -> bool:
        """Whether the question is known with passages; they are read where that cannot be judged."""
        again = await self._measured(asked, draws, [hit.passage.rendered for hit in hits])
        return again is None or reaches(again, self.threshold)

    async def _measured(self, asked: Question, draws: Draws, reference: Sequence[str]) -> float | None:
        try:
            if (model := self.model) is not None:
                read = "\n\n".join(reference)
                # It waits for a language model, and other questions do not.
                judged: Judgement = await in_thread(lambda: model.judge(asked.question, draws, read))
            else:
                inputs = asked_inputs(asked)
                inputs = {"quiz": inputs.pop("question"), **inputs, "reference": list(reference)}
                reply = await ask(self.judge, "boundary", 1, **inputs)
                judged = Judgement(float(bool(reply.mastery)), float(bool(reply.certainty)))
        except (CallError, BoundaryError) as error:
            action = "read the passages" if reference else "taken for unknown"
            note("boundary", getattr(error, "cause", "BoundaryError"), str(error), action, 1)
            return None
        return float(getattr(judged, self.of))


class Rephrasing(Stage):
    """Draws other wordings of a question, so many tries of them, all side by side."""

    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"rephrase": RephraseQuestion}

    async def run(self, asked: Question, tries: int, temperature: float, seed: int) -> list[str]:
        drawn = await gather([self._draw(asked, f"rephrase {place}", temperature, seed) for place in range(tries)])
        return list(dict.fromkeys(text for text in drawn if text and text != asked.question))

    async def _draw(self, asked: Question, position: str, temperature: float, seed: int) -> str:
        config = settings_of_draw(self.rephrase, seed, asked, position, temperature)
        with noted("rephrase", "left the rephrasing out"):
            reply = await ask(self.rephrase, "rephrase", draws=DRAW, config=config, question=asked.question)
            return text_of(reply.rephrased)
        return ""


class Rowen(ExaminingBaseline):
    """Rephrases the question, compares the answers, and repairs an inconsistent one with retrieved passages.

    "Retrieve Only When It Needs: Adaptive Retrieval Augmentation for Hallucination Mitigation in Large Language Models"
    (Ding et al., 2024, section 3: perturbation, consistency check, repair). Three of its checks are here.
    Cross-language, the default: each rephrased question is answered in its own language and in another one, which is
    Chinese in the paper. Cross-model: it is answered by the language model and by a verifier, the LM of role
    ``consistency``. Hybrid: both. For LMs that speak one language there is a form without either, which is none of the
    paper's: the answer to each rephrased question is compared with the answer to the question itself.

    The consistency score is the share of rephrased questions whose two answers mean the same. Repairing searches with
    the question and with each of its other wordings, and the best that each search found come first. An answer that
    says that it is not known is repaired without a check, with the question as the only search. Number of rephrasings,
    their temperature and the least consistency are those of the authors' code. `top_k` passages are sought with each
    wording, and answered from in all. Without a `language` there is no cross-language check; where both checks are made
    `cross_model_weight` is the weight of the cross-model score beside 1 for the other (the paper's α), and the score is
    their weighted mean. Equal rephrasings count once; another seed draws others.
    """

    method: ClassVar[str] = "rowen"
    roles: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("recall", "translate", "read"), "task"),
        **dict.fromkeys(("verify", "same"), "consistency"),
    }

    language: Word | None = "Chinese"
    cross_model: bool = False
    cross_model_weight: Annotated[Fraction, Threshold] = Fraction(1)
    rephrasings: Steps = 6
    min_consistency: Annotated[Fraction, Threshold] = Fraction(1, 2)
    temperature: Temperature = 1.0
    seed: Seed = 0

    def set_up(self) -> None:
        if self.language is not None and not self.language.strip():
            raise ConfigurationError("language must name a language, such as 'Chinese'")
        super().set_up()
        self.verify = Predictor(ReasonFromMemory if self.reason else AnswerQuestion)
        self.rephrasing = Rephrasing(self.bound)
        self.translate, self.same = Predictor(TranslateQuestion), Predictor(JudgeConsistency)

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        first: Reply | None = None
        with noted("answer", "continued with retrieval"):
            first = await from_memory(self.recall, asked)
        # An answer that says that it is not known needs no check to be repaired.
        score, wordings = Fraction(0), []
        if first is not None and not is_abstention(first.answer, asked.choices):
            wordings = await self.rephrasing.acall(asked, self.rephrasings, self.temperature, self.seed)
            score = await self._consistency(asked, first, wordings)
        known = score >= self.min_consistency
        queries = [] if known else [asked.question, *wordings]
        hits = merged(await gather([self.search(query, 1) for query in queries]), self.top_k)
        # The first answer, which was not consistent, does not replace that from passages (section 3, repair).
        repaired = await self.answered(asked, hits) if hits else None
        reply = repaired or first
        if reply is None:
            raise UnansweredError("answer", "NoAnswer", "neither memory nor passages gave an answer")
        exact: dict[str, Any] = {"consistency": float(score), "consistency_exact": fraction_text(score)}
        passages = verdicts(hits, reply.read)
        self.conclude(story, asked, reply, passages, known=known, threshold=self.min_consistency, **exact)

    async def _consistency(self, asked: Question, first: Reply, texts: Sequence[str]) -> Fraction:
        if not texts:
            note("rephrase", "NoRephrasing", "there is no other wording", "took the answer for inconsistent")
            return Fraction(0)
        scores = await gather([self._agreement(asked, text, first) for text in texts])
        return sum(scores, Fraction(0)) / len(scores)

    async def _agreement(self, asked: Question, text: str, first: Reply) -> Fraction:
        """What a rephrased question adds to the score; an answer that cannot be had agrees with none."""
        with noted("judge_consistency", "taken for different answers"):
            own = await from_memory(self.recall, asked, question=text)
            if self.language is None and not self.cross_model:
                return Fraction(await self._agree(asked, first.answer, own.answer))
            score = weights = Fraction(0)
            if self.language is not None:
                translated = await ask(self.translate, "translate", question=text, language=self.language)
                other = await from_memory(self.recall, asked, question=text_of(translated.translated) or text)
                score, weights = score + await self._agree(asked, own.answer, other.answer), weights + 1
            if self.cross_model:
                other = await from_memory(self.verify, asked, question=text)
                agree, weight = await self._agree(asked, own.answer, other.answer), self.cross_model_weight
                score, weights = score + weight * agree, weights + weight
            return score / weights
        return Fraction(0)

    async def _agree(self, asked: Question, one: str, other: str) -> bool:
        if is_abstention(one, asked.choices) or is_abstention(other, asked.choices):
            return False
        return await means_the_same(self.same, asked, one, other)


_SUPPORT = {"fully": 1.0, "partially": 0.5, "no": 0.0}
"""What the probability of each of Self-RAG's support tokens counts (appendix A.3)."""


class Critique(NamedTuple):
    """The tokens ISREL (1 or 0), ISSUP (1, 0.5 or 0) and ISUSE (-1 to 1), and S(Critique), their weighted sum."""

    relevance: float
    support: float
    usefulness: float
    score: float


class Reflection(Stage):
    """Asks for the tokens ISREL, ISSUP and ISUSE, each a prompt of its own, all side by side; these have weights."""

    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {
        "relevance": JudgeRelevance,
        "support": JudgeSupport,
        "usefulness": RateUsefulness,
    }

    async def run(
        self, question: str, answered: Sequence[tuple[str, str]], weights: tuple[float, float, float]
    ) -> list[Critique]:
        """A critique of each passage with the answer that was written from it; a token that cannot be had counts 0."""
        answers = list(dict.fromkeys(answer for _, answer in answered))
        scores = await gather(
            [
                *(self._scored(self.relevance, passage=passage, question=question) for passage, _ in answered),
                *(self._scored(self.support, passage=one[0], question=question, answer=one[1]) for one in answered),
                *(self._scored(self.usefulness, question=question, answer=answer) for answer in answers),
            ]
        )
        count = len(answered)
        useful = dict(zip(answers, scores[2 * count :], strict=True))
        rated = [useful[answer] for _, answer in answered]
        critiques = zip(scores[:count], scores[count : 2 * count], rated, strict=True)
        return [Critique(*one, sum(w * part for w, part in zip(weights, one, strict=True))) for one in critiques]

    async def _scored(self, judge: dspy.Predict, **inputs: Any) -> float:
        with noted("criticise", "counted 0"):
            reply = await ask(judge, "criticise", **inputs)
            if judge is self.relevance:
                return float(bool(reply.relevant))
            # The ratings 1 to 5 weigh -1, -0.5, 0, 0.5 and 1 (appendix A.3).
            return _SUPPORT[reply.support] if judge is self.support else (int(reply.usefulness) - 3) / 2
        return 0.0


class SelfRAG(ExaminingBaseline):
    """Decides whether to retrieve, answers from each passage, and keeps the answer that its own critique ranks first.

    Algorithm 1 and section 3.3 of "Self-RAG: Learning to Retrieve, Generate, and Critique through Self-Reflection"
    (Asai et al., 2024), with the defaults of section 4.3. Prompting replaces the model that is trained to write
    reflection tokens, each a question of its own. A prompt gives a verdict and no probabilities, so a token counts 1
    where it was said, the probability of the answer is left out of the score, and retrieval has no threshold. Reasoning
    and answer are one segment, so there is no beam over segments. An answer from memory has no rivals and is not
    criticised. Each passage takes up to four calls. The weights are those of ISREL, ISSUP and ISUSE in the score.
    """

    method: ClassVar[str] = "self-rag"
    roles: ClassVar[Mapping[str, str]] = {"retrieve": "task", **ExaminingBaseline.roles}

    top_k: TopK = 5
    relevance_weight: Weight = 1.0
    support_weight: Weight = 1.0
    usefulness_weight: Weight = 0.5

    def set_up(self) -> None:
        super().set_up()
        self.retrieve = Predictor(DecideRetrieval)
        self.reflection = Reflection(self.bound)

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        wanted = await wants_retrieval(self.retrieve, asked.question)
        hits = await self.search(asked.question, 1) if wanted else []
        replies = await gather([self._from_passage(asked, hit) for hit in hits])
        answered = {i: (hits[i].passage.rendered, reply.answer) for i, reply in enumerate(replies) if reply is not None}
        weights = (self.relevance_weight, self.support_weight, self.usefulness_weight)
        judged = await self.reflection.acall(asked.question, list(answered.values()), weights)
        critiques = dict(zip(answered, judged, strict=True))
        # Of equals the first is taken: the passage that was found first.
        best = max(critiques, key=lambda i: critiques[i].score, default=None)
        reply = None if best is None else replies[best]
        if reply is None and hits:
            raise UnansweredError("answer", "NoAnswerError", "no passage that was found could be answered from")
        source: AnswerSource = "closed_book" if reply is None else "passages"
        reply = reply or await self.answered(asked, [])
        passages = verdicts(hits, 0)
        for i, one in critiques.items():
            why = (
                f"{answered[i][1]!r}: relevance {one.relevance:g}, support {one.support:g}, "
                f"usefulness {one.usefulness:g}, score {one.score:g}"
            )
            passages[i] = verdict_on(hits[i], "helpful" if one.relevance else "not helpful", i == best, why)
        self.conclude(story, asked, reply, passages, known=not wanted, source=source)

    async def _from_passage(self, asked: Question, hit: Hit) -> Reply | None:
        with noted("answer", "left the passage out", of=f" (passage {hit.passage.id})"):
            return await from_passages(self.read, asked, [hit])
        return None


class SlimPLM(ExaminingBaseline):
    """Judges by a small model's answer whether the large one knows, and searches for the claims that it does not.

    "Small Models, Big Insights: Leveraging Slim Proxy Models To Decide When and What to Retrieve for LLMs" (Tan et al.,
    2024, section 3): heuristic answer, retrieval necessity judgement, query rewriting, a filter by which a query is
    judged by the heuristic answer as the question is and left out where its answer is known, and the answer, from
    memory or from passages. The proxy is the language model of role ``consistency``, and always reasons step by step.
    `top_k` passages are searched for with each query, and answered from in all.
    """

    method: ClassVar[str] = "slimplm"
    roles: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("propose", "judge", "rewrite"), "consistency"),
        **ExaminingBaseline.roles,
    }

    max_queries: Steps = 5

    def set_up(self) -> None:
        super().set_up()
        self.propose, self.judge = Predictor(ReasonFromMemory), Predictor(JudgeHeuristicAnswer)
        self.rewrite = Predictor(RewriteQueries)

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        heuristic: str | None = None
        with noted("propose", "took the question for unknown"):
            proposed = await from_memory(self.propose, asked)
            heuristic = f"{proposed.reasoning} The answer is {proposed.answer.removesuffix('.')}.".strip()
        known = heuristic is not None and await self._known(asked.question, heuristic)
        queries = [] if known else await self._queries(asked, heuristic)
        found = await gather([self.search(query, 1) for query in queries])
        hits = merged(found, self.top_k)
        reply = await self.answered(asked, hits)
        passages = verdicts(hits, reply.read)
        for place, hit in enumerate(hits[: reply.read]):
            ids = ([one.passage.id for one in those] for those in found)
            by = (query for query, those in zip(queries, ids, strict=True) if hit.passage.id in those)
            passages[place] = verdict_on(hit, "unjudged", True, f"found by: {' | '.join(by)}")
        self.conclude(story, asked, reply, passages, known=known)

    async def _known(self, question: str, heuristic: str) -> bool:
        with noted("judge_heuristic", "took it for unknown"):
            reply = await ask(self.judge, "judge_heuristic", question=question, heuristic_answer=heuristic)
            return bool(reply.known)
        return False

    async def _queries(self, asked: Question, heuristic: str | None) -> list[str]:
        queries: list[str] = []
        if heuristic is None:
            return [asked.question]
        with noted("rewrite", "searched with the question"):
            reply = await ask(self.rewrite, "rewrite", question=asked.question, heuristic_answer=heuristic)
            written = filter(None, (clean(str(query)) for query in reply.queries or []))
            queries = list(dict.fromkeys(written))[: self.max_queries]
        if len(queries) > 1:
            known = await gather([self._known(query, heuristic) for query in queries])
            queries = [query for query, is_known in zip(queries, known, strict=True) if not is_known]
        return queries or [asked.question]
