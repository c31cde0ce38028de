"""Table 1 of the KEQA paper: every method and ablation on every kind of question, with costs and significance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from keqa.evaluation.reports import declining, searching, untouched
from keqa.evaluation.reports.grid import EMPTY, Cell, Column, Grid, Row, count, number, p_value, share, text
from keqa.evaluation.reports.measures import NOT_COMPARABLE_ABOVE, measure, parsed, quality, right
from keqa.evaluation.reports.rows import KEQA, WITHOUT_REFERENCE, Entry, Group, Identity, groups_of, of_method, paired
from keqa.metrics.significance import mcnemar, paired_bootstrap, paired_t_test

SIGNIFICANT = 0.05
"""The paper's level."""

NOT_COMPARABLE = "not comparable"

_ROUNDING = 1e-9
_COSTS = (
    Column("retrievals"),
    Column("LM calls"),
    Column("sent"),
    Column("not parsed"),
    Column("failed"),
)
_LEAD = ("mean", "low", "high")
_TESTS = ("t-test", "McNemar")


@dataclass(frozen=True)
class _Score:
    """One score of every row.

    Attributes:
        group: The questions.
        heading: F1, EM or ACC.
        name: Of the measure.
        values: By row; None where a row has no such question.
    """

    group: Group
    heading: str
    name: str
    values: list[float | None]

    @property
    def column(self) -> Column:
        return Column(self.heading, self.group.name)

    def best(self, rows: Sequence[int]) -> int | None:
        """The best of some rows."""
        return max(rows, key=self.value, default=None)

    def value(self, row: int) -> float:
        """A row's value, for ranking."""
        found = self.values[row]
        return -1.0 if found is None else found

    def ahead(self, row: int, other: int) -> bool:
        """Whether a row is better than another by more than rounding."""
        return self.value(row) > self.value(other) + _ROUNDING


def overall(entries: Sequence[Entry]) -> Grid:
    """Table 1: scores by kind of question or data set, costs a question, and KEQA's lead over each row.

    As in the paper the best of a column is bold, the best existing method underlined, and a star stands where KEQA is
    better than that one by the paired t-test. A row whose outputs did not parse in more than a tenth of the cases reads
    'not comparable' and takes no part in that. Where KEQA is not the best, the notes say so.

    Args:
        entries: The rows in their order; see `keqa.evaluation.reports.rows.entries_of`.
    """
    groups = groups_of(entries)
    every = frozenset(one for entry in entries for one in entry.expected)
    if len(groups) > 1:
        groups.append(Group("all", every, all(group.polar for group in groups)))
    scores = [
        _Score(group, heading, name, [measure(name, entry.within(group)) for entry in entries])
        for group in groups
        for heading, name in group.scores
    ]
    ranked = [row for row, entry in enumerate(entries) if entry.comparable and entry.lines.keys() == every]
    keqa = next((row for row, entry in enumerate(entries) if entry is of_method(entries, KEQA)), None)
    remarks = [text("; ".join(_remarks(entry, every))) for entry in entries]
    remarked = any(remark.text for remark in remarks)
    touched = untouched.any_touched(entries)
    rated = searching.columns(entries)
    fares = [declining.declining_of(entry) for entry in entries]
    declined = declining.columns(fares)
    rows = [
        Row(
            (
                text(entry.title),
                *([remarks[row]] if remarked else []),
                *(_cell(score, row, entries, ranked, keqa) for score in scores),
                *(declining.cells(fares[row]) if declined else ()),
                *(untouched.cells(entry) if touched else ()),
                *_costs(entry),
                *(searching.cells(entry) if rated else ()),
                *_lead(entry, None if keqa is None else entries[keqa]),
            ),
            ruled=row > 0 and (entry.own != entries[row - 1].own or row - 1 == keqa),
        )
        for row, entry in enumerate(entries)
    ]
    columns = (
        Column("method", right=False),
        *([Column("remarks", right=False)] if remarked else []),
        *(score.column for score in scores),
        *declined,
        *(untouched.COLUMNS if touched else ()),
        *_COSTS,
        *rated,
        *(Column(name, f"{_name(entries, keqa)}'s lead in F1") for name in _LEAD),
        *(Column(name, "p") for name in _TESTS),
    )
    title = f"Overall results on {len(every)} questions"
    return Grid(
        "table1",
        title,
        columns,
        tuple(rows),
        (
            *_notes(scores, entries, ranked, keqa),
            *([declining.NOTE] if declined else []),
            *searching.notes(entries),
        ),
    )


