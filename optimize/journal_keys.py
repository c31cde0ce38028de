"""What finished work depends on, and under which keys a journal keeps it."""

from __future__ import annotations

import dataclasses
from typing import Any

import dspy

from keqa.data.example import Example
from keqa.lms.factory import Roles
from keqa.metrics.utility import Correctness
from keqa.optimize.scoring import metric_fingerprint
from keqa.programs.fingerprint import digest, lm_spec, models_of, retriever_spec
from keqa.programs.program import Program
from keqa.programs.stages.stage import RoleLMs, Stage

ROLES = ("task", "consistency", "utility")


def compilation_fingerprint(program: Program, metric: Correctness) -> dict[str, Any]:
    """What finished work depends on besides what is asked and of which program; no key or address is in it."""
    lms = lms_of(program)
    roles = {role: dspy.settings.lm if lms is None else getattr(lms, role) for role in ROLES}
    models, predictors = models_of(program), {name for name, _ in program.named_predictors()}
    return {
        "task": "compilation",
        "metric": metric_fingerprint(metric),
        "models": {role: lm_spec(lm) for role, lm in roles.items()}
        | {name: spec for name, spec in models.items() if name in predictors},
        "retriever": retriever_spec(getattr(getattr(program, "_retriever", None), "value", None)),
    }


def example_key(example: Example) -> str:
    """Name a training question in a journal; another question or answer under the same id gets another name."""
    fields = dataclasses.asdict(example)
    # Reports group questions and score them by these; nothing is learned from them.
    del fields["kind"], fields["scored_as"]
    if example.one_hop is None:
        del fields["one_hop"]
    return f"{example.id} {digest(fields)}"


def lms_of(program: Program) -> RoleLMs | None:
    """The language models that a program has by role; None where ``dspy.settings.lm`` answers.

    They are those that it is bound to, or those that its predictors have got since, as fine-tuning gives them.
    """
    bound = program._lms.value
    found: dict[str, Any] = {}
    for stage in (program, *(stage for _, stage in program.named_sub_modules(Stage))):
        for name, role in stage.roles.items():
            found.setdefault(role, getattr(stage, name).lm)
    if bound is None and not any(found.values()):
        return None
    default = dspy.settings.lm if bound is None else bound.task
    named = {role: found.get(role) or getattr(bound, role, None) or default for role in ROLES}
    return Roles(**named, boundary=getattr(bound, "boundary", None))
