"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from keqa.evaluation.reports.grid import Cell, Grid
from keqa.storage.terminal import visible_line

_GAP = 2
"""Between two columns, and about the outer ones together."""


class Rendered:
    """A table with its notes for a rich console.

    Where the terminal is too narrow, the columns are shown in several parts, each beginning with the names of the rows:
    a number cut short is worse than a longer page. Labels are plain text: brackets in them are no markup.

    Args:
        grid: The table.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay it out for the width there is."""
        title: str | None = self._grid.title
        for columns in self._parts(options.max_width):
            yield self._table(columns, title)
            title = None
        for note in self._grid.notes:
            yield Text(visible_line(note), "dim")

    def _parts(self, width: int) -> Iterator[list[int]]:
        """Positions of the columns of each part; a group of columns stays together where it fits at all."""
        first, part = self._width(0) + _GAP, [0]
        left = width - first
        positions = range(1, len(self._grid.columns))
        for group, members in groupby(positions, key=lambda position: self._grid.columns[position].group):
            wanted = list(members)
            for piece in [wanted] if group else [[position] for position in wanted]:
                needed = sum(self._width(position) for position in piece)
                if needed > left and len(part) > 1:
                    yield part
                    part, left = [0], width - first
                part, left = [*part, *piece], left - needed
        yield part

    def _width(self, position: int) -> int:
        column = self._grid.columns[position]
        begins = position == 0 or self._grid.columns[position - 1].group != column.group
        cells = (len(visible_line(row.cells[position].text)) + row.cells[position].star for row in self._grid.rows)
        return max(len(column.name), len(column.group) if begins else 0, *cells, 0) + _GAP

    def _table(self, columns: list[int], title: str | None) -> Table:
        shown = Text(title, "bold") if title else None
        table = Table(title=shown, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        grouped = any(self._grid.columns[position].group for position in columns)
        before = ""
        for position in columns:
            column = self._grid.columns[position]
            # A heading over several columns stands over the first of them.
            above = "" if column.group == before else column.group
            head = Text(f"{above}\n{column.name}" if grouped else column.name)
            table.add_column(head, justify="right" if column.right else "left", no_wrap=True)
            before = column.group
        for number, row in enumerate(self._grid.rows):
            if row.ruled and number:
                table.add_section()
            table.add_row(*(_shown(row.cells[position]) for position in columns))
        return table


def _shown(cell: Cell) -> Text:
    style = " ".join(name for name, on in (("bold", cell.bold), ("underline", cell.underline)) if on)
    return Text.assemble((visible_line(cell.text), style), "*" if cell.star else "")
