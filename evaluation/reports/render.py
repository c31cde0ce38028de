"""One table in each of its forms: for a terminal, as CSV, Markdown and LaTeX; figures as pictures."""

import csv
import importlib.util
import io
import re
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from keqa.evaluation.reports.grid import Cell, Figure, Grid, Series, grouped
from keqa.storage.redaction import visible, visible_line

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

_GAP = 2
"""Between two columns, and about the outer ones together."""
_MARKDOWN = re.compile(r"([\\`*_|<>\[\]~$]|&(?=#?\w))")
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")
"""How a cell begins that a spreadsheet computes."""
_LATEX = {
    **{one: f"\\{one}" for one in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # A line that begins with a bracket would be an argument of the line break before it.
    "[": "{[}",
    "]": "{]}",
    "\u03b1": r"$\alpha$",
    "\u2265": r"$\geq$",
    "\u2264": r"$\leq$",
    "\u211d": r"$\mathbb{R}$",
    "\u2026": r"\ldots{}",
}

ENDINGS = (".png", ".pdf")
"""The files of a figure: one to look at, one for print."""

_WIDTH, _HEIGHT = 3.6, 3.0
_DOTS_PER_INCH = 160
_MARKERS = "osD^vP*Xph<>"
_LEGEND_COLUMNS = 2
_COLORS = 10


class Rendered:
    """A table with its notes for a rich console."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        title: str | None = self._grid.title
        for columns in self._parts(options.max_width):
            yield self._table(columns, title, options.max_width)
            title = None
        for note in self._grid.notes:
            yield Text(visible_line(note), "dim")

    def _parts(self, width: int) -> Iterator[list[int]]:
        """Positions of the columns of each part; a group of columns stays together where it fits at all."""
        heads = self._heads(width)
        room = width - sum(map(self._width, heads)) - _GAP
        part, left, position = heads, room, len(heads)
        for group, members in grouped(self._grid.columns[len(heads) :]):
            wanted = list(range(position, position + len(members)))
            position += len(members)
            whole = group and sum(map(self._width, wanted)) <= room
            for piece in [wanted] if whole else [[one] for one in wanted]:
                needed = sum(map(self._width, piece))
                if needed > left and len(part) > len(heads):
                    yield part
                    part, left = heads, room
                    needed = max(needed, len(group) + _GAP)
                part, left = [*part, *piece], left - needed
        yield part

    def _heads(self, width: int) -> list[int]:
        """The first columns of words, as many as tell the rows apart: each part has them; one where they do not."""
        words = list(takewhile(lambda place: not self._grid.columns[place].right, range(len(self._grid.columns) - 1)))
        for end in range(1, len(words) + 1):
            names = {tuple(cell.text for cell in row[:end]) for row in self._grid.rows}
            if len(names) == len(self._grid.rows) and sum(map(self._width, words[:end])) <= width // 2:
                return words[:end]
        return [0]

    def _width(self, position: int) -> int:
        column = self._grid.columns[position]
        begins = position == 0 or self._grid.columns[position - 1].group != column.group
        cells = (len(visible_line(row[position].text)) + row[position].star for row in self._grid.rows)
        return max(len(column.name), len(column.group) if begins else 0, *cells, 0) + _GAP

    def _table(self, columns: list[int], title: str | None, width: int) -> Table:
        shown = Text(title, "bold") if title else None
        table = Table(title=shown, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        several = any(self._grid.columns[position].group for position in columns)
        before = ""
        # Of columns that do not fit, the widest, which hold sentences, are broken into lines and not cut off.
        wide = width // len(columns) if sum(map(self._width, columns)) > width else width
        for position in columns:
            column = self._grid.columns[position]
            # A heading over several columns stands over the first of them.
            above = "" if column.group == before else column.group
            head = Text(f"{above}\n{column.name}" if several else column.name)
            table.add_column(head, justify="right" if column.right else "left", no_wrap=self._width(position) <= wide)
            before = column.group
        for place, row in enumerate(self._grid.rows):
            if place and place in self._grid.ruled:
                table.add_section()
            table.add_row(*(_shown(row[position]) for position in columns))
        return table


def to_csv(grid: Grid) -> str:
    """The unrounded values, a row a line, with the columns' names first."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([_inert(column.full) for column in grid.columns])
    writer.writerows([_inert(cell.value) for cell in row] for row in grid.rows)
    return stream.getvalue()


def to_markdown(grid: Grid) -> str:
    """A table of GitHub's Markdown: the best of a column bold, the best existing method underlined."""
    lines = [
        f"**{_plain(grid.title)}**",
        "",
        _pipes(_plain(column.full) for column in grid.columns),
        _pipes("--:" if column.right else ":--" for column in grid.columns),
        *(_pipes(map(_marked, row)) for row in grid.rows),
        *(line for note in grid.notes for line in ("", _plain(note))),
    ]
    return "\n".join(lines) + "\n"


def to_latex(grid: Grid) -> str:
    r"""A ``table`` for ``booktabs``, with ``\label{tab:NAME}``; text is UTF-8, as LaTeX reads it today."""
    body = []
    for place, row in enumerate(grid.rows):
        body += [r"\midrule"] * (place > 0 and place in grid.ruled) + [_ampersands(map(_typeset, row))]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_escaped(grid.title)}}}",
        rf"\label{{tab:{grid.name}}}",
        rf"\begin{{tabular}}{{{''.join('r' if column.right else 'l' for column in grid.columns)}}}",
        r"\toprule",
        *_latex_groups(grid),
        _ampersands(_escaped(column.name) for column in grid.columns),
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\smallskip\footnotesize {_escaped(note)}" for note in grid.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


