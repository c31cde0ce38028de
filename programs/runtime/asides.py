"""Calls that a part of a program makes by itself, such as a boundary model's, counted with those of the question."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

import dspy

from keqa.programs.runtime.concurrency import reached
from keqa.programs.runtime.cost import Event
from keqa.programs.runtime.listening import Listener, Meter, listened
from keqa.programs.runtime.session import Session

T = TypeVar("T")


@dataclass(frozen=True)
class Running:
    """The question that is answered in this context.

    Attributes:
        session: Its calls.
        lms: The language models of the program by role; None where those of ``dspy.settings`` answer.
        made: What was called for it already, by what was asked.
    """

    session: Session
    lms: Any = None
    made: dict[Hashable, Any] = field(default_factory=dict)


running: ContextVar[Running | None] = ContextVar("running", default=None)


@contextmanager
def answering(session: Session, lms: Any) -> Iterator[None]:
    """Within this context calls are counted with a question; afterwards with the one, if any, that it was asked for.

    Neither has waited for calls of the other.

    Args:
        session: The calls of the question.
        lms: See `Running`.
    """
    token, waited = running.set(Running(session, lms)), reached.set(frozenset())
    try:
        yield
    finally:
        running.reset(token)
        reached.reset(waited)


def lm_of_role(role: str) -> Any:
    """The language model of a role that programs need not have: of the running program, or else that of its task.

    Args:
        role: Such as ``boundary``.

    Returns:
        None where no language model is set at all.
    """
    return given_lm_of_role(role) or given_lm_of_role("task") or dspy.settings.lm


def given_lm_of_role(role: str) -> Any:
    """As `lm_of_role`, and None where the running program has none of its own in that role."""
    now = running.get()
    return None if now is None else getattr(now.lms, role, None)


def counted(role: str, key: Hashable, call: Callable[[], T]) -> T:
    """Make a call of a role, once a question and counted with it; outside of any question it is made as it is.

    Args:
        role: To whom the cost is charged.
        key: What is asked; the same is not asked again for the same question.
        call: Makes it, by DSPy.

    Returns:
        What it returns.
    """
    now = running.get()
    if now is None:
        return call()
    if (role, key) in now.made:
        found: T = now.made[role, key]
        return found
    event = Event(now.session.ledger, role, reached.get())
    meter, listener = Meter(dspy.settings.usage_tracker), Listener()
    try:
        with event, listened(meter, listener):
            found = call()
    except BaseException:
        event.failed = True
        raise
    finally:
        event.calls = max(meter.calls, int(event.failed))
        event.prompt_tokens, event.completion_tokens = meter.prompt, meter.completion
        reached.set(frozenset({event.number}))
    now.made[role, key] = found
    return found