def _cell(score: _Score, row: int, entries: Sequence[Entry], ranked: list[int], keqa: int | None) -> Cell:
    """One score of one row, with the paper's marks."""
    if not entries[row].comparable:
        return Cell(None, "-")
    cell = number(score.values[row])
    if row not in ranked or score.values[row] is None:
        return cell
    best = score.best(ranked)
    rival = score.best([one for one in ranked if not entries[one].own])
    star = False
    if row == keqa and rival is not None and score.ahead(row, rival):
        p = t_test_p_value(entries[row], entries[rival], score.group, score.name)
        star = p is not None and p < SIGNIFICANT
    return cell.marked(
        bold=best is not None and not score.ahead(best, row),
        underline=rival is not None and not entries[row].own and not score.ahead(rival, row),
        star=star,
    )


def t_test_p_value(one: Entry, other: Entry, group: Group, score: str) -> float | None:
    """p-value of the paired t-test on one score of one group; None where fewer than two questions are shared."""
    ours, theirs = paired(one, other, lambda line: line.number(score) or 0.0, group)
    return paired_t_test(ours, theirs) if len(ours) > 1 else None


def _costs(entry: Entry) -> Iterator[Cell]:
    lines = list(entry.lines.values())
    yield number(measure("retrievals", lines), 2)
    yield number(measure("samples", lines), 1)
    yield number(measure("calls", lines), 1)
    yield share(float(parsed(lines).share))
    yield count(sum(line.failed for line in lines))


def _lead(entry: Entry, keqa: Entry | None) -> list[Cell]:
    """How far KEQA is ahead in F1 on the questions of both, with its bootstrap interval, and the p-values of two tests.

    The paired t-test on F1 is the paper's; McNemar's is on exact match. Empty where they share fewer than two.
    """
    if keqa is None or entry is keqa or not (entry.comparable and keqa.comparable):
        return [EMPTY] * len((*_LEAD, *_TESTS))
    ours, theirs = paired(keqa, entry, quality)
    if len(ours) < 2:
        return [EMPTY] * len((*_LEAD, *_TESTS))
    f1 = paired_bootstrap(ours, theirs)
    tests = (paired_t_test(ours, theirs), mcnemar(*paired(keqa, entry, right)))
    return [*(number(end, signed=True) for end in (f1.mean, f1.low, f1.high)), *map(p_value, tests)]


def _name(entries: Sequence[Entry], keqa: int | None) -> str:
    """What KEQA's row is, such as ``KEQA w/o R``."""
    return "KEQA" if keqa is None else entries[keqa].name


def _remarks(entry: Entry, every: frozenset[Identity]) -> Iterator[str]:
    if not entry.comparable:
        yield NOT_COMPARABLE
    if not entry.finished:
        yield f"{len(entry.lines)} of {len(entry.expected)} asked"
    elif entry.expected != every:
        yield f"{len(entry.expected)} questions only"


