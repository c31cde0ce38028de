"""Every table and figure that runs have the numbers for, as files."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from keqa.errors import InputError
from keqa.evaluation.reports.effect import effect_figure, retrieval_effect
from keqa.evaluation.reports.gates import abstention, gate_figure, gates, risk
from keqa.evaluation.reports.grid import Figure, Grid
from keqa.evaluation.reports.judge import discriminator
from keqa.evaluation.reports.kbm import kbm_tables
from keqa.evaluation.reports.overall import overall
from keqa.evaluation.reports.paper import by_facet, costs, costs_by_role, costs_by_step, probabilities, scores_over
from keqa.evaluation.reports.render import FORMATS, Rendered, can_draw, draw, to_csv
from keqa.evaluation.reports.rows import Entry, main_rows
from keqa.evaluation.tally import overlap_notes

PAPERS: dict[str, Callable[[Sequence[Entry]], list[Grid]]] = {"kbm": kbm_tables}
"""By the name of its file in `papers`, what makes a paper's tables of the rows that are there.

Those of the KEQA paper stand in `tables`, of every report; KS-LLM's read whole lines, and are made by its own command.
"""


def printed(entries: Sequence[Entry]) -> Iterator[Rendered]:
    """For a rich console: Table 1 and the rows that it has not, tokens, the gates, and what retrieval does."""
    rows = main_rows(entries)
    others = [entry for entry in entries if entry not in rows]
    further = replace(overall(others, alone=True), title="Further rows: gates, points of figures") if others else None
    grids = (_table1(entries), further, costs_by_role([*rows, *others]), gates(entries), retrieval_effect(entries))
    yield from (Rendered(_noted(grid, entries)) for grid in grids if grid is not None)


def tables(entries: Sequence[Entry]) -> list[Grid]:
    """The tables of the KEQA paper, and those of gates and of what retrieval does, as far as runs have their rows."""
    rows = main_rows(entries)
    found = (
        _table1(entries),
        discriminator(entries),
        by_facet("table3", "retriever", entries),
        by_facet("table4", "lm", entries),
        *(make(rows) for make in (costs, costs_by_role, costs_by_step)),
        gates(entries),
        abstention(rows),
        retrieval_effect(entries),
        *(grid for make in PAPERS.values() for grid in make(entries)),
    )
    return [_noted(grid, entries) for grid in found if grid is not None]


def figures(entries: Sequence[Entry]) -> list[Figure]:
    """Figures 3 to 5 of the KEQA paper, and those of gates and of what retrieval does, as far as runs have points."""
    swept = (scores_over("figure4", "threshold", entries), scores_over("figure5", "top_k", entries))
    found = (probabilities(entries), *swept, gate_figure(entries), risk(entries), effect_figure(entries))
    return [figure for figure in found if figure is not None]


def write(folder: Path, entries: Sequence[Entry], more: Sequence[Grid] = ()) -> list[Path]:
    """Write every table and figure that runs have, and more tables."""
    return write_grids(folder, [*tables(entries), *more], figures(entries))


def write_grids(folder: Path, grids: Sequence[Grid], drawn: Sequence[Figure] = ()) -> list[Path]:
    """Write tables as CSV, Markdown and LaTeX, the points of figures as CSV, and where they can be drawn, figures."""
    contents = {f"{grid.name}{ending}": form(grid) for grid in grids for ending, form in FORMATS.items()}
    contents |= {f"{figure.name}-points.csv": to_csv(figure.points) for figure in drawn}
    paths = [folder / name for name in contents]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in zip(paths, contents.values(), strict=True):
            path.write_text(content, encoding="utf-8")
        if can_draw():
            paths += [path for figure in drawn for path in draw(figure, folder)]
    except OSError as error:
        raise InputError(f"{error.filename or folder} cannot be written: {error.strerror or error}") from error
    return paths


def _table1(entries: Sequence[Entry]) -> Grid:
    """Table 1, and which runs it has no row for."""
    rows = main_rows(entries)
    elsewhere = [entry.title for entry in entries if entry.kind != "gate" and entry not in rows]
    note = f"Points of figures, or rows of Tables 3 and 4, and not shown here: {', '.join(elsewhere)}."
    made = overall(rows, alone=len(entries) == 1)
    return made.noted(note) if elsewhere else made


def _noted(grid: Grid, entries: Sequence[Entry]) -> Grid:
    """A table with what is to be said of rows that learned from questions that they were asked."""
    known = ((one.title, len(one.learned), len(one.expected), one.header.learned_unknown) for one in entries)
    return grid.noted(*overlap_notes(known))
