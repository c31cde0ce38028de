"""A table of data in memory, as of pandas, is no list of questions: an iterator over it gives the names of columns."""

from __future__ import annotations

from typing import Any, Final

from keqa.errors import InputError

# What gives the rows, by how one of pandas, polars and pyarrow is recognised without it. That of polars has
# `to_dict` as well, which takes no such argument.
_ROWS: Final = (("to_dicts", "to_dicts()"), ("to_pylist", "to_pylist()"), ("to_dict", 'to_dict("records")'))


def refuse_table(items: Any, who: str) -> None:
    """Refuse a table where a list of questions is expected."""
    if isinstance(items, type) or not hasattr(items, "columns"):
        return
    rows = next((written for method, written in _ROWS if callable(getattr(items, method, None))), None)
    if rows is not None:
        kind = type(items).__name__
        raise InputError(f"{who} takes a list of questions, not a {kind}: give its rows, df.{rows}")
