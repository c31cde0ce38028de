"""KBM's experiments beside its runs: draws without passages, with them and with masked ones; answers judged by an LM.

The draws are those of `keqa.optimize.boundary.collect`: of each question as many without passages (LLM Only) as with
them (ALL RAG), so that either indicator, accuracy or certainty, is known on both sides (sections 2.1 and 2.2).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import dspy
from dspy.utils.exceptions import DSPyError

from keqa.data.benchmarks import BENCHMARKS
from keqa.data.question import quiz_key
from keqa.evaluation.records import Run, RunLine
from keqa.evaluation.reports.effect import CHANGES, INDICATORS, correlation, intervals
from keqa.evaluation.reports.grid import EMPTY, Cell, Grid, Named, count, number, share, table, text, without_empty
from keqa.evaluation.reports.published import paper, published
from keqa.evaluation.reports.questions import QuestionRow, brief_of, mean
from keqa.evaluation.reproduction.training import verdicts
from keqa.metrics.answers import normalize
from keqa.metrics.samples import CertaintyForm
from keqa.optimize.asking import Progress
from keqa.optimize.boundary.collect import Collected, CollectedQuiz, contains
from keqa.programs.boundary.light import certainty
from keqa.programs.calls.errors import CallError
from keqa.programs.fingerprint import lm_spec
from keqa.programs.registry import Spec, parse_spec
from keqa.retrievers.masking import MASK

DESIGN: dict[str, Any] = paper("kbm")["experiments"]
"""The paper's rows, settings and data sets."""

_ROUNDED = 12
# Accuracy and the first version's certainty, 1 - H, from which on the language model answers by itself.
_THRESHOLDS = (("accuracy", "> .8", 0.8), ("certainty", "> .8", 0.8), ("accuracy", "\u2265 .9", 0.9))


def specs_of(dataset: str, model: Path | None, *, light: bool, other: bool = False) -> list[Spec]:
    """The rows on a data set, of the first LM or an `other`; those with a boundary model are called by what counts."""
    if other and dataset in DESIGN["sized"]["sets"]:
        return list(map(parse_spec, DESIGN["sized"]["rows"]))
    found = [parse_spec(row) for row in DESIGN["rows"]]
    for label, arguments in DESIGN["model"].items():
        found.append(replace(parse_spec("kbm"), arguments={"model": str(model), **arguments}, label=f"kbm-{label}"))
    if dataset in DESIGN["again"]:
        # A light model reads no passages, so that a prompted language model judges again in its place.
        asked = {} if light else {"model": str(model)}
        found.append(replace(parse_spec("kbm"), arguments={**asked, "rejudge": True}, label="kbm-again"))
    return found


class Sides(NamedTuple):
    """A question without and with passages, and with masked ones where these were read, by the draws of each."""

    memory: CollectedQuiz
    read: CollectedQuiz
    masked: CollectedQuiz | None = None

    @property
    def accuracy(self) -> Fraction:
        """That of the draws from memory."""
        return self.memory.accuracy

    @property
    def certainty(self) -> float:
        """That of the draws from memory."""
        return _of("certainty", self.memory)

    def change(self, indicator: str) -> str:
        """What passages did to an indicator."""
        before, after = _of(indicator, self.memory), _of(indicator, self.read)
        return CHANGES[1 + (after < before) - (after > before)]


def _of(indicator: str, quiz: CollectedQuiz, form: CertaintyForm = "by_types") -> float:
    """Rounded, so that what is 0 on paper is one number, and not several about it."""
    return float(quiz.accuracy) if indicator == "accuracy" else round(certainty(quiz.signals(), form), _ROUNDED)


def sides_of(collected: Collected, copied: Sequence[CollectedQuiz]) -> list[Sides]:
    """The questions that were drawn without and with passages."""
    read = {_key(quiz): quiz for quiz in collected.quizzes if quiz.reference is not None}
    masked = {_key(quiz): quiz for quiz in copied}
    memory = ((_key(quiz), quiz) for quiz in collected.quizzes if quiz.reference is None)
    return [Sides(quiz, read[key], masked.get(key)) for key, quiz in memory if key in read]


