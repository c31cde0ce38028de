"""KBM's Tables 1 to 3 and 5 and its Figures 4, 5 and 8, by the rows of a comparison, the published figures beside.

The rows are the paper's: the language model alone (``closed-book``), retrieval for every question (``rag``), a language
model that is asked (``kbm`` without a model), ``self-rag``, and ``kbm`` with a boundary model, of mastery (KBM-Acc) and
of certainty (KBM-Cer). Random retrieval at a row's own ratio needs no run: of each question it is, in expectation, the
ratio's part of what ``rag`` scores and the rest of what ``closed-book`` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from keqa.data.quiz_references import plain
from keqa.evaluation.reports.grid import EMPTY, Cell, Column, Grid, Row, count, number, share, text
from keqa.evaluation.reports.measures import measure
from keqa.evaluation.reports.quizzes import checked_quizzes
from keqa.evaluation.reports.rows import Entry, Group, Identity, by_language_model, groups_of, of_method
from keqa.evaluation.reports.summary import QuestionSummary
from keqa.evaluation.reproduction.published_kbm import FIGURE_8, TABLE_1, TABLE_2, TABLE_3

COLUMNS = ("A/E", "Rnd", "Rat")
"""What the paper's tables have of a row on a data set."""

_BOUNDS = (0.2, 0.4, 0.6, 0.8)
_PUBLISHED = TABLE_1 | {
    (row, kind or dataset, column): value for (row, dataset, kind, column), value in TABLE_3.items()
}
_PUBLISHED |= {(row, kind, column): value for (row, _, kind, column), value in TABLE_2.items()}


@dataclass(frozen=True)
class Compared:
    """The paper's rows on one language model.

    Attributes:
        lm: The language model that answers.
        entries: All rows on it.
        memory: ``closed-book``.
        retrieval: ``rag``.
        judged: Those of ``kbm``.
    """

    lm: str
    entries: list[Entry]
    memory: Entry
    retrieval: Entry
    judged: list[Entry]

    @property
    def rows(self) -> list[Entry]:
        """The rows in the paper's order."""
        reflecting = (entry for entry in self.entries if entry.method == "self-rag")
        return [self.memory, self.retrieval, *reflecting, *self.judged]


def compared(entries: Sequence[Entry]) -> Iterator[Compared]:
    """The paper's rows on each language model that has ``closed-book``, ``rag`` and ``kbm``."""
    for lm, found in by_language_model(entries).items():
        memory, retrieval = of_method(found, "closed-book"), of_method(found, "rag")
        judged = [entry for entry in found if entry.method == "kbm"]
        if memory is not None and retrieval is not None and judged:
            yield Compared(lm, found, memory, retrieval, judged)


def kbm_tables(entries: Sequence[Entry]) -> list[Grid]:
    """The tables of KBM; none without a row of ``kbm`` beside ``closed-book`` and ``rag``.

    Args:
        entries: The rows; others than the paper's are left out, and those of other language models than the first that
            has these three.
    """
    found = next(compared(entries), None)
    if found is None:
        return []
    memory, retrieval = found.memory, found.retrieval
    grids = (_overall(found.rows, memory, retrieval), _known(found), _intervals(found))
    return [grid for grid in grids if grid is not None]


def published_row(entry: Entry) -> str:
    """The row of the paper that an entry stands for; empty where there is none."""
    if entry.method != "kbm":
        return {"closed-book": "llm", "rag": "rag", "self-rag": "self-rag"}.get(entry.method, "")
    if entry.settings.settings.get("model") is None:
        return "prompt"
    return "kbm-cer" if entry.settings.settings.get("of") == "certainty" else "kbm-acc"


def score(line: QuestionSummary) -> float:
    """A/E of a question: accuracy where it has one, else EM; 0 where it failed."""
    found = line.number("accuracy")
    return (line.number("em") or 0.0) if found is None else found


def random_score(entry: Entry, memory: Entry, retrieval: Entry, group: Group | None = None) -> float | None:
    """What random retrieval at a row's own ratio scores in expectation, over the questions that all three were asked.

    Args:
        entry: The row.
        memory: ``closed-book``.
        retrieval: ``rag``.
        group: Of these questions only.
    """
    within = [one for one in entry.lines if group is None or one in group.questions]
    shared = [one for one in within if one in memory.lines and one in retrieval.lines]
    if not shared:
        return None
    ratio = sum(entry.lines[one].number("question retrieval ratio") or 0.0 for one in shared) / len(shared)
    with_passages, without = (sum(score(row.lines[one]) for one in shared) for row in (retrieval, memory))
    return (ratio * with_passages + (1 - ratio) * without) / len(shared)


def _overall(rows: Sequence[Entry], memory: Entry, retrieval: Entry) -> Grid:
    groups: list[Group | None] = [*groups_of(rows)]
    groups = [*groups, None] if len(groups) > 1 else groups
    places = {name_of(group): place_of(group, memory) for group in groups}
    compared = {name for name, place in places.items() if ("llm", place, "A/E") in _PUBLISHED}
    columns = [Column("method", right=False)]
    for group in groups:
        heading = "all" if group is None else group.name
        columns += [Column(name, heading) for name in COLUMNS]
        columns += [Column(f"{name} in the paper", heading) for name in COLUMNS if name_of(group) in compared]
    columns += [Column("tokens"), Column("seconds")]
    shown = []
    for entry in rows:
        cells: list[Cell] = [text(entry.title)]
        for group in groups:
            cells += figures_of(entry, memory, retrieval, group)
            if name_of(group) in compared:
                cells += [
                    printed(_PUBLISHED.get((published_row(entry), places[name_of(group)], name))) for name in COLUMNS
                ]
        lines = list(entry.lines.values())
        shown.append(Row((*cells, number(measure("tokens", lines), 0), number(measure("seconds", lines), 2))))
    return Grid("kbm-table1", "KBM's Tables 1 to 3 and 5", tuple(columns), tuple(shown), tuple(_notes(bool(compared))))


