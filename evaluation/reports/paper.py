"""Tables 3 to 6 and Figures 3 to 5 of the KEQA paper: other retrievers, language models and settings, costs, steps."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from statistics import fmean

from keqa.data.question import quiz_key
from keqa.evaluation.records import RunLine
from keqa.evaluation.reports.grid import Figure, Grid, Named, Panel, Series, number, table, text
from keqa.evaluation.reports.parts import untouched_note
from keqa.evaluation.reports.questions import ROLES, STEPS, mean, measure
from keqa.evaluation.reports.rows import KEQA, Entry, Facet, Group, groups_of, sweep
from keqa.programs.gate import leader
from keqa.programs.records import QuestionRecord, QuizRecord

_COSTS = (
    ("R", "retrievals", 2),
    ("L", "samples", 2),
    ("token", "tokens", 0),
    ("time", "seconds", 2),
    ("p50", "seconds p50", 2),
    ("p95", "seconds p95", 2),
)
_FACETS = {"retriever": "retriever", "lm": "language model"}
_SWEPT = {
    "threshold": ("consistency score threshold \u03b1", "threshold \u03b1", (KEQA,)),
    "top_k": ("top-k knowledge", "top-k knowledge", (KEQA, "keqa-full")),
}
_EXCERPT = 200
_SOURCES = {
    "memory": "known",
    "passages": "from passages",
    "largest_cluster": "from memory, as no passage helped",
    "closed_book": "from memory, as no passage helped",
    "failed": "failed",
    "blocked": "not asked, for an earlier answer is missing",
    "skipped": "not asked",
}

_Measured = tuple[tuple[str, str], str, int, Group | None]
"""A column with the measure in it, its digits, and the questions that it is over: all where there is no group."""


def by_facet(name: str, facet: Facet, entries: Sequence[Entry]) -> Grid | None:
    """Tables 3 and 4: KEQA and vanilla RAG with each retriever, or language model; None where there is one only."""
    title = f"Performances of KEQA and RAG with other {_FACETS[facet]}s"
    kept = [entry for method in ("keqa", "rag") for entry in sweep(entries, method, facet)]
    if not kept:
        return None
    columns: list[_Measured] = [
        ((heading, one.name), of, 3, one) for one in groups_of(kept) for heading, of in one.scores[:1]
    ]
    rows: list[list[Named]] = []
    ruled = []
    for value in dict.fromkeys(getattr(entry.settings, facet) for entry in kept):
        ruled.append(len(rows))
        for entry in (entry for entry in kept if getattr(entry.settings, facet) == value):
            method = "RAG" if entry.method == "rag" else entry.name
            rows.append(_row(f"{method} w {value}", entry, columns))
    return table(name, title, rows, untouched_note(kept), ruled=ruled)


def costs(entries: Sequence[Entry]) -> Grid:
    """Table 5: retrievals (R), LM calls (L), tokens and seconds of a question."""
    groups = groups_of(entries)
    columns: list[_Measured] = [((head, of.name), name, digits, of) for of in groups for head, name, digits in _COSTS]
    columns.append((("total", ""), "total seconds", 1, None))
    note = (
        "R: retrievals, L: LM calls, each try one, time: seconds, each for one question; p50 and p95: the seconds "
        "that half and 19 of 20 questions take at most. Total: the seconds of all questions together; they are asked "
        "side by side, so that the clock shows less."
    )
    title = "Average retrieval and LLM costs for each question"
    return _measured("table5", title, entries, columns, note, *_untimed(entries))


def costs_by_role(entries: Sequence[Entry]) -> Grid:
    """LM calls of a question by the role that they are made for, and its tokens by direction."""
    # Few methods have a boundary model, and few of these ask a language model.
    judged = any(measure("boundary samples", entry.within()) for entry in entries)
    roles = ROLES if judged else ROLES[:-1]
    columns: list[_Measured] = [((role, "LM calls"), f"{role} samples", 2, None) for role in roles]
    columns += [((way, "tokens"), f"tokens {way}", 0, None) for way in ("read", "written")]
    note = "For one question. Task: decompose, quiz, answer and summarize; consistency: D_s; utility: D_u."
    note += " Boundary: whether it is known." * judged
    return _measured("roles", "LM calls by role and tokens for each question", entries, columns, note)


def costs_by_step(entries: Sequence[Entry]) -> Grid | None:
    """Seconds and LM calls of a question by step (section 4.2, efficiency analysis), of KEQA and what is made of it."""
    timed = [entry for entry in entries if entry.own and measure(f"{STEPS[0]} samples", entry.within()) is not None]
    if not timed:
        return None
    kinds = (("seconds", "seconds"), ("LM calls", "samples"))
    columns: list[_Measured] = [((step, head), f"{step} {what}", 2, None) for head, what in kinds for step in STEPS]
    note = (
        "For one question. Quiz answering: the samples of quizzes, and answers to them from memory; assessment: D_s. "
        "Seconds are those of all calls and searches of a step added up, as if they were made one after another; they "
        "are made side by side, so that a question takes less. A call to a language model in this process may wait for "
        "those of other questions."
    )
    return _measured("steps", "Seconds and LM calls by step for each question", timed, columns, note, *_untimed(timed))


def _measured(name: str, title: str, entries: Sequence[Entry], columns: Sequence[_Measured], *notes: str) -> Grid:
    return table(name, title, (_row(entry.title, entry, columns) for entry in entries), *notes)


def _row(name: str, entry: Entry, columns: Sequence[_Measured]) -> list[Named]:
    cells = ((head, number(measure(of, entry.within(group)), digits)) for head, of, digits, group in columns)
    return [("method", text(name)), *cells]


def _untimed(entries: Sequence[Entry]) -> Iterator[str]:
    """Which rows have a time of some of their questions only, or none."""
    counted = ((entry, sum(line.timed for line in entry.within())) for entry in entries)
    partly = [f"{entry.title} {timed} of {len(entry.lines)}" for entry, timed in counted if timed < len(entry.lines)]
    if partly:
        of_whom, how = ", ".join(partly), "For that of all of them run the methods with keqa compare --no-cache."
        yield f"The time is that of questions whose calls no cache answered: {of_whom}. {how}"


def cases(runs: Iterable[tuple[str, str, Sequence[RunLine]]], most: int = 1) -> Grid | None:
    """Table 6: a few questions of each data set with quizzes, verdicts, passages, explanation and answer."""
    rows: list[list[Named]] = []
    ruled = []
    for dataset, title, lines in runs:
        found = [(line, line.record) for line in lines if line.record is not None and line.answer is not None]
        for line, record in sorted(found, key=lambda one: _interest(*one))[:most]:
            ruled.append(len(rows))
            for place, (step, outcome) in enumerate(_steps(line, record, title)):
                rows.append([("data set", text("" if place else dataset)), ("step", text(step)), ("", text(outcome))])
    note = "Chosen for what they show of the method, not for how often it is right."
    return table("table6", "Questions with all their steps", rows, note, ruled=ruled) if rows else None


def _interest(line: RunLine, record: QuestionRecord) -> tuple[bool, int, bool]:
    """Sorts first what shows most: right, known and unknown quizzes, several of them."""
    sources = {quiz.source for quiz in record.quizzes} & {"memory", "passages"}
    return not line.right, -len(sources), len(record.quizzes) < 2


def _steps(line: RunLine, record: QuestionRecord, title: str) -> Iterator[tuple[str, str]]:
    yield "question", line.question
    for quiz in record.quizzes:
        yield from _quiz(f"q{quiz.index}", quiz)
    if record.fallback is not None:
        yield from _quiz("the question itself, with retrieval", record.fallback)
    for note in record.degradations:
        if note.touches:
            yield "went wrong", f"{note.message}: {note.action}"
    if record.explanation:
        yield "explanation", record.explanation
    yield "gold answer", "; ".join(line.answers)
    yield f"{title} answers", str(line.answer)


def _quiz(name: str, quiz: QuizRecord) -> Iterator[tuple[str, str]]:
    yield name, quiz.resolved or quiz.text
    if quiz.consistency_exact is not None:
        asked_for = "" if quiz.threshold_exact is None else f" (\u03b1 is {quiz.threshold_exact})"
        yield f"{name}: T_c", f"{'' if quiz.complete else 'at least '}{quiz.consistency_exact}{asked_for}"
    kept = [passage for passage in quiz.passages if passage.kept]
    for passage in kept:
        whole = f"{passage.title}: {passage.text}" if passage.title else passage.text
        yield f"{name}: retrieval", whole if len(whole) <= _EXCERPT else f"{whole[:_EXCERPT]}…"
    if quiz.retrieved and not kept:
        yield f"{name}: retrieval", f"none of {len(quiz.passages)} passages was judged helpful"
    answer = "no answer" if quiz.answer is None else quiz.answer
    yield f"{name}: answer", f"{answer} ({_SOURCES.get(quiz.source, quiz.source)})"


def probabilities(entries: Sequence[Entry]) -> Figure | None:
    """Figure 3: the mean probability of the answer to a quiz, over its consistency T_c.

    That is over the members of the largest cluster, of quizzes that were drawn to the end, each text once, and of the
    method that drew the most of these.
    """
    source = max(entries, key=lambda entry: sum(1 for _ in _probable(entry, None)), default=None)
    if source is None:
        return None
    panels = []
    for group in groups_of([source]):
        pairs = groupby(sorted(_probable(source, group)), key=lambda pair: pair[0])
        if means := {place: mean([probability for _, probability in same]) or 0.0 for place, same in pairs}:
            series = Series("quizzes", tuple(means), tuple(means.values()))
            panels.append(Panel(group.name, "mean probability of the answer", (series,)))
    title = "Average probabilities over consistency scores"
    return Figure("figure3", title, "consistency T_c", tuple(panels)) if panels else None


def _probable(entry: Entry, group: Group | None) -> Iterator[tuple[float, float]]:
    seen = set()
    for quiz in (quiz for line in entry.within(group) for quiz in line.quizzes):
        first = leader([cluster.size for cluster in quiz.clusters])
        name = quiz_key(str(quiz.resolved))
        if first is None or quiz.consistency is None or not quiz.complete or name in seen:
            continue
        members = (quiz.samples[member].probability for member in quiz.clusters[first].members)
        if known := [probability for probability in members if probability is not None]:
            seen.add(name)
            yield quiz.consistency, fmean(known)


def scores_over(name: str, facet: Facet, entries: Sequence[Entry]) -> Figure | None:
    """Figures 4 and 5: the scores of KEQA over α of its gate, or over top-k; beside it over top-k those of Full."""
    what, x, methods = _SWEPT[facet]
    curves = [points for method in methods if (points := sweep(entries, method, facet))]
    panels = []
    for group in groups_of(entry for points in curves for entry in points):
        title, of = group.scores[0]
        series = []
        for points in curves:
            scored = {float(getattr(one.settings, facet)): measure(of, one.within(group)) for one in points}
            known = {place: score for place, score in scored.items() if score is not None}
            # KEQA is named for what ran: with a utility reference, or without.
            called = points[0].name if points[0].method == KEQA else "Full"
            series.append(Series(called, tuple(known), tuple(known.values())))
        panels.append(Panel(group.name, title, tuple(series)))
    return Figure(name, f"Performances over {what}", x, tuple(panels)) if curves else None
