"""Tables as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from itertools import groupby

from keqa.evaluation.reports.grid import Cell, Grid
from keqa.storage.terminal import visible, visible_line

_MARKDOWN = re.compile(r"([\\`*_|<>\[\]~$]|&(?=#?\w))")
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")
"""How a cell begins that a spreadsheet computes."""
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
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


def to_csv(grid: Grid) -> str:
    """The unrounded values, a row a line, with the columns' names first."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([_inert(column.full) for column in grid.columns])
    writer.writerows([_raw(cell) for cell in row.cells] for row in grid.rows)
    return stream.getvalue()


def to_markdown(grid: Grid) -> str:
    """A table of GitHub's Markdown: the best of a column bold, the best existing method underlined."""
    lines = [
        f"**{_plain(grid.title)}**",
        "",
        _pipes(_plain(column.full) for column in grid.columns),
        _pipes("--:" if column.right else ":--" for column in grid.columns),
        *(_pipes(_marked(cell) for cell in row.cells) for row in grid.rows),
    ]
    for note in grid.notes:
        lines += ["", _plain(note)]
    return "\n".join(lines) + "\n"


def to_latex(grid: Grid) -> str:
    r"""A ``table`` for ``booktabs``, with ``\label{tab:NAME}``; text is UTF-8, as LaTeX reads it today."""
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
    ]
    for position, row in enumerate(grid.rows):
        if row.ruled and position:
            lines.append(r"\midrule")
        lines.append(_ampersands(_typeset(cell) for cell in row.cells))
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par\smallskip\footnotesize {_escaped(note)}" for note in grid.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


FORMATS = {".csv": to_csv, ".md": to_markdown, ".tex": to_latex}
"""How to write a table, by the ending of the file."""


def _raw(cell: Cell) -> float | str:
    return _inert(cell.value) if isinstance(cell.value, str) else "" if cell.value is None else cell.value


def _inert(words: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    # A carriage return ends a line for many readers, and the writer does not quote it.
    shown = visible(words.replace("\r", " "))
    return f"'{shown}" if _FORMULA.match(shown) else shown


def _latex_groups(grid: Grid) -> Iterator[str]:
    """The line of group names, with a rule under each."""
    if not any(column.group for column in grid.columns):
        return
    heads, rules, start = [], [], 1
    for group, columns in groupby(grid.columns, key=lambda column: column.group):
        span = len(list(columns))
        heads.append(rf"\multicolumn{{{span}}}{{c}}{{{_escaped(group)}}}" if group else " & ".join([""] * span))
        if group:
            rules.append(rf"\cmidrule(lr){{{start}-{start + span - 1}}}")
        start += span
    yield _ampersands(heads)
    yield "".join(rules)


def _pipes(cells: Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _ampersands(cells: Iterator[str] | list[str]) -> str:
    return rf"{' & '.join(cells)} \\"


def _plain(words: str) -> str:
    return _MARKDOWN.sub(r"\\\1", " ".join(visible_line(words).split()))


def _marked(cell: Cell) -> str:
    words = _plain(cell.text) + (r"\*" if cell.star else "")
    if cell.underline:
        words = f"<u>{words}</u>"
    return f"**{words}**" if cell.bold else words


def _escaped(words: str) -> str:
    shown = " ".join(visible_line(words).split())
    typeset = "".join(_LATEX.get(character, character) for character in shown)
    return f"{{*}}{typeset[1:]}" if typeset.startswith("*") else typeset


def _typeset(cell: Cell) -> str:
    words = _escaped(cell.text) + (r"$^{*}$" if cell.star else "")
    if cell.underline:
        words = rf"\underline{{{words}}}"
    return rf"\textbf{{{words}}}" if cell.bold else words
