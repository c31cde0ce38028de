"""Records as they may be shown and kept: without the keys and addresses that a server may have brought into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keqa.programs.records import QuestionRecord
from keqa.storage.redaction import key_remover, without_secrets

# What an index, the user or this program wrote, and no server that was given a key.
_OWN_WORDS = frozenset({"question", "choices", "passages", "evidence", "cost"})


def record_without_keys(record: QuestionRecord, lms: Sequence[Any]) -> QuestionRecord:
    """A record in which no reply and no message repeats a key; addresses stay.

    Args:
        record: The record of a question.
        lms: As for `without_secrets`.
    """
    cleaned_text = key_remover(lms)

    def cleaned(part: Any) -> Any:
        if isinstance(part, str):
            return cleaned_text(part)
        if isinstance(part, dict):
            return {name: inner if name in _OWN_WORDS else cleaned(inner) for name, inner in part.items()}
        return [cleaned(inner) for inner in part] if isinstance(part, list) else part

    before = record.model_dump()
    after = cleaned(before)
    return record if after == before else type(record).model_validate(after)


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
