"""Tables and figures as data: what they hold, how it is shown, and the notes under it.

Both are made from run files alone, so that they can be written and drawn again without a language model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Style = Literal["curve", "line", "points"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One entry.

    Attributes:
        value: For reading by programs, unrounded; None where there is none.
        text: As it is shown.
        bold: The best of its column.
        underline: The best existing method of its column.
        star: Better than that one beyond chance.
    """

    value: float | str | None
    text: str
    bold: bool = False
    underline: bool = False
    star: bool = False

    def marked(self, *, bold: bool = False, underline: bool = False, star: bool = False) -> Cell:
        """The same with further marks."""
        return replace(self, bold=self.bold or bold, underline=self.underline or underline, star=self.star or star)


EMPTY = Cell(None, "")
"""Nothing was measured."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        name: Such as ``F1``.
        group: What stands above it and its neighbours, such as a data set or a kind of question.
        right: Whether it is set to the right, as numbers are.
    """

    name: str
    group: str = ""
    right: bool = True

    @property
    def full(self) -> str:
        """Group and name in one, where there is one line only."""
        return f"{self.group} {self.name}".strip()


@dataclass(frozen=True, slots=True)
class Row:
    """A row.

    Attributes:
        cells: One a column.
        ruled: Whether a line stands above it.
    """

    cells: tuple[Cell, ...]
    ruled: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """A table.

    Attributes:
        name: Of its files, such as ``table1``.
        title: Its caption.
        columns: The first one names the rows.
        rows: Each with as many cells.
        notes: What is to be said under it.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if any(len(row.cells) != len(self.columns) for row in self.rows):
            raise ValueError(f"every row of {self.name} needs {len(self.columns)} cells")

    @property
    def records(self) -> list[dict[str, float | str | None]]:
        """Each row as JSON, by the headings of its cells."""
        names = [column.full for column in self.columns]
        return [dict(zip(names, (cell.value for cell in row.cells), strict=True)) for row in self.rows]


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


def text(value: str) -> Cell:
    """A cell of words."""
    return Cell(value, value)


def count(value: int) -> Cell:
    """A cell with how many there are."""
    return Cell(value, str(value))


def number(value: float | None, digits: int = 3, *, signed: bool = False) -> Cell:
    """A cell with a number, written as the paper's tables do but without a zero before the point."""
    return EMPTY if value is None else Cell(value, _bare(f"{value:{'+' if signed else ''}.{digits}f}"))


def share(value: float | None) -> Cell:
    """A cell with a share, in per cent."""
    return EMPTY if value is None else Cell(value, f"{100 * value:.1f} %")


def p_value(value: float | None) -> Cell:
    """A cell with a p-value."""
    return EMPTY if value is None else Cell(value, "<.001" if value < 0.001 else _bare(f"{value:.3f}"))


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


def _bare(written: str) -> str:
    sign = written[0] if written[0] in "+-" else ""
    digits = written[len(sign) :]
    return sign + (digits[1:] if digits.startswith("0.") else digits)
