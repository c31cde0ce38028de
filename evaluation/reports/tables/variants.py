"""Tables 3 to 5 of the KEQA paper: other retrievers, other language models, and what a question costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keqa.evaluation.reports import untouched
from keqa.evaluation.reports.grid import Column, Grid, Row, number, text
from keqa.evaluation.reports.measures import measure
from keqa.evaluation.reports.rows import Entry, Group, groups_of
from keqa.evaluation.reports.summary import ROLES, STEPS
from keqa.evaluation.reports.sweeps import Facet, sweep

_COMPARED = ("keqa", "rag")
_USUAL = {"rag": "RAG"}
_COSTS = (
    ("R", "retrievals", 2),
    ("L", "samples", 2),
    ("token", "tokens", 0),
    ("time", "seconds", 2),
    ("p50", "seconds p50", 2),
    ("p95", "seconds p95", 2),
)


def by_retriever(entries: Sequence[Entry]) -> Grid | None:
    """Table 3: KEQA and vanilla RAG with each retriever; None where there is one retriever only."""
    return _by("retriever", "table3", "Performances of KEQA and RAG with other retrievers", entries)


def by_language_model(entries: Sequence[Entry]) -> Grid | None:
    """Table 4: KEQA and vanilla RAG with each language model; None where there is one only."""
    return _by("lm", "table4", "Performances of KEQA and RAG with other language models", entries)


def costs(entries: Sequence[Entry]) -> Grid:
    """Table 5: retrievals (R), LM calls (L), tokens and seconds of a question.

    Calls and tokens are those that the answers take; where a cache answered, the tokens are those of the first call.
    Seconds are those of questions whose calls no cache answered, for a cache answers sooner than any language model.
    The total is what the run took: the sum over all questions as they were asked, those that a cache answered included.
    """
    columns: list[_Measured] = [
        (Column(heading, group.name), name, digits, group)
        for group in groups_of(entries)
        for heading, name, digits in _COSTS
    ]
    columns.append((Column("total"), "total seconds", 1, None))
    notes = (
        "R: retrievals, L: LM calls, each try one, time: seconds, each for one question; p50 and p95: the seconds "
        "that half and 19 of 20 questions take at most. Total: the seconds of all questions together; they are asked "
        "side by side, so that the clock shows less.",
        *_untimed(entries),
    )
    return _measured("table5", "Average retrieval and LLM costs for each question", entries, columns, notes)


def costs_by_role(entries: Sequence[Entry]) -> Grid:
    """LM calls of a question by the role that they are made for, and its tokens by direction."""
    columns: list[_Measured] = [
        *((Column(role, "LM calls"), f"{role} samples", 2, None) for role in ROLES),
        *((Column(way, "tokens"), f"tokens {way}", 0, None) for way in ("read", "written")),
    ]
    note = "For one question. Task: decompose, quiz, answer and summarize; consistency: D_s; utility: D_u."
    return _measured("roles", "LM calls by role and tokens for each question", entries, columns, (note,))


def costs_by_step(entries: Sequence[Entry]) -> Grid | None:
    """Seconds and LM calls of a question by step (section 4.2, efficiency analysis), of KEQA and what is made of it.

    None where no run file says, as those of earlier versions do not.
    """
    timed = [entry for entry in entries if entry.own and measure(f"{STEPS[0]} samples", entry.within(None)) is not None]
    if not timed:
        return None
    columns = [
        (Column(step, heading), f"{step} {what}", 2, None)
        for heading, what in (("seconds", "seconds"), ("LM calls", "samples"))
        for step in STEPS
    ]
    notes = (
        "For one question. Quiz answering: the samples of quizzes, and answers to them from memory; assessment: D_s. "
        "Seconds are those of all calls and searches of a step added up, as if they were made one after another; they "
        "are made side by side, so that a question takes less. A call to a language model in this process may wait for "
        "those of other questions.",
        *_untimed(timed),
    )
    return _measured("steps", "Seconds and LM calls by step for each question", timed, columns, notes)


_Measured = tuple[Column, str, int, Group | None]
"""A column with the measure in it, its digits, and the questions that it is over: all where there is no group."""


def _measured(
    name: str, title: str, entries: Sequence[Entry], columns: Sequence[_Measured], notes: tuple[str, ...]
) -> Grid:
    """A table of measures, a row a method."""
    rows = tuple(
        Row(
            (
                text(entry.title),
                *(number(measure(of, entry.within(group)), digits) for _, of, digits, group in columns),
            )
        )
        for entry in entries
    )
    return Grid(name, title, (Column("method", right=False), *(column for column, *_ in columns)), rows, notes)


def _untimed(entries: Sequence[Entry]) -> Iterator[str]:
    """Which rows have a time of some of their questions only, or none."""
    partly = []
    for entry in entries:
        lines = list(entry.lines.values())
        timed = sum(line.timed for line in lines)
        if timed < len(lines):
            partly.append(f"{entry.title} {timed} of {len(lines)}")
    if partly:
        yield (
            f"The time is that of questions whose calls no cache answered: {', '.join(partly)}. For that of all of "
            "them run the methods with keqa compare --no-cache."
        )


def _by(facet: Facet, name: str, title: str, entries: Sequence[Entry]) -> Grid | None:
    curves = [sweep(entries, method, facet) for method in _COMPARED]
    kept = [entry for curve in curves for entry in curve]
    if not kept:
        return None
    groups = groups_of(kept)
    columns = (Column("method", right=False), *(Column(group.first[0], group.name) for group in groups))
    rows = []
    for value in dict.fromkeys(getattr(entry.settings, facet) for entry in kept):
        same = [entry for entry in kept if getattr(entry.settings, facet) == value]
        for position, entry in enumerate(same):
            scores = [number(measure(group.first[1], entry.within(group))) for group in groups]
            rows.append(Row((text(f"{_USUAL.get(entry.method, entry.name)} w {value}"), *scores), ruled=position == 0))
    return Grid(name, title, columns, tuple(rows), (untouched.note(kept),))
