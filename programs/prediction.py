"""What a program returns: plain fields that any part of DSPy can read, vote on and write, and the whole record beside.

DSPy votes on a prediction's last field, shows all fields to agents and writes them as JSON. So the fields are text and
plain values, the answer last, and the record, which is neither, is an attribute. As a tool of an agent a program gives
a text: the answer with the beginnings of its sources.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import dspy
from dspy.primitives.prediction import Completions
from dspy.utils.callback import with_callbacks

from keqa.errors import InputError, NotInDocumentsError, StageError
from keqa.programs.records import QuestionRecord, Unanswered
from keqa.programs.sources import Source, sources_of
from keqa.programs.unanswered import lines_of, said
from keqa.signatures.keqa import TOOL_DESCRIPTION, TOOL_NAME, TOOL_QUESTION

_SOURCES = 5
_LONGEST = 300


class AnswerPrediction(dspy.Prediction):
    """An answer with what it rests on.

    Its fields are `explanation` (may be empty), `sources` and `answer` (None where there is none). A source is a
    mapping with `title`, `passage_id` and `text` of a passage, the `sentences` that carried the answer, and `file`,
    `page`, `heading` and `date` as far as they are known; an answer from memory has none. Where the documents do not
    say it, `answer` says so, and `unanswered` is the finding.
    """

    def __init__(self, base: Any = None, *, record: QuestionRecord | None = None, **fields: Any) -> None:
        """Take over fields and record of a mapping or prediction, with others in their places."""
        super().__init__(base, **fields)
        self._record = getattr(base, "_record", None) if record is None else record
        if self._store:
            # As a predictor's reply has them, so that ``dspy.majority`` takes a single prediction, too.
            self._completions = Completions({name: [value] for name, value in self._store.items()})

    @property
    def record(self) -> Any:
        """The question's `QuestionRecord`; None only where the question could not be asked at all."""
        return self._record

    @property
    def unanswered(self) -> Unanswered | None:
        """Why the documents do not say it, where they do not; `answer` says so then."""
        return None if self._record is None else self._record.unanswered


def prediction_of(record: QuestionRecord) -> AnswerPrediction:
    """The prediction that a record stands for."""
    sources = [_plain(one) for one in sources_of(record)]
    return AnswerPrediction(explanation=record.explanation, sources=sources, answer=record.answer, record=record)


def _plain(source: Source) -> dict[str, Any]:
    passage = {"title": source.title, "passage_id": source.id, "text": source.text, "sentences": source.sentences}
    return passage | {name: value for name, value in asdict(source.place).items() if value not in ("", None)}


class _Asking:
    """The function of a tool. A question without an answer is reported in words, so that an agent may ask otherwise."""

    def __init__(self, program: Any) -> None:
        self._program = program

    def __call__(self, question: str) -> str:
        try:
            return observation(self._program(question=question))
        except (InputError, NotInDocumentsError, StageError) as error:
            return _failed(error)

    async def aask(self, question: str) -> str:
        try:
            return observation(await self._program.acall(question=question))
        except (InputError, NotInDocumentsError, StageError) as error:
            return _failed(error)


class ProgramTool(dspy.Tool):
    """A program that DSPy's agents may call, and any other agent through `func`."""

    def __init__(self, program: Any, name: str | None = None, desc: str | None = None) -> None:
        """See `keqa.programs.program.Program.as_tool`."""
        described = {"name": name or TOOL_NAME, "desc": desc or TOOL_DESCRIPTION}
        super().__init__(_Asking(program), **described, arg_desc={"question": TOOL_QUESTION})

    @with_callbacks  # type: ignore[untyped-decorator]
    async def acall(self, **kwargs: Any) -> str:
        """Answer a question from within an event loop, which keeps running meanwhile."""
        asking: Any = self.func
        answer: str = await asking.aask(**self._validate_and_parse_args(**kwargs))
        return answer


def observation(prediction: AnswerPrediction) -> str:
    """What an agent reads of an answer: the answer, and the beginnings of a few of its sources."""
    if prediction.unanswered is not None:
        return _not_in_documents(prediction.unanswered)
    answer = prediction.answer if prediction.record is None else said(prediction.record)
    sources = prediction.sources
    if not sources:
        return f"{answer}\n(from memory, without sources)"
    lines = [f"[{number}] {_beginning(source)}" for number, source in enumerate(sources[:_SOURCES], start=1)]
    more = [f"and {len(sources) - _SOURCES} more"] if len(sources) > _SOURCES else []
    return "\n".join([str(answer), "Sources:", *lines, *more])


def _beginning(source: dict[str, str]) -> str:
    text = " ".join(": ".join(filter(None, (source["title"], source["text"]))).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _not_in_documents(unanswered: Unanswered) -> str:
    """The finding, with what was looked at in vain and what is known of the rest."""
    return "\n".join(
        [unanswered.message, *(line for first, others in lines_of(unanswered) for line in (first, *others))]
    )


def _failed(error: Exception) -> str:
    if isinstance(error, NotInDocumentsError):
        return _not_in_documents(error.unanswered)
    return f"No answer: {error}"
