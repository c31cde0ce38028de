"""Runs as the rows of a table, and their questions as its groups of columns."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from keqa.errors import InputError
from keqa.evaluation.overlap import MARK, overlap_notes
from keqa.evaluation.records import Run, RunHeader
from keqa.evaluation.reports.measures import parsed
from keqa.evaluation.reports.summary import QuestionSummary, RunSummary, brief_of
from keqa.evaluation.run_settings import RunSettings
from keqa.programs.registry import METHODS

KEQA = "keqa"
"""The method that all others are compared with."""

Identity = tuple[str, str, str]
"""A question: its data set, the split of it, and its id."""

_PROGRAM = re.compile(r"(?:--program|-p)[ =]('[^']*'|\S+)")
WITHOUT_REFERENCE = METHODS["keqa-no-reference"].title
_ORDER = ("baseline", "keqa", "ablation", "gate")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Entry:
    """A row: one label over all data sets that it was run on.

    Attributes:
        header: Of its run on the first data set.
        title: The text of the first column.
        lines: By question.
        expected: The questions it was to answer.
        learned: Those of them that its program had learned from.
    """

    header: RunHeader
    title: str
    lines: dict[Identity, QuestionSummary] = field(default_factory=dict)
    expected: set[Identity] = field(default_factory=set)
    learned: set[Identity] = field(default_factory=set)

    @property
    def label(self) -> str:
        """The name of its run."""
        return self.header.label

    @property
    def method(self) -> str:
        """The method's name."""
        return self.header.method

    @property
    def settings(self) -> RunSettings:
        """What it was set up with."""
        return self.header.configuration

    @property
    def means(self) -> tuple[str | None, ...]:
        """The language model that answers, and what is searched."""
        return self.settings.lm, self.settings.retriever

    @property
    def program(self) -> str:
        """The compiled program that served, by the name of its folder; empty where none did."""
        if not self.header.compiled:
            return ""
        named = _PROGRAM.search(self.header.command)
        return Path(named[1].strip("'\"")).name if named else self.header.compiled

    @property
    def kind(self) -> str:
        """``baseline``, ``keqa``, ``ablation`` or ``gate``; see `keqa.programs.registry`."""
        known = METHODS.get(self.method)
        return known.kind if known is not None else "ablation" if self.settings.program == "KEQA" else "baseline"

    @property
    def own(self) -> bool:
        """Whether it is KEQA or made of it, and no existing method."""
        return self.kind != "baseline"

    @property
    def name(self) -> str:
        """What of its method ran, without the arguments of its label: ``KEQA``, or ``KEQA w/o R``."""
        settings = self.settings
        return title_of(self.method, self.method, settings.settings, without_reference=settings.lacks_reference)

    @property
    def as_published(self) -> str:
        """The method of the KEQA paper's tables that ran, by its name; empty where the paper has none.

        KEQA without a utility reference is the paper's "w/o R", and its other ablations all have one.
        """
        if not (self.own and self.settings.lacks_reference):
            return self.method
        return "keqa-no-reference" if self.kind == KEQA or self.method == "keqa-no-reference" else ""

    @property
    def base(self) -> tuple[Any, ...]:
        """Prompts and reference, which points of one curve have in common."""
        return self.settings.prompts, json.dumps(self.settings.reference, sort_keys=True)

    @property
    def asked(self) -> dict[str, Any]:
        """All that its answers depend on but how it was asked for, by which rows of two names are known to be one."""
        return self.settings.model_dump(exclude={"arguments"})

    @property
    def judge(self) -> tuple[Any, ...]:
        """What judges consistency (D_s) in it: the language model, and how many demonstrations it is shown."""
        return self.settings.models.get("consistency"), (self.header.demonstrations or {}).get("examination.same")

    @property
    def demonstrated(self) -> bool | None:
        """Whether there are demonstrations in its prompts; None where its run file does not say."""
        if self.header.demonstrations is not None:
            return any(self.header.demonstrations.values())
        # A file that does not count them still shows what a method cannot do without.
        known = METHODS.get(self.method)
        return True if (known is not None and known.learned) or self.settings.has_reference else None

    @property
    def finished(self) -> bool:
        """Whether every question was asked."""
        return self.lines.keys() == self.expected

    @property
    def comparable(self) -> bool:
        """Whether so many outputs parsed that the method was measured, and not its prompts."""
        return parsed(list(self.lines.values())).comparable

    def within(self, group: Group | None) -> list[QuestionSummary]:
        """Its lines of a group; all of them where that is None."""
        return [line for identity, line in self.lines.items() if group is None or identity in group.questions]


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


