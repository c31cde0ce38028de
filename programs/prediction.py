"""What a program returns: plain fields that any part of DSPy can read, vote on and write, and the whole record beside.

DSPy votes on a prediction's last field, shows all fields to agents and writes them as JSON. So the fields are text and
plain values, the answer last, and the record, which is neither, is an attribute.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import dspy
from dspy.primitives.prediction import Completions

from keqa.programs.records import QuestionRecord, Unanswered
from keqa.programs.sources import Source, sources_of


class AnswerPrediction(dspy.Prediction):
    """An answer with what it rests on.

    Its fields are `explanation` (may be empty), `sources` and `answer` (None where there is none). A source is a
    mapping with `title`, `passage_id` and `text` of a passage, the `sentences` that carried the answer, and `file`,
    `page`, `heading` and `date` as far as they are known; an answer from memory has none. Where the documents do not
    say it, `answer` says so, and `unanswered` is the finding.
    """

    def __init__(self, base: Any = None, *, record: QuestionRecord | None = None, **fields: Any) -> None:
        """Take over fields; see `prediction_of` for the usual way.

        Args:
            base: A mapping or prediction to copy the fields from.
            record: What became of the question; that of `base` where None.
            **fields: Fields, which take the place of those of `base`.
        """
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
