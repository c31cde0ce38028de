"""A program as a tool of an agent: a question in, a short answer with its sources out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dspy
from dspy.utils.callback import with_callbacks

from keqa.errors import InputError, NotInDocumentsError
from keqa.programs.prediction import AnswerPrediction
from keqa.programs.program import Program, UnansweredError
from keqa.programs.records import Unanswered
from keqa.programs.unanswered import lines_of, said
from keqa.signatures.keqa import TOOL_DESCRIPTION, TOOL_NAME, TOOL_QUESTION

_SOURCES = 5
_LONGEST = 300


class ProgramTool(dspy.Tool):
    """A program that DSPy's agents may call, and any other agent through `func`; see `as_tool`."""

    @with_callbacks  # type: ignore[untyped-decorator]
    async def acall(self, **kwargs: Any) -> str:
        """Answer a question from within an event loop, which keeps running meanwhile."""
        asking: Any = self.func
        answer: str = await asking.aask(**self._validate_and_parse_args(**kwargs))
        return answer


def as_tool(program: Program, name: str | None = None, desc: str | None = None) -> ProgramTool:
    """Make a tool of a program; see `keqa.programs.program.Program.as_tool`."""
    return ProgramTool(
        _Asking(program), name=name or TOOL_NAME, desc=desc or TOOL_DESCRIPTION, arg_desc={"question": TOOL_QUESTION}
    )


class _Asking:
    """The function of a tool. A question without an answer is reported in words, so that an agent may ask otherwise."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def __call__(self, question: str) -> str:
        try:
            return observation(self._program(question=question))
        except (InputError, NotInDocumentsError, UnansweredError) as error:
            return _failed(error)

    async def aask(self, question: str) -> str:
        try:
            return observation(await self._program.acall(question=question))
        except (InputError, NotInDocumentsError, UnansweredError) as error:
            return _failed(error)


def observation(prediction: AnswerPrediction) -> str:
    """What an agent reads of an answer: the answer, and the beginnings of a few of its sources.

    Args:
        prediction: What a program returned.
    """
    if prediction.unanswered is not None:
        return _not_in_documents(prediction.unanswered)
    answer = prediction.answer if prediction.record is None else said(prediction.record)
    sources = prediction.sources
    if not sources:
        return f"{answer}\n(from memory, without sources)"
    lines = [f"[{number}] {_beginning(source)}" for number, source in enumerate(sources[:_SOURCES], start=1)]
    more = [f"and {len(sources) - _SOURCES} more"] if len(sources) > _SOURCES else []
    return "\n".join([str(answer), "Sources:", *lines, *more])


def _beginning(source: Mapping[str, str]) -> str:
    text = " ".join(": ".join(filter(None, (source["title"], source["text"]))).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _not_in_documents(unanswered: Unanswered) -> str:
    """The finding, with what was looked at in vain and what is known of the rest."""
    return "\n".join(
        [unanswered.message, *(line for first, others in lines_of(unanswered) for line in (first, *others))]
    )


def _failed(error: InputError | NotInDocumentsError | UnansweredError) -> str:
    if isinstance(error, NotInDocumentsError):
        return _not_in_documents(error.unanswered)
    return f"No answer: {error}"
