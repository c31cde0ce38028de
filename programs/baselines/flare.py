"""Retrieval whenever the next sentence is unsure (FLARE, Jiang et al., 2023, the direct variant)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

import dspy

from keqa.data.question import Question
from keqa.programs.arguments import Probability, TopK
from keqa.programs.baselines.base import ChainBaseline
from keqa.programs.baselines.reading import (
    Collected,
    answer_from,
    asked_inputs,
    concluded,
    first_sentence,
    search_record,
    verdicts,
)
from keqa.programs.calls.ask import ask
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.replies import says_nothing, text_of
from keqa.programs.calls.session import note
from keqa.programs.program import RecordBuilder, UnansweredError
from keqa.programs.stages.probabilities import LOGPROBS, output_tokens, tokens_of, word_probabilities

_FORMULA = re.compile(r"^\W*+(?:(?:so|thus|therefore)\W*+)?(?:the\s+)?(?:final\s+)?answer\s+is\b:?", re.IGNORECASE)


def masked(sentence: str, probabilities: Sequence[float], beta: float) -> str:
    """The query that a sentence makes without its unsure words (the implicit query of section 3.2.2).

    Args:
        sentence: A tentative sentence.
        probabilities: Of each of its words.
        beta: Words less likely than this are left out. The words ``So the answer is`` are left out as well, for no
            passage holds them.

    Returns:
        The words that are left; maybe none.
    """
    kept = [word for word, probability in zip(sentence.split(), probabilities, strict=True) if probability >= beta]
    query = _FORMULA.sub("", " ".join(kept)).strip()
    return query if re.search(r"\w", query) else ""


class FLARE(ChainBaseline):
    """Writes the reasoning sentence by sentence from memory; an unsure sentence is written again from passages.

    As in the paper: the first search is for the question, and the first sentence is written from what it finds (section
    3.1). From then on a tentative sentence with a token less likely than θ becomes a query, and what is found replaces
    what was found before (section 3.2). The thresholds and the number of passages are the paper's for questions of
    several hops. Otherwise than in the paper: Jiang et al. work on tokens; here the words that hold them are left out
    of the query whole, as search engines know words. The answer is the one that the last sentence states, and where
    none does, a prompt of its own answers from all that was found.

    Attributes:
        lms: An argument only; the task role has to give token probabilities.
        theta: θ, the probability of a token under which its sentence is unsure; at 0 nothing more is retrieved.
        beta: β, the probability of a token under which its word is left out of the query.
        top_k: Passages to search for.
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
        found = Collected()
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

    async def _next(self, asked: Question, thoughts: list[str], story: RecordBuilder, found: Collected) -> str:
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
        self, asked: Question, thoughts: list[str], story: RecordBuilder, found: Collected, query: str
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
        config = dict(LOGPROBS)
        inputs = asked_inputs(asked) | {"thoughts": list(thoughts)}
        prediction = await ask(self.extend, "reason", fitting=[], config=config, **inputs)
        model = str(getattr(self.extend.lm or dspy.settings.lm, "model", "the language model"))
        (tokens,) = tokens_of(prediction, 1, model, "FLARE", "another method, such as IRCoT")
        sentence = first_sentence(text_of(prediction.thought))
        return sentence, word_probabilities(sentence, output_tokens(tokens, "thought"))
