"""Drawing figures with matplotlib, which the extra ``plots`` brings."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from keqa.errors import MissingExtraError
from keqa.evaluation.reports.grid import Figure, Series

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


def can_draw() -> bool:
    """Whether matplotlib is there."""
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
        labels = [_words(name) for name in names]
        shown = [handles[name] for name in names]
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
