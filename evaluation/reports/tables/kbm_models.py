"""KBM's Table 4 and its Figures 6 and 9: other language models, rare answers, and passages with the answers masked."""

from __future__ import annotations

from collections.abc import Sequence

from keqa.evaluation.overlap import MARK
from keqa.evaluation.reports.grid import EMPTY, Cell, Column, Grid, Row, count, number, share, text
from keqa.evaluation.reports.rows import Entry, Identity, by_language_model, groups_of, of_method, title_of
from keqa.evaluation.reports.tables.kbm import (
    COLUMNS,
    compared,
    figures_of,
    mean_score,
    name_of,
    place_of,
    printed,
    score,
)
from keqa.evaluation.reproduction.published_kbm import SIZES, TABLE_4

_MODEL = Column("language model", right=False)
_PUBLISHED = {
    "llm": "LLM",
    "rag": "RAG",
    "prompt": "Prompt",
    "self-rag": "Self-RAG",
    "kbm-acc": "KBM-Acc",
    "kbm-cer": "KBM-Cer",
}
# From how many of the passages that name the answer on a group of questions begins.
_FREQUENCIES = {0: "none", 1: "1", 2: "2", 3: "3 to 5", 6: "6 or more"}


def plug_in_table(entries: Sequence[Entry]) -> Grid | None:
    """Table 4: the boundary model in front of several language models.

    Args:
        entries: The rows; none without ``closed-book``, ``rag`` and ``kbm`` on two language models.
    """
    models = list(compared(entries))
    if len(models) < 2:
        return None
    groups = groups_of([row for one in models for row in one.rows])
    places = [place_of(group, models[0].memory) for group in groups]
    rows = []
    for one in models:
        for entry in one.rows:
            cells = [text(one.lm), text(_title(entry))]
            for group in groups:
                cells += figures_of(entry, one.memory, one.retrieval, group)
            rows.append(Row(tuple(cells), ruled=entry is one.memory))
    published = _published(places)
    columns = (Column(name, name_of(group)) for group in groups for name in COLUMNS)
    note = (
        "A/E: exact match, and accuracy of yes/no questions and choices. Rnd: what random retrieval at the row's own "
        "ratio scores in expectation. Rat: the share of questions that were searched for."
    )
    beside = (
        "The paper's rows are of its own language models, with a boundary model that was trained on Qwen2-7B. Of "
        "Prompt with GPT-4o on WebQA its two versions print two figures for Rnd (60.8 and 68.0): it is left out."
    )
    return Grid(
        "kbm-table4",
        "KBM's Table 4: the boundary model with other language models",
        (_MODEL, Column("method", right=False), *columns),
        (*rows, *published),
        (note, beside) if published else (note,),
    )


def _published(places: Sequence[str]) -> list[Row]:
    """The paper's rows, where it has figures for one of the groups."""
    lms = dict.fromkeys(lm for _, lm, dataset, _ in TABLE_4 if dataset in places)
    rows = []
    for lm in lms:
        for row, name in _PUBLISHED.items():
            cells = [printed(TABLE_4.get((row, lm, place, column))) for place in places for column in COLUMNS]
            rows.append(Row((text(f"{lm}, in the paper"), text(name), *cells), ruled=row == "llm"))
    return rows


def frequency_table(entries: Sequence[Entry]) -> Grid | None:
    """Figure 6: scores by how often the gold answer is in the passages that are found.

    Args:
        entries: None without the rows of ``closed-book``, ``rag`` and ``kbm`` on one language model, or where no
            passages of ``rag`` are known.
    """
    found = next(compared(entries), None)
    if found is None:
        return None
    members: dict[int, list[Identity]] = {}
    for identity, line in found.retrieval.lines.items():
        if line.naming is not None and all(identity in row.lines for row in found.rows):
            members.setdefault(max(one for one in _FREQUENCIES if one <= line.naming), []).append(identity)
    if not members:
        return None
    columns = (
        Column("passages with the answer", right=False),
        Column("questions"),
        *(Column(name, _title(row)) for row in found.rows for name in ("A/E", "Rat")),
    )
    rows = []
    for least, asked in sorted(members.items()):
        cells: list[Cell] = [text(_FREQUENCIES[least]), count(len(asked))]
        for row in found.rows:
            ratios = [row.lines[one].number("question retrieval ratio") or 0.0 for one in asked]
            cells += [number(mean_score(row, asked)), share(sum(ratios) / len(ratios))]
        rows.append(Row(tuple(cells)))
    note = (
        "Open questions, by how many of the passages that always retrieving found name a gold answer (KBM, Figure 6). "
        "The paper counts in its whole corpus, of which run files hold only what was found, and prints no numbers: it "
        "says that the language model alone is worse on rare answers, and that KBM gains the most there."
    )
    return Grid("kbm-figure6", "By how often the answer is found", columns, tuple(rows), (note,))


def mask_table(entries: Sequence[Entry]) -> Grid | None:
    """Figure 9: what language models answer from passages in which the gold answers are masked.

    Args:
        entries: None where no language model has the rows of ``closed-book``, ``rag`` and ``rag-masked``.
    """
    masked = {lm: three for lm, found in by_language_model(entries).items() if (three := _masked(found)) is not None}
    if not masked:
        return None
    several = len(masked) > 1
    rows = []
    for lm, found in masked.items():
        for place, cells in enumerate(_mask_rows(*found)):
            rows.append(Row((text(lm), *cells) if several else tuple(cells), ruled=several and place == 0))
    titles = map(_title, next(iter(masked.values())))
    columns = (
        *([_MODEL] if several else ()),
        Column("from memory", right=False),
        *map(Column, ("questions", *titles, "says it does not know", "answers MASK")),
    )
    notes = [
        "A/E of the language model alone, with passages, and with passages in which the gold answers are masked: what "
        "it then answers rightly is from memory. Of the questions that memory answers rightly, what is lost with "
        "masked passages is what the passages led astray; what answers MASK copies (KBM, section 2.1 and Figure 9)."
    ]
    if several:
        notes.append(
            "Of sizes the paper prints what 72 billion parameters gain over 7 on WebQA: "
            f"+{SIZES['llm']} for the language model alone, +{SIZES['rag']} with passages."
        )
    return Grid("kbm-figure9", "With the answers masked", columns, tuple(rows), tuple(notes))


def _masked(entries: Sequence[Entry]) -> tuple[Entry, Entry, Entry] | None:
    """The rows from memory, with passages and with masked ones."""
    memory, retrieval, masked = (of_method(entries, name) for name in ("closed-book", "rag", "rag-masked"))
    return None if memory is None or retrieval is None or masked is None else (memory, retrieval, masked)


def _mask_rows(memory: Entry, retrieval: Entry, masked: Entry) -> list[list[Cell]]:
    shared = [one for one in masked.lines if one in memory.lines and one in retrieval.lines]
    rows = []
    for name, right in (("right", True), ("wrong", False), ("all", None)):
        asked = [one for one in shared if right is None or (score(memory.lines[one]) >= 1) is right]
        cells = [text(name), count(len(asked))]
        cells += [number(mean_score(row, asked) if asked else None) for row in (memory, retrieval, masked)]
        lines = [masked.lines[one] for one in asked]
        for some in (sum(not line.answered for line in lines), sum(line.masked for line in lines)):
            cells.append(share(some / len(asked)) if asked else EMPTY)
        rows.append(cells)
    return rows


def _title(entry: Entry) -> str:
    """What a row is called where its language model stands beside it."""
    title = title_of(entry.method, entry.label, entry.settings.settings)
    return f"{title}{MARK}" if entry.learned else title
