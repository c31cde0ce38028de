"""The KS-LLM paper's Tables 1 to 3 and Figure 3 from run files, with its figures and the recall of the selection."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from keqa.evaluation.records import Run, RunLine
from keqa.evaluation.reports.grid import EMPTY, Cell, Column, Grid, Named, table, text
from keqa.evaluation.reports.published import datasets, paper, published
from keqa.metrics.accuracy import holds_answer
from keqa.programs.registry import METHODS

ROWS: tuple[str, ...] = tuple(paper("ks-llm")["experiments"]["rows"])
"""The rows of Table 1, by the names of the methods."""

LM = "Vicuna-13B"
"""The language model of Table 2 and Figure 3."""

_K, _TOKENS = "evidence_sentences", "document_tokens"
_DEFAULTS = {_K: 2, _TOKENS: 300}
_RECALL = (
    "EM in per cent. Recall: the share of questions whose answer stands in what the row read, its evidence sentences "
    "or the beginning of the document; yes, no and choices are left out, and so are questions that failed."
)
_LONGEST = 600


class KSRun(NamedTuple):
    """A row on a data set with an LM."""

    dataset: str
    lm: str
    method: str
    arguments: Mapping[str, int]
    run: Run[RunLine]

    @property
    def usual(self) -> bool:
        """Whether it is a row of Table 1."""
        return all(_DEFAULTS[name] == value for name, value in self.arguments.items())

    def setting(self, name: str) -> int:
        """The value of k or of the document's tokens."""
        return self.arguments.get(name, _DEFAULTS[name])

    @property
    def seconds(self) -> float:
        """What the LM took, over all questions."""
        return sum(line.record.cost.total.seconds for line in self.run.lines if line.record is not None)


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
    found = (_overall(runs), _lengths(runs), _sentences(runs), _case(runs))
    return [grid for grid in found if grid is not None]


def _overall(runs: Sequence[KSRun]) -> Grid | None:
    """Table 1: every row on every set, with every LM, and the paper's three LMs beside."""
    there = {(one.method, one.dataset, one.lm): one for one in runs if one.usual}
    if not there:
        return None
    sets, lms = dict.fromkeys(one.dataset for one in runs), dict.fromkeys(one.lm for one in runs)
    figures = published("ks-llm", "table1")
    rows: list[list[Named]] = []
    for method in ROWS:
        rows.append([("method", _title(method))])
        for dataset in sets:
            for lm in lms:
                rows[-1] += _scored(there.get((method, dataset, lm)), dataset, f"{lm} ")
            for (row, place, lm), value in figures.items():
                rows[-1] += [((f"paper, {lm}", dataset), _percent(value))] * ((row, place) == (method, dataset))
    counts = ((f"{_title(one.method).text} on {one.dataset}", len(one.run.failed)) for one in runs if one.usual)
    failed = ", ".join(f"{title} {some}" for title, some in counts if some)
    notes = [f"Questions that failed, which count as wrong: {failed}."] if failed else []
    title = "KS-LLM, Table 1, here and in the paper"
    return table("ks-llm-table1", title, rows, _RECALL, *notes, *paper("ks-llm")["remarks"])


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
    figures = published("ks-llm", "table2")
    rows: list[list[Named]] = []
    for method, tokens, one in shown:
        printed = {of: figures.get((method, str(tokens), of)) for of in ("EM", "minutes")}
        rows.append([("method", _title(method)), ("tokens", Cell(tokens, f"{tokens:,}") if tokens else EMPTY)])
        rows[-1] += [*_scored(one), ("seconds", EMPTY if one is None else Cell(one.seconds, f"{one.seconds:.1f}"))]
        rows[-1] += [("paper, EM", _percent(printed["EM"])), (Column("paper, minutes"), text(printed["minutes"] or ""))]
    note = f"On {first[0].dataset} with {first[0].lm}; the paper: TriviaQA-verified with {LM} on an A100."
    seconds = "Seconds: those of the LM's calls, over all questions, none of which a cache answered."
    return table("ks-llm-table2", "KS-LLM, Table 2, length of the document", rows, note, seconds)


