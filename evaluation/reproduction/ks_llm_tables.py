"""The KS-LLM paper's Tables 1 to 3 and Figure 3 from run files, with its figures and the recall of the selection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from keqa.evaluation.records import Run, RunLine
from keqa.evaluation.reports.grid import EMPTY, Cell, Column, Grid, Named, table, text
from keqa.evaluation.reproduction.published_ks_llm import (
    CASE,
    DATASETS,
    FIGURE_3,
    LMS,
    REMARKS,
    ROWS,
    TABLE_1,
    TABLE_2,
)
from keqa.metrics.accuracy import holds_answer
from keqa.programs.registry import METHODS

K = (1, 2, 3, 5, 10)
"""The k of Figure 3."""

LENGTHS = (300, 500, 1000, 2000)
"""The tokens of a document in Table 2."""

_K, _TOKENS = "evidence_sentences", "document_tokens"
_DEFAULTS = {_K: 2, _TOKENS: 300}
_RECALL = (
    "EM in per cent. Recall: the share of questions whose answer stands in what the row read, its evidence sentences "
    "or the beginning of the document; yes, no and choices are left out."
)
_LONGEST = 600


@dataclass(frozen=True)
class KSRun:
    """A row on a data set with an LM."""

    dataset: str
    lm: str
    method: str
    arguments: Mapping[str, int]
    run: Run

    @property
    def usual(self) -> bool:
        """Whether it is a row of Table 1."""
        return all(_DEFAULTS[name] == value for name, value in self.arguments.items())

    def setting(self, name: str) -> int:
        """The value of k or of the document's tokens."""
        return self.arguments.get(name, _DEFAULTS[name])

    @property
    def em(self) -> float:
        """Exact match, in per cent."""
        return 100 * fmean(line.scores["em"] for line in self.run.lines)

    @property
    def seconds(self) -> float:
        """What the LM took, over all questions."""
        records = [line.record for line in self.run.lines if line.record is not None]
        return sum(role.seconds for record in records for role in record.cost.by_role.values())

    @property
    def recall(self) -> float | None:
        """The recall of the selection, in per cent; None where nothing is read."""
        found = [held for line in self.run.lines if (held := selection_recall(line)) is not None]
        return 100 * fmean(found) if found else None


def selection_recall(line: RunLine) -> bool | None:
    """Whether the answer is in the evidence, or the document as read; None where nothing was, or it is no phrase."""
    record = line.record
    if record is None or record.failure is not None:
        return None
    read = [sentence for quiz in record.quizzes for sentence in quiz.evidence]
    if not any(quiz.retrieved for quiz in record.quizzes):
        if not record.passages:
            return None
        read = [passage.text for passage in record.passages if passage.kept]
    return holds_answer(read, line.answers, line.answer_type)


def ks_llm_tables(runs: Sequence[KSRun]) -> list[Grid]:
    """Every table that the runs hold something for."""
    found = (_overall(runs), _lengths(runs), _sentences(runs), _case(runs))
    return [grid for grid in found if grid is not None]


def _overall(runs: Sequence[KSRun]) -> Grid | None:
    """Table 1: every row on every set, with every LM, and the paper's three LMs beside."""
    there = {(one.method, one.dataset, one.lm): one for one in runs if one.usual}
    if not there:
        return None
    sets, lms = _unique(one.dataset for one in runs), _unique(one.lm for one in runs)
    rows: list[list[Named]] = []
    for method in ROWS:
        rows.append([("method", text(METHODS[method].title))])
        for dataset in sets:
            for lm in lms:
                rows[-1] += _scored(there.get((method, dataset, lm)), dataset, f"{lm} ")
            for lm in LMS if dataset in DATASETS else ():
                rows[-1].append(((f"paper, {lm}", dataset), _percent(TABLE_1[method, dataset, lm])))
    title = "KS-LLM, Table 1, here and in the paper"
    return table("ks-llm-table1", title, rows, _RECALL, *_failed(runs), *REMARKS)


def _lengths(runs: Sequence[KSRun]) -> Grid | None:
    """Table 2: the document's length, on the first set with the first LM."""
    first = _first(runs)
    cut = {one.setting(_TOKENS): one for one in first if one.method == "standard-doc"}
    if len(cut) < 2:
        return None
    usual = {one.method: one for one in first if one.usual}
    shown = [("standard", 0, usual.get("standard"))]
    shown += [("standard-doc", tokens, cut[tokens]) for tokens in sorted(cut)]
    shown += [("ks-llm", 0, usual.get("ks-llm"))]
    rows: list[list[Named]] = []
    for method, tokens, one in shown:
        published, minutes = TABLE_2.get((method, tokens), (None, ""))
        rows.append([("method", text(METHODS[method].title))])
        rows[-1] += [("tokens", Cell(tokens, f"{tokens:,}") if tokens else EMPTY), *_scored(one)]
        rows[-1] += [("seconds", EMPTY if one is None else Cell(one.seconds, f"{one.seconds:.1f}"))]
        rows[-1] += [("paper, EM", _percent(published)), (Column("paper, minutes"), text(minutes))]
    note = f"On {first[0].dataset} with {first[0].lm}; the paper: TriviaQA-verified with Vicuna-13B on an A100."
    seconds = "Seconds: those of the LM's calls, over all questions, none of which a cache answered."
    return table("ks-llm-table2", "KS-LLM, Table 2, length of the document", rows, note, seconds)


