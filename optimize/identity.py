"""What a program and a question are called in a journal."""

from __future__ import annotations

from typing import Any

import dspy

from keqa.optimize.described import digest, function_of
from keqa.programs.keqa import KEQA
from keqa.programs.settings import OWN, settings_of
from keqa.programs.stage import RoleLMs
from keqa.programs.utility_reference import UtilityReference

__all__ = ["identity", "key_of", "lms_of"]


def identity(program: KEQA) -> str:
    """What a program is, apart from its language models and retriever: settings, instructions, demonstrations."""
    settings = settings_of(program)
    del settings["workers"]
    if settings["similarity"] == OWN:
        settings["similarity"] = function_of(program.selection._similarity.value)
    described: dict[str, Any] = {"settings": settings, "gate": repr(program.examination.gate)}
    for name, part in program.named_parameters():
        if isinstance(part, dspy.Predict):
            described[name] = [part.signature.instructions, [_shown(part.signature, demo) for demo in part.demos]]
        elif isinstance(part, UtilityReference):
            described[name] = [part.settings(), _entries(part)]
    return digest(described)


def key_of(state: str, question: str, answer_type: str, choices: Any) -> str:
    """The key of a question asked of a program.

    Args:
        state: The program's `identity`.
        question: Its text.
        answer_type: What kind of answer it wants.
        choices: The options of a choice.
    """
    return f"{state}:{digest([question, answer_type, list(choices)])}"


def lms_of(program: KEQA) -> RoleLMs | None:
    """The language models that a program is bound to by role; None where ``dspy.settings.lm`` answers."""
    return program._lms.value


def _shown(signature: Any, demo: Any) -> dict[str, Any]:
    """What a prompt shows of a demonstration; optimizers note more in it."""
    fields = dict(demo)
    return {name: fields[name] for name in signature.fields if name in fields}


_last_entries: list[tuple[Any, str]] = []


def _entries(reference: UtilityReference) -> str:
    """The signature of the entries; that of a large reference is not made anew for every question."""
    for entries, signature in _last_entries:
        if entries is reference.entries:
            return signature
    _last_entries[:] = [(reference.entries, reference.signature_of_entries())]
    return _last_entries[0][1]
