"""Compiling a program against a train split: demonstrations or instructions, utility reference, settings.

1. Demonstrations from the program's own right answers, or another optimizer (`keqa.optimize.dspy_optimizers`);
2. the utility reference (section 3.4), labelled by the program as step 1 left it;
3. α, N_c, top-k and how tries are drawn, for F1 - λ · retrievals.

Every question that is finished is on disk at once, so a run that was killed goes on where it was.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy

from keqa.errors import ConfigurationError
from keqa.metrics.answers import f1
from keqa.metrics.utility import Correctness
from keqa.optimize.journal import Journal
from keqa.optimize.metering import Meter
from keqa.optimize.options import Options
from keqa.optimize.report import Report, changed_predictors, changed_settings
from keqa.optimize.split import Questions, split
from keqa.optimize.steps import Steps
from keqa.optimize.traces import Progress, lms_of, silent
from keqa.programs.keqa import KEQA

__all__ = ["Compiled", "compile_program"]


@dataclass(frozen=True)
class Compiled:
    """A compiled program.

    Attributes:
        program: Ready to ask, on the same language models and retriever.
        report: What was learned.
    """

    program: KEQA
    report: Report

    def save(self, folder: str | Path, **about: Any) -> None:
        """Save the program with the report; `keqa.load` reads it.

        Args:
            folder: Where to; a program that is there already is replaced.
            **about: What else to keep, such as the command.

        Raises:
            InputError: The folder holds something else.
        """
        from keqa.compiled import save

        save(self.program, folder, **{**self.report.about(), **about})


def compile_program(
    program: KEQA,
    trainset: Questions,
    valset: Questions | None = None,
    *,
    folder: str | Path | None = None,
    metric: Correctness = f1,
    progress: Progress = silent,
    **options: Any,
) -> Compiled:
    """Tune every prompt and setting of a program on question-answer pairs. Exported as ``keqa.compile``.

    Args:
        program: It stays as it is.
        trainset: Questions with gold answers to learn from: examples, mappings, ``dspy.Example``, or a file of them
            (see `keqa.data.own.read_examples`). Those that cannot be used are named in the report.
        valset: Questions to choose by; without them a quarter of the training questions is held out.
        folder: Where finished work is kept; the same call on the same folder goes on where it was. A temporary one
            where None.
        metric: Correctness of an answer.
        progress: See `keqa.optimize.traces.Progress`.
        **options: See `keqa.optimize.options.Options`: `optimizer`, `cost_per_retrieval` and more.

    Returns:
        The program and what was learned. No demonstration or instruction is kept that did not score better on the
        validation questions than what it would replace; the utility reference is left out where it is worse beyond
        chance.

    Raises:
        InputError: Nothing can be used, or the folder holds other work.
        ConfigurationError: A setting, key or model is wrong. What was finished stays in the folder.
        MissingExtraError: A package is missing.
    """
    try:
        chosen = Options(**options)
    except TypeError as error:
        raise ConfigurationError(f"keqa.compile: {error}") from error
    parts = split(trainset, valset, chosen.seed)
    fingerprint = _fingerprint(program, metric)
    with ExitStack() as stack:
        place = Path(folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="keqa-compile-")))
        journal = stack.enter_context(Journal.open(place / "questions.jsonl", fingerprint))
        calls = stack.enter_context(Journal.open(place / "calls.jsonl", fingerprint))
        meter = Meter(journal)
        steps = Steps(
            program,
            parts.train,
            parts.val,
            folder=place,
            journal=journal,
            calls=calls,
            metric=metric,
            options=chosen,
            progress=progress,
        )
        with dspy.context(usage_tracker=meter):
            try:
                compiled = steps.run(meter.keep)
            finally:
                meter.keep()
    report = Report(
        optimizer=chosen.optimizer,
        trained_on=len(parts.train),
        validated_on=len(parts.val),
        predictors=changed_predictors(program, compiled),
        reference=steps.counts,
        settings=changed_settings(program, compiled),
        trials=steps.trials,
        curve=steps.curve,
        cost_per_retrieval=chosen.cost_per_retrieval,
        before=steps.trials[0].scores,
        after=steps.kept.scores,
        spent=meter.spent,
        spent_earlier=meter.earlier,
        problems=[*parts.problems, *steps.problems],
    )
    return Compiled(compiled, report)


# Under this name the package exports it.
compile = compile_program


def _fingerprint(program: KEQA, metric: Correctness) -> dict[str, Any]:
    """What finished work depends on besides what is asked and of which program; no key or address is in it."""
    lms, retriever = lms_of(program), program._retriever.value
    roles = {role: dspy.settings.lm if lms is None else getattr(lms, role) for role in _ROLES}
    manifest = getattr(retriever, "manifest", None)
    return {
        "task": "compilation",
        "metric": f"{metric.__module__}.{getattr(metric, '__qualname__', type(metric).__name__)}",
        "models": {role: _model(lm) for role, lm in roles.items()},
        "retriever": type(retriever).__name__,
        "corpus": getattr(manifest, "source_hash", None),
    }


_ROLES = ("task", "consistency", "utility")


def _model(lm: Any) -> dict[str, Any]:
    settings = getattr(lm, "kwargs", {})
    decoding = {name: settings.get(name) for name in ("temperature", "top_p", "max_tokens")}
    return {"model": getattr(lm, "model", None), **decoding}
