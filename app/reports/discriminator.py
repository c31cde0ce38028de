"""Table 2 of the KEQA paper: how often the judge of consistency (D_s) is right, beside measures that need no LM.

The paper takes another language model's labels for the truth. Here they are those of the gold answers: of two answers
that are both right the judge should say 'same', of one right and one wrong 'different'; two wrong ones have no label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from keqa.metrics.answers import same_answer
from keqa.metrics.similarity import rouge_l, token_f1
from keqa.programs.gates import Golds
from keqa.reports.entries import KEQA, Entry, groups_of, of_method
from keqa.reports.grid import Cell, Column, Grid, Row, number, text
from keqa.reports.quizzes import Checked, checked_quizzes

__all__ = ["Judged", "discriminator", "judged_pairs"]

_SAME_FROM = 0.5
"""From which similarity on a measure calls two answers the same."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Two answers that Algorithm 1 compared.

    Attributes:
        first: A cluster's first member.
        second: The sample compared with it.
        same: What the judge said.
        truly: What the gold answers say.
    """

    first: str
    second: str
    same: bool
    truly: bool


def judged_pairs(quiz: Checked) -> Iterator[Judged]:
    """The pairs that were put before the judge, as Algorithm 1 reads the samples (lines 5 to 13).

    Equal answers are taken for the same without it, and are left out.

    Args:
        quiz: A quiz with its gold answers.
    """
    heads: list[str] = []
    seen: set[tuple[str, str]] = set()
    for sample in quiz.quiz.samples:
        if sample.text is None or sample.cluster is None:
            continue
        founds = sample.cluster >= len(heads)
        # A sample is compared with the clusters in their order until one takes it.
        for place, head in enumerate(heads if founds else heads[: sample.cluster + 1]):
            first, second = quiz.right(head), quiz.right(sample.text)
            asked = (head, sample.text) not in seen and not _equal(head, sample.text, quiz)
            seen.add((head, sample.text))
            if asked and (first or second):
                yield Judged(head, sample.text, place == sample.cluster, first and second)
        if founds:
            heads.append(sample.text)


def discriminator(entries: Sequence[Entry], golds: Callable[[Entry], Golds | None]) -> Grid | None:
    """Table 2, from the quizzes of KEQA's run; None where no pair was judged.

    Args:
        entries: All rows.
        golds: The gold answers of a row's quizzes.
    """
    keqa = of_method(entries, KEQA)
    if keqa is None:
        return None
    known = golds(keqa)
    groups = groups_of([keqa])
    pairs = [[pair for quiz in checked_quizzes(keqa, group, known) for pair in judged_pairs(quiz)] for group in groups]
    if not any(pairs):
        return None
    judges: dict[str, Callable[[Judged], bool]] = {
        "D_s": lambda pair: pair.same,
        "token F1": lambda pair: token_f1(pair.first, pair.second) >= _SAME_FROM,
        "ROUGE-L": lambda pair: rouge_l(pair.first, pair.second) >= _SAME_FROM,
    }
    rows = [Row((text(name), *(_accuracy(judge, some) for some in pairs))) for name, judge in judges.items()]
    counts = tuple(Cell(len(some), str(len(some))) for some in pairs)
    rows.append(Row((text("pairs"), *counts), ruled=True))
    columns = (Column("judge", right=False), *(Column("accuracy", group.name) for group in groups))
    notes = (
        "Pairs of answers that differ in words, at least one of them right: the same where both are. "
        f"The measures call two answers the same from {number(_SAME_FROM, 1).text} on.",
    )
    return Grid("table2", "The judge of consistency and measures of similarity", columns, tuple(rows), notes)


def _accuracy(judge: Callable[[Judged], bool], pairs: Sequence[Judged]) -> Cell:
    return number(sum(judge(pair) == pair.truly for pair in pairs) / len(pairs) if pairs else None)


def _equal(first: str, second: str, quiz: Checked) -> bool:
    return same_answer(first, second, quiz.answer_type, quiz.choices)
