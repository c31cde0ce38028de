"""What finished work depends on, as a journal keeps it."""

from __future__ import annotations

import dataclasses
from typing import Any

import dspy

from keqa.data.example import Example
from keqa.metrics.answers import f1
from keqa.metrics.utility import Correctness
from keqa.optimize.described import digest, function_of, model_of, retriever_of
from keqa.optimize.identity import identity, lms_of
from keqa.optimize.options import Options
from keqa.optimize.reference.labelling import Labeller
from keqa.optimize.reference.targets import Reason, Rule
from keqa.optimize.split import Split
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program
from keqa.programs.prompts import whole_prompt

__all__ = ["compilation_fingerprint", "example_key", "reference_fingerprint", "sources_of"]

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
        "metric": function_of(metric),
        "models": {role: model_of(lm) for role, lm in roles.items()},
        "retriever": retriever_of(getattr(getattr(program, "_retriever", None), "value", None)),
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
    how["reflection_lm"] = model_of(options.reflection_lm)
    return {
        "training questions": digest([example_key(example) for example in parts.train]),
        "validation questions": digest([example_key(example) for example in parts.val]),
        "language models, index and metric": digest(compilation_fingerprint(program, metric)),
        "the method and its settings": identity(program),
        "how it is compiled": digest(how),
    }


def reference_fingerprint(
    program: KEQA,
    *,
    top_k: int | None = None,
    rule: Rule = "auto",
    correctness: Correctness = f1,
    reason: Reason = "auto",
    quiz_level: bool = True,
) -> dict[str, Any]:
    """Tell what the labels depend on, for `keqa.storage.journal.Journal.open`; no key or endpoint is in it.

    The training questions are not in it: the journal keeps each under its content, so a train split may grow.

    Args:
        program: As for `build_reference`, like the others.
        top_k: See there.
        rule: See there.
        correctness: See there.
        reason: See there.
        quiz_level: See there.

    Raises:
        ConfigurationError: Settings that cannot work.
    """
    labeller = Labeller(program, top_k=top_k, rule=rule, correctness=correctness, reason=reason, quiz_level=quiz_level)
    predictors = [
        program.examination.quiz,
        program.answering.answer,
        labeller.reason_from_memory,
        labeller.reason_with_knowledge,
    ]
    lm = program.answering.answer.lm or dspy.settings.lm
    return {
        "task": "utility reference",
        "top_k": labeller.top_k,
        "rule": rule,
        "correctness": function_of(correctness),
        "reason": reason,
        "quiz_level": quiz_level,
        "decompose": program.decompose,
        "extract_sentences": program.extract_sentences,
        "model": model_of(lm),
        "prompts": digest([whole_prompt(predictor) for predictor in predictors]),
        "retriever": retriever_of(labeller.retriever),
    }


def example_key(example: Example) -> str:
    """Name a training question in a journal; another question or answer under the same id gets another name."""
    told = dataclasses.asdict(example)
    # Reports tell questions apart by it; nothing is learned from it.
    del told["kind"]
    return f"{example.id} {digest(told)}"
