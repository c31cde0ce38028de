"""What the answers of a run depend on, as plain JSON, so that a run resumes only under its own configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from keqa.programs.fingerprint import digest, models_of, program_spec, retriever_spec
from keqa.programs.keqa import KEQA
from keqa.programs.predictor import demos_of
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.storage.redaction import without_secrets

if TYPE_CHECKING:
    from keqa.evaluation.records import RunHeader
    from keqa.programs.program import Program

_ABSENT = object()
_LONGEST = 80


def describe(program: Program) -> dict[str, Any]:
    """Its class, settings, prompts, language models, index and utility reference, as JSON without address and key."""
    retriever = getattr(getattr(program, "_retriever", None), "value", None)
    described = {
        "keqa": version("keqa"),
        **program_spec(program),
        "models": dict(sorted(models_of(program).items())),
        "index": retriever_spec(retriever),
    }
    cleaned: dict[str, Any] = without_secrets(described, program.lms_asked())
    return cleaned


def demonstrations_of(program: Program) -> dict[str, int]:
    """How many demonstrations each predictor of a program is shown, by its name."""
    found = {name: len(demos_of(predictor)) for name, predictor in program.named_predictors()}
    reference = program.picking.reference if isinstance(program, KEQA) else None
    if isinstance(reference, UtilityReference) and reference.entries and reference.variant != "none":
        found["picking.judge"] = min(reference.k, len(reference.entries))
    return found


def fingerprint_of(method: str, dataset: str, split: str, seed: int, configuration: Mapping[str, Any]) -> str:
    """A hash of everything that a run file may not mix."""
    return digest([method, dataset, split, seed, configuration])


def differences(before: RunHeader, now: RunHeader) -> list[str]:
    """Where two runs differ, such as ``settings.top_k was 10, now 5``."""
    names = ("method", "dataset", "split", "seed")
    pairs = [(name, getattr(before, name), getattr(now, name)) for name in names]
    there, here = (dict(_leaves(run.configuration.model_dump(mode="json"))) for run in (before, now))
    pairs += [(name, there.get(name, _ABSENT), here.get(name, _ABSENT)) for name in {**there, **here}]
    return [f"{name} was {_short(was)}, now {_short(now)}" for name, was, now in pairs if was != now]


def _leaves(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _leaves(inner, f"{before}{name}.")
        else:
            yield f"{before}{name}", inner


def _short(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
