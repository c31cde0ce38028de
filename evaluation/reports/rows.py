"""Runs as the rows of a table, and their questions as its groups of columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from keqa.evaluation.reports.facets import Facets
from keqa.evaluation.reports.measures import parsed
from keqa.evaluation.reports.summary import QuestionSummary

__all__ = ["KEQA", "Entry", "Group", "Identity", "called", "groups_of", "of_method"]

KEQA = "keqa"
"""The method that all others are compared with."""

Identity = tuple[str, str, str]
"""A question: its data set, the split of it, and its id."""


@dataclass(frozen=True)
class Entry:
    """A row: one label over all data sets that it was run on.

    Attributes:
        label: The name of its run.
        method: The method's name.
        title: What stands in the first column.
        kind: ``baseline``, ``keqa``, ``ablation`` or ``gate``; see `keqa.programs.registry`.
        facets: What it was set up with, on the first data set.
        demonstrated: Whether there are demonstrations in its prompts; None where its run file does not say.
        base: What its answers depend on besides, so that points of one curve have the same.
        setting: All that they depend on, on the first data set, by which rows of two names are known to be one.
        threshold: What its gate compares with, on the first data set; None where it compares with nothing.
        judge: What judges consistency (D_s) in it: the language model and how many demonstrations it is shown, on the
            first data set.
        lines: By question.
        expected: The questions it was to answer.
    """

    label: str
    method: str
    title: str
    kind: str
    facets: Facets
    demonstrated: bool | None
    base: str
    setting: str
    threshold: float | None = None
    judge: str = ""
    lines: dict[Identity, QuestionSummary] = field(default_factory=dict)
    expected: set[Identity] = field(default_factory=set)

    @property
    def own(self) -> bool:
        """Whether it is KEQA or made of it, and no existing method."""
        return self.kind != "baseline"

    @property
    def finished(self) -> bool:
        """Whether every question was asked."""
        return self.lines.keys() == self.expected

    @property
    def comparable(self) -> bool:
        """Whether so many outputs parsed that the method was measured, and not its prompts."""
        return parsed(list(self.lines.values())).comparable

    def within(self, group: Group) -> list[QuestionSummary]:
        """Its lines of a group."""
        return [line for identity, line in self.lines.items() if identity in group.questions]


@dataclass(frozen=True)
class Group:
    """Questions that have columns of their own.

    Attributes:
        name: A data set, or a kind of question where there is one data set only; empty for all there are.
        questions: Which ones.
        polar: Whether all are yes/no questions or choices, which have an accuracy only.
    """

    name: str
    questions: frozenset[Identity]
    polar: bool

    @property
    def scores(self) -> tuple[tuple[str, str], ...]:
        """Heading and measure of each of its scores, as in the paper's Table 1."""
        return (("ACC", "accuracy"),) if self.polar else (("F1", "f1"), ("EM", "em"))

    @property
    def first(self) -> tuple[str, str]:
        """The score that is shown where there is room for one."""
        return self.scores[0]


def groups_of(entries: Iterable[Entry]) -> list[Group]:
    """The groups of columns: data sets where there are several, else kinds of question, else all questions.

    Two splits of a data set are as two data sets. A question of several kinds is in the group of each.
    """
    kinds: dict[Identity, QuestionSummary] = {}
    for entry in entries:
        for identity, line in entry.lines.items():
            kinds.setdefault(identity, line)
    places = {identity[:2] for identity in kinds}
    datasets = Counter(dataset for dataset, _ in places)
    members: dict[tuple[int, str], list[Identity]] = {}
    for identity, line in kinds.items():
        dataset, split, _ = identity
        whole = called((dataset, split)) if datasets[dataset] > 1 else dataset
        for named in enumerate([whole] if len(places) > 1 else line.kind.split("; ")):
            members.setdefault(named, []).append(identity)
    groups = [
        Group(name, frozenset(found), all(kinds[one].answer_type != "short" for one in found))
        # What comes first of each question, such as how fast an answer changes, stands together.
        for (_, name), found in sorted(members.items(), key=lambda member: member[0][0])
    ]
    return groups if len(groups) > 1 else [Group("", group.questions, group.polar) for group in groups]


def of_method(entries: Iterable[Entry], method: str) -> Entry | None:
    """The row that stands for a method: the one labelled like it, else its first."""
    found = [entry for entry in entries if entry.method == method]
    return next((entry for entry in found if entry.label == method), found[0] if found else None)


def called(place: tuple[str, str]) -> str:
    """A data set and its split in words."""
    return " ".join(filter(None, place))
