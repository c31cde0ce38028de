"""What a program and a question are called in a journal."""

from __future__ import annotations

from typing import Any

import dspy

from keqa.optimize.described import digest, function_of, gate_of
from keqa.programs.baselines.settings import settings_of as settings_of_baseline
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.settings import OWN, settings_of
from keqa.programs.stages.stage import RoleLMs

__all__ = ["identity", "key_of", "lms_asked", "lms_of"]


def identity(program: Program) -> str:
    """What a program is, apart from its language models and retriever: settings, instructions, demonstrations."""
    described = _set_up(program)
    for name, part in program.named_parameters():
        if isinstance(part, dspy.Predict):
            described[name] = [part.signature.instructions, [_shown(part.signature, demo) for demo in part.demos]]
        elif isinstance(part, UtilityReference):
            described[name] = [part.settings() | {"embedder": part.embedder.name}, _entries(part)]
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


def lms_of(program: Program) -> RoleLMs | None:
    """The language models that a program is bound to by role; None where ``dspy.settings.lm`` answers."""
    return program._lms.value


def lms_asked(program: Program) -> list[Any]:
    """The language model of each predictor."""
    return [predictor.lm or dspy.settings.lm for predictor in program.predictors()]


def _set_up(program: Program) -> dict[str, Any]:
    if not isinstance(program, KEQA):
        return {"method": type(program).__name__, "settings": _that_matter(settings_of_baseline(program))}
    settings = _that_matter(settings_of(program))
    if settings["similarity"] == OWN:
        settings["similarity"] = function_of(program.selection._similarity.value)
    return {"settings": settings, "gate": gate_of(program.examination.gate)}


def _that_matter(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without what brings the same answers sooner or later."""
    return {name: value for name, value in settings.items() if name != "workers"}


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
