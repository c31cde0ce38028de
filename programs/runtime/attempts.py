"""Further attempts at a call that failed: the same for every stage of every method, so that none is better mended.

A failure is not a verdict. What failed is tried again, first with the very same request; then what replaces it is
sound and marked, or the quiz fails. No quiz that needs passages is answered from memory because something failed.

======================  =====================  ======================================================================
what failed             attempts besides       then
======================  =====================  ======================================================================
any call, by an outage  1, the same request    as below (each attempt has the language model's own retries besides)
any reply, unusable     1, the same request    as below; an LM in this process would reply the same, and is not asked
an answer, unusable     4, drawn               its first complete line, where it has one (before drawing), over
                                               documents of one's own its only one; else the quiz or question fails
a judgement, unusable   1, drawn               as its stage, below
a draw                                         counts without a vote; marked where the gate or the largest cluster could
                                               have come out otherwise
decomposition                                  marked: the question is its own quiz
consistency judge                              marked: taken for different answers, which leads to retrieval
confidence, decision                           marked: taken for no confidence; passages are wanted
a search                1                      the quiz fails; a method without quizzes fails the question
utility judge                                  marked: the passage is left out; where none is helpful, the best of those
                                               not judged is kept
triples                                        marked: whole passages; without any, the question fails
triples from memory     as an answer           marked: the question selects; without a document, the question fails
answer from passages                           where a program says what documents do not say and the reply is unusable:
                                               marked, nothing supports an answer; else
                                               the quiz fails: KEQA answers the question itself with retrieval, marked;
                                               the other methods, and that answer itself, fail the question
summary                                        an outage fails the question; an unusable reply is as a failed quiz
plans, reasoning        as a judgement         marked: the method continues with its passages; without any, the
                                               question fails
======================  =====================  ======================================================================

An answer is unusable where it says nothing as well (`keqa.programs.runtime.answered`).

Marked is a question with a degradation that `touches` it (`keqa.programs.records`). An attempt with the same request
that succeeds leaves no mark, for nothing came out otherwise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import dspy

from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.failures import is_transient
from keqa.programs.runtime.progress import Searching
from keqa.programs.runtime.session import Session
from keqa.retrievers.base import Hit, Retriever

ANSWER = 4
"""So often an answer is drawn where the reply holds none: nothing replaces it."""
JUDGEMENT = 1
"""So often is drawn what something sound can replace."""
DRAW = 0
"""A draw is drawn no other way than it was asked for."""
_SAME_AGAIN = 1
"""Further attempts with the same request after an outage, and after an unusable reply."""


async def attempted(
    session: Session,
    call: Callable[[int], Awaitable[dspy.Prediction]],
    stage: str,
    number: int | None = None,
    *,
    draws: int = JUDGEMENT,
    stands_in: Callable[[CallError], dspy.Prediction | None] = lambda error: None,
) -> dspy.Prediction:
    """Make a call, and make it again where it fails and another attempt may fare better; every attempt is recorded.

    Args:
        session: The calls of the question.
        call: Makes an attempt, which gets its number for `Session.predict`: 0 is the request as it is, any
            other a sample of its own.
        stage: Which stage it is, for degradations.
        number: The quiz's number, for degradations.
        draws: How often to draw where the reply to the request as it is cannot be used.
        stands_in: What can be taken out of an unusable reply before anything is drawn.

    Returns:
        The prediction.

    Raises:
        CallError: No attempt succeeded. The last one is left to the caller to record.
    """
    before: list[CallError] = []
    attempt = outages = same = 0
    while True:
        try:
            prediction = await call(attempt)
        except CallError as error:
            if is_transient(error.cause) and outages < _SAME_AGAIN:
                outages += 1
            elif error.unusable and error.served and attempt == 0 and same < _SAME_AGAIN:
                same += 1
            else:
                found = stands_in(error) if error.unusable else None
                drawn = found is None and error.unusable and attempt < draws
                if not drawn:
                    _record(session, before, stage, number, harmless=True)
                    if found is None:
                        raise
                    return found
                attempt += 1
            before.append(error)
        else:
            _record(session, before, stage, number, harmless=attempt == 0)
            return prediction


def _record(session: Session, errors: list[CallError], stage: str, number: int | None, *, harmless: bool) -> None:
    """Record attempts that failed before another one; where that had to be drawn, only what outages took is mended."""
    for error in errors:
        for _ in range(max(1, error.spoilt)):
            mended = harmless or is_transient(error.cause)
            session.note(stage, error.cause, error.message, "asked again", number, harmless=mended)


async def ask(
    session: Session,
    predictor: dspy.Predict,
    role: str,
    stage: str,
    number: int | None = None,
    *,
    draws: int = JUDGEMENT,
    **arguments: Any,
) -> dspy.Prediction:
    """Ask for a judgement, or anything else that is no answer to a question; see `attempted`.

    Args:
        session: The calls of the question.
        predictor: Which to call.
        role: To whom the cost is charged.
        stage: Which stage it is, for degradations.
        number: The quiz's number, for degradations.
        draws: How often to draw where the reply to the request as it is cannot be used.
        **arguments: As for `Session.predict`.

    Raises:
        CallError: No attempt succeeded.
    """

    async def call(attempt: int) -> dspy.Prediction:
        return await session.predict(predictor, role, attempt=attempt, **arguments)

    return await attempted(session, call, stage, number, draws=draws)


async def searched(session: Session, retriever: Retriever, query: str, k: int, number: int | None = None) -> list[Hit]:
    """Search, and once more where the search fails for a reason that may pass.

    Args:
        session: The calls of the question.
        retriever: Where to search; it may have retries of its own.
        query: What for.
        k: How many passages to find.
        number: The number of the quiz or search, for degradations.

    Raises:
        CallError: It failed again, which does not mean that nothing was found.
    """
    session.report(Searching(number, query))
    try:
        return await session.search(retriever, query, k)
    except CallError as error:
        if not is_transient(error.cause):
            raise
        session.note("retrieve", error.cause, error.message, "searched again", number, harmless=True)
    return await session.search(retriever, query, k)
