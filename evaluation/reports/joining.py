"""Joining runs to rows: those of one label and method are one row, on however many data sets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from keqa.errors import InputError
from keqa.evaluation.records import Run, RunHeader
from keqa.evaluation.reports.facets import facets_of, gate_threshold
from keqa.evaluation.reports.rows import Entry, Identity, called
from keqa.evaluation.reports.summary import QuestionSummary, RunSummary, brief_of
from keqa.programs.registry import METHODS

__all__ = ["entries_of", "title_of"]

_ORDER = ("baseline", "keqa", "ablation", "gate")


def entries_of(runs: Sequence[Run | RunSummary]) -> list[Entry]:
    """The rows that runs make: those of one label and method on several data sets make one.

    Where two of them are on one data set, with other language models or retrievers, each of these has a row, and the
    titles of the later ones say so. Existing methods come first, then KEQA, its ablations and gates, each in the order
    given, as in the paper's Table 1.

    Raises:
        InputError: Two runs of one label are on one data set, with the same language model and retriever; or two runs
            hold different questions, or different gold answers, under one id.
    """
    found: dict[tuple[str, str], list[Entry]] = {}
    asked: dict[Identity, tuple[QuestionSummary, RunHeader]] = {}
    for run in runs:
        header = run.header
        place = (header.dataset, header.split)
        entry = _row_of(header, found.setdefault((header.label, header.method), []))
        if _is_on(entry, place):
            raise InputError(f"there are two runs '{header.label}' on {called(place) or 'one data set'}: give one")
        entry.expected.update((*place, one) for one in header.ids)
        for line in (one if isinstance(one, QuestionSummary) else brief_of(one) for one in run.lines):
            first, its_header = asked.setdefault((*place, line.id), (line, header))
            if first.content != line.content:
                raise InputError(_mixed(first, its_header, line, header))
            entry.lines[(*place, line.id)] = line
    rows = [entry for alike in found.values() for entry in _distinguished(alike)]
    return sorted(rows, key=lambda entry: _ORDER.index(entry.kind))


def title_of(method: str, label: str, settings: Mapping[str, Any]) -> str:
    """What a row is called: the method's title, with the arguments of its label; else the label.

    Settings that take away what a method's paper describes are named, too; see `keqa.programs.registry.Method`.
    """
    known = METHODS.get(method)
    if known is None or not f"{label}-".startswith(f"{method}-"):
        return label
    title = f"KEQA {known.title}" if known.kind == "ablation" else known.title
    form, less = known.reduced or ("", {})
    reduced = form if less and less.items() <= settings.items() else ""
    details = ", ".join(filter(None, (reduced, label[len(method) + 1 :])))
    return f"{title} ({details})" if details else title


def _row_of(header: RunHeader, rows: list[Entry]) -> Entry:
    """The row of a run among those of its label and method; a new one where it belongs to none."""
    new = _entry(header)
    alike = next((row for row in rows if _means(row) == _means(new)), None)
    free = next((row for row in rows if not _is_on(row, (header.dataset, header.split))), None)
    if alike is None and free is None:
        rows.append(new)
    return alike or free or new


def _means(entry: Entry) -> tuple[str | None, ...]:
    return entry.facets.lm, entry.facets.retriever


def _is_on(entry: Entry, place: tuple[str, str]) -> bool:
    return any(identity[:2] == place for identity in entry.expected)


def _distinguished(rows: Sequence[Entry]) -> list[Entry]:
    """Rows of one label; in the titles of all but the first stands what of language model and retriever is another."""
    first, *others = rows
    return [first, *(replace(row, title=f"{row.title} ({_otherwise(row, first)})") for row in others)]


def _otherwise(row: Entry, first: Entry) -> str:
    return ", ".join(str(one) for one, usual in zip(_means(row), _means(first), strict=True) if one != usual)


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


def _demonstrated(header: RunHeader) -> bool | None:
    """Whether there are demonstrations in the prompts of a run; None where nothing says so."""
    if header.demonstrations is not None:
        return any(header.demonstrations.values())
    # A file that does not count them still shows what a method cannot do without.
    known = METHODS.get(header.method)
    reference = header.configuration.get("reference") or {"variant": "none"}
    return True if (known is not None and known.learned) or reference.get("variant") != "none" else None


def _judge(header: RunHeader) -> str:
    shown = (header.demonstrations or {}).get("examination.same")
    return json.dumps([header.configuration.get("models", {}).get("consistency"), shown], sort_keys=True)


def _entry(header: RunHeader) -> Entry:
    configuration = header.configuration
    known = METHODS.get(header.method)
    own = configuration.get("program") == "KEQA"
    return Entry(
        label=header.label,
        method=header.method,
        title=title_of(header.method, header.label, configuration.get("settings", {})),
        kind=known.kind if known is not None else "ablation" if own else "baseline",
        facets=facets_of(header),
        demonstrated=_demonstrated(header),
        base=f"{configuration.get('prompts')} {configuration.get('reference')}",
        setting=json.dumps({name: configuration[name] for name in sorted(configuration) if name != "arguments"}),
        threshold=gate_threshold(header),
        judge=_judge(header),
    )
