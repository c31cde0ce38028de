"""What finished work depends on, and under which keys a journal keeps it."""

from __future__ import annotations

import dataclasses
from typing import Any

import dspy

from keqa.data.example import Example
from keqa.metrics.utility import Correctness
from keqa.optimize.options import Options
from keqa.optimize.split import Split
from keqa.programs.fingerprint import digest, function_fingerprint, lm_spec, program_fingerprint, retriever_spec
from keqa.programs.program import Program
from keqa.programs.stages.stage import RoleLMs

__all__ = ["compilation_fingerprint", "example_key", "lms_asked", "lms_of", "question_key", "sources_of"]

_ROLES = ("task", "consistency", "utility")


def compilation_fingerprint(program: Program, metric: Correctness) -> dict[str, Any]:
    """What finished work depends on besides what is asked and of which program; no key or address is in it.

    Args:
        program: Whose language models and retriever are asked.
        metric: Correctness of an answer.
    """
    lms = lms_of(program)
    roles = {role: dspy.settings.lm if lms is None else getattr(lms, role) for role in _ROLES}
    return {
        "task": "compilation",
        "metric": function_fingerprint(metric),
        "models": {role: lm_spec(lm) for role, lm in roles.items()},
        "retriever": retriever_spec(getattr(getattr(program, "_retriever", None), "value", None)),
    }


def sources_of(program: Program, parts: Split, options: Options, metric: Correctness) -> dict[str, str]:
    """Digests of what a program is compiled from: the same compilation has the same ones.

    Args:
        program: As it is before.
        parts: The questions.
        options: How it is compiled.
        metric: Correctness of an answer.
    """
    how: dict[str, Any] = {
        one.name: getattr(options, one.name)
        for one in dataclasses.fields(options)
        if one.name not in ("embedder", "grid", "in_flight", "reflection_lm")
    }
    how["grid"] = repr(options.grid)
    how["embedder"] = getattr(options.embedder, "name", options.embedder)
    how["reflection_lm"] = lm_spec(options.reflection_lm)
    return {
        "training questions": digest([example_key(example) for example in parts.train]),
        "validation questions": digest([example_key(example) for example in parts.val]),
        "language models, index and metric": digest(compilation_fingerprint(program, metric)),
        "the method and its settings": program_fingerprint(program),
        "how it is compiled": digest(how),
    }


def example_key(example: Example) -> str:
    """Name a training question in a journal; another question or answer under the same id gets another name."""
    told = dataclasses.asdict(example)
    # Reports tell questions apart by it; nothing is learned from it.
    del told["kind"]
    return f"{example.id} {digest(told)}"


def question_key(state: str, question: str, answer_type: str, choices: Any) -> str:
    """The key of a question asked of a program.

    Args:
        state: The program's `keqa.programs.fingerprint.program_fingerprint`.
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
