"""Ways to answer the testbed's questions, side by side: from memory, always retrieving, KEQA, and KEQA compiled."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from keqa.metrics.answers import exact_match, f1
from keqa.metrics.significance import Interval, bootstrap_mean, paired_bootstrap

if TYPE_CHECKING:
    from keqa.lms import Roles
    from keqa.programs.program import Program
    from keqa.retrievers import Retriever
    from keqa.testbed.testbed import TestbedQuestion

__all__ = ["DemoResult", "MethodResult", "compare", "methods", "run_demo"]

COMPILED = "KEQA, compiled"


@dataclass(frozen=True)
class MethodResult:
    """What one method scored and spent.

    Attributes:
        method: Its name.
        f1_scores: One score a question, in the order of the questions; a failed question scores 0.
        em_scores: Likewise for exact match.
        retrievals: Searches a question.
        calls: LM requests a question, those answered from a cache included.
        seconds: Wall time of all questions.
        failed: Questions without an answer.
        touched: By question, whether a failure decided something: it failed, or was answered although a call failed and
            the answer may hang on it. Nothing was touched where it is empty.
    """

    method: str
    f1_scores: tuple[float, ...]
    em_scores: tuple[float, ...]
    retrievals: float
    calls: float
    seconds: float
    failed: int
    touched: tuple[bool, ...] = ()

    @property
    def f1(self) -> Interval:
        """Mean F1 with its bootstrap interval."""
        return bootstrap_mean(self.f1_scores)

    @property
    def em(self) -> Interval:
        """Mean exact match with its bootstrap interval."""
        return bootstrap_mean(self.em_scores)

    @property
    def untouched(self) -> int:
        """How many questions no failure touched."""
        return len(self.f1_scores) - sum(self.touched)

    @property
    def untouched_f1(self) -> float | None:
        """Mean F1 over these; None where there are none."""
        return self._untouched_mean(self.f1_scores)

    @property
    def untouched_em(self) -> float | None:
        """Mean exact match over these; None where there are none."""
        return self._untouched_mean(self.em_scores)

    def _untouched_mean(self, scores: tuple[float, ...]) -> float | None:
        touched = self.touched or (False,) * len(scores)
        kept = [score for score, out in zip(scores, touched, strict=True) if not out]
        return sum(kept) / len(kept) if kept else None

    def f1_less(self, other: MethodResult) -> Interval:
        """How much lower this F1 is than another method's on the same questions, with its paired interval."""
        return paired_bootstrap(other.f1_scores, self.f1_scores)


@dataclass(frozen=True)
class DemoResult:
    """The table of the demo."""

    questions: int
    rows: tuple[MethodResult, ...]

    @property
    def compiled(self) -> MethodResult:
        """The row of the compiled program, with which the others are compared; KEQA as it comes is one of them."""
        return next(row for row in self.rows if row.method == COMPILED)


def methods(retriever: Retriever, lms: Roles) -> dict[str, Program]:
    """The methods of the demo, KEQA last, with the paper's defaults.

    Args:
        retriever: The passages that all of them search.
        lms: The language models that all of them ask.
    """
    from keqa.programs.baselines import AlwaysRetrieve, ClosedBook
    from keqa.programs.keqa import KEQA

    return {
        "closed book": ClosedBook(lms=lms),
        "closed book, reasoning": ClosedBook(reason=True, lms=lms),
        "always retrieve": AlwaysRetrieve(retriever, lms=lms),
        "always retrieve, reasoning": AlwaysRetrieve(retriever, reason=True, lms=lms),
        "KEQA": KEQA(retriever, lms=lms),
    }


def compare(
    programs: Mapping[str, Program],
    questions: Sequence[TestbedQuestion],
    *,
    in_flight: int = 16,
    progress: Callable[[str], None] = lambda method: None,
) -> tuple[MethodResult, ...]:
    """Asks every question of every method.

    Args:
        programs: The methods by name.
        questions: What to ask.
        in_flight: Questions in work at once.
        progress: Called with the method's name after each question.

    Returns:
        One result a method, in the order given.
    """
    results = []
    for name, program in programs.items():
        start = time.monotonic()
        outcomes = []
        for outcome in program.answer_many(questions, in_flight=in_flight):
            outcomes.append(outcome)
            progress(name)
        outcomes.sort(key=lambda outcome: outcome.position)
        pairs = [(outcome.answer or "", question) for outcome, question in zip(outcomes, questions, strict=True)]
        records = [outcome.record for outcome in outcomes if outcome.record is not None]
        results.append(
            MethodResult(
                name,
                tuple(
                    f1(answer, question.answers, question.answer_type) if answer else 0.0 for answer, question in pairs
                ),
                tuple(
                    float(bool(answer) and exact_match(answer, question.answers, question.answer_type))
                    for answer, question in pairs
                ),
                sum(record.cost.retrievals for record in records) / len(questions),
                sum(record.cost.lm_requests for record in records) / len(questions),
                time.monotonic() - start,
                sum(outcome.error is not None for outcome in outcomes),
                tuple(outcome.record is None or outcome.record.touched for outcome in outcomes),
            )
        )
    return tuple(results)


def run_demo(questions: int = 60, progress: Callable[[str], None] = lambda method: None) -> DemoResult:
    """Runs the demo: test questions of the default testbed, with the LM that ships with the package.

    Args:
        questions: How many test questions; the shapes come in turn.
        progress: Called with the method's name after each question.

    Raises:
        InputError: If the testbed has fewer questions.
    """
    from keqa.errors import InputError
    from keqa.lms import build_roles
    from keqa.programs.saving.folder import load
    from keqa.testbed.index import open_encyclopedia
    from keqa.testbed.testbed import Testbed

    testbed = Testbed()
    if not 2 <= questions <= len(testbed.test):
        raise InputError(
            f"the testbed has {len(testbed.test)} test questions; ask for 2 to {len(testbed.test)} of them"
        )
    # Without a cache, so that the seconds of a second run are as true as those of the first.
    retriever, lms = open_encyclopedia(testbed.passages), build_roles("keqa/tiny", cache=False)
    programs = methods(retriever, lms)
    programs[COMPILED] = load("testbed", retriever, lms)
    return DemoResult(questions, compare(programs, testbed.test[:questions], progress=progress))