FORMATS = {".csv": to_csv, ".md": to_markdown, ".tex": to_latex}
"""How to write a table, by the ending of the file."""


def _inert(value: float | str | None) -> float | str:
    """A value as no spreadsheet takes it for a formula."""
    if not isinstance(value, str):
        return "" if value is None else value
    # A carriage return ends a line for many readers, and the writer does not quote it.
    shown = visible(value.replace("\r", " "))
    return f"'{shown}" if _FORMULA.match(shown) else shown


def _latex_groups(grid: Grid) -> Iterator[str]:
    if not any(column.group for column in grid.columns):
        return
    heads, rules, start = [], [], 1
    for group, columns in grouped(grid.columns):
        span = len(columns)
        heads.append(rf"\multicolumn{{{span}}}{{c}}{{{_escaped(group)}}}" if group else " & ".join([""] * span))
        rules += [rf"\cmidrule(lr){{{start}-{start + span - 1}}}"] if group else []
        start += span
    yield _ampersands(heads)
    yield "".join(rules)


def _pipes(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _ampersands(cells: Iterable[str]) -> str:
    return rf"{' & '.join(cells)} \\"


def _plain(words: str) -> str:
    return _MARKDOWN.sub(r"\\\1", " ".join(visible_line(words).split()))


def _marked(cell: Cell) -> str:
    words = _plain(cell.text) + (r"\*" if cell.star else "")
    words = f"<u>{words}</u>" if cell.underline else words
    return f"**{words}**" if cell.bold else words


def _escaped(words: str) -> str:
    shown = " ".join(visible_line(words).split())
    typeset = "".join(_LATEX.get(character, character) for character in shown)
    return f"{{*}}{typeset[1:]}" if typeset.startswith("*") else typeset


def _typeset(cell: Cell) -> str:
    words = _escaped(cell.text) + (r"$^{*}$" if cell.star else "")
    words = rf"\underline{{{words}}}" if cell.underline else words
    return rf"\textbf{{{words}}}" if cell.bold else words


def _shown(cell: Cell) -> Text:
    style = " ".join(name for name, on in (("bold", cell.bold), ("underline", cell.underline)) if on)
    return Text.assemble((visible_line(cell.text), style), "*" if cell.star else "")


def can_draw() -> bool:
    """Whether matplotlib is there, which the extra ``plots`` brings."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(figure: Figure, folder: Path) -> list[Path]:
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
        axes.set_title(_literal(panel.title), fontsize="small")
        axes.set_ylabel(panel.y)
        axes.set_xlabel(figure.x)
        axes.grid(alpha=0.3)
    if len(names) > 1:
        # One legend serves all panels, in which a series looks the same.
        columns = min(len(names), _LEGEND_COLUMNS * len(figure.panels))
        labels, shown = [_literal(name) for name in names], [handles[name] for name in names]
        canvas.legend(shown, labels, loc="outside lower center", ncols=columns, fontsize="small")
    paths = [folder / f"{figure.name}{ending}" for ending in ENDINGS]
    for path in paths:
        # Without a date in them, the files of the same points are the same.
        metadata = {"CreationDate": None} if path.suffix == ".pdf" else {"Software": None}
        canvas.savefig(path, dpi=_DOTS_PER_INCH, metadata=metadata)
    return paths


def _add(axes: "Axes", series: Series, number: int) -> "Artist":
    color, marker = f"C{number % _COLORS}", _MARKERS[number % len(_MARKERS)]
    if series.style == "points":
        return axes.scatter(series.x, series.y, color=color, marker=marker, s=36)
    kind = {"linewidth": 1.2} if series.style == "curve" else {"marker": marker}
    return axes.plot(series.x, series.y, color=color, **kind)[0]


def _literal(text: str) -> str:
    """Text that matplotlib takes as it is: a dollar sign would begin a formula."""
    return text.replace("$", r"\$")