def _key(quiz: CollectedQuiz) -> tuple[str, ...]:
    return quiz_key(quiz.quiz), *quiz.choices


def drawn_tables(dataset: str, collected: Collected, masked: Collected | None) -> list[Grid]:
    """Figure 2, the first version's thresholds and, of draws from masked passages, its Figure 2."""
    copied = [] if masked is None else [quiz for quiz in masked.quizzes if quiz.reference is not None]
    sides = sides_of(collected, copied)
    if not sides:
        return []
    found = [_impacts(dataset, sides), _thresholds(dataset, sides)]
    return [*found, _copied(dataset, copied)] if copied else found


def _impacts(dataset: str, sides: Sequence[Sides]) -> Grid:
    """Figure 2, and the first version's Figure 3: what passages do, by accuracy and by certainty."""
    rows: list[list[Named]] = []
    for indicator in INDICATORS:
        for interval, part in {**intervals(sides, indicator), f"{indicator}, all": sides}.items():
            changes = Counter(one.change(indicator) for one in part)
            rows.append([("without passages", text(interval))])
            rows[-1].append(("questions", count(len(part))))
            rows[-1] += [(name, share(changes[name] / len(part) if part else None)) for name in CHANGES]
            for name in INDICATORS:
                for head, of in (("LLM Only", "memory"), ("ALL RAG", "read"), ("MASK RAG", "masked")):
                    drawn = [quiz for one in part if (quiz := getattr(one, of)) is not None]
                    rows[-1].append(((head, name), number(mean([_of(name, quiz) for quiz in drawn]))))
    measured = correlation(sides)
    correlated = "Too few questions, or too much alike, for a correlation."
    if measured is not None:
        correlated = f"Pearson's correlation of accuracy and certainty: {number(measured[0], 2).text}."
    note = (
        f"On {dataset}, {len(sides[0].memory.draws)} draws a question and side. Beneficial, neutral, harmful: the "
        "indicator is higher, the same, lower with passages than without (KBM, section 2.2). Certainty is 1 - H / log "
        f"k over the k types of answers. {correlated} {paper('kbm')['remarks']['figure2']}"
    )
    title = "KBM's Figure 2: what passages do"
    return table("kbm-figure2", title, without_empty(rows), note, ruled={len(rows) // 2})


def _thresholds(dataset: str, sides: Sequence[Sides]) -> Grid:
    """First version, section 3.2: what is saved where questions above a threshold are not searched for."""
    papers = published("kbm", "thresholds") if dataset == "webqa" else {}
    always = [float(one.read.accuracy) for one in sides]
    rows: list[list[Named]] = []
    for indicator, condition, bound in _THRESHOLDS:
        known = [_of(indicator, one.memory, "plain") > bound - (1e-9 if "\u2265" in condition else 0) for one in sides]
        right = [
            float(one.memory.accuracy) if by else float(one.read.accuracy) for one, by in zip(sides, known, strict=True)
        ]
        change = (sum(right) - sum(always)) / len(sides)
        rows.append(
            [("answered from memory", text(f"{indicator} {condition}")), ("searches saved", share(mean(known)))]
        )
        rows[-1].append(("change beside ALL RAG", Cell(change, f"{100 * change:+.2f}")))
        for size in ("7B", "72B") if papers else ():
            for of in ("saved", "change"):
                value = papers.get((f"{indicator} {condition}", size, of))
                rows[-1].append(((of, f"paper, {size}"), EMPTY if value is None else Cell(value, f"{value}")))
    note = (
        f"On {dataset}, by the draws of Figure 2; the change is of accuracy, in points. Certainty is the first "
        f"version's, 1 - H. {paper('kbm')['remarks']['thresholds']}"
    )
    return table("kbm-thresholds", "What a threshold saves", rows, note)


def _copied(dataset: str, quizzes: Sequence[CollectedQuiz]) -> Grid:
    """First version, Figure 2: how often what is answered with certainty 1 from masked passages is MASK."""
    rows: list[list[Named]] = []
    for name, certain in (("1", True), ("below 1", False)):
        part = [quiz for quiz in quizzes if (_of("certainty", quiz, "plain") >= 1) is certain and any(_answers(quiz))]
        leading = [Counter(_answers(quiz)).most_common(1)[0][0] for quiz in part]
        right = [
            any(draw.right for draw in quiz.draws if draw.text and _normal(quiz, draw.text) == lead)
            for quiz, lead in zip(part, leading, strict=True)
        ]
        rows.append([("certainty", text(name)), ("questions", count(len(part)))])
        rows[-1].append(("answers MASK", share(mean([one == MASK.casefold() for one in leading]))))
        rows[-1].append(("right", share(mean(right))))
    note = (
        f"On {dataset}, draws from passages with the gold answers masked; the most frequent answer of each question. "
        "Certain answers that are MASK were copied (KBM, first version, section 3.3 and Figure 2, which prints no "
        "numbers)."
    )
    return table("kbm-first-figure2", "MASK among certain answers", rows, note)


def _answers(quiz: CollectedQuiz) -> list[str]:
    return [_normal(quiz, draw.text) for draw in quiz.draws if draw.text is not None]


def _normal(quiz: CollectedQuiz, answer: str) -> str:
    return str(normalize(answer, quiz.answer_type, quiz.choices))


def case_study(memory: Iterable[RunLine], judged: Iterable[RunLine]) -> Grid | None:
    """Figure 7: for each way that a question can go right, one that did, without and with the boundary model."""
    alone = {line.id: line for line in memory}
    found: dict[str, list[Named]] = {}
    for line in judged:
        before, known = alone.get(line.id), line.record and next((one.known for one in line.record.quizzes), None)
        if before is None or known is None or not line.right:
            continue
        recalled = "is right" if before.right else "is wrong" if before.answered else "does not tell"
        heads = ("case", "question", "gold answer", "LLM Only", "KBM")
        case = f"{'known' if known else 'unknown'}, and memory {recalled}"
        cells = (case, line.question, line.answers[0], before.answer or "no answer", str(line.answer))
        found.setdefault(case, list(zip(heads, map(text, cells), strict=True)))
    note = "One question of each kind that the row with the boundary model, by accuracy, gets right (KBM, Figure 7)."
    return table("kbm-figure7", "KBM's cases", found.values(), note) if found else None


def judged(
    runs: Sequence[Run[RunLine]], lm: dspy.BaseLM, path: Path, *, in_flight: int, progress: Progress
) -> tuple[list[Run[QuestionRow]], int]:
    """Runs in brief, open Chinese answers scored by a language model (first version, Figure 13); how many it left."""
    about = {"task": "accuracy of answers", "model": lm_spec(lm)}
    asked = {
        (line.answer, gold): None
        for run in runs
        if _by_accuracy(run)
        for line in run.lines
        for gold in line.answers
        if line.answer is not None and line.answer_type == "short" and not line.right
    }

    def verdict(pair: tuple[str, str]) -> bool | None:
        try:
            return contains(lm, *pair)
        except (CallError, DSPyError):
            return None

    found = verdicts(asked, verdict, path, about, "contains", in_flight, partial(progress, "judging answers"))
    briefly = []
    for run in runs:
        rows = list(map(brief_of, run.lines))
        pairs = ([found.get((line.answer or "", gold), False) for gold in line.answers] for line in run.lines)
        if _by_accuracy(run):
            rows = [replace(row, right=row.right or any(some)) for row, some in zip(rows, pairs, strict=True)]
        briefly.append(Run(run.header, rows))
    return briefly, len(asked) - len(found)


def _by_accuracy(run: Run[RunLine]) -> bool:
    known = BENCHMARKS.get(run.header.dataset)
    return known is not None and known.language == "zh"
