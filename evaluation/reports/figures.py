"""Figures 3 to 5 of the KEQA paper, as data, and all figures there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from keqa.data.quiz_references import plain
from keqa.evaluation.reports.effect import effect_figure
from keqa.evaluation.reports.gates import gate_figure, risk
from keqa.evaluation.reports.grid import Figure, Panel, Series
from keqa.evaluation.reports.questions import measure
from keqa.evaluation.reports.rows import KEQA, Entry, Facet, Group, groups_of, sweep
from keqa.programs.draws import leader


def figures_of(entries: Sequence[Entry]) -> list[Figure]:
    """Every figure that the rows have the points for."""
    makers = (probabilities, scores_over_alpha, scores_over_top_k, gate_figure, risk, effect_figure)
    return [figure for make in makers if (figure := make(entries)) is not None]


def probabilities(entries: Sequence[Entry]) -> Figure | None:
    """Figure 3: the mean probability of the answer to a quiz, over its consistency T_c.

    The probability is the mean over the members of the largest cluster, each normalised by its length. A quiz whose
    drawing was stopped early is left out: its T_c is a bound only. Each text counts once. It is of the method that drew
    the most quizzes to the end; of several the first.
    """
    source = max(entries, key=lambda entry: sum(1 for _ in _probable(entry, None)), default=None)
    if source is None:
        return None
    panels = []
    for group in groups_of([source]):
        pairs = groupby(sorted(_probable(source, group)), key=lambda pair: pair[0])
        means = [(place, [probability for _, probability in same]) for place, same in pairs]
        x, y = tuple(place for place, _ in means), tuple(sum(some) / len(some) for _, some in means)
        if means:
            panels.append(Panel(group.name, "mean probability of the answer", (Series("quizzes", x, y),)))
    title = "Average probabilities over consistency scores"
    return Figure("figure3", title, "consistency T_c", tuple(panels)) if panels else None


def _probable(entry: Entry, group: Group | None) -> Iterator[tuple[float, float]]:
    """T_c and the answer's probability of each quiz that has both."""
    seen = set()
    for quiz in (quiz for line in entry.within(group) for quiz in line.quizzes):
        first = leader([cluster.size for cluster in quiz.clusters])
        name = plain(str(quiz.resolved))
        if first is None or quiz.consistency is None or not quiz.complete or name in seen:
            continue
        members = (quiz.samples[member].probability for member in quiz.clusters[first].members)
        known = [probability for probability in members if probability is not None]
        if known:
            seen.add(name)
            yield quiz.consistency, sum(known) / len(known)


def scores_over_alpha(entries: Sequence[Entry]) -> Figure | None:
    """Figure 4: KEQA's score over the threshold α of its gate."""
    title = "Performances over consistency score threshold \u03b1"
    return _scores_over("threshold", entries, ("figure4", title, "threshold \u03b1"), (KEQA,))


def scores_over_top_k(entries: Sequence[Entry]) -> Figure | None:
    """Figure 5: the scores of KEQA, and of Full, which retrieves for all quizzes and uses all passages, over top-k."""
    about = ("figure5", "Performances over top-k knowledge", "top-k knowledge")
    return _scores_over("top_k", entries, about, (KEQA, "keqa-full"))


def _scores_over(
    facet: Facet, entries: Sequence[Entry], about: tuple[str, str, str], methods: Sequence[str]
) -> Figure | None:
    """A figure with the scores of methods over a setting, in a panel for each group of questions."""
    curves = [points for method in methods if (points := sweep(entries, method, facet))]
    panels = []
    for group in groups_of(entry for points in curves for entry in points):
        title, name = group.scores[0]
        series = []
        for points in curves:
            scored = [(float(getattr(one.settings, facet)), measure(name, one.within(group))) for one in points]
            known = [(place, score) for place, score in scored if score is not None]
            # KEQA is named for what ran: with a utility reference, or without.
            called = points[0].name if points[0].method == KEQA else "Full"
            series.append(Series(called, tuple(place for place, _ in known), tuple(score for _, score in known)))
        panels.append(Panel(group.name, title, tuple(series)))
    return Figure(*about, tuple(panels)) if curves else None
