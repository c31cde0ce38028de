"""What the answers of a run depend on, as plain JSON, so that a run goes on only with its own."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import dspy

from keqa.programs.keqa import KEQA
from keqa.programs.prompts import whole_prompt
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.registry import arguments_of
from keqa.programs.runtime.shared_samples import SharedExamination
from keqa.programs.settings import settings_of
from keqa.programs.stages.stage import Stage
from keqa.storage.redaction import without_folders, without_secrets

if TYPE_CHECKING:
    from keqa.evaluation.records import RunHeader
    from keqa.programs.program import Program

__all__ = ["UNTOLD", "demonstrations_of", "describe", "differences", "fingerprint_of"]

UNTOLD = "not told"
"""Stands for an argument that a program was set up with and has not kept."""

_DECODING = ("temperature", "top_p", "max_tokens", "stop", "seed")
# They bring the same answers sooner or later.
_NO_MATTER = {"workers", "lms", "retriever", "reference"}
_ABSENT = object()
_LONGEST = 80


def describe(program: Program) -> dict[str, Any]:
    """Tell what a program's answers depend on.

    Args:
        program: Any method.

    Returns:
        Its class, settings, prompts, language models by role, index and utility reference, as JSON. No address and no
        key is in it.
    """
    picking = getattr(program, "picking", None)
    reference = getattr(picking, "reference", None)
    described = {
        "keqa": version("keqa"),
        "program": type(program).__name__,
        "settings": _settings(program),
        "prompts": _digest({name: whole_prompt(predictor) for name, predictor in program.named_predictors()}),
        "models": dict(sorted(_models(program))),
        "index": _index(getattr(getattr(program, "_retriever", None), "value", None)),
    }
    if isinstance(reference, UtilityReference):
        described["reference"] = {**reference.settings(), "entries": reference.signature_of_entries()}
        if isinstance(program, KEQA) and program.extract_sentences is not None:
            described["demonstrations"] = "passages cut to key sentences"
    cleaned: dict[str, Any] = without_secrets(described, [predictor.lm for predictor in program.predictors()])
    return cleaned


def demonstrations_of(program: Program) -> dict[str, int]:
    """How many demonstrations each predictor of a program is shown, by its name.

    The judge of utility is shown what its reference finds for each passage, where it has one: as many at most.
    """
    found = {name: len(predictor.demos) for name, predictor in program.named_predictors()}
    reference = program.picking.reference if isinstance(program, KEQA) else None
    if isinstance(reference, UtilityReference) and reference.entries and reference.variant != "none":
        found["picking.judge"] = min(reference.k, len(reference.entries))
    return found


def fingerprint_of(method: str, dataset: str, split: str, seed: int, configuration: Mapping[str, Any]) -> str:
    """A hash of everything that a run file may not mix."""
    return _digest([method, dataset, split, seed, configuration])


def differences(before: RunHeader, now: RunHeader) -> list[str]:
    """Where two runs differ, such as ``settings.top_k was 10, now 5``."""
    names = ("method", "dataset", "split", "seed")
    pairs = [(name, getattr(before, name), getattr(now, name)) for name in names]
    there, here = dict(_leaves(before.configuration)), dict(_leaves(now.configuration))
    pairs += [(name, there.get(name, _ABSENT), here.get(name, _ABSENT)) for name in {**there, **here}]
    return [f"{name} was {_short(was)}, now {_short(now)}" for name, was, now in pairs if was != now]


def _settings(program: Program) -> dict[str, Any]:
    if isinstance(program, KEQA):
        found = settings_of(program)
        examination = program.examination
        found["examination"] = type(examination).__name__
        found["gate"] = found["gate"] if isinstance(found["gate"], dict) else examination.gate.name
        if isinstance(examination, SharedExamination):
            found["draws"] = {"probabilities": examination.probabilities, "largest": examination.largest}
    else:
        # A baseline keeps what it was set up with under the names of its constructor's arguments.
        found = {name: getattr(program, name, UNTOLD) for name in arguments_of(type(program))}
    if isinstance(found.get("similarity"), str):
        # A model may be a folder, whose place is of this machine only.
        found["similarity"] = without_folders(found["similarity"])
    return {name: _plain(value) for name, value in found.items() if name not in _NO_MATTER}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    # An object has no form in JSON, and its address in memory must not make two runs of one method differ.
    return type(value).__name__ if "object at" in repr(value) else str(value)


def _models(program: Program) -> Iterator[tuple[str, dict[str, Any]]]:
    stages = [program, *(stage for _, stage in program.named_sub_modules(Stage))]
    for stage in stages:
        for name, role in stage.roles.items():
            lm = getattr(stage, name).lm or dspy.settings.lm
            settings = getattr(lm, "kwargs", {})
            yield role, {"model": getattr(lm, "model", None), **{key: settings.get(key) for key in _DECODING}}


def _index(retriever: Any) -> dict[str, Any] | None:
    if retriever is None:
        return None
    # Where passages are cut to key sentences, or kept in a cache, the retriever behind tells the corpus.
    while (behind := getattr(retriever, "retriever", None)) is not None:
        retriever = behind
    manifest = getattr(retriever, "manifest", None)
    found: dict[str, Any] = {"kind": type(retriever).__name__}
    if manifest is not None:
        names = ("name", "passages", "source_hash", "analyzer", "encoder", "vectors", "constant", "depth")
        found |= {name: _plain(getattr(manifest, name)) for name in names if hasattr(manifest, name)}
        if "encoder" in found:
            # A model may be a folder, whose place is of this machine only.
            found["encoder"] = {
                name: without_folders(own) if isinstance(own, str) else own for name, own in found["encoder"].items()
            }
    parts = getattr(retriever, "retrievers", None)
    return found if parts is None else {**found, "parts": [_index(part) for part in parts]}


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


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()
