"""What finished work depends on, as a journal keeps it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import dspy

from keqa.data.example import Example
from keqa.metrics.answers import f1
from keqa.metrics.utility import Correctness
from keqa.optimize.labelling import Labeller
from keqa.optimize.targets import Reason, Rule
from keqa.programs.keqa import KEQA

__all__ = ["example_key", "reference_fingerprint"]


def reference_fingerprint(
    program: KEQA,
    *,
    top_k: int | None = None,
    rule: Rule = "auto",
    correctness: Correctness = f1,
    reason: Reason = "auto",
    quiz_level: bool = True,
) -> dict[str, Any]:
    """Tell what the labels depend on, for `keqa.optimize.journal.Journal.open`; no key or endpoint is in it.

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
    settings = getattr(lm, "kwargs", {})
    # Where passages are cut to key sentences, the retriever behind tells the corpus.
    retriever = getattr(labeller.retriever, "retriever", labeller.retriever)
    manifest = getattr(retriever, "manifest", None)
    return {
        "task": "utility reference",
        "top_k": labeller.top_k,
        "rule": rule,
        "correctness": f"{correctness.__module__}.{getattr(correctness, '__qualname__', type(correctness).__name__)}",
        "reason": reason,
        "quiz_level": quiz_level,
        "decompose": program.decompose,
        "extract_sentences": program.extract_sentences,
        "model": getattr(lm, "model", None),
        "decoding": {name: settings.get(name) for name in ("temperature", "top_p", "max_tokens")},
        "prompts": _digest([_prompt(predictor) for predictor in predictors]),
        "retriever": type(retriever).__name__,
        "corpus": getattr(manifest, "source_hash", None),
    }


def _prompt(predictor: dspy.Predict) -> dict[str, Any]:
    """What a prompt is made of: instructions, fields and demonstrations."""
    return {"signature": predictor.signature.dump_state(), "demos": [dict(demo) for demo in predictor.demos]}


def example_key(example: Example) -> str:
    """Name a training question in a journal; another question or answer under the same id gets another name."""
    return f"{example.id} {_digest(dataclasses.asdict(example))}"


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
