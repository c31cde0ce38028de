"""Tables and figures as data: what they hold, how it is shown, and the notes under it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress, groupby
from typing import Literal, NamedTuple


@dataclass(frozen=True, slots=True)
class Cell:
    """One entry: its value unrounded, its text, and whether it is the best, the best existing one, or beyond chance."""

    value: float | str | None
    text: str
    bold: bool = False
    underline: bool = False
    star: bool = False


EMPTY = Cell(None, "")
"""Nothing was measured."""


class Column(NamedTuple):
    """A column; its group stands above it and its neighbours, and numbers are set to the right."""

    name: str
    group: str = ""
    right: bool = True

    @property
    def full(self) -> str:
        return f"{self.group} {self.name}".strip()


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: the name of its files, its caption, what stands under it, and above which rows a line does."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    ruled: frozenset[int] = frozenset()

    @property
    def records(self) -> list[dict[str, float | str | None]]:
        """Each row as JSON, by the headings of its cells."""
        names = [column.full for column in self.columns]
        return [dict(zip(names, (cell.value for cell in row), strict=True)) for row in self.rows]

    def noted(self, *notes: str) -> "Grid":
        return replace(self, notes=(*self.notes, *notes))


class Series(NamedTuple):
    """Points that belong together. A ``line`` marks its points, a ``curve`` has too many for that."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    style: Literal["curve", "line", "points"] = "line"


class Panel(NamedTuple):
    """One system of axes, with what its values are."""

    title: str
    y: str
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of panels side by side: the name of its files, its caption, and what the places are."""

    name: str
    title: str
    x: str
    panels: tuple[Panel, ...]

    @property
    def points(self) -> Grid:
        """Its points as a table, in which they are kept beside the picture."""
        points = (
            (panel, series.name, x, y)
            for panel in self.panels
            for series in panel.series
            for x, y in zip(series.x, series.y, strict=True)
        )
        heads = ("panel", "series", self.x, "value", "of")
        cells = ((text(of.title), text(name), number(x), number(y), text(of.y)) for of, name, x, y in points)
        return table(self.name, self.title, (zip(heads, row, strict=True) for row in cells))


Named = tuple[str | tuple[str, str] | Column, Cell]
"""A cell with the name of its column, or that and the group of the column, or the column."""


def table(name: str, title: str, rows: Iterable[Iterable[Named]], *notes: str, ruled: Iterable[int] = ()) -> Grid:
    """A table of rows that name their cells; columns of words are set to the left, and lines stand above some rows."""
    named = [list(row) for row in rows]
    columns = tuple(_column(key, cell) for key, cell in named[0])
    return Grid(name, title, columns, tuple(tuple(cell for _, cell in row) for row in named), notes, frozenset(ruled))


def without_empty(rows: Sequence[Sequence[Named]]) -> list[list[Named]]:
    """The rows without the columns in which nothing was measured for any of them."""
    kept = [any(cell != EMPTY for _, cell in column) for column in zip(*rows, strict=True)]
    return [list(compress(row, kept)) for row in rows]


def _column(key: str | tuple[str, str] | Column, cell: Cell) -> Column:
    if isinstance(key, Column):
        return key
    name, group = (key, "") if isinstance(key, str) else key
    return Column(name, group, right=not isinstance(cell.value, str))


def grouped(columns: Iterable[Column]) -> Iterator[tuple[str, list[Column]]]:
    """Neighbours of one group together."""
    return ((group, list(members)) for group, members in groupby(columns, key=lambda column: column.group))


def text(value: str) -> Cell:
    return Cell(value, value)


def count(value: int) -> Cell:
    return Cell(value, str(value))


def number(value: float | None, digits: int = 3, *, signed: bool = False) -> Cell:
    """A cell with a number, written as the paper's tables do but without a zero before the point."""
    return EMPTY if value is None else Cell(value, _bare(f"{value:{'+' if signed else ''}.{digits}f}"))


def share(value: float | None) -> Cell:
    return EMPTY if value is None else Cell(value, f"{100 * value:.1f} %")


def fraction(part: int, whole: int) -> Cell:
    """A cell with a share, shown as how many of how many."""
    return Cell(part / whole, f"{part}/{whole}") if whole else EMPTY


def p_value(value: float | None) -> Cell:
    return EMPTY if value is None else Cell(value, "<.001" if value < 0.001 else _bare(f"{value:.3f}"))


def _bare(written: str) -> str:
    sign = written[0] if written[0] in "+-" else ""
    digits = written[len(sign) :]
    return sign + digits.removeprefix("0") if digits.startswith("0.") else written
