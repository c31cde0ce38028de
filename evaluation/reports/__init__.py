"""Tables and figures, drawn from run files alone."""

from keqa.evaluation.reports.questions import read_brief
from keqa.evaluation.reports.rows import entries_of
from keqa.evaluation.reports.write import effect_table, figures, table, tables, write

__all__ = ["effect_table", "entries_of", "figures", "read_brief", "table", "tables", "write"]
