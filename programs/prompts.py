"""Which prompts a program is made of, and where two programs differ in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dspy
from dspy.adapters.utils import get_annotation_name

from keqa.programs.predictor_state import demos_of

Prompts = dict[str, dict[str, Any]]
"""By predictor: the name of its signature, its instructions and its fields."""


def prompts_of(program: dspy.Module) -> Prompts:
    """The prompt of each predictor.

    Args:
        program: For a fresh program these are the prompts of the code, for a compiled one those that were tuned.
    """
    return {name: prompt_of(predictor.signature) for name, predictor in program.named_predictors()}


def drift(then: Mapping[str, Any], now: Mapping[str, Any], *, instructions: bool = True) -> list[str]:
    """Where the prompts differ, each with the predictor's name.

    Args:
        then: Prompts that something was found for, maybe from a stranger's file.
        now: Prompts that it would be used with.
        instructions: Whether other instructions count as a difference, too.
    """
    found = []
    for name in dict.fromkeys([*then, *now]):
        if name not in now:
            found.append(f"{name:.80} is gone")
        elif name not in then:
            found.append(f"{name} is new")
        elif not isinstance(then[name], Mapping):
            found.append(f"{name} is not described")
        elif then[name].get("fields") != now[name]["fields"]:
            found.append(f"the fields of {name} ({now[name]['signature']}) have changed")
        elif instructions and then[name].get("instructions") != now[name]["instructions"]:
            found.append(f"the instructions of {name} ({now[name]['signature']}) have changed")
    return found


def whole_prompt(predictor: dspy.Predict) -> dict[str, Any]:
    """All that a predictor asks with: instructions, fields, demonstrations, and settings of its own, if any.

    Whether it shows the fixed demonstrations depends on the language model that it is bound to.
    """
    whole = {"signature": predictor.signature.dump_state(), "demos": [dict(demo) for demo in demos_of(predictor)]}
    if predictor.config:
        whole["config"] = dict(predictor.config)
    if predictor.fields:
        # Written without the language model, which may have no form that can be saved.
        twin = dspy.Predict(predictor.signature)
        twin.fields = predictor.fields
        whole["decisions"] = twin.dump_state().get("fields")
    return whole


def prompt_of(signature: Any) -> dict[str, Any]:
    """The prompt that a signature is."""
    return {
        "signature": signature.__name__,
        "instructions": signature.instructions,
        "fields": [
            {
                "name": name,
                "kind": field.json_schema_extra["__dspy_field_type"],
                "type": get_annotation_name(field.annotation),
            }
            for name, field in signature.fields.items()
        ],
    }
