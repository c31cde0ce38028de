"""Tables and figures, drawn from run files alone."""

from keqa.evaluation.reports.questions import read_brief
from keqa.evaluation.reports.rows import entries_of
from keqa.evaluation.reports.write import figures, further, table, tables, write

__all__ = ["entries_of", "figures", "further", "read_brief", "table", "tables", "write"]
