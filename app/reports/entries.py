"""Runs as the rows of a table, and their questions as its groups of columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from keqa.errors import InputError
from keqa.reports.facets import Facets, facets_of
from keqa.reports.measures import parsed
from keqa.runs.lines import Run, RunHeader, RunLine
from keqa.runs.methods import METHODS

__all__ = ["KEQA", "Entry", "Group", "Identity", "entries_of", "groups_of", "of_method", "title_of"]

KEQA = "keqa"
"""The method that all others are compared with."""

Identity = tuple[str, str, str]
"""A question: its data set, the split of it, and its id."""

_ORDER = ("baseline", "keqa", "ablation", "gate")


@dataclass(frozen=True)
class Entry:
    """A row: one label over all data sets that it was run on.

    Attributes:
        label: The name of its run.
        method: The method's name.
        title: What stands in the first column.
        kind: ``baseline``, ``keqa``, ``ablation`` or ``gate``; see `keqa.runs.methods`.
        facets: What it was set up with, on the first data set.
        compiled: Whether it was made from a compiled program, whose demonstrations are in its prompts.
        base: What its answers depend on besides, so that points of one curve have the same.
        lines: By question.
        expected: The questions it was to answer.
    """

    label: str
    method: str
    title: str
    kind: str
    facets: Facets
    compiled: bool
    base: str
    lines: dict[Identity, RunLine] = field(default_factory=dict)
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

    def within(self, group: Group) -> list[RunLine]:
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


def entries_of(runs: Sequence[Run]) -> list[Entry]:
    """The rows that runs make: those of one label and method on several data sets make one.

    Existing methods come first, then KEQA, its ablations and gates, each in the order given, as in the paper's Table 1.

    Raises:
        InputError: Two runs of one label are on the same questions, or two runs hold different questions, or different
            gold answers, under one id.
    """
    found: dict[tuple[str, str], Entry] = {}
    seen: set[tuple[str, str, str, str]] = set()
    asked: dict[Identity, tuple[RunLine, RunHeader]] = {}
    for run in runs:
        header = run.header
        place = (header.dataset, header.split)
        if (header.label, header.method, *place) in seen:
            raise InputError(f"there are two runs '{header.label}' on {_called(place) or 'one data set'}: give one")
        seen.add((header.label, header.method, *place))
        entry = found.setdefault((header.label, header.method), _entry(header))
        entry.expected.update((*place, one) for one in header.ids)
        for line in run.lines:
            first, its_header = asked.setdefault((*place, line.id), (line, header))
            if first.content != line.content:
                raise InputError(_mixed(first, its_header, line, header))
            entry.lines[(*place, line.id)] = line
    return sorted(found.values(), key=lambda entry: _ORDER.index(entry.kind))


def groups_of(entries: Iterable[Entry]) -> list[Group]:
    """The groups of columns: data sets where there are several, else kinds of question, else all questions.

    Two splits of a data set are as two data sets.
    """
    kinds: dict[Identity, RunLine] = {}
    for entry in entries:
        for identity, line in entry.lines.items():
            kinds.setdefault(identity, line)
    places = {identity[:2] for identity in kinds}
    datasets = Counter(dataset for dataset, _ in places)
    members: dict[str, list[Identity]] = {}
    for identity, line in kinds.items():
        dataset, split, _ = identity
        whole = _called((dataset, split)) if datasets[dataset] > 1 else dataset
        members.setdefault(whole if len(places) > 1 else line.kind, []).append(identity)
    groups = [
        Group(name, frozenset(members[name]), all(kinds[one].answer_type != "short" for one in members[name]))
        for name in members
    ]
    return groups if len(groups) > 1 else [Group("", group.questions, group.polar) for group in groups]


def of_method(entries: Iterable[Entry], method: str) -> Entry | None:
    """The row that stands for a method: the one labelled like it, else its first."""
    found = [entry for entry in entries if entry.method == method]
    return next((entry for entry in found if entry.label == method), found[0] if found else None)


def title_of(method: str, label: str) -> str:
    """What a row is called: the method's title, with the arguments that its label tells; else the label."""
    known = METHODS.get(method)
    if known is None or not f"{label}-".startswith(f"{method}-"):
        return label
    title = f"KEQA {known.title}" if known.kind == "ablation" else known.title
    arguments = label[len(method) + 1 :]
    return f"{title} ({arguments})" if arguments else title


def _called(place: tuple[str, str]) -> str:
    return " ".join(filter(None, place))


def _mixed(first: RunLine, its_header: RunHeader, line: RunLine, header: RunHeader) -> str:
    """Why two lines are no answers to one question."""
    files = " and ".join(f"{one.label}.jsonl ({one.method})" for one in (its_header, header))
    if first.question != line.question:
        told = f"different questions, {first.question!r} and {line.question!r},"
    else:
        told = f"different gold answers, {first.answers} and {line.answers},"
    return (
        f"{files} hold {told} under the id {line.id!r} of {_called((header.dataset, header.split))}: they were run on "
        "different data, or the data were changed in between. Report on them apart, or run one of them again"
    )


def _compiled(header: RunHeader, can_be: bool) -> bool:
    """Whether a run shows a compiled program: its utility reference, or the command that it was run with."""
    words = header.command.split()
    told = any(word in ("--program", "-p") or word.startswith("--program=") for word in words)
    return can_be and (told or header.configuration.get("reference") is not None)


def _entry(header: RunHeader) -> Entry:
    configuration = header.configuration
    known = METHODS.get(header.method)
    own = configuration.get("program") == "KEQA"
    return Entry(
        label=header.label,
        method=header.method,
        title=title_of(header.method, header.label),
        kind=known.kind if known is not None else "ablation" if own else "baseline",
        facets=facets_of(header),
        compiled=_compiled(header, own or (known is not None and known.learned is not None)),
        base=f"{configuration.get('prompts')} {configuration.get('reference')}",
    )
