"""Every table in every format, cell by cell, from stored run files."""

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from keqa.evaluation.reports import entries_of, figures, read_brief, table, tables, write
from keqa.evaluation.run_file import read_run

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", ["paper", "gates", "kbm", "declined"])
def test_tables_of_stored_runs(tmp_path, name):
    entries = entries_of([read_brief(file) for file in sorted((GOLDEN / name).rglob("*.jsonl"))])
    found = {path.name: path.read_text() for path in write(tmp_path, entries, plots=False)}
    console = Console(file=StringIO(), width=100, highlight=False)
    console.print(table(entries))
    found["terminal"] = console.file.getvalue()
    expected = json.loads((GOLDEN / f"{name}.json").read_text())
    assert list(found) == list(expected)
    for file, content in expected.items():
        assert found[file].splitlines() == content.splitlines(), file


def test_lines_in_brief_say_the_same_as_whole_ones():
    files = sorted((GOLDEN / "gates").glob("*.jsonl"))
    brief, whole = (entries_of([read(file) for file in files]) for read in (read_brief, read_run))
    assert tables(brief) == tables(whole)
    assert figures(brief) == figures(whole)
