"""Table 1 of the KEQA paper: every method and ablation on every kind of question, with costs and significance."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import get_args

from keqa.evaluation.reports.grid import (
    EMPTY,
    Cell,
    Grid,
    Named,
    count,
    number,
    p_value,
    share,
    table,
    text,
    without_empty,
)
from keqa.evaluation.reports.parts import (
    DECLINING_NOTE,
    WRITTEN,
    WRITTEN_NOTE,
    any_touched,
    declining,
    searching,
    untouched,
    untouched_note,
)
from keqa.evaluation.reports.questions import NOT_COMPARABLE_ABOVE, measure, unparsed
from keqa.evaluation.reports.rows import KEQA, WITHOUT_REFERENCE, Entry, Group, Identity, groups_of, of_method, paired
from keqa.metrics.abstention import Declining
from keqa.metrics.significance import mcnemar, paired_bootstrap, paired_t_test
from keqa.programs.declared import Way

# The paper's level.
_SIGNIFICANT = 0.05
_ROUNDING = 1e-9
_COSTS = (("retrievals", "retrievals", 2), ("LM calls", "samples", 1), ("sent", "calls", 1))


@dataclass(frozen=True)
class _Ranking:
    """The rows and all questions; ranked are those that were asked all of them, and whose outputs parsed."""

    rows: Sequence[Entry]
    every: frozenset[Identity]

    @cached_property
    def ranked(self) -> list[Entry]:
        return [row for row in self.rows if row.comparable and row.lines.keys() == self.every]

    @cached_property
    def keqa(self) -> Entry | None:
        return of_method(self.rows, KEQA)

    @property
    def name(self) -> str:
        """What KEQA's row is, such as ``KEQA w/o R``."""
        return "KEQA" if self.keqa is None else self.keqa.name


@dataclass(frozen=True)
class _Score:
    """One score of every row: the questions, F1, EM or ACC, the name of the measure, and its value by row."""

    group: Group
    heading: str
    name: str
    values: dict[Entry, float | None]

    @property
    def full(self) -> str:
        return f"{self.group.name} {self.heading}".strip()

    def best(self, rows: Sequence[Entry]) -> Entry | None:
        return max(rows, key=self.value, default=None)

    def value(self, row: Entry) -> float:
        """A row's value, for ranking."""
        found = self.values[row]
        return -1.0 if found is None else found

    def ahead(self, row: Entry | None, other: Entry | None) -> bool:
        """Whether a row is better than another by more than rounding."""
        return row is not None and other is not None and self.value(row) > self.value(other) + _ROUNDING

    def p_value(self, one: Entry, other: Entry) -> float | None:
        """Of the paired t-test; None where fewer than two questions are shared."""
        ours, theirs = paired(one, other, lambda line: line.number(self.name) or 0.0, self.group)
        return paired_t_test(ours, theirs) if len(ours) > 1 else None


def overall(entries: Sequence[Entry], *, alone: bool = False) -> Grid:
    """Table 1: scores by kind of question or data set, costs a question, and KEQA's lead over each row.

    Of a run that is looked at alone, and of points of figures, nothing is said of others.
    """
    ranking = _Ranking(entries, frozenset(one for entry in entries for one in entry.expected))
    groups = groups_of(entries)
    if len(groups) > 1:
        groups.append(Group("all", ranking.every, all(group.polar for group in groups)))
    scores = [
        _Score(group, heading, name, {entry: measure(name, entry.within(group)) for entry in entries})
        for group in groups
        for heading, name in group.scores
    ]
    remarks = {entry: _remark(entry, ranking) for entry in entries}
    rates, rate_notes = searching(entries)
    fares = {entry: Declining.of(entry.within()) for entry in entries}
    steps = any(measure("settled by quizzes", entry.within()) not in (None, 1) for entry in entries)
    declined, touched = any(fare.shown for fare in fares.values()), any_touched(entries)
    written = [name for name in WRITTEN if any(measure(name, entry.within()) is not None for entry in entries)]
    leads = without_empty([[] if alone else _lead(entry, ranking) for entry in entries])
    rows = [
        [
            ("method", text(entry.title)),
            *([("remarks", text(remarks[entry]))] if any(remarks.values()) else []),
            *(((score.heading, score.group.name), _cell(score, entry, ranking)) for score in scores),
            *((name, number(measure(name, entry.within()))) for name in written),
            *(declining(fares[entry]) if declined else ()),
            *(untouched(entry) if touched else ()),
            *(_settled(entry) if steps else ()),
            *((head, number(measure(name, entry.within()), digits)) for head, name, digits in _COSTS),
            ("not parsed", share(float(unparsed(entry.within())))),
            ("failed", count(sum(line.failed for line in entry.within()))),
            *rates[entry],
            *lead,
        ]
        for entry, lead in zip(entries, leads, strict=True)
    ]
    pairs = enumerate(pairwise(entries), start=1)
    ruled = [place for place, (one, other) in pairs if one.own != other.own or one is ranking.keqa]
    notes = (
        *_notes(scores, ranking, leads=any(leads), alone=alone),
        *([WRITTEN_NOTE] if written else []),
        *([DECLINING_NOTE] if declined else []),
        *rate_notes,
    )
    return table("table1", f"Overall results on {len(ranking.every)} questions", rows, *notes, ruled=ruled)


def _settled(entry: Entry) -> list[Named]:
    """The share of the questions that each way settled."""
    return [((way, "settled by"), number(measure(f"settled by {way}", entry.within()))) for way in get_args(Way)]


def _remark(entry: Entry, ranking: _Ranking) -> str:
    asked = ""
    if entry.lines.keys() != entry.expected:
        asked = f"{len(entry.lines)} of {len(entry.expected)} asked"
    elif entry.expected != ranking.every:
        asked = f"{len(entry.expected)} questions only"
    return "; ".join(filter(None, ("" if entry.comparable else "not comparable", asked)))