def entries_of(runs: Sequence[Run | RunSummary]) -> list[Entry]:
    """The rows that runs make: those of one label and method on several data sets make one.

    Where two of them are on one data set, with other language models, retrievers or compiled programs, each of these
    has a row, and the titles of the later ones say so. Existing methods come first, then KEQA, its ablations and gates,
    each in the order given, as in the paper's Table 1.

    Raises:
        InputError: There is no run; two of one label are on one data set, with the same language model, retriever and
            program; or two runs hold different questions, or different gold answers, under one id.
    """
    if not runs:
        raise InputError("there is no run to report on")
    found: dict[tuple[str, str], list[Entry]] = {}
    asked: dict[Identity, tuple[QuestionSummary, RunHeader]] = {}
    for run in runs:
        header = run.header
        place = (header.dataset, header.split)
        entry = _row_of(header, found.setdefault((header.label, header.method), []))
        if _is_on(entry, place):
            raise InputError(
                f"there are two runs '{header.label}' on {called(place) or 'one data set'}: give one, or run one of "
                "them again under another name with --label"
            )
        entry.expected.update((*place, one) for one in header.ids)
        entry.learned.update((*place, one) for one in header.learned_from)
        for line in (one if isinstance(one, QuestionSummary) else brief_of(one) for one in run.lines):
            first, its_header = asked.setdefault((*place, line.id), (line, header))
            if first.content != line.content:
                raise InputError(_mixed(first, its_header, line, header))
            entry.lines[(*place, line.id)] = line
    rows = [
        replace(entry, title=f"{entry.title}{MARK}") if entry.learned else entry
        for alike in found.values()
        for entry in _distinguished(alike)
    ]
    return sorted(rows, key=lambda entry: _ORDER.index(entry.kind))


def title_of(method: str, label: str, settings: Mapping[str, Any], *, without_reference: bool = False) -> str:
    """What a row is called: the method's title, with the arguments of its label; else the label.

    A row is named for what ran: settings that take away what a method's paper describes are named, too (see
    `keqa.programs.registry.Method`), and so is the utility reference that KEQA or an ablation ran without.

    Args:
        method: Its name.
        label: Of the run.
        settings: What it was set up with.
        without_reference: Whether passages were judged without a utility reference.
    """
    known = METHODS.get(method)
    if known is None or not f"{label}-".startswith(f"{method}-"):
        return label
    title = f"KEQA {known.title}" if known.kind == "ablation" else known.title
    if without_reference and known.kind in ("keqa", "ablation") and known.title != WITHOUT_REFERENCE:
        title = f"{title}{',' if known.kind == 'ablation' else ''} {WITHOUT_REFERENCE}"
    form, less = known.reduced or ("", {})
    reduced = form if less and less.items() <= settings.items() else ""
    details = ", ".join(filter(None, (reduced, label[len(method) + 1 :])))
    return f"{title} ({details})" if details else title


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


def by_language_model(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Rows by the language model that answers, in their order; an empty name where run files name none."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.settings.lm or "", []).append(entry)
    return found


def called(place: tuple[str, str]) -> str:
    """A data set and its split in words."""
    return " ".join(filter(None, place))


def paired(
    one: Entry, other: Entry, of: Callable[[QuestionSummary], _T], group: Group | None = None
) -> tuple[list[_T], list[_T]]:
    """Something of the lines of two rows, over the questions that both were asked, pair by pair.

    Args:
        one: A row.
        other: Another one.
        of: Takes it from a line.
        group: Of these questions only.
    """
    both = [line for line in one.lines if line in other.lines and (group is None or line in group.questions)]
    return [of(one.lines[line]) for line in both], [of(other.lines[line]) for line in both]


def _row_of(header: RunHeader, rows: list[Entry]) -> Entry:
    """The row of a run among those of its label and method; a new one where it belongs to none."""
    lacking = header.configuration.lacks_reference
    title = title_of(header.method, header.label, header.configuration.settings, without_reference=lacking)
    new = Entry(header, title)
    alike = next((row for row in rows if (row.means, row.program) == (new.means, new.program)), None)
    # A data set may have a program of its own, but what is compiled and what is not are two things.
    free = next(
        (
            row
            for row in rows
            if not _is_on(row, (header.dataset, header.split)) and bool(row.program) == bool(new.program)
        ),
        None,
    )
    if alike is None and free is None:
        rows.append(new)
    return alike or free or new


def _is_on(entry: Entry, place: tuple[str, str]) -> bool:
    return any(identity[:2] == place for identity in entry.expected)


def _distinguished(rows: Sequence[Entry]) -> list[Entry]:
    """Rows of one label; in the titles of all but the first stands what of its means and program is another."""
    first, *others = rows

    def otherwise(row: Entry) -> str:
        means = [str(one) for one, usual in zip(row.means, first.means, strict=True) if one != usual]
        program = f"program {row.program}" if row.program else "not compiled"
        return ", ".join([*means, *([program] if row.program != first.program else [])])

    return [first, *(replace(row, title=f"{row.title} ({otherwise(row)})") for row in others)]


def notes_on_overlap(entries: Iterable[Entry]) -> tuple[str, ...]:
    """What is said under each table of which rows hold questions that were learned from."""
    return overlap_notes(
        (one.title, len(one.learned), len(one.expected), one.header.learned_unknown) for one in entries
    )


def _mixed(first: QuestionSummary, its_header: RunHeader, line: QuestionSummary, header: RunHeader) -> str:
    """Why two lines are no answers to one question."""
    files = " and ".join(f"{one.label}.jsonl ({one.method})" for one in (its_header, header))
    if first.question != line.question:
        differing = f"different questions, {first.question!r} and {line.question!r},"
    elif first.answers == line.answers:
        differing = f"different choices for {line.question!r}"
    else:
        differing = f"different gold answers, {list(first.answers)} and {list(line.answers)},"
    return (
        f"{files} hold {differing} under the id {line.id!r} of {called((header.dataset, header.split))}: they were run "
        "on different data, or the data were changed in between. Report on them apart, or run one of them again"
    )
