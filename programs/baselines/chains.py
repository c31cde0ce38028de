"""Methods that reason sentence by sentence and search for what they say: IRCoT and FLARE."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

import dspy

from keqa.data.question import Question
from keqa.programs.arguments import Count, Probability, Steps, TopK
from keqa.programs.baselines.base import (
    Gathered,
    SearchingBaseline,
    answer_from,
    asked_inputs,
    search_record,
    verdicts,
)
from keqa.programs.calls.ask import ask
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import note
from keqa.programs.calls.texts import says_nothing, text_of
from keqa.programs.predictor import Predictor
from keqa.programs.program import RecordBuilder, UnansweredError
from keqa.programs.stages.probabilities import LOGPROBS, output_tokens, tokens_of, word_probabilities
from keqa.retrievers.base import Hit
from keqa.retrievers.splitting import sentences
from keqa.signatures import ExtendReasoning, ReasonWithKnowledge

_CONCLUSION = re.compile(r"\banswer is\b:?\s*(?P<answer>.*)", re.IGNORECASE | re.DOTALL)
_FORMULA = re.compile(r"^\W*+(?:(?:so|thus|therefore)\W*+)?(?:the\s+)?(?:final\s+)?answer\s+is\b:?", re.IGNORECASE)


def first_sentence(text: str) -> str:
    """The first sentence of a reply that may hold more of them; it ends with its line, but not with an abbreviation."""
    first_line = text.strip().partition("\n")[0]
    return next(sentences(first_line), "").strip()


def concluded(thought: str) -> str | None:
    """What a thought such as ``So the answer is Oslo.`` says that the answer is; None where it is another thought."""
    match = _CONCLUSION.search(thought)
    return None if match is None else match["answer"].strip().removesuffix(".").strip()


class ChainBaseline(SearchingBaseline):
    """A method that reasons in `max_steps` sentences at most, and has a reader with a chain of thought of its own."""

    roles: ClassVar[Mapping[str, str]] = {"extend": "task", "answer": "task"}

    class Settings(SearchingBaseline.Settings):
        """Those of every chain."""

        max_steps: Steps = 8

    def set_up(self) -> None:
        """See `Baseline.set_up`."""
        self.extend, self.answer = Predictor(ExtendReasoning), Predictor(ReasonWithKnowledge)

    async def thought(self, asked: Question, thoughts: Sequence[str], hits: Sequence[Hit], number: int) -> str:
        """The next sentence, from passages, in a step of a number."""
        inputs = asked_inputs(asked) | {"thoughts": list(thoughts)}
        fitting = [hit.passage.rendered for hit in hits]
        said = await ask(self.extend, "reason", number, fitting=fitting, **inputs)
        return first_sentence(text_of(said.thought))


class IRCoT(ChainBaseline):
    """Alternates a sentence of reasoning with a search for that sentence, then reads all that was collected.

    "Interleaving Retrieval with Chain-of-Thought Reasoning for Knowledge-Intensive Multi-Step Questions" (Trivedi et
    al., 2023): the chain guides the searches only, and a reader with a chain of thought of its own answers from the
    collected passages (section 3.2); the limits are those of section 4.

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
        found = Gathered(self.max_passages)
        thoughts: list[str] = []
        query = asked.question
        for number in range(1, self.max_steps + 1):
            hits = await self.search(query, number)
            found.add(hits)
            try:
                thought = await self.thought(asked, thoughts, found.hits, number)
            except CallError as error:
                if not found.hits:
                    raise UnansweredError.at("reason", error) from error
                note("reason", error.cause, error.message, "answered from the passages found so far", number)
                thought = ""
            story.quizzes.append(search_record(number, query, hits, thought or None))
            # A sentence said before would search for the same again.
            if not thought or thought in thoughts or concluded(thought) is not None:
                break
            thoughts.append(thought)
            query = thought
        await answer_from(self.answer, asked, found.hits, story)


def masked(sentence: str, probabilities: Sequence[float], beta: float) -> str:
    """The query that a sentence makes without its words less likely than beta (implicit query of section 3.2.2).

    The words ``So the answer is`` are left out as well, for no passage holds them. Maybe no word is left.
    """
    kept = [word for word, probability in zip(sentence.split(), probabilities, strict=True) if probability >= beta]
    query = _FORMULA.sub("", " ".join(kept)).strip()
    return query if re.search(r"\w", query) else ""


class FLARE(ChainBaseline):
    """Writes the reasoning sentence by sentence from memory; an unsure sentence is written again from passages.

    The direct variant of "Active Retrieval Augmented Generation" (Jiang et al., 2023): the first search is for the
    question, and the first sentence is written from what it finds (section 3.1). From then on a tentative sentence with
    a token less likely than θ becomes a query, and what is found replaces what was found before (section 3.2). Defaults
    are the paper's for questions of several hops. The answer is the one that the last sentence states, and where none
    does, a prompt of its own answers from all that was found. The LM of the task has to give token probabilities.

    Attributes:
        theta: θ, the probability of a token under which its sentence is unsure; at 0 nothing more is retrieved.
        beta: β, the probability of a token under which its word is left out of the query.
        first_retrieval: Whether to search for the question before the first sentence.
    """

    method: ClassVar[str] = "flare"

    class Settings(ChainBaseline.Settings):
        """Those that it adds."""

        theta: Probability = 0.8
        beta: Probability = 0.4
        top_k: TopK = 2
        first_retrieval: bool = True

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        """Reason until an answer is stated; see `Program.solve`."""
        thoughts: list[str] = []
        found = Gathered()
        answer = None
        for _ in range(self.max_steps):
            try:
                thought = await self._next(asked, thoughts, story, found)
            except CallError as error:
                if not found.hits:
                    raise UnansweredError.at("reason", error) from error
                note("reason", error.cause, error.message, "ended the reasoning")
                break
            if not thought or thought in thoughts:
                break
            thoughts.append(thought)
            answer = concluded(thought)
            if answer is not None:
                break
        story.explanation = " ".join(thoughts)
        if answer is None or says_nothing(answer, numbered=True):
            note("reason", "NoAnswerStated", "the reasoning states no answer", "answered from what was found")
            await answer_from(self.answer, asked, found.hits, story)
        else:
            story.answer, story.passages = answer, verdicts(found.hits)
            story.answer_source = "passages" if found.hits else "closed_book"

    async def _next(self, asked: Question, thoughts: list[str], story: RecordBuilder, found: Gathered) -> str:
        """The next sentence: as it came from memory where every token is likely, else from passages."""
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
        self, asked: Question, thoughts: list[str], story: RecordBuilder, found: Gathered, query: str
    ) -> str:
        """The next sentence from what a search finds; empty where it finds nothing."""
        number = len(story.quizzes) + 1
        hits = await self.search(query, number)
        found.add(hits)
        sentence = await self.thought(asked, thoughts, hits, number) if hits else ""
        story.quizzes.append(search_record(number, query, hits, sentence or None))
        return sentence

    async def _tentative(self, asked: Question, thoughts: list[str]) -> tuple[str, list[float]]:
        """The next sentence from memory, with the probability of each word."""
        inputs = asked_inputs(asked) | {"thoughts": list(thoughts)}
        prediction = await ask(self.extend, "reason", fitting=[], config=dict(LOGPROBS), **inputs)
        model = str(getattr(self.extend.lm or dspy.settings.lm, "model", "the language model"))
        (tokens,) = tokens_of(prediction, 1, model, "FLARE", "another method, such as IRCoT")
        sentence = first_sentence(text_of(prediction.thought))
        return sentence, word_probabilities(sentence, output_tokens(tokens, "thought"))
