"""Records as they may be shown and kept: without the keys and addresses that a server may have brought into them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from keqa.programs.records import QuestionRecord
from keqa.storage.redaction import key_remover, without_secrets

if TYPE_CHECKING:
    from keqa.programs.program import Program

# What an index, the user or this program wrote, and no server that was given a key.
_OWN_WORDS = frozenset({"question", "choices", "passages", "evidence", "cost"})


def lms_asked(program: Program) -> list[Any]:
    """The language models whose keys a server may have brought into what is said of a program.

    They are those of its predictors, None where ``dspy.settings.lm`` answers, whose keys are always looked for; and
    that of its boundary model, which asks without a predictor.

    Args:
        program: Any method.
    """
    boundary = getattr(program._lms.value, "boundary", None)
    return [*(predictor.lm for predictor in program.predictors()), *([] if boundary is None else [boundary])]


def record_without_keys(record: QuestionRecord, lms: Sequence[Any]) -> QuestionRecord:
    """A record in which no reply and no message repeats a key; addresses stay.

    Args:
        record: The record of a question.
        lms: As for `without_secrets`.
    """
    cleaned_text = key_remover(lms)
    before = record.model_dump()
    # In nearly every record there is nothing to take out, which one look at all of its texts shows.
    whole = "\n".join(_texts(before))
    if cleaned_text(whole) == whole:
        return record

    def cleaned(part: Any) -> Any:
        if isinstance(part, str):
            return cleaned_text(part)
        if isinstance(part, dict):
            return {name: inner if name in _OWN_WORDS else cleaned(inner) for name, inner in part.items()}
        return [cleaned(inner) for inner in part] if isinstance(part, list) else part

    after = cleaned(before)
    return record if after == before else type(record).model_validate(after)


def _texts(part: Any) -> Iterator[str]:
    """Every text but what no server wrote."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for name, inner in part.items():
            if name not in _OWN_WORDS:
                yield from _texts(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _texts(inner)


def record_without_secrets(record: QuestionRecord, lms: Sequence[Any]) -> QuestionRecord:
    """A record without what a server may have brought into it: keys anywhere, and addresses in its messages.

    Args:
        record: The record of a question.
        lms: As for `without_secrets`.
    """
    record = record_without_keys(record, lms)
    changed: dict[str, Any] = {}
    if record.failure is not None:
        changed["failure"] = record.failure.model_copy(update={"message": without_secrets(record.failure.message, lms)})
    if record.degradations:
        changed["degradations"] = [
            note.model_copy(update={"message": without_secrets(note.message, lms)}) for note in record.degradations
        ]
    return record.model_copy(update=changed) if changed else record
