"""Runs as the rows of a table, their questions as its groups of columns, and which rows are points of one curve."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from keqa.errors import InputError
from keqa.evaluation.records import Run, RunHeader, RunSettings
from keqa.evaluation.reports.questions import NOT_COMPARABLE_ABOVE, QuestionRow, QuizRow, brief_of, unparsed
from keqa.evaluation.tally import MARK
from keqa.programs.registry import METHODS

KEQA = "keqa"
"""The method that all others are compared with."""

Identity = tuple[str, str, str]
"""A question: its data set, the split of it, and its id."""

Facet = Literal["threshold", "top_k", "gate", "retriever", "lm"]
"""A setting that a figure or table is about."""

WITHOUT_REFERENCE = METHODS["keqa-no-reference"].title
_PROGRAM = re.compile(r"(?:--program|-p)[ =]('[^']*'|\S+)")
_ORDER = ("baseline", "keqa", "ablation", "gate")
# Another language model may have been compiled with demonstrations of its own, and is compared as it is used.
_ANY_PROMPTS = ("retriever", "lm")
# Questions of no kind, beside others of some.
_OTHER = "other"
# What two programs call themselves in Python: the method's name, and that of its form that reasons.
_CALLED = {"closed book": ("closed-book", "cot"), "always retrieve": ("rag", "rag-cot")}
# What all runs have to have in common of one question, by what it is called.
_SAME = {"questions": "question", "gold answers": "answers", "choices": "choices", "types of answer": "answer_type"}
_T = TypeVar("_T")
_K = TypeVar("_K", bool, int)


@dataclass(frozen=True, eq=False)
class Entry:
    """A row: one label over all data sets that it was run on."""

    header: RunHeader
    title: str
    lines: dict[Identity, QuestionRow] = field(default_factory=dict)
    expected: set[Identity] = field(default_factory=set)
    learned: set[Identity] = field(default_factory=set)

    @property
    def label(self) -> str:
        return self.header.label

    @property
    def method(self) -> str:
        return _method_of(self.header)

    @property
    def settings(self) -> RunSettings:
        return self.header.configuration

    @property
    def means(self) -> tuple[str | None, ...]:
        return self.settings.lm, self.settings.retriever

    @property
    def program(self) -> str:
        """The compiled program that served, by the name of its folder; empty where none did."""
        named = _PROGRAM.search(self.header.command)
        return Path(named[1].strip("'\"")).name if named and self.header.compiled else self.header.compiled

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
    def base(self) -> tuple[Any, ...]:
        """Prompts and reference, which points of one curve have in common."""
        return self.settings.prompts, json.dumps(self.settings.reference, sort_keys=True)

    @cached_property
    def comparable(self) -> bool:
        """Whether so many outputs parsed that the method was measured, and not its prompts."""
        return unparsed(self.within()) <= NOT_COMPARABLE_ABOVE

    def within(self, group: "Group | None" = None) -> list[QuestionRow]:
        """Its lines of a group; all of them where that is None."""
        return [line for identity, line in self.lines.items() if group is None or identity in group.questions]

    def on(self, dataset: str) -> list[QuestionRow]:
        return [line for (where, _, _), line in self.lines.items() if where == dataset]

    def of(self, questions: Iterable[Identity]) -> list[QuestionRow]:
        return [self.lines[one] for one in questions]

    def checked(self, group: "Group | None" = None) -> Iterator[QuizRow]:
        """The quizzes of a group whose gold answers are known, each text once and one in memory at a time."""
        seen: set[str] = set()
        for quiz in (quiz for line in self.within(group) for quiz in line.checked):
            if quiz.text not in seen:
                seen.add(quiz.text)
                yield quiz


@dataclass(frozen=True)
class Group:
    """Questions that have columns of their own."""

    name: str
    questions: frozenset[Identity]
    polar: bool

    @property
    def scores(self) -> tuple[tuple[str, str], ...]:
        """Heading and measure of each of its scores, as in Table 1; the first where there is room for one."""
        return (("ACC", "accuracy"),) if self.polar else (("F1", "f1"), ("EM", "em"))


def entries_of(runs: Sequence[Run[Any]]) -> list[Entry]:
    """The rows that runs make: one of one label and method on several data sets, in the order of the paper's Table 1.

    Where two of them are on one data set, with other language models, retrievers or compiled programs, each of these
    has a row, and the titles of the later ones say so.
    """
    if not runs:
        raise InputError("there is no run to report on")
    found: dict[tuple[str, str], list[Entry]] = {}
    asked: dict[Identity, tuple[QuestionRow, RunHeader]] = {}
    for run in runs:
        header = run.header
        place = (header.dataset, header.split)
        entry = _row_of(header, found.setdefault((header.label, _method_of(header)), []))
        if _is_on(entry, place):
            raise InputError(
                f"there are two runs '{header.label}' on {' '.join(filter(None, place)) or 'one data set'}: give one, "
                "or name one of them otherwise, by the label in its first line; --label names a new run"
            )
        entry.expected.update((*place, one) for one in header.ids)
        entry.learned.update((*place, one) for one in header.learned_from)
        for line in (one if isinstance(one, QuestionRow) else brief_of(one) for one in run.lines):
            first, its_header = asked.setdefault((*place, line.id), (line, header))
            for what, name in _SAME.items():
                one, other = getattr(first, name), getattr(line, name)
                if one != other:
                    files = " and ".join(f"{of.label}.jsonl ({of.method})" for of in (its_header, header))
                    raise InputError(
                        f"{files} hold different {what}, {one!r} and {other!r}, under the id {line.id!r} of "
                        f"{' '.join(filter(None, place))}: they were run on different data, or the data were changed "
                        "in between. Report on them apart, or run one of them again"
                    )
            entry.lines[(*place, line.id)] = line
    rows = [
        replace(entry, title=f"{entry.title}{MARK}") if entry.learned else entry
        for alike in found.values()
        for entry in _distinguished(alike)
    ]
    return _named_apart(sorted(rows, key=lambda entry: _ORDER.index(entry.kind)))


def _method_of(header: RunHeader) -> str:
    plain, reasoning = _CALLED.get(header.method, (header.method, header.method))
    return reasoning if header.configuration.settings.get("reason") is True else plain


def title_of(method: str, label: str, settings: Mapping[str, Any], *, without_reference: bool = False) -> str:
    """What a row is called, which is what ran: the method's title, what it lacks, the arguments of its label."""
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
    """The groups of columns: data sets where there are several, else kinds of question, else all questions."""
    lines: dict[Identity, QuestionRow] = {}
    for entry in entries:
        lines |= {identity: line for identity, line in entry.lines.items() if identity not in lines}
    places = dict.fromkeys(identity[:2] for identity in lines)
    datasets = Counter(dataset for dataset, _ in places)
    members: dict[tuple[int, str], list[Identity]] = {}
    for identity, line in lines.items():
        dataset, split, _ = identity
        whole = f"{dataset} {split}".strip() if datasets[dataset] > 1 else dataset
        kinds = line.kind.split("; ") if len(places) == 1 else [whole]
        for place in enumerate(name or _OTHER for name in kinds):
            members.setdefault(place, []).append(identity)
    # What comes first of each question, such as how fast an answer changes, stands together.
    named = sorted(members.items(), key=lambda member: member[0][0])
    return [
        Group(
            name if len(named) > 1 else "",
            frozenset(found),
            all(lines[one].answer_type != "short" for one in found),
        )
        for (_, name), found in named
    ]


