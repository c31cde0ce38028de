"""The utility reference R of a train split (KEQA, section 3.4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import dspy

from keqa.data.example import Example, as_examples
from keqa.optimize.asking import Asking
from keqa.optimize.reference.entries import Labelled, UtilityEntries
from keqa.optimize.reference.labelling import Labeller
from keqa.programs.runtime.batch import in_parallel
from keqa.programs.runtime.concurrency import run_blocking


def build_reference(
    labeller: Labeller,
    trainset: Iterable[Any],
    asking: Asking,
) -> UtilityEntries:
    """Label the passages that are found for training questions by their utility, and keep those that make a difference.

    For the whole question: candidates are retrieved, the question is answered without passages, and then, in descending
    relevance, with the helpful ones so far and the next candidate (K* ∪ {K'}); a passage is labelled by the equation of
    section 3.4. For a question of one hop each candidate is tried alone. Where the gold quizzes and their answers are
    given, the same is done for each quiz, references replaced by gold answers, each passage alone.
    """
    from keqa.lms.adapter import adapter

    examples, journal, step = as_examples(trainset), asking.journal, "labelling passages"
    kept = ((one.id, journal.get_as(labeller.key(one), Labelled.model_validate)) for one in examples)
    done = {root: labelled for root, labelled in kept if labelled is not None}
    missing = [example for example in examples if example.id not in done]
    watch = asking.failures.watch(step, len(examples))

    def label(example: Example) -> tuple[Example, Labelled]:
        return example, run_blocking(lambda: labeller.label(example))

    asking.progress(step, len(done), len(examples))
    # A trace of all calls would keep every passage in memory, and nothing is bootstrapped from these.
    with dspy.context(adapter=dspy.settings.adapter or adapter(), trace=None):
        for example, labelled in in_parallel(label, watch.until(missing), asking.in_flight):
            if labelled.complete:
                journal.put(labeller.key(example), labelled.model_dump(mode="json"))
            else:
                watch.count(labelled.passing.partition(":")[0], labelled.passing)
            done[example.id] = labelled
            asking.progress(step, len(done), len(examples))
    watch.refuse()
    return UtilityEntries(done[example.id] for example in examples)
