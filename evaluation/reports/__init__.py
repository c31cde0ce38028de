"""Tables and figures, drawn from run files alone."""

from keqa.evaluation.reports.questions import read_brief
from keqa.evaluation.reports.rows import entries_of
from keqa.evaluation.reports.write import figures, printed, tables, write, write_grids

__all__ = ["entries_of", "figures", "printed", "read_brief", "tables", "write", "write_grids"]
