"""The KEQA paper's figures beside those of a run of its experiments."""

from collections.abc import Sequence

from keqa.evaluation.reports.grid import Grid, Named, number, table, text
from keqa.evaluation.reports.judge import Labels, accuracies, pairs_by_group, same_judge
from keqa.evaluation.reports.parts import untouched_note
from keqa.evaluation.reports.published import datasets, published
from keqa.evaluation.reports.questions import measure
from keqa.evaluation.reports.rows import KEQA, Entry, of_method, whole
from keqa.evaluation.reproduction.experiments import DENSE

_NOTE = "The paper's figures are for gpt-3.5-turbo and BM25 over Wikipedia of December 2018, on 500 questions a set."
_HEADINGS = {"f1": "F1", "em": "EM", "accuracy": "ACC", "retrievals": "R", "task samples": "L", "task tokens": "token"}
_SCORES = ("f1", "em", "accuracy")
_COUNTED = (
    "R: retrievals, L: LM calls, each try one, time: seconds. L and token are those of the task LM on both sides: the "
    "paper's seem to leave out its judges D_s and D_u."
)
_SUMMED = (
    "Seconds of all calls of a step added up, whether they were made one after another, as the paper's seem to be, or "
    "side by side."
)
_TITLES = {"keqa": "KEQA", "rag": "RAG"}


def compare_with_paper(entries: Sequence[Entry], labels: Labels | None = None, labelled_by: str = "") -> list[Grid]:
    """Tables 1 to 5 and the seconds by step, each figure of the paper beside the one here."""
    usual = [entry for entry in entries if entry.label == entry.method]
    dense = [entry for entry in entries if entry.label == f"{entry.method}-{DENSE}"]
    there = [name for name in datasets("keqa") if any(entry.on(name) for entry in entries)]
    first = _pairs("table1", there, "Table 1, here and in the paper", usual)
    third = _pairs("table3", there, "Table 3, with a dense retriever, here and with the paper's DPR", dense)
    fifth = _pairs("table5", there, "Table 5, costs of a question, here and in the paper", usual, _COUNTED)
    judges = _judges(entries, there, labels, labelled_by)
    found = (first, judges, third, _other_models(there), fifth, _steps(usual))
    return [grid for grid in found if grid is not None]


def _pairs(name: str, datasets: Sequence[str], title: str, entries: Sequence[Entry], *notes: str) -> Grid | None:
    """A row for each method beside the paper's row for what ran, a pair of columns for each of its figures."""
    figures = published("keqa", name)
    kept = {entry: row for entry in entries if (row := _as_published(entry)) in {method for method, _, _ in figures}}
    columns = dict.fromkeys((dataset, of) for place in datasets for _, dataset, of in figures if dataset == place)
    shown = [one for one in columns if any((row, *one) in figures for row in kept.values())]
    if not shown:
        return None
    rows: list[list[Named]] = []
    for entry, row in kept.items():
        rows.append([("method", text(entry.title))])
        for dataset, of in shown:
            both = (measure(of, entry.on(dataset)), figures.get((row, dataset, of)))
            rows[-1] += _both(f"{dataset} {_HEADINGS.get(of, 'time')}", *(both if entry.comparable else (None, None)))
    scored = [untouched_note(list(kept))] if any(of in _SCORES for _, of in shown) else []
    if incomparable := ", ".join(entry.title for entry in kept if not entry.comparable):
        # It is their prompts that were measured.
        why = "Not comparable, for too many outputs did not parse, and so without figures of either side"
        notes = (*notes, f"{why}: {incomparable}.")
    return table(f"paper-{name}", title, rows, _NOTE, *notes, *scored)


def _both(group: str, here: float | None, there: float | None, digits: int = 3) -> list[Named]:
    return [(("here", group), number(here, digits)), (("paper", group), number(there, digits))]


def _as_published(entry: Entry) -> str:
    """The method of the KEQA paper's tables that ran, by its name; empty where the paper has none."""
    if not (entry.own and entry.settings.lacks_reference):
        return entry.method
    return "keqa-no-reference" if entry.kind == KEQA or entry.method == "keqa-no-reference" else ""


def _judges(entries: Sequence[Entry], datasets: Sequence[str], labels: Labels | None, labelled_by: str) -> Grid | None:
    """Table 2: how often D_s and BERTScore are right; None where no pair was judged."""
    keqa, figures = of_method(entries, KEQA), published("keqa", "table2")
    shown = [dataset for dataset in datasets if ("D_s", dataset) in figures]
    if keqa is None or not shown:
        return None
    rows = same_judge(entries, keqa)
    groups = [whole(rows, name) for name in shown]
    pairs = pairs_by_group(rows if labels is None else [keqa], groups, labels)
    if not any(pairs):
        return None
    found, judged_by = accuracies(pairs)
    lines: list[list[Named]] = []
    for name in dict.fromkeys(name for name, _ in figures):
        lines.append([("judge", text(name))])
        for dataset, here in zip(shown, found.get(name, [None] * len(pairs)), strict=True):
            lines[-1] += _both(dataset, here, figures[name, dataset])
    counts = ", ".join(f"{len(some)} on {dataset}" for dataset, some in zip(shown, pairs, strict=True))
    truth = "the gold answers of quizzes, as far as the data have them"
    if labels is not None:
        truth = f"the labels of {labelled_by}, of the pairs that KEQA's own run compared"
    note = (
        f"The paper's D_s is LLaMA, and its truth the labels of GPT-3.5; here it is {truth}. Pairs here: {counts}. "
        f"{judged_by}"
    )
    return table("paper-table2", "Table 2, the judge of consistency, here and in the paper", lines, note)


def _steps(entries: Sequence[Entry]) -> Grid | None:
    """Seconds of a question by step (section 4.2, efficiency analysis), on the data set that the paper's go with."""
    keqa, place = of_method(entries, KEQA), "strategyqa"
    lines = [] if keqa is None else keqa.on(place)
    rows: list[list[Named]] = []
    for (step, _), there in published("keqa", "seconds").items():
        here = measure(f"{step} seconds", lines)
        if here is None:
            return None
        rows.append([("step", text(step)), *_both(place, here, there, 2)])
    return table("paper-steps", "Seconds of a question by step, here and in the paper", rows, _SUMMED)


def _other_models(datasets: Sequence[str]) -> Grid | None:
    """The paper's Table 4 as it stands: its language models are not those of this run."""
    rows: dict[str, list[Named]] = {}
    for (method, lm, dataset, name), value in published("keqa", "table4").items():
        title = f"{_TITLES[method]} w {lm}"
        cells = rows.setdefault(title, [("method", text(title))])
        cells += [((_HEADINGS[name], dataset), number(value))] if dataset in datasets else []
    shown = any(len(cells) > 1 for cells in rows.values())
    return table("paper-table4", "Table 4 of the paper: other language models", rows.values()) if shown else None
