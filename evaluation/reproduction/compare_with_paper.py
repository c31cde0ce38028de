"""The KEQA paper's figures beside those of a run of its experiments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from keqa.evaluation.reports.grid import Grid, Named, number, table, text
from keqa.evaluation.reports.judge import (
    Labels,
    accuracies,
    labelled_by_group,
    pairs_by_group,
    same_judge,
)
from keqa.evaluation.reports.parts import untouched_note
from keqa.evaluation.reports.questions import Question, measure
from keqa.evaluation.reports.rows import KEQA, Entry, Group, of_method
from keqa.evaluation.reproduction.published import (
    COLUMNS,
    COSTS,
    DATASETS,
    SECONDS,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TABLE_4,
    TABLE_5,
)

DENSE = "dense"
"""Ends the labels of runs with a dense retriever."""

_NOTE = "The paper's figures are for gpt-3.5-turbo and BM25 over Wikipedia of December 2018, on 500 questions a set."
_HEADINGS = {"f1": "F1", "em": "EM", "accuracy": "ACC", "retrievals": "R", "task samples": "L", "task tokens": "token"}
_COUNTED = (
    "R: retrievals, L: LM calls, each try one, time: seconds. L and token are those of the task LM on both sides: the "
    "paper's seem to leave out its judges D_s and D_u."
)
_SUMMED = (
    "Seconds of all calls of a step added up, whether they were made one after another, as the paper's seem to be, or "
    "side by side."
)
_PRIMARY = {"strategyqa": "accuracy"}
_TITLES = {"keqa": "KEQA", "rag": "RAG"}


def compare_with_paper(entries: Sequence[Entry], labels: Labels | None = None, labelled_by: str = "") -> list[Grid]:
    """Tables 1 to 5 and the seconds by step, each figure of the paper beside the one here."""
    usual = [entry for entry in entries if entry.label == entry.method]
    dense = [entry for entry in entries if entry.label == f"{entry.method}-{DENSE}"]
    datasets = [name for name in DATASETS if any(_on(entry, name) for entry in entries)]
    primary = [(dataset, _PRIMARY.get(dataset, "f1")) for dataset in datasets]
    dpr = {(method, dataset, _PRIMARY.get(dataset, "f1")): value for (method, dataset), value in TABLE_3.items()}
    spent = [(dataset, name) for dataset in datasets for name in COSTS]
    found = (
        _pairs(
            "paper-table1", "Table 1, here and in the paper", usual, [c for c in COLUMNS if c[0] in datasets], TABLE_1
        ),
        _judges(entries, datasets, labels, labelled_by),
        _pairs("paper-table3", "Table 3, with a dense retriever, here and with the paper's DPR", dense, primary, dpr),
        _other_models(primary),
        _pairs("paper-table5", "Table 5, costs of a question, here and in the paper", usual, spent, TABLE_5, _COUNTED),
        _steps(usual),
    )
    return [grid for grid in found if grid is not None]


def _pairs(
    name: str,
    title: str,
    entries: Sequence[Entry],
    columns: Sequence[tuple[str, str]],
    paper: Mapping[tuple[str, str, str], float],
    *notes: str,
) -> Grid | None:
    """A row for each method that the paper has too, a pair of columns for each of its figures.

    A row stands beside the paper's row for what ran: KEQA without a utility reference beside its "w/o R".
    """
    kept = [entry for entry in entries if any((entry.as_published, *c) in paper for c in columns)]
    if not kept:
        return None
    shown = [c for c in columns if any((entry.as_published, *c) in paper for entry in kept)]
    scored = any(m in ("f1", "em", "accuracy") for _, m in shown)
    rows = ([("method", text(entry.title)), *_cells(entry, shown, paper)] for entry in kept)
    all_notes = (_NOTE, *notes, *_incomparable(kept), *([untouched_note(kept)] if scored else []))
    return table(name, title, rows, *all_notes)


def _cells(
    entry: Entry, columns: Sequence[tuple[str, str]], paper: Mapping[tuple[str, str, str], float]
) -> Iterator[Named]:
    for dataset, name in columns:
        group = f"{dataset} {_HEADINGS.get(name, 'time')}"
        here = measure(name, _on(entry, dataset)) if entry.comparable else None
        yield ("here", group), number(here)
        yield ("paper", group), number(paper.get((entry.as_published, dataset, name)) if entry.comparable else None)


def _incomparable(entries: Sequence[Entry]) -> Iterator[str]:
    """Which rows have no figures, here or of the paper, for it is their prompts that were measured."""
    titles = ", ".join(entry.title for entry in entries if not entry.comparable)
    if titles:
        yield f"Not comparable, for too many outputs did not parse, and so without figures of either side: {titles}."


def _judges(entries: Sequence[Entry], datasets: Sequence[str], labels: Labels | None, labelled_by: str) -> Grid | None:
    """Table 2: how often D_s and BERTScore are right; None where no pair was judged."""
    keqa = of_method(entries, KEQA)
    shown = [dataset for dataset in datasets if ("D_s", dataset) in TABLE_2]
    if keqa is None or not shown:
        return None
    rows = same_judge(entries, keqa)
    asked = frozenset(identity for entry in rows for identity in entry.lines)
    groups = [Group(name, frozenset(one for one in asked if one[0] == name), False) for name in shown]
    pairs = pairs_by_group(rows, groups) if labels is None else labelled_by_group(keqa, groups, labels)
    if not any(pairs):
        return None
    found, judged_by = accuracies(pairs)
    lines: list[list[Named]] = []
    for name in dict.fromkeys(name for name, _ in TABLE_2):
        lines.append([("judge", text(name))])
        for dataset, here in zip(shown, found.get(name, [None] * len(pairs)), strict=True):
            lines[-1] += [(("here", dataset), number(here)), (("paper", dataset), number(TABLE_2[name, dataset]))]
    counts = ", ".join(f"{len(some)} on {dataset}" for dataset, some in zip(shown, pairs, strict=True))
    truth = (
        "the gold answers of quizzes, as far as the data have them"
        if labels is None
        else f"the labels of {labelled_by}, of the pairs that KEQA's own run compared"
    )
    note = (
        f"The paper's D_s is LLaMA, and its truth the labels of GPT-3.5; here it is {truth}. Pairs here: {counts}. "
        f"{judged_by}"
    )
    return table("paper-table2", "Table 2, the judge of consistency, here and in the paper", lines, note)


def _steps(entries: Sequence[Entry]) -> Grid | None:
    """Seconds of a question by step (section 4.2, efficiency analysis), on the data set that the paper's go with."""
    keqa = of_method(entries, KEQA)
    lines = [] if keqa is None else _on(keqa, "strategyqa")
    here = {step: measure(f"{step} seconds", lines) for step in SECONDS}
    if not lines or None in here.values():
        return None
    rows: list[list[Named]] = [
        [
            ("step", text(step)),
            (("here", "strategyqa"), number(here[step], 2)),
            (("paper", "strategyqa"), number(SECONDS[step], 2)),
        ]
        for step in SECONDS
    ]
    return table("paper-steps", "Seconds of a question by step, here and in the paper", rows, _SUMMED)


def _other_models(columns: Sequence[tuple[str, str]]) -> Grid | None:
    """The paper's Table 4 as it stands: its language models are not those of this run."""
    shown = [c for c in columns if ("keqa", "GPT-4", c[0]) in TABLE_4]
    pairs = dict.fromkeys((method, lm) for method, lm, _ in TABLE_4)
    rows: list[list[Named]] = [
        [
            ("method", text(f"{_TITLES[method]} w {lm}")),
            *(((_HEADINGS[m], d), number(TABLE_4[method, lm, d])) for d, m in shown),
        ]
        for method, lm in pairs
    ]
    return table("paper-table4", "Table 4 of the paper: other language models", rows) if shown else None


def _on(entry: Entry, dataset: str) -> list[Question]:
    return [line for (where, _, _), line in entry.lines.items() if where == dataset]