def _cell(score: _Score, row: Entry, ranking: _Ranking) -> Cell:
    if not row.comparable:
        return Cell(None, "-")
    cell = number(score.values[row])
    if row not in ranking.ranked or cell.value is None:
        return cell
    best, rival = (score.best(rows) for rows in (ranking.ranked, [one for one in ranking.ranked if not one.own]))
    p = None
    if row is ranking.keqa and rival is not None and score.ahead(row, rival):
        p = score.p_value(row, rival)
    return replace(
        cell,
        bold=not score.ahead(best, row),
        underline=not row.own and not score.ahead(rival, row),
        star=p is not None and p < _SIGNIFICANT,
    )


def _lead(entry: Entry, ranking: _Ranking) -> list[Named]:
    """How far KEQA is ahead in F1 on the questions of both, with its interval, and the p-values of two tests."""
    keqa, group = ranking.keqa, f"{ranking.name}'s lead in F1"
    cells = [EMPTY] * 5
    if keqa is not None and entry is not keqa and entry.comparable and keqa.comparable:
        ours, theirs = paired(keqa, entry, lambda line: line.quality)
        if len(ours) > 1:
            f1 = paired_bootstrap(ours, theirs)
            tests = (paired_t_test(ours, theirs), mcnemar(*paired(keqa, entry, lambda line: line.right)))
            cells = [*(number(end, signed=True) for end in (f1.mean, f1.low, f1.high)), *map(p_value, tests)]
    heads = [*((name, group) for name in ("mean", "low", "high")), ("t-test", "p"), ("McNemar", "p")]
    return list(zip(heads, cells, strict=True))


def _notes(scores: Sequence[_Score], ranking: _Ranking, *, leads: bool, alone: bool) -> Iterator[str]:
    entries, name = ranking.rows, ranking.name
    better = f"; * {name} is better than that one by a paired t-test, p < {number(_SIGNIFICANT, 2).text}"
    best = f"Bold: the best of a column; underlined: the best existing method{better if leads else ''}. "
    lead = (
        f" {name}'s lead is over all questions that both were asked, with its 95 % paired bootstrap interval; p of the "
        "paired t-test on F1, and of McNemar's test on EM."
    )
    yield (
        f"{'' if alone and len(entries) == 1 else best}A failed question scores 0. Retrievals and LM calls are for one "
        f"question; sent are the requests that no cache answered, of which one may carry several calls."
        f"{lead if leads else ''}"
    )
    if any(WITHOUT_REFERENCE in entry.title for entry in entries):
        yield (
            f"{WITHOUT_REFERENCE}: without a utility reference R, the passages that helped or harmed training "
            "questions; keqa compile learns one."
        )
    shown, bare = (
        ", ".join(entry.title for entry in entries if any(entry.header.demonstrations.values()) is some)
        for some in (True, False)
    )
    if shown and bare:
        yield (
            f"There are demonstrations in the prompts of: {shown}. There are none in those of: {bare}. A part of a "
            "lead over these may be due to them."
        )
    plain = {(entry.method, entry.settings.prompts) for entry in entries if not entry.header.compiled}
    compiled = (entry for entry in entries if entry.header.compiled and not entry.own)
    # No demonstrations are kept that make nothing better.
    if same := [one.title for one in compiled if (one.method, one.settings.prompts) in plain]:
        yield f"Compiled, and as they were, for nothing that they learned made them better: {', '.join(same)}."
    impaired = [(entry, sum(line.impaired for line in entry.within())) for entry in entries]
    if counts := ", ".join(f"{entry.title} {some} of {len(entry.lines)}" for entry, some in impaired if some):
        yield (
            f"Impaired: {counts}. These questions were answered although a call failed or gave a reply that could not "
            "be used, and their answers may hang on it; they are scored as they are. The same command with "
            "--retry-failed asks them again."
        )
    if not any_touched(entries):
        yield untouched_note(entries)
    if any(not entry.comparable for entry in entries):
        most = f"{float(NOT_COMPARABLE_ABOVE):.0%}".replace("%", " %")
        yield f"Not comparable: more than {most} of the outputs did not parse, so it is the prompts that were measured."
    if not alone:
        yield _verdict(scores, ranking)


def _verdict(scores: Sequence[_Score], ranking: _Ranking) -> str:
    keqa, name = ranking.keqa, ranking.name
    if keqa is None:
        return "KEQA was not run: there is nothing to compare with."
    if keqa not in ranking.ranked:
        return f"{name} itself is not comparable, or was not asked all questions: the table has no verdict on it."
    others = [row for row in ranking.ranked if row is not keqa]
    if not others:
        return f"No other row is comparable and was asked all questions: there is nothing to compare {name} with."
    first = [(score, score.best(ranking.ranked) or keqa) for score in scores]
    behind = []
    for score, best in first:
        if score.ahead(best, keqa):
            # Who is ahead of KEQA in a column, by how much, and whether that may be chance.
            p = score.p_value(best, keqa)
            certainty = "" if p is None else f", p {'' if p < 0.001 else '= '}{p_value(p).text}"
            theirs, ours = (number(score.values[row]).text for row in (best, keqa))
            behind.append(f"{score.full} ({best.title} {theirs}, {name} {ours}{certainty})")
    if behind:
        return f"{name} is not the best in {'; '.join(behind)}."
    shared = [(score, [row.title for row in others if not score.ahead(keqa, row)]) for score in scores]
    if as_good := [f"{score.full} ({', '.join(titles)})" for score, titles in shared if titles]:
        return f"Nobody is ahead of {name} in any column; as good are, in {'; '.join(as_good)}."
    return f"{name} is the best in every column."
