"""Methods that reason and search step by step: IRCoT and FLARE, sentence by sentence, ReAct and SearChain."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, ClassVar

import dspy

from keqa.data.question import Question
from keqa.metrics.answers import is_abstention, normalize
from keqa.programs.arguments import Count, Probability, Steps, TopK
from keqa.programs.baselines.base import (
    SearchingBaseline,
    answer_from,
    conclude,
    search_record,
    unanswered,
    verdicts,
)
from keqa.programs.calls.ask import ask, searched
from keqa.programs.calls.errors import CallError, UnansweredError
from keqa.programs.calls.predictor import Predictor
from keqa.programs.calls.probabilities import LOGPROBS, model_of, output_tokens, tokens_of, word_probabilities
from keqa.programs.calls.session import note, noted
from keqa.programs.calls.texts import answer_of, says_nothing, text_of
from keqa.programs.examination import means_the_same
from keqa.programs.records import QuizRecord
from keqa.programs.stage import Answering, RecordBuilder, Reply, Summarizing, asked_inputs
from keqa.programs.stages.picking import merged
from keqa.retrievers.base import Hit
from keqa.retrievers.splitting import sentences
from keqa.signatures.baselines import UNSOLVED, ExtendReasoning, PlanQueryChain, ReasonWithKnowledge
from keqa.signatures.keqa import JudgeConsistency
from keqa.signatures.react import AnswerFromTrajectory, ChooseAction, Turn, written_trajectory

_CONCLUSION = re.compile(
    r"(?:\banswer(?: to (?:the|this) question)? is\b:?"
    r"|\A\W*(?:(?:so|thus|therefore|hence)\W+)?(?:the )?(?:final )?answer\W*?:[*_]*)\s*(?P<answer>.*)",
    re.IGNORECASE | re.DOTALL,
)
_FORMULA = re.compile(r"^\W*+(?:(?:so|thus|therefore)\W*+)?(?:the\s+)?(?:final\s+)?answer\s+is\b:?", re.IGNORECASE)
_LEFT_OUT = 2
"""Turns that one call of ReAct may leave out, as in DSPy."""


def first_sentence(text: str) -> str:
    """The first sentence of a reply that may hold more of them; it ends with its line, but not with an abbreviation."""
    first_line = text.strip().partition("\n")[0]
    return next(sentences(first_line), "").strip()


def concluded(thought: str) -> str | None:
    """What a thought such as ``So the answer is Oslo.`` says that the answer is; None where it is another thought."""
    match = _CONCLUSION.search(thought)
    return None if match is None else match["answer"].strip().removesuffix(".").strip()


@contextmanager
def _ended(stage: str, found: list[Hit], action: str, number: int | None = None) -> Iterator[None]:
    """Within it a call that fails ends the steps; where they found nothing so far there is no answer."""
    try:
        yield
    except CallError as error:
        if not found:
            raise UnansweredError.at(stage, error) from error
        note(stage, error.cause, error.message, action, number)


class ChainBaseline(SearchingBaseline):
    """A method that reasons in `max_steps` sentences at most, and has a reader with a chain of thought of its own."""

    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {
        "extend": ExtendReasoning,
        "answer": ReasonWithKnowledge,
    }

    max_steps: Steps = 8

    async def thought(self, asked: Question, thoughts: Sequence[str], hits: Sequence[Hit], number: int) -> str:
        inputs = asked_inputs(asked) | {"thoughts": list(thoughts)}
        fitting = [hit.passage.rendered for hit in hits]
        reply = await ask(self.extend, "reason", number, fitting=fitting, **inputs)
        return first_sentence(text_of(reply.thought))

    async def finish(
        self, asked: Question, thoughts: Sequence[str], answer: str | None, found: list[Hit], story: RecordBuilder
    ) -> None:
        """Write the answer that the reasoning states into the record; where it states none, ask for one."""
        story.explanation = " ".join(thoughts)
        if answer is None or says_nothing(answer, numbered=True):
            note("reason", "NoAnswerStated", "the reasoning states no answer", "answered from what was found")
            await answer_from(self.answer, asked, found, story)
        else:
            story.answer, story.passages = answer_of(answer, asked.question, asked.choices), verdicts(found)
            story.answer_source = "passages" if found else "closed_book"


class IRCoT(ChainBaseline):
    """Alternates a sentence of reasoning with a search for that sentence, then reads all that was collected.

    "Interleaving Retrieval with Chain-of-Thought Reasoning for Knowledge-Intensive Multi-Step Questions" (Trivedi et
    al., 2023): the chain guides the searches only, and a reader with a chain of thought of its own answers from the
    collected passages (section 3.2); the limits are those of section 4. How many passages to search for with each
    sentence the paper chooses among 2, 4, 6 and 8 on its dev sets. Without the reader the answer is the one that the
    chain states, as in the KEQA paper, which counts as many calls as searches (Table 5).
    """

    method: ClassVar[str] = "ircot"

    top_k: TopK = 4
    max_passages: Count = 15
    reader: bool = True

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        found, thoughts, query, answer = list[Hit](), list[str](), asked.question, None
        for number in range(1, self.max_steps + 1):
            hits = await self.search(query, number)
            found[:] = merged([[*found, *hits]], self.max_passages)
            thought = ""
            with _ended("reason", found, "answered from the passages found so far", number):
                thought = await self.thought(asked, thoughts, found, number)
            story.quizzes.append(search_record(number, query, hits, thought or None))
            # A sentence said before would search for the same again.
            if not thought or thought in thoughts:
                break
            thoughts.append(thought)
            query, answer = thought, concluded(thought)
            if answer is not None:
                break
        if self.reader:
            await answer_from(self.answer, asked, found, story)
        else:
            await self.finish(asked, thoughts, answer, found, story)


def masked(sentence: str, probabilities: Sequence[float], beta: float) -> str:
    """A sentence as a query, without ``So the answer is`` and words less likely than beta (section 3.2.2)."""
    kept = [word for word, probability in zip(sentence.split(), probabilities, strict=True) if probability >= beta]
    query = _FORMULA.sub("", " ".join(kept)).strip()
    return query if re.search(r"\w", query) else ""


class FLARE(ChainBaseline):
    """Writes the reasoning sentence by sentence from memory; an unsure sentence is written again from passages.

    The direct variant of "Active Retrieval Augmented Generation" (Jiang et al., 2023): the first search is for the
    question, and the first sentence is written from what it finds (section 3.1). From then on a tentative sentence with
    a token less likely than θ becomes a query, and what is found replaces what was found before (section 3.2). Defaults
    are the paper's for questions of several hops. The answer is the one that the last sentence states, and where none
    does, a prompt of its own answers from all that was found. The LM of the task has to give probabilities. At a θ
    of 0 nothing more is retrieved; the words of tokens less likely than β are left out of the query. Without the first
    retrieval a question may be answered without any, as in the KEQA paper, which counts .81 a question of NQ (Table 5).
    """

    method: ClassVar[str] = "flare"

    theta: Probability = 0.8
    beta: Probability = 0.4
    top_k: TopK = 2
    first_retrieval: bool = True

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        found, thoughts, answer = list[Hit](), list[str](), None
        while answer is None and len(thoughts) < self.max_steps:
            thought = ""
            with _ended("reason", found, "ended the reasoning"):
                thought = await self._next(asked, thoughts, story, found)
            if not thought or thought in thoughts:
                break
            thoughts.append(thought)
            answer = concluded(thought)
        await self.finish(asked, thoughts, answer, found, story)

    async def _next(self, asked: Question, thoughts: list[str], story: RecordBuilder, found: list[Hit]) -> str:
        if self.first_retrieval and not story.quizzes and not thoughts:
            first = await self._read(asked, thoughts, story, found, asked.question)
            if first:
                return first
        sentence, probabilities = await self._tentative(asked, thoughts)
        if all(probability >= self.theta for probability in probabilities):
            return sentence
        query = masked(sentence, probabilities, self.beta) or asked.question
        return await self._read(asked, thoughts, story, found, query) or sentence

    async def _read(
        self, asked: Question, thoughts: list[str], story: RecordBuilder, found: list[Hit], query: str
    ) -> str:
        number = len(story.quizzes) + 1
        hits = await self.search(query, number)
        found[:] = merged([[*found, *hits]])
        sentence = await self.thought(asked, thoughts, hits, number) if hits else ""
        story.quizzes.append(search_record(number, query, hits, sentence or None))
        return sentence

    async def _tentative(self, asked: Question, thoughts: list[str]) -> tuple[str, list[float]]:
        inputs = asked_inputs(asked) | {"thoughts": list(thoughts)}
        prediction = await ask(self.extend, "reason", fitting=[], config=dict(LOGPROBS), **inputs)
        (tokens,) = tokens_of(prediction, 1, model_of(self.extend), "FLARE", "another method, such as IRCoT")
        sentence = first_sentence(text_of(prediction.thought))
        return sentence, word_probabilities(sentence, output_tokens(tokens, "thought"))


@dataclass
class _Trail:
    """What ReAct did so far; `first` is the number of the first turn that is shown."""

    turns: list[Turn] = field(default_factory=list)
    first: int = 0
    found: list[Hit] = field(default_factory=list)
    searches: list[QuizRecord] = field(default_factory=list)
    # Query and passages of a search from which nothing was concluded so far, and the last search that failed.
    pending: tuple[str, list[Hit]] | None = None
    failed: CallError | None = None


class ReAct(SearchingBaseline):
    """Chooses at each turn a search or to finish, then answers from the whole trajectory by a prompt of its own.

    "ReAct" (Yao et al., 2023) with the prompts and the loop of `dspy.ReAct`: thoughts and actions by turns, with a few
    written trajectories in the prompt (section 3.2), which are the fixed demonstrations here; like DSPy's, it also
    works without. Searches find passages instead of opening a page. In the paper it has 7 turns for several hops.
    """

    method: ClassVar[str] = "react"
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"act": ChooseAction, "answer": AnswerFromTrajectory}

    top_k: TopK = 3
    max_steps: Steps = 7

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        trail = _Trail()
        story.quizzes = trail.searches
        for _ in range(self.max_steps):
            reply: dspy.Prediction | None = None
            with _ended("act", trail.found, "ended the trajectory"):
                reply = await self._ask(self.act, "act", asked, trail)
            if reply is None or await self._finished(reply, trail):
                break
        else:
            note("act", "StepLimit", f"not finished after {self.max_steps} turns", "answered from the turns")
        story.passages = verdicts(trail.found)
        if trail.failed is not None and not trail.found:
            raise UnansweredError.at("retrieve", trail.failed) from trail.failed
        with unanswered("answer"):
            prediction = await self._ask(self.answer, "answer", asked, trail, for_answer=True)
        conclude(story, Reply.of(prediction, asked), "passages" if trail.found else "closed_book")

    async def _finished(self, reply: dspy.Prediction, trail: _Trail) -> bool:
        """Take a turn; whether it was the last."""
        thought, tool = text_of(reply.next_thought), str(reply.next_tool_name)
        if trail.pending is not None:
            trail.searches[-1] = search_record(len(trail.searches), *trail.pending, thought or None)
            trail.pending = None
        finished = tool == "finish"
        observed = "Completed." if finished else await self._search(reply.next_tool_args, trail)
        trail.turns.append((thought, tool, reply.next_tool_args, observed))
        return finished

    @staticmethod
    async def _ask(
        predictor: dspy.Predict, stage: str, asked: Question, trail: _Trail, *, for_answer: bool = False
    ) -> dspy.Prediction:
        """Ask with the trajectory; where it exceeds the context window its oldest turns are left out, as in DSPy."""
        most = trail.first + _LEFT_OUT

        def written() -> dict[str, str]:
            return {"trajectory": written_trajectory(trail.turns, trail.first)}

        def shorter(error: CallError) -> dict[str, str] | None:
            if len(trail.turns) < 2 or trail.first == most:
                return None
            note(stage, error.cause, error.message, "left out the oldest turn", harmless=True)
            del trail.turns[0]
            trail.first += 1
            return written()

        inputs: dict[str, Any] = asked_inputs(asked) | written()
        return await ask(predictor, stage, for_answer=for_answer, shorter=shorter, **inputs)

    async def _search(self, arguments: Mapping[str, Any], trail: _Trail) -> str:
        query = arguments.get("query")
        if not isinstance(query, str) or not query.strip() or len(arguments) > 1:
            return 'Execution error in search: it takes one argument, {"query": "..."}'
        query, number = query.strip(), len(trail.searches) + 1
        try:
            hits = await searched(self.retriever, query, self.top_k, number)
        except CallError as error:
            trail.failed = error
            note("retrieve", error.cause, error.message, "told the language model", number)
            return f"Execution error in search: {error.message}"
        trail.found[:] = merged([[*trail.found, *hits]])
        trail.pending = (query, hits)
        trail.searches.append(search_record(number, query, hits, None))
        return json.dumps([hit.passage.rendered for hit in hits], ensure_ascii=False)


class SearChain(SearchingBaseline):
    """Plans the queries that lead to an answer, each with its own; retrieval corrects and completes them.

    A round plans what is left of the chain (section 3.1 of Xu et al., 2024, Chain-of-Query) and goes through it node by
    node: an unsolved query is completed from passages, an answer that the passages contradict is corrected (section
    3.2), and the language model then plans again from there, which grows another branch of the tree (section 3.3). A
    plan that stands as it is ends the search. The task LM reads, and plans from memory; a judge, the consistency LM,
    compares the two answers. The answer is concluded from the chain by KEQA's summary. The rounds are the paper's r; of
    one plan `max_queries` are gone through at most.
    """

    method: ClassVar[str] = "searchain"
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"plan": PlanQueryChain, "same": JudgeConsistency}
    roles: ClassVar[Mapping[str, str]] = {"same": "consistency", "answer": "task"}

    top_k: TopK = 3
    max_rounds: Steps = 5
    max_queries: Steps = 8

    def set_up(self) -> None:
        self.answering, self.summarizing = Answering(self.bound), Summarizing(self.bound)
        self.answer = Predictor(ReasonWithKnowledge)

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        chain = story.quizzes
        for _ in range(self.max_rounds):
            planned: list[tuple[str, str | None]] = []
            with noted("plan", "answered from the chain so far"):
                planned = await self._plan(asked, chain)
            if await self._stands(chain, planned):
                break
        if not (verified := _verified(chain)):
            note("plan", "EmptyChainError", "no query was answered", "answered the question with retrieval")
            hits = await self.search(asked.question, 0)
            await answer_from(self.answer, asked, hits, story)
            story.answer_source = "fallback"
            return
        with unanswered("summarize"):
            story.explanation, story.answer = await self.summarizing.acall(asked, verified)
        story.answer_source = "summary"

    async def _plan(self, asked: Question, chain: list[QuizRecord]) -> list[tuple[str, str | None]]:
        """The further queries that were not tried before, with the answers that the LM gives itself."""
        verified = [f"{query} {answer}" for query, answer in _verified(chain)]
        prediction = await ask(self.plan, "plan", question=asked.question, verified=verified)
        queries, tried = prediction.queries or [], {normalize(one.text) for one in chain}
        planned: dict[str, tuple[str, str | None]] = {}
        for query, answer in zip_longest(map(str, queries), map(str, prediction.answers or []), fillvalue=""):
            key, own = normalize(query), answer.strip()
            if key and key not in tried:
                solved = own and UNSOLVED not in own.casefold() and not is_abstention(own)
                planned.setdefault(key, (query.strip(), own if solved else None))
        return list(planned.values())[: self.max_queries]

    async def _stands(self, chain: list[QuizRecord], planned: list[tuple[str, str | None]]) -> bool:
        """Go through a plan; whether nothing in it had to be corrected or completed."""
        stands = True
        for query, own in planned:
            number = len(chain) + 1
            hits = await self.search(query, number)
            read = await self._read(query, hits, number)
            confirmed = own is not None and (read is None or await self._agree(query, own, read, number))
            answer = own if confirmed else read
            record = search_record(number, query, hits, answer)
            chain.append(record.model_copy(update={"source": "memory"}) if confirmed else record)
            if own is None:
                stands = stands and answer is None
            elif not confirmed:
                # What follows was planned with the wrong answer.
                return False
        return stands

    async def _read(self, query: str, hits: list[Hit], number: int) -> str | None:
        """The answer that passages give, or None; where they cannot be read, the question fails."""
        if not hits:
            return None
        passages = [hit.passage.rendered for hit in hits]
        with unanswered("verify"):
            answer: str = (await self.answering.acall(Question(query), passages, number=number)).answer
        return None if is_abstention(answer) else answer

    async def _agree(self, query: str, own: str, read: str, number: int) -> bool:
        """Whether the LM's answer means what the passages say; a judge that fails lets them prevail."""
        with noted("judge_consistency", "taken for different answers", number):
            return await means_the_same(self.same, Question(query), own, read, number)
        return False


def _verified(chain: Sequence[QuizRecord]) -> list[tuple[str, str]]:
    return [(one.text, one.answer) for one in chain if one.answer is not None]
