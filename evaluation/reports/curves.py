"""A figure as data: what is drawn, from run files alone, so that it can be drawn again without a language model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keqa.evaluation.reports.grid import Column, Grid, Row, number, text

__all__ = ["Figure", "Panel", "Series", "points_of"]

Style = Literal["curve", "line", "points"]


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together.

    Attributes:
        name: In the legend.
        x: Their places.
        y: Their values, as many.
        style: A ``line`` marks its points, a ``curve`` has too many for that.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    style: Style = "line"


@dataclass(frozen=True, slots=True)
class Panel:
    """One system of axes.

    Attributes:
        title: Such as a data set; may be empty.
        y: What its values are.
        series: What is drawn in it.
    """

    title: str
    y: str
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of one panel or several side by side.

    Attributes:
        name: Of its files, such as ``figure4``.
        title: Its caption.
        x: What the places are.
        panels: From left to right.
    """

    name: str
    title: str
    x: str
    panels: tuple[Panel, ...]


def points_of(figure: Figure) -> Grid:
    """The points of a figure as a table, in which they are kept beside the picture."""
    columns = (
        Column("panel", right=False),
        Column("series", right=False),
        Column(figure.x),
        Column("value"),
        Column("of", right=False),
    )
    rows = tuple(
        Row((text(panel.title), text(series.name), number(x), number(y), text(panel.y)))
        for panel in figure.panels
        for series in panel.series
        for x, y in zip(series.x, series.y, strict=True)
    )
    return Grid(figure.name, figure.title, columns, rows)
