"""The utility reference R of a train split (KEQA, section 3.4)."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import dspy

from keqa.data.example import Example, as_examples
from keqa.errors import InputError
from keqa.metrics.answers import f1
from keqa.metrics.utility import Correctness
from keqa.optimize.demos.provenance import DemoProvenance
from keqa.optimize.journal_keys import example_key
from keqa.optimize.reference.entries import Labelled, Spent, UtilityEntries, UtilityEntry
from keqa.optimize.reference.labelling import Labeller
from keqa.optimize.reference.targets import Reason, Rule
from keqa.programs.fingerprint import digest, function_fingerprint, lm_spec, program_fingerprint, retriever_spec
from keqa.programs.keqa import KEQA
from keqa.programs.prompts import whole_prompt
from keqa.programs.runtime.concurrency import Branch, run_blocking
from keqa.programs.runtime.session import Session
from keqa.storage.journal import Journal

__all__ = ["Progress", "UtilityEntries", "UtilityEntry", "build_reference", "reference_fingerprint"]


@dataclass(frozen=True)
class Progress:
    """How far the building is.

    Attributes:
        done: Training questions that are labelled.
        total: All of them.
        resumed: Those of `done` that an earlier run had finished.
        helpful: Entries of utility 1 so far.
        harmful: Entries of utility -1 so far.
        spent: What this run has cost so far.
        latest: The question that was labelled last; None at the beginning.
    """

    done: int
    total: int
    resumed: int
    helpful: int
    harmful: int
    spent: Spent
    latest: Labelled | None = None


def build_reference(
    program: KEQA,
    trainset: Iterable[Any],
    *,
    journal: Journal | None = None,
    top_k: int | None = None,
    rule: Rule = "auto",
    correctness: Correctness = f1,
    reason: Reason = "auto",
    quiz_level: bool = True,
    in_flight: int = 8,
    progress: Callable[[Progress], None] | None = None,
    origins: DemoProvenance | None = None,
) -> UtilityEntries:
    """Label the passages that are found for training questions by their utility, and keep those that make a difference.

    For the whole question: candidates are retrieved, the question is answered without passages, and then, in descending
    relevance, with the helpful ones so far and the next candidate (K* ∪ {K'}); a passage is labelled by the equation of
    section 3.4. For a question of one hop each candidate is tried alone. Where the gold quizzes and their answers are
    given, the same is done for each quiz, references replaced by gold answers, each passage alone.

    Args:
        program: Whose retriever, predictors, demonstrations and language models are used.
        trainset: What `keqa.data.example.as_examples` takes.
        journal: Keeps each finished question at once; those that it holds are not asked again. Open it with
            `reference_fingerprint`.
        top_k: Candidates to search for; the program's own number where None.
        rule: ``growing`` or ``one passage``, see above; ``auto`` takes the latter for questions of one hop, which are
            those with a single gold quiz, and all where the program does not decompose.
        correctness: Cor; F1 where not set.
        reason: Whether whole questions are answered with reasoning; ``auto`` does so for those of more than one hop.
        quiz_level: Whether to label passages for gold quizzes as well.
        in_flight: How many questions are in work at once; their calls share the program's bound.
        progress: Called at the beginning and after each question, from one thread.
        origins: Demonstrations that come from a training question are not shown while it is labelled; those that hold
            its text never are.

    Returns:
        The entries, a list in the order of the training questions. It also says what came of each question
        (`questions`), which gave less than they could and why (`problems`, such as those without any passage), how many
        passages have no label because a call failed (`left_out`), and the cost (`spent`).

    Raises:
        InputError: A training question cannot be used, or the journal cannot be written.
        ConfigurationError: Settings that cannot work, or a wrong key or model. What the journal holds stays.
    """
    examples = as_examples(trainset)
    if in_flight < 1:
        raise InputError(f"in_flight must be at least 1, not {in_flight}")
    labeller = Labeller(
        program,
        top_k=top_k,
        rule=rule,
        correctness=correctness,
        reason=reason,
        quiz_level=quiz_level,
        origins=origins,
    )
    done: dict[str, Labelled] = {}
    for example in examples:
        kept = journal.get(_key(labeller, example)) if journal is not None else None
        if kept is not None:
            done[example.id] = Labelled.model_validate(kept)
    building = _Building(labeller, journal, progress, done, len(examples))
    waiting = iter([example for example in examples if example.id not in done])
    from keqa.lms.adapter import adapter

    # A trace of all calls would keep every passage in memory, and nothing is bootstrapped from these.
    with dspy.context(adapter=dspy.settings.adapter or adapter(), trace=None):
        run_blocking(lambda: building.run(waiting, in_flight))
    return UtilityEntries(done[example.id] for example in examples)


class _Building:
    """A reference while it is built."""

    def __init__(
        self,
        labeller: Labeller,
        journal: Journal | None,
        progress: Callable[[Progress], None] | None,
        done: dict[str, Labelled],
        total: int,
    ) -> None:
        self.labeller, self.journal, self.progress = labeller, journal, progress
        self.done, self.total, self.resumed = done, total, len(done)
        self.spent = Spent()
        entries = UtilityEntries(done.values())
        self.counts = entries.counts()

    async def run(self, waiting: Iterator[Example], in_flight: int) -> None:
        """Label the questions that wait, some at a time."""
        self._tell(None)
        await Session.join([Branch(self._work(waiting)) for _ in range(in_flight)])

    async def _work(self, waiting: Iterator[Example]) -> None:
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        for example in waiting:
            # In a context of its own: the calls of one question have not waited for those of the one before.
            labelled = await loop.create_task(self.labeller.label(example), context=context.copy())
            if self.journal is not None and labelled.complete:
                self.journal.put(_key(self.labeller, example), labelled.model_dump(mode="json"))
            self.done[example.id] = labelled
            self.spent += labelled.spent
            for entry in labelled.entries:
                self.counts[entry.helpful] += 1
            self._tell(labelled)

    def _tell(self, latest: Labelled | None) -> None:
        if self.progress is not None:
            self.progress(
                Progress(
                    done=len(self.done),
                    total=self.total,
                    resumed=self.resumed,
                    helpful=self.counts[True],
                    harmful=self.counts[False],
                    spent=self.spent,
                    latest=latest,
                )
            )


def _key(labeller: Labeller, example: Example) -> str:
    """A training question in the journal; what it is shown is a part of its name where that is less than others are."""
    shown = labeller.shown(example)
    key = example_key(example)
    return key if shown is labeller.program else f"{key} {program_fingerprint(shown)}"


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
        "correctness": function_fingerprint(correctness),
        "reason": reason,
        "quiz_level": quiz_level,
        "decompose": program.decompose,
        "extract_sentences": program.extract_sentences,
        "model": lm_spec(lm),
        "prompts": digest([whole_prompt(predictor) for predictor in predictors]),
        "retriever": retriever_spec(labeller.retriever),
    }