def whole(entries: Iterable[Entry], dataset: str = "all") -> Group:
    """All questions that rows were asked, or those of a data set."""
    asked = (one for entry in entries for one in entry.lines)
    return Group(dataset, frozenset(one for one in asked if dataset in ("all", one[0])), polar=False)


def of_method(entries: Iterable[Entry], method: str) -> Entry | None:
    """The row that stands for a method: the one labelled like it, else its first."""
    found = [entry for entry in entries if entry.method == method]
    return next((entry for entry in found if entry.label == method), found[0] if found else None)


def by_lm(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Rows by the language model that answers, in their order; an empty name where run files name none."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.settings.lm or "", []).append(entry)
    return found


def shared(rows: Sequence[Entry], group: Group | None = None) -> list[Identity]:
    """The questions of a group that all of some rows were asked, in the order of the first."""
    first, *others = (row.lines for row in rows)
    return [one for one in first if (group is None or one in group.questions) and all(one in row for row in others)]


def parted(questions: Iterable[Identity], by: Callable[[Identity], _K | None]) -> dict[_K, list[Identity]]:
    """Questions by something that they have, in its order; those that have it not are in no part."""
    found: dict[_K, list[Identity]] = {}
    for one in questions:
        if (key := by(one)) is not None:
            found.setdefault(key, []).append(one)
    return dict(sorted(found.items()))


def paired(
    one: Entry, other: Entry, of: Callable[[QuestionRow], _T], group: Group | None = None
) -> tuple[list[_T], list[_T]]:
    """Something of the lines of two rows, over the questions of a group that both were asked, pair by pair."""
    both = shared([one, other], group)
    return list(map(of, one.of(both))), list(map(of, other.of(both)))


def sweep(entries: Sequence[Entry], method: str, facet: Facet) -> list[Entry]:
    """The longest curve of a method: rows that differ in one setting alone, in its order; none of one value only."""
    curves: dict[Any, dict[Any, Entry]] = {}
    for entry in entries:
        value = getattr(entry.settings, facet)
        if entry.method == method and value is not None:
            same = (_facets(entry, besides=facet), None if facet in _ANY_PROMPTS else entry.base)
            curves.setdefault(same, {}).setdefault(value, entry)
    longest = max(curves.values(), key=len, default={})
    if len(longest) < 2:
        return []
    ordered = sorted(longest) if all(isinstance(value, int | float) for value in longest) else list(longest)
    return [longest[value] for value in ordered]


def main_rows(entries: Sequence[Entry]) -> list[Entry]:
    """The rows of Table 1: gates, and points of the other figures and tables, are left to those.

    A row is such a point where it differs from the one that is called like its method in nothing but a setting that a
    figure or table is about, in no more than an argument in its label that says what is usual, or has the label of an
    earlier one with another language model or retriever. Where none is called so, as of a method that was run for a
    figure alone, all of them are. A row with questions that the usual one was not asked is never one.
    """
    return [entry for entry in entries if entry.kind != "gate" and not _is_point(entry, entries)] or list(entries)


def _is_point(entry: Entry, entries: Sequence[Entry]) -> bool:
    earlier = takewhile(lambda one: one is not entry, entries)
    if any((one.label, one.method) == (entry.label, entry.method) and one.means != entry.means for one in earlier):
        return True
    others = [one for one in entries if one.method == entry.method and one is not entry and one.base == entry.base]
    usual = of_method(entries, entry.method)
    if usual is None or not others or usual.base != entry.base:
        return False
    if entry.label == entry.method or (entry.method == KEQA and entry is usual) or entry.expected - usual.expected:
        return False
    named = usual.label == usual.method or entry.method == KEQA
    # A second run of the same has a name of the user's; an argument that says what is usual makes no row.
    asked, as_usual = (one.settings.model_dump(exclude={"arguments"}) for one in (entry, usual))
    if named and asked == as_usual:
        return entry.label.startswith(f"{entry.method}-") and "=" in entry.label
    return any(_facets(other) != _facets(entry) for other in ([usual] if named else others))


def _facets(entry: Entry, besides: str = "") -> tuple[Any, ...]:
    """What a run was set up with, as far as figures and tables are about it."""
    return tuple(getattr(entry.settings, name) for name in get_args(Facet) if name != besides)


def _row_of(header: RunHeader, rows: list[Entry]) -> Entry:
    lacking, settings = header.configuration.lacks_reference, header.configuration.settings
    new = Entry(header, title_of(_method_of(header), header.label, settings, without_reference=lacking))
    alike = [row for row in rows if (row.means, row.program) == (new.means, new.program)]
    # A data set may have a program of its own, but what is compiled and what is not are two things.
    place = (header.dataset, header.split)
    free = [row for row in rows if not _is_on(row, place) and bool(row.program) == bool(new.program)]
    if not (alike or free):
        rows.append(new)
    return [*alike, *free, new][0]


def _is_on(entry: Entry, place: tuple[str, str]) -> bool:
    return any(identity[:2] == place for identity in entry.expected)


def _named_apart(rows: Sequence[Entry]) -> list[Entry]:
    """Rows of which a later one with the title of an earlier one has its label beside it, or its method."""
    found: dict[str, Entry] = {}
    for row in rows:
        title = row.title
        while (earlier := found.get(title)) is not None:
            title = f"{title} ({row.method if row.label == earlier.label else row.label})"
        found[title] = replace(row, title=title)
    return list(found.values())


def _distinguished(rows: Sequence[Entry]) -> list[Entry]:
    """Rows of one label; in the titles of all but the first stands what of its means and program is another."""
    first, *others = rows

    def otherwise(row: Entry) -> str:
        means = [str(one) for one, usual in zip(row.means, first.means, strict=True) if one != usual]
        program = f"program {row.program}" if row.program else "not compiled"
        return ", ".join([*means, *([program] if row.program != first.program else [])])

    return [first, *(replace(row, title=f"{row.title} ({otherwise(row)})") for row in others)]
