"""The figures of the KEQA paper and those of gates, as data, and all figures there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from keqa.data.quiz_references import plain
from keqa.evaluation.reports.grid import Figure, Panel, Series
from keqa.evaluation.reports.measures import measure
from keqa.evaluation.reports.rows import KEQA, Entry, Group, groups_of
from keqa.evaluation.reports.sweeps import Facet, sweep
from keqa.evaluation.reports.tables.gates import gate_rows, ranked
from keqa.evaluation.reports.tables.retrieval_effect import effect_figure
from keqa.metrics.rejection import risk_coverage
from keqa.programs.gates.votes import leader

_FULL = "keqa-full"
_BOUNDS = ("gate-never", "gate-always")


def figures_of(entries: Sequence[Entry]) -> list[Figure]:
    """Every figure that the rows have the points for."""
    found = (
        probabilities(entries),
        scores_over_alpha(entries),
        scores_over_top_k(entries),
        gate_figure(entries),
        risk(entries),
        effect_figure(entries),
    )
    return [figure for figure in found if figure is not None]


def probabilities(entries: Sequence[Entry]) -> Figure | None:
    """Figure 3: the mean probability of the answer to a quiz, over its consistency T_c.

    The probability is the mean over the members of the largest cluster, each normalised by its length. A quiz whose
    drawing was stopped early is left out: its T_c is a bound only. Each text counts once. It is of the method that drew
    the most quizzes to the end; of several the first.
    """
    panels = []
    counts = [sum(1 for _ in _probable(entry, None)) for entry in entries]
    source = entries[counts.index(max(counts))] if any(counts) else None
    for group in groups_of([source]) if source is not None else ():
        pairs = sorted(_probable(source, group))
        means = [
            (consistency, [probability for _, probability in same])
            for consistency, same in groupby(pairs, key=lambda pair: pair[0])
        ]
        if means:
            x, y = tuple(place for place, _ in means), tuple(sum(some) / len(some) for _, some in means)
            panels.append(Panel(group.name, "mean probability of the answer", (Series("quizzes", x, y),)))
    title = "Average probabilities over consistency scores"
    return Figure("figure3", title, "consistency T_c", tuple(panels)) if panels else None


def scores_over_alpha(entries: Sequence[Entry]) -> Figure | None:
    """Figure 4: KEQA's score over the threshold α of its gate."""
    title = "Performances over consistency score threshold \u03b1"
    return _scores_over("threshold", {"KEQA": KEQA}, entries, Figure("figure4", title, "threshold \u03b1", ()))


def scores_over_top_k(entries: Sequence[Entry]) -> Figure | None:
    """Figure 5: the scores of KEQA, and of Full, which retrieves for all quizzes and uses all passages, over top-k."""
    empty = Figure("figure5", "Performances over top-k knowledge", "top-k knowledge", ())
    return _scores_over("top_k", {"KEQA": KEQA, "Full": _FULL}, entries, empty)


def _scores_over(facet: Facet, methods: Mapping[str, str], entries: Sequence[Entry], empty: Figure) -> Figure | None:
    """A figure with the scores of methods over a setting, in a panel for each group of questions."""
    curves = {
        # KEQA is named for what ran: with a utility reference, or without.
        points[0].name if method == KEQA else name: points
        for name, method in methods.items()
        if (points := sweep(entries, method, facet))
    }
    panels = [
        Panel(
            group.name,
            group.first[0],
            tuple(_series(name, facet, points, group) for name, points in curves.items()),
        )
        for group in groups_of(entry for points in curves.values() for entry in points)
    ]
    return replace(empty, panels=tuple(panels)) if curves else None


def gate_figure(entries: Sequence[Entry]) -> Figure | None:
    """Accuracy against the share of quizzes searched for, with every gate on it.

    The line joins never and always retrieving: on it lies what a gate gains that retrieves by chance.
    """
    compared = gate_rows(entries)
    if not compared:
        return None
    panels = []
    for group in groups_of(compared):
        points = {entry.method: _gate_point(entry, group) for entry in compared}
        bounds = [point for name in _BOUNDS if (point := points.get(name)) is not None]
        series = []
        if len(bounds) == len(_BOUNDS):
            x, y = zip(*bounds, strict=True)
            series.append(Series("chance", x, y, style="curve"))
        for entry in compared:
            point = _gate_point(entry, group)
            if point is not None:
                series.append(Series(entry.title, (point[0],), (point[1],), style="points"))
        panels.append(Panel(group.name, group.first[0], tuple(series)))
    return Figure("gates", "Accuracy against retrieval ratio", "retrieval ratio", tuple(panels))


def risk(entries: Sequence[Entry]) -> Figure | None:
    """Risk against coverage of the answers from memory, the quizzes that a gate is surest of first."""
    series = []
    for entry in gate_rows(entries):
        scores, quality = ranked(entry)
        if scores:
            curve = risk_coverage(scores, quality)
            series.append(Series(entry.title, curve.coverage, curve.risk, style="curve"))
    panel = Panel("", "risk", tuple(series))
    return Figure("risk-coverage", "Risk against coverage", "coverage", (panel,)) if series else None


def _series(name: str, facet: Facet, points: Sequence[Entry], group: Group) -> Series:
    scores = ((float(getattr(entry.settings, facet)), measure(group.first[1], entry.within(group))) for entry in points)
    measured = [(place, score) for place, score in scores if score is not None]
    return Series(name, tuple(place for place, _ in measured), tuple(score for _, score in measured))


def _gate_point(entry: Entry, group: Group) -> tuple[float, float] | None:
    lines = entry.within(group)
    ratio, score = measure("quiz retrieval ratio", lines), measure(group.first[1], lines)
    return None if ratio is None or score is None else (ratio, score)


def _probable(entry: Entry | None, group: Group | None) -> Iterator[tuple[float, float]]:
    """T_c and the answer's probability of each quiz that has both."""
    seen = set()
    lines = [] if entry is None else entry.within(group)
    for quiz in (quiz for line in lines for quiz in line.quizzes):
        first = leader([cluster.size for cluster in quiz.clusters])
        if first is None or quiz.consistency is None or not quiz.complete or plain(str(quiz.resolved)) in seen:
            continue
        probabilities = [quiz.samples[member].probability for member in quiz.clusters[first].members]
        known = [probability for probability in probabilities if probability is not None]
        if known:
            seen.add(plain(str(quiz.resolved)))
            yield quiz.consistency, sum(known) / len(known)
