"""The fixed comparison of the demo: from memory, always retrieving or searching, KEQA, and what is compiled."""

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from keqa.errors import InputError
from keqa.evaluation.compare import compare
from keqa.evaluation.questions import Questions, of_testbed
from keqa.evaluation.reports.questions import QuestionRow, measure, read_brief
from keqa.evaluation.reports.rows import Entry, entries_of
from keqa.lms import Roles, build_roles
from keqa.metrics.significance import Interval, bootstrap_mean, paired_bootstrap
from keqa.programs.build import Parts
from keqa.programs.calls.call_cache import CallCache
from keqa.programs.registry import METHODS, Spec
from keqa.retrievers import Retriever
from keqa.testbed.index import open_encyclopedia
from keqa.testbed.testbed import Testbed

AS_IT_COMES = {
    "closed book": "closed-book",
    "closed book, reasoning": "cot",
    "always retrieve": "rag",
    "always retrieve, reasoning": "rag-cot",
    "always searching": "keqa-no-qke",
    "KEQA": "keqa",
}
"""The methods that are not compiled, with the paper's defaults, by the name of their row."""
COMPILED = "KEQA, compiled"
LEARNED = {"always searching, compiled": "keqa-no-qke", COMPILED: "keqa"}
"""What is asked with the compiled program, likewise: searching for every quiz is KEQA without its examination."""


@dataclass(frozen=True)
class MethodResult:
    """What became of the questions of one method, and how long it took."""

    entry: Entry
    seconds: float = 0.0

    @property
    def method(self) -> str:
        return self.entry.title

    @property
    def lines(self) -> list[QuestionRow]:
        return self.entry.within()

    def scores(self, name: str) -> list[float]:
        return [line.number(name) or 0.0 for line in self.lines]

    @property
    def f1(self) -> Interval:
        return bootstrap_mean(self.scores("f1"))

    @property
    def em(self) -> Interval:
        return bootstrap_mean(self.scores("em"))

    def mean(self, name: str) -> float:
        """A measure of `keqa.evaluation.reports.questions` over all questions."""
        return measure(name, self.lines) or 0.0

    def f1_less(self, other: "MethodResult") -> Interval:
        """How much lower this F1 is than another method's on the same questions, with its paired interval."""
        return paired_bootstrap(other.scores("f1"), self.scores("f1"))


def ask_all(
    questions: Questions,
    retriever: Retriever,
    lms: Roles,
    *,
    only: Collection[str] = (*AS_IT_COMES, *LEARNED),
    progress: Callable[[str], None] = lambda method: None,
) -> Iterator[MethodResult]:
    """Ask every question of some methods of the demo, by the names of their rows; KEQA compiled comes last."""
    plain, compiled = (
        [Spec(METHODS[name], {}, label) for label, name in rows.items() if label in only]
        for rows in (AS_IT_COMES, LEARNED)
    )
    started = 0.0

    def begin() -> None:
        nonlocal started
        started = time.monotonic()

    with TemporaryDirectory(prefix="keqa-demo-") as folder, CallCache(None) as cache:
        for specs, learned in ((plain, None), (compiled, Path("testbed"))):
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
                seconds = time.monotonic() - started
                yield MethodResult(entries_of([read_brief(row.path)])[0], seconds)


def run_demo(questions: int = 60, progress: Callable[[str], None] = lambda method: None) -> list[MethodResult]:
    """Run the demo on so many test questions, with the LM that ships; the last row is that of the compiled program."""
    testbed = Testbed()
    if not 2 <= questions <= len(testbed.test):
        raise InputError(
            f"the testbed has {len(testbed.test)} test questions; ask for 2 to {len(testbed.test)} of them"
        )
    retriever, lms = open_encyclopedia(testbed.passages), build_roles("keqa/tiny", cache=False)
    asked = of_testbed("test", questions)
    return list(ask_all(asked, retriever, lms, progress=progress))
