"""Every table and figure that runs have the numbers for, as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from keqa.errors import InputError
from keqa.evaluation.records import Run
from keqa.evaluation.reports.figures import figures_of
from keqa.evaluation.reports.grid import Figure, Grid, points_of
from keqa.evaluation.reports.rendering.formats import FORMATS, to_csv
from keqa.evaluation.reports.rendering.plots import can_draw, draw
from keqa.evaluation.reports.rendering.terminal import Rendered
from keqa.evaluation.reports.rows import Entry, entries_of, notes_on_overlap
from keqa.evaluation.reports.summary import RunSummary
from keqa.evaluation.reports.sweeps import main_rows
from keqa.evaluation.reports.tables.abstention import abstention
from keqa.evaluation.reports.tables.discriminator import discriminator
from keqa.evaluation.reports.tables.gates import gates
from keqa.evaluation.reports.tables.kbm import kbm_tables
from keqa.evaluation.reports.tables.kbm_models import frequency_table, mask_table, plug_in_table
from keqa.evaluation.reports.tables.overall import overall
from keqa.evaluation.reports.tables.retrieval_effect import retrieval_effect
from keqa.evaluation.reports.tables.variants import by_language_model, by_retriever, costs, costs_by_role, costs_by_step

Runs = Sequence[Run | RunSummary]
"""As `keqa.evaluation.reading.read_run` or `keqa.evaluation.reports.summary.read_brief` reads them, finished or not.

What takes them raises `InputError` where there is none, two have one label, or two hold different questions under one
id.
"""


def table(runs: Runs) -> Rendered:
    """Table 1 for a rich console: every method on every kind of question, with costs and significance."""
    entries = entries_of(runs)
    return Rendered(_noted(overall(main_rows(entries)), entries))


def effect_table(runs: Runs) -> Rendered | None:
    """What retrieval does to quizzes by what the LM knows, for a rich console.

    None where ``gate-never`` and ``gate-always`` are not among the runs, or nothing can be compared.
    """
    entries = entries_of(runs)
    grid = retrieval_effect(entries)
    return None if grid is None else Rendered(_noted(grid, entries))


def tables(runs: Runs) -> list[Grid]:
    """The tables of the KEQA paper, and those of gates and of what retrieval does, as far as runs have their rows."""
    entries = entries_of(runs)
    rows = main_rows(entries)
    found = (
        overall(rows),
        discriminator(entries),
        by_retriever(entries),
        by_language_model(entries),
        costs(rows),
        costs_by_role(rows),
        costs_by_step(rows),
        gates(entries),
        abstention(rows),
        retrieval_effect(entries),
        *kbm_tables(entries),
        plug_in_table(entries),
        frequency_table(entries),
        mask_table(entries),
    )
    return [_noted(grid, entries) for grid in found if grid is not None]


def _noted(grid: Grid, entries: Sequence[Entry]) -> Grid:
    """A table with what is to be said of rows that learned from questions that they were asked."""
    return replace(grid, notes=(*grid.notes, *notes_on_overlap(entries)))


def figures(runs: Runs) -> list[Figure]:
    """Figures 3 to 5 of the KEQA paper, and those of gates and of what retrieval does, as far as runs have points."""
    return figures_of(entries_of(runs))


def write(folder: Path | str, runs: Runs, *, plots: bool | None = None, more: Sequence[Grid] = ()) -> list[Path]:
    """Write tables as CSV, Markdown and LaTeX, the points of figures as CSV, and the figures themselves.

    No language model is asked: run files are all that is needed, so that everything can be drawn again.

    Args:
        folder: Where to; it is made where it is not there.
        runs: The runs.
        plots: Whether to draw the figures; where None, if matplotlib is installed.
        more: Further tables to write beside them.

    Returns:
        The files.

    Raises:
        InputError: There is no run, two do not go together (see `Runs`), or a file cannot be written.
        MissingExtraError: Figures are asked for, and matplotlib is not installed. Everything else is written by then.
    """
    folder = Path(folder)
    drawn = figures(runs)
    grids = [*tables(runs), *more]
    contents = {f"{grid.name}{ending}": form(grid) for grid in grids for ending, form in FORMATS.items()}
    contents |= {f"{figure.name}-points.csv": to_csv(points_of(figure)) for figure in drawn}
    paths = [folder / name for name in contents]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in zip(paths, contents.values(), strict=True):
            path.write_text(content, encoding="utf-8")
        if can_draw() if plots is None else plots:
            paths += [path for figure in drawn for path in draw(figure, folder)]
    except OSError as error:
        raise InputError(f"{error.filename or folder} cannot be written: {error.strerror or error}") from error
    return paths
