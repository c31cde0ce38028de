"""Figures 3 to 5 of the KEQA paper, as data, all figures there are, and how they are drawn with matplotlib."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from keqa.data.question import quiz_key
from keqa.errors import MissingExtraError
from keqa.evaluation.reports.effect import effect_figure
from keqa.evaluation.reports.gates import gate_figure, risk
from keqa.evaluation.reports.grid import Figure, Panel, Series
from keqa.evaluation.reports.questions import measure
from keqa.evaluation.reports.rows import KEQA, Entry, Facet, Group, groups_of, sweep
from keqa.programs.gate import leader

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

ENDINGS = (".png", ".pdf")
"""The files of a figure: one to look at, one for print."""

_WIDTH, _HEIGHT = 3.6, 3.0
_DOTS_PER_INCH = 160
_MARKERS = "osD^vP*Xph<>"
_LEGEND_COLUMNS = 2
_COLORS = 10


def figures(entries: Sequence[Entry]) -> list[Figure]:
    """Figures 3 to 5 of the KEQA paper, and those of gates and of what retrieval does, as far as runs have points."""
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
        means = {place: [probability for _, probability in same] for place, same in pairs}
        if means:
            y = tuple(sum(some) / len(some) for some in means.values())
            panels.append(Panel(group.name, "mean probability of the answer", (Series("quizzes", tuple(means), y),)))
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
    curves = [points for method in methods if (points := sweep(entries, method, facet))]
    panels = []
    for group in groups_of(entry for points in curves for entry in points):
        title, name = group.scores[0]
        series = []
        for points in curves:
            scored = {float(getattr(one.settings, facet)): measure(name, one.within(group)) for one in points}
            known = {place: score for place, score in scored.items() if score is not None}
            # KEQA is named for what ran: with a utility reference, or without.
            called = points[0].name if points[0].method == KEQA else "Full"
            series.append(Series(called, tuple(known), tuple(known.values())))
        panels.append(Panel(group.name, title, tuple(series)))
    return Figure(*about, tuple(panels)) if curves else None


def can_draw() -> bool:
    """Whether matplotlib is there, which the extra ``plots`` brings."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(figure: Figure, folder: Path) -> list[Path]:
    """Draw a figure into files."""
    if not can_draw():
        raise MissingExtraError("plots", "Drawing figures")
    # The canvas is made by itself, without pyplot: no display is looked for, and no figure is kept alive.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(_WIDTH * len(figure.panels), _HEIGHT), layout="constrained")
    FigureCanvasAgg(canvas)
    canvas.suptitle(figure.title, fontsize="medium")
    names = list(dict.fromkeys(series.name for panel in figure.panels for series in panel.series))
    handles = {}
    for number, panel in enumerate(figure.panels, start=1):
        axes = canvas.add_subplot(1, len(figure.panels), number)
        for series in panel.series:
            handles[series.name] = _add(axes, series, names.index(series.name))
        axes.set_title(_words(panel.title), fontsize="small")
        axes.set_ylabel(panel.y)
        axes.set_xlabel(figure.x)
        axes.grid(alpha=0.3)
    if len(names) > 1:
        # One legend serves all panels, in which a series looks the same.
        columns = min(len(names), _LEGEND_COLUMNS * len(figure.panels))
        labels, shown = [_words(name) for name in names], [handles[name] for name in names]
        canvas.legend(shown, labels, loc="outside lower center", ncols=columns, fontsize="small")
    paths = [folder / f"{figure.name}{ending}" for ending in ENDINGS]
    for path in paths:
        # Without a date in them, the files of the same points are the same.
        metadata = {"CreationDate": None} if path.suffix == ".pdf" else {"Software": None}
        canvas.savefig(path, dpi=_DOTS_PER_INCH, metadata=metadata)
    return paths


def _add(axes: Axes, series: Series, number: int) -> Artist:
    color, marker = f"C{number % _COLORS}", _MARKERS[number % len(_MARKERS)]
    if series.style == "points":
        return axes.scatter(series.x, series.y, color=color, marker=marker, s=36)
    kind = {"linewidth": 1.2} if series.style == "curve" else {"marker": marker}
    return axes.plot(series.x, series.y, color=color, **kind)[0]


def _words(text: str) -> str:
    """Text that matplotlib takes as it is: a dollar sign would begin a formula."""
    return text.replace("$", r"\$")