def figures_of(entry: Entry, memory: Entry, retrieval: Entry, group: Group | None) -> list[Cell]:
    """A/E, Rnd and Rat of a row on a group of questions."""
    lines = entry.within(group)
    ratio = measure("question retrieval ratio", lines)
    scored = sum(map(score, lines)) / len(lines) if lines else None
    # Of the two that leave no choice, chance has none either.
    chance = None if entry in (memory, retrieval) else random_score(entry, memory, retrieval, group)
    return [number(scored), number(chance), share(ratio)]


def name_of(group: Group | None) -> str:
    """What stands above the columns of a group; empty for all questions."""
    return "" if group is None else group.name


def place_of(group: Group | None, memory: Entry) -> str:
    """What the paper's figures for a group are kept under: a data set, or a kind of FreshQA's questions."""
    datasets = {dataset for dataset, _, _ in (memory.lines if group is None else group.questions)}
    if len(datasets) != 1 or group is None:
        return ""
    (dataset,) = datasets
    if dataset == "freshqa":
        return group.name
    return dataset if group.name in ("", dataset) else ""


def printed(value: float | None) -> Cell:
    """A figure of the paper, as it prints it."""
    return EMPTY if value is None else Cell(value, f"{value:.1f} %")


def _notes(compared: bool) -> Iterator[str]:
    yield (
        "A/E: exact match, and accuracy of yes/no questions and choices. Rnd: what random retrieval at the row's own "
        "ratio scores in expectation, from the rows of closed book and always retrieve. Rat: the share of questions "
        "that were searched for. Tokens and seconds are for one question; seconds where no cache answered."
    )
    if compared:
        yield (
            "The paper's figures are for Qwen2-7B-Instruct and ten results of a web search; its Chinese sets are "
            "scored by accuracy. Its Table 3 prints a ratio of 100 for the language model alone on HotpotQA: it is 0."
        )


def _known(found: Compared) -> Grid:
    """Figure 4: what is called known and unknown, and what memory and passages make of each."""
    memory, retrieval = found.memory, found.retrieval
    columns = (
        Column("method", right=False),
        Column("called", right=False),
        *map(Column, ("questions", "closed book", "always retrieve", "method")),
    )
    rows = []
    for entry in found.judged:
        for known in (True, False):
            called = [
                one
                for one, line in entry.lines.items()
                if one in memory.lines
                and one in retrieval.lines
                and any(quiz.known is known for quiz in line.quizzes[:1])
            ]
            means = (
                number(sum(score(row.lines[one]) for one in called) / len(called) if called else None)
                for row in (memory, retrieval, entry)
            )
            rows.append(Row((text(entry.title), text("known" if known else "unknown"), count(len(called)), *means)))
    note = "A/E over the questions that the row called known, and over those that it called unknown (KBM, Figure 4)."
    return Grid("kbm-figure4", "What is called known and unknown", columns, tuple(rows), (note,))


def _intervals(found: Compared) -> Grid | None:
    """Figures 5 and 8: gains and losses by how often memory is right, where a row has draws of the questions."""
    rows = found.rows
    drawn: dict[str, float] = {}
    for entry in found.entries:
        for one in checked_quizzes(entry):
            if one.quiz.complete and one.quiz.samples:
                right = sum(one.right(sample.text) for sample in one.quiz.samples if not sample.abstained)
                drawn.setdefault(plain(str(one.quiz.resolved)), right / len(one.quiz.samples))
    memory, *others = rows
    members: dict[int, list[Identity]] = {}
    for identity, line in memory.lines.items():
        accuracy = drawn.get(plain(line.question))
        if accuracy is not None and all(identity in row.lines for row in others):
            members.setdefault(sum(accuracy >= bound for bound in _BOUNDS), []).append(identity)
    if not members:
        return None
    columns = [Column("accuracy of the draws", right=False), Column("questions"), Column("A/E", memory.title)]
    columns += [Column(name, row.title) for row in others for name in ("A/E", "beneficial", "harmful")]
    shown = []
    for place, questions in sorted(members.items()):
        cells = [text(_interval(place)), count(len(questions)), number(mean_score(memory, questions))]
        for row in others:
            change = [score(row.lines[one]) - score(memory.lines[one]) for one in questions]
            cells += [number(mean_score(row, questions)), count(sum(one > 0 for one in change))]
            cells.append(count(sum(one < 0 for one in change)))
        shown.append(Row(tuple(cells)))
    note = (
        "Accuracy: the share of the draws from memory that are right, of the first row with all draws of the question. "
        "Beneficial and harmful: questions that the row answers better, and worse, than the language model alone (KBM, "
        "Figures 5 and 8; of the latter the paper prints one accuracy, for WebQA at 0: "
        f"+{FIGURE_8['kbm-acc']} for KBM-Acc, +{FIGURE_8['kbm-cer']} for KBM-Cer)."
    )
    return Grid("kbm-figure8", "By how often memory is right", tuple(columns), tuple(shown), (note,))


def mean_score(row: Entry, questions: Sequence[Identity]) -> float:
    """A/E of a row over some of its questions, of which there is one at least."""
    return sum(score(row.lines[one]) for one in questions) / len(questions)


def _interval(place: int) -> str:
    low = f"{_BOUNDS[place - 1]:g}" if place else "0"
    return f"[{low}, {_BOUNDS[place]:g})" if place < len(_BOUNDS) else f"[{low}, 1]"