def _notes(scores: list[_Score], entries: Sequence[Entry], ranked: list[int], keqa: int | None) -> Iterator[str]:
    name = _name(entries, keqa)
    yield (
        f"Bold: the best of a column; underlined: the best existing method; * {name} is better than that one by a "
        f"paired t-test, p < {number(SIGNIFICANT, 2).text}. A failed question scores 0. Retrievals and LM calls are "
        "for one question; sent are the requests that no cache answered, of which one may carry several calls. "
        f"{name}'s lead is over all questions, with its 95 % paired bootstrap interval; p of the paired t-test on F1, "
        "and of McNemar's test on EM."
    )
    if any(WITHOUT_REFERENCE in entry.title for entry in entries):
        yield (
            f"{WITHOUT_REFERENCE}: without a utility reference R, the passages that helped or harmed training "
            "questions; keqa compile learns one."
        )
    yield from _demonstrations(entries)
    yield from _unchanged(entries)
    impaired = [(entry, sum(line.impaired for line in entry.lines.values())) for entry in entries]
    if any(count for _, count in impaired):
        counts = ", ".join(f"{entry.title} {count} of {len(entry.lines)}" for entry, count in impaired if count)
        yield (
            f"Impaired: {counts}. These questions were answered although a call failed or gave a reply that could not "
            "be used, and their answers may hang on it; they are scored as they are. The same command with "
            "--retry-failed asks them again."
        )
    if not untouched.any_touched(entries):
        yield untouched.note(entries)
    if any(not entry.comparable for entry in entries):
        most = f"{float(NOT_COMPARABLE_ABOVE):.0%}".replace("%", " %")
        yield f"Not comparable: more than {most} of the outputs did not parse, so it is the prompts that were measured."
    if keqa is None:
        yield "KEQA was not run: there is nothing to compare with."
    elif keqa not in ranked:
        yield f"{name} itself is not comparable, or was not asked all questions: the table has no verdict on it."
    else:
        yield _verdict(scores, entries, ranked, keqa)


def _demonstrations(entries: Sequence[Entry]) -> Iterator[str]:
    """Which rows have demonstrations in their prompts, and which have none, where they are not all alike."""
    titles = {
        shown: ", ".join(entry.title for entry in entries if entry.demonstrated is shown)
        for shown in (True, False, None)
    }
    if not titles[True] or not (titles[False] or titles[None]):
        return
    note = f"There are demonstrations in the prompts of: {titles[True]}."
    if titles[False]:
        note += f" There are none in those of: {titles[False]}. A part of a lead over these may be due to them."
    if titles[None]:
        note += f" The run files do not say so of: {titles[None]}."
    yield note


def _unchanged(entries: Sequence[Entry]) -> Iterator[str]:
    """Which compiled methods ask as they did before, for no demonstrations are kept that make nothing better."""
    plain = {(entry.method, entry.settings.prompts) for entry in entries if not entry.header.compiled}
    same = [
        entry.title
        for entry in entries
        if entry.kind == "baseline" and entry.header.compiled and (entry.method, entry.settings.prompts) in plain
    ]
    if same:
        yield f"Compiled, and as they were, for nothing that they learned made them better: {', '.join(same)}."


def _verdict(scores: Sequence[_Score], entries: Sequence[Entry], ranked: list[int], keqa: int) -> str:
    """Where others are ahead of KEQA, or as good."""
    others, name = [row for row in ranked if row != keqa], entries[keqa].name
    if not others:
        return f"No other row is comparable and was asked all questions: there is nothing to compare {name} with."
    behind = [note for score in scores if (note := _behind(score, entries, ranked, keqa))]
    if behind:
        return f"{name} is not the best in {'; '.join(behind)}."
    shared = [(score, [entries[row].title for row in others if not score.ahead(keqa, row)]) for score in scores]
    as_good = [f"{score.column.full} ({', '.join(titles)})" for score, titles in shared if titles]
    if as_good:
        return f"Nobody is ahead of {name} in any column; as good are, in {'; '.join(as_good)}."
    return f"{name} is the best in every column."


def _behind(score: _Score, entries: Sequence[Entry], ranked: list[int], keqa: int) -> str:
    """Who is ahead of KEQA in a column, by how much, and whether that may be chance; empty where nobody is."""
    best = score.best(ranked)
    if best is None or not score.ahead(best, keqa):
        return ""
    p = t_test_p_value(entries[best], entries[keqa], score.group, score.name)
    certainty = "" if p is None else f", p {'' if p < 0.001 else '= '}{p_value(p).text}"
    ours, theirs = number(score.values[keqa]).text, number(score.values[best]).text
    return f"{score.column.full} ({entries[best].title} {theirs}, {entries[keqa].name} {ours}{certainty})"
