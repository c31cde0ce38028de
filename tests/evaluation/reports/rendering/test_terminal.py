from io import StringIO

from rich.console import Console

from keqa.evaluation.reports.overall import overall
from keqa.evaluation.reports.render import Rendered
from keqa.evaluation.reports.rows import entries_of


def shown(grid, width):
    console = Console(file=StringIO(), width=width, highlight=False)
    console.print(Rendered(grid))
    return console.file.getvalue()


def test_a_wide_terminal_shows_one_table_and_a_narrow_one_all_of_it_in_parts(scored):
    grid = overall(entries_of([scored("keqa", (1, 1, 0)), scored("rag", (1, 0, 0), label="[red]rag\x1b[2J")]))
    wide, narrow = shown(grid, 200), shown(grid, 70)
    assert wide.count("KEQA  ") == 1
    assert narrow.count(" KEQA  ") > 1
    assert "\u2026" not in narrow
    for output in (wide, narrow):
        assert "[red]rag" in output
        assert "\x1b[2J" not in output
        for column in ("F1", "EM", "McNemar", "not parsed"):
            assert column in output
        assert max(map(len, output.splitlines())) <= (200 if output is wide else 70)