def _sentences(runs: Sequence[KSRun]) -> Grid | None:
    """Figure 3: k, on the first two sets with the first LM."""
    first = [one for one in runs if one.lm == runs[0].lm]
    by_k = {(one.dataset, one.setting(_K)): one for one in first if one.method == "ks-llm"}
    ks = sorted({k for _, k in by_k})
    if len(ks) < 2:
        return None
    sets = [dataset for dataset in dict.fromkeys(one.dataset for one in first) if (dataset, ks[0]) in by_k]
    usual = {(one.dataset, one.method): one for one in first if one.usual}
    points, figures = published("ks-llm", "figure3"), published("ks-llm", "table1")
    rows: list[list[Named]] = [[("k", Cell(k, str(k)))] for k in ks]
    rows += [[("k", _title(method))] for method in ("standard", "standard-doc")]
    for dataset in sets:
        found = [(by_k.get((dataset, k)), points.get((dataset, str(k)))) for k in ks]
        for method in ("standard", "standard-doc"):
            found.append((usual.get((dataset, method)), figures.get((method, dataset, LM))))
        for row, (one, value) in zip(rows, found, strict=True):
            row += _scored(one, dataset)
            row += [(("paper, EM", dataset), _percent(value))] * (dataset in datasets("ks-llm"))
    note = f"With {runs[0].lm}; the paper: {LM}, of whose figure the text names the points of k = 2."
    return table("ks-llm-figure3", "KS-LLM, Figure 3, sentences selected", rows, note, _RECALL, ruled={len(ks)})


def _case(runs: Sequence[KSRun]) -> Grid | None:
    """Table 3: a question that KS-LLM gets right, and where there is one, that reading the document gets wrong."""
    usual = {one.method: {line.id: line for line in one.run.lines} for one in _first(runs) if one.usual}
    right = [line for line in usual.get("ks-llm", {}).values() if line.right and line.record is not None]
    if not right:
        return None
    others = {name: usual[name] for name in ("standard", "standard-doc", "cot-doc") if name in usual}

    def telling(line: RunLine) -> int:
        wrong = sum(line.id in lines and not lines[line.id].right for lines in others.values())
        return wrong + bool(selection_recall(line))

    best = max(right, key=telling)
    here = {"question": best.question, "gold answer": best.answers[0], "ks-llm": best.answer or ""}
    here |= {name: lines[best.id].answer or "no answer" for name, lines in others.items() if best.id in lines}
    for quiz in best.record.quizzes[:1] if best.record is not None else ():
        here["triples"] = "; ".join(quiz.triples)
        here["evidence"] = " ".join(f"{one.text} ({one.distance:.2f})" for one in quiz.selected)
    note = "Behind each sentence its distance from the nearest triple."
    heads = ("", "here", f"paper, {LM}")
    rows = (
        zip(heads, (_title(name), text(here.get(name, "")[:_LONGEST]), text(printed)), strict=True)
        for name, printed in paper("ks-llm")["case"].items()
    )
    return table("ks-llm-table3", "KS-LLM, Table 3, a case", rows, note)


def _first(runs: Sequence[KSRun]) -> list[KSRun]:
    return [one for one in runs if (one.dataset, one.lm) == (runs[0].dataset, runs[0].lm)]


def _title(name: str) -> Cell:
    return text(METHODS[name].title if name in METHODS else name)


def _scored(one: KSRun | None, group: str = "", before: str = "") -> list[Named]:
    """Exact match and the recall of the selection, in per cent; the latter is empty where nothing is read."""
    lines = [] if one is None else one.run.lines
    read = [held for line in lines if (held := selection_recall(line)) is not None]
    means = (100 * fmean(some) if some else None for some in ([line.right for line in lines], read))
    return [((f"{before}{head}", group), _percent(found)) for head, found in zip(("EM", "recall"), means, strict=True)]


def _percent(value: float | None) -> Cell:
    return EMPTY if value is None else Cell(value, f"{value:.2f}")