def _sentences(runs: Sequence[KSRun]) -> Grid | None:
    """Figure 3: k, on the first two sets with the first LM."""
    first = [one for one in runs if one.lm == runs[0].lm]
    by_k = {(one.dataset, one.setting(_K)): one for one in first if one.method == "ks-llm"}
    ks = sorted({k for _, k in by_k})
    if len(ks) < 2:
        return None
    sets = [dataset for dataset in _unique(one.dataset for one in first) if (dataset, ks[0]) in by_k]

    def row(head: Cell, found: Mapping[str, tuple[KSRun | None, float | None]]) -> list[Named]:
        cells: list[Named] = [("k", head)]
        for dataset, (one, published) in found.items():
            cells += _scored(one, dataset)
            cells += [(("paper, EM", dataset), _percent(published))] * (dataset in DATASETS)
        return cells

    rows = [row(Cell(k, str(k)), {one: (by_k.get((one, k)), FIGURE_3.get((one, k))) for one in sets}) for k in ks]
    for method in ("standard", "standard-doc"):
        usual = {one.dataset: one for one in first if one.usual and one.method == method}
        beside = {one: (usual.get(one), TABLE_1.get((method, one, LMS[0]))) for one in sets}
        rows.append(row(text(METHODS[method].title), beside))
    note = f"With {runs[0].lm}; the paper: Vicuna-13B, of whose figure the text names the points of k = 2."
    return table("ks-llm-figure3", "KS-LLM, Figure 3, sentences selected", rows, note, _RECALL, ruled={len(ks)})


def _case(runs: Sequence[KSRun]) -> Grid | None:
    """Table 3: a question that KS-LLM gets right, and where there is one, that reading the document gets wrong."""
    usual = {one.method: {line.id: line for line in one.run.lines} for one in _first(runs) if one.usual}
    right = [line for line in usual.get("ks-llm", {}).values() if line.scores["em"] == 1 and line.record is not None]
    if not right:
        return None
    others = [name for name in ("standard", "standard-doc", "cot-doc") if name in usual]

    def telling(line: RunLine) -> int:
        wrong = sum(line.id in usual[name] and usual[name][line.id].scores["em"] < 1 for name in others)
        return wrong + bool(selection_recall(line))

    best = max(right, key=telling)
    quiz = best.record.quizzes[0] if best.record is not None else None
    here = {"question": best.question, "gold answer": best.answers[0]}
    here |= {name: usual[name][best.id].answer or "no answer" for name in others if best.id in usual[name]}
    if quiz is not None:
        here |= {"triples": "; ".join(quiz.triples)}
        here |= {"evidence": " ".join(f"{one.text} ({one.distance:.2f})" for one in quiz.selected)}
    here |= {"ks-llm": best.answer or ""}
    rows: list[list[Named]] = [
        [
            ("", text(METHODS[name].title if name in METHODS else name)),
            ("here", text(here.get(name, "")[:_LONGEST])),
            ("paper, Vicuna-13B", text(paper)),
        ]
        for name, paper in CASE
    ]
    note = "Behind each sentence its distance from the nearest triple."
    return table("ks-llm-table3", "KS-LLM, Table 3, a case", rows, note)


def _failed(runs: Sequence[KSRun]) -> Iterator[str]:
    counts = [(one, sum(line.error is not None for line in one.run.lines)) for one in runs if one.usual]
    named = ", ".join(f"{METHODS[one.method].title} on {one.dataset} {failed}" for one, failed in counts if failed)
    if named:
        yield f"Questions that failed, which count as wrong: {named}."


def _first(runs: Sequence[KSRun]) -> list[KSRun]:
    """The runs on the first set with the first LM."""
    return [one for one in runs if (one.dataset, one.lm) == (runs[0].dataset, runs[0].lm)]


def _unique(names: Iterator[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _scored(one: KSRun | None, group: str = "", before: str = "") -> list[Named]:
    """EM and the recall of the selection."""
    em, recall = (EMPTY, EMPTY) if one is None else (_percent(one.em), _percent(one.recall))
    return [((f"{before}EM", group), em), ((f"{before}recall", group), recall)]


def _percent(value: float | None) -> Cell:
    return EMPTY if value is None else Cell(value, f"{value:.2f}")
