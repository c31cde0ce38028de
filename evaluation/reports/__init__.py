"""Tables and figures, drawn from run files alone, and the figures that this version should reproduce."""

from keqa.evaluation.reports.write import effect_table, figures, table, tables, write

__all__ = ["effect_table", "figures", "table", "tables", "write"]
