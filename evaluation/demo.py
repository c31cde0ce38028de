"""The fixed comparison of the demo: from memory, always retrieving, KEQA, and KEQA compiled, on the same questions."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from keqa.errors import InputError
from keqa.evaluation.compare import Row, compare
from keqa.evaluation.questions import Questions, of_testbed
from keqa.evaluation.run_file import iter_lines
from keqa.lms import Roles, build_roles
from keqa.metrics.significance import Interval, bootstrap_mean, paired_bootstrap
from keqa.programs.build import Parts
from keqa.programs.calls.call_cache import CallCache
from keqa.programs.registry import METHODS, Spec
from keqa.retrievers import Retriever
from keqa.testbed.index import open_encyclopedia
from keqa.testbed.testbed import Testbed

COMPILED = "KEQA, compiled"
AS_IT_COMES = {
    "closed book": "closed-book",
    "closed book, reasoning": "cot",
    "always retrieve": "rag",
    "always retrieve, reasoning": "rag-cot",
    "KEQA": "keqa",
}
"""The methods that are not compiled, with the paper's defaults, by the name of their row."""


@dataclass(frozen=True)
class MethodResult:
    """What one method scored and spent."""

    method: str
    f1_scores: tuple[float, ...]
    em_scores: tuple[float, ...]
    retrievals: float
    calls: float
    seconds: float
    failed: int
    touched: tuple[bool, ...] = ()

    @classmethod
    def of(cls, row: Row, seconds: float) -> MethodResult:
        """What a run says that took so long."""
        lines = [(line.scores["f1"], line.scores["em"], line.touched) for line in iter_lines(row.path)]
        f1_scores, em_scores, touched = zip(*lines, strict=True)
        tally = row.tally
        retrievals, calls = tally.a_question(tally.cost.retrievals), tally.a_question(tally.cost.lm_requests)
        return cls(row.spec.label, f1_scores, em_scores, retrievals, calls, seconds, tally.failed, touched)

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


def ask_all(
    questions: Questions,
    retriever: Retriever,
    lms: Roles,
    *,
    program: Path = Path("testbed"),
    only: Collection[str] = (*AS_IT_COMES, COMPILED),
    progress: Callable[[str], None] = lambda method: None,
) -> Iterator[MethodResult]:
    """Ask every question of some methods of the demo, by the names of their rows; KEQA compiled comes last.

    No call is kept, so that the seconds of a second run are as true as those of the first.
    """
    plain = [Spec(METHODS[name], {}, label) for label, name in AS_IT_COMES.items() if label in only]
    compiled = [Spec(METHODS["keqa"], {}, COMPILED)] if COMPILED in only else []
    started = 0.0

    def begin() -> None:
        nonlocal started
        started = time.monotonic()

    with TemporaryDirectory(prefix="keqa-demo-") as folder, CallCache(None) as cache:
        for specs, learned in ((plain, None), (compiled, program)):
            for row in compare(
                specs,
                questions,
                Parts(retriever, lms, program=learned),
                folder=Path(folder),
                cache=cache,
                in_flight=16,
                progress=lambda label, tally: progress(label),
                stop_after_outages=0,
                before_first=begin,
            ):
                yield MethodResult.of(row, time.monotonic() - started)


def run_demo(questions: int = 60, progress: Callable[[str], None] = lambda method: None) -> DemoResult:
    """Run the demo: so many test questions of the default testbed, with the LM that ships with the package."""
    testbed = Testbed()
    if not 2 <= questions <= len(testbed.test):
        raise InputError(
            f"the testbed has {len(testbed.test)} test questions; ask for 2 to {len(testbed.test)} of them"
        )
    retriever, lms = open_encyclopedia(testbed.passages), build_roles("keqa/tiny", cache=False)
    asked = of_testbed("test", questions)
    return DemoResult(questions, tuple(ask_all(asked, retriever, lms, progress=progress)))
