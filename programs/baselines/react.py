"""Reasoning and acting by turns (ReAct, Yao et al., 2023), with the prompts and the loop of `dspy.ReAct`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import dspy

from keqa.data.question import Question
from keqa.programs.arguments import Steps, TopK
from keqa.programs.baselines.base import (
    Gathered,
    Reply,
    SearchingBaseline,
    asked_inputs,
    conclude,
    search_record,
    unanswered,
    verdicts,
)
from keqa.programs.calls.ask import ask, searched
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import note
from keqa.programs.calls.texts import text_of
from keqa.programs.predictor import Predictor
from keqa.programs.program import RecordBuilder, UnansweredError
from keqa.programs.records import QuizRecord
from keqa.retrievers.base import Hit
from keqa.signatures import AnswerFromTrajectory, ChooseAction
from keqa.signatures.react import Turn, written_trajectory

_LEFT_OUT = 2
"""Turns that one call may leave out, as in DSPy."""


@dataclass
class _Trail:
    """What was done so far.

    Attributes:
        first: The number of the first turn that is shown.
        pending: Query and passages of a search from which nothing was concluded so far.
        failed: The last search that failed.
    """

    turns: list[Turn] = field(default_factory=list)
    first: int = 0
    found: Gathered = field(default_factory=Gathered)
    searches: list[QuizRecord] = field(default_factory=list)
    pending: tuple[str, list[Hit]] | None = None
    failed: CallError | None = None


class ReAct(SearchingBaseline):
    """Chooses at each turn a search or to finish, then answers from the whole trajectory by a prompt of its own.

    Thoughts and actions by turns, with a few written trajectories in the prompt (section 3.2), which are the fixed
    demonstrations here; like DSPy's, it also works without. Searches find passages instead of opening a page.

    Attributes:
        max_steps: Turns at most; 7 in the paper for questions of several hops (section 3.2).
    """

    method: ClassVar[str] = "react"
    roles: ClassVar[Mapping[str, str]] = {"act": "task", "answer": "task"}

    class Settings(SearchingBaseline.Settings):
        """Those that it adds."""

        top_k: TopK = 3
        max_steps: Steps = 7

    def set_up(self) -> None:
        """See `Baseline.set_up`."""
        self.act, self.answer = Predictor(ChooseAction), Predictor(AnswerFromTrajectory)

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        """Act until finished or out of steps, then answer; see `Program.solve`."""
        trail = _Trail()
        story.quizzes = trail.searches
        for _ in range(self.max_steps):
            try:
                prediction = await self._ask(self.act, "act", asked, trail)
            except CallError as error:
                if not trail.found.hits:
                    raise UnansweredError.at("act", error) from error
                note("act", error.cause, error.message, "ended the trajectory")
                break
            thought, tool = text_of(prediction.next_thought), str(prediction.next_tool_name)
            arguments: dict[str, Any] = prediction.next_tool_args
            if trail.pending is not None:
                trail.searches[-1] = search_record(len(trail.searches), *trail.pending, thought or None)
                trail.pending = None
            finished = tool == "finish"
            observed = "Completed." if finished else await self._search(arguments, trail)
            trail.turns.append((thought, tool, arguments, observed))
            if finished:
                break
        else:
            note("act", "StepLimit", f"not finished after {self.max_steps} turns", "answered from the turns")
        story.passages = verdicts(trail.found.hits)
        if trail.failed is not None and not trail.found.hits:
            raise UnansweredError.at("retrieve", trail.failed) from trail.failed

        with unanswered("answer"):
            prediction = await self._ask(self.answer, "answer", asked, trail, for_answer=True)
        conclude(story, Reply.of(prediction), "passages" if trail.found.hits else "closed_book")

    @staticmethod
    async def _ask(
        predictor: dspy.Predict, stage: str, asked: Question, trail: _Trail, *, for_answer: bool = False
    ) -> dspy.Prediction:
        """Ask with the trajectory; where it exceeds the context window its oldest turns are left out, as in DSPy."""
        left_out = 0

        def written() -> dict[str, str]:
            return {"trajectory": written_trajectory(trail.turns, trail.first)}

        def shorter(error: CallError) -> dict[str, str] | None:
            nonlocal left_out
            if len(trail.turns) < 2 or left_out == _LEFT_OUT:
                return None
            note("act", error.cause, error.message, "left out the oldest turn", harmless=True)
            del trail.turns[0]
            trail.first, left_out = trail.first + 1, left_out + 1
            return written()

        inputs: dict[str, Any] = asked_inputs(asked) | written()
        return await ask(predictor, stage, for_answer=for_answer, shorter=shorter, **inputs)

    async def _search(self, arguments: Mapping[str, Any], trail: _Trail) -> str:
        """The passages that a search shows, or what was wrong with it."""
        query = arguments.get("query")
        if not isinstance(query, str) or not query.strip() or len(arguments) > 1:
            return 'Execution error in search: it takes one argument, {"query": "..."}'
        query, number = query.strip(), len(trail.searches) + 1
        try:
            hits = await searched(self._retriever.value, query, self.top_k, number)
        except CallError as error:
            trail.failed = error
            note("retrieve", error.cause, error.message, "told the language model", number)
            return f"Execution error in search: {error.message}"
        trail.found.add(hits)
        trail.pending = (query, hits)
        trail.searches.append(search_record(number, query, hits, None))
        return json.dumps([hit.passage.rendered for hit in hits], ensure_ascii=False)
