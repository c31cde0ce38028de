"""A follow-up question made to stand alone, before anything else is done with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import dspy

from keqa.data.question import clean
from keqa.programs.runtime.attempts import ask
from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.session import Session, text_of
from keqa.programs.stages.stage import Stage
from keqa.signatures import RewriteFollowUp


class FollowUp(Stage):
    """Rewrites a follow-up question; where that fails, the question is asked as it stands."""

    roles: ClassVar[Mapping[str, str]] = {"rewrite": "task"}
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"rewrite": RewriteFollowUp}

    rewrite: dspy.Predict

    async def run(self, session: Session, question: str, history: Sequence[str], max_chars: int) -> str:
        """Rewrite a question.

        Args:
            session: The calls of the question.
            question: Its text.
            history: The earlier questions in their order, each with its answer.
            max_chars: The most characters of a question.

        Returns:
            The question alone.
        """
        as_it_stands = "asked the question as it stands"
        try:
            # No part of the program that optimizers know of, so that its calls are none of the traces that they read.
            with dspy.context(trace=None):
                found = await ask(session, self.rewrite, "task", "rewrite", question=question, history=list(history))
        except CallError as error:
            session.note("rewrite", error.cause, error.message, as_it_stands)
            return question
        standalone = clean(text_of(found.standalone))
        if standalone and len(standalone) <= max_chars:
            return standalone
        message = "no question was written" if not standalone else f"a question of {len(standalone):,} characters"
        session.note("rewrite", "NoRephrasing", message, as_it_stands)
        return question
