import csv
import io

import pytest
from fixtures.command_line import printed
from hypothesis import given
from hypothesis import strategies as st

from keqa.evaluation.reports.grid import (
    EMPTY,
    Cell,
    Column,
    Figure,
    Grid,
    Panel,
    Series,
    number,
    p_value,
    share,
    table,
    text,
)
from keqa.evaluation.reports.overall import overall
from keqa.evaluation.reports.render import Rendered, draw, to_csv, to_latex, to_markdown
from keqa.evaluation.reports.rows import entries_of
from keqa.storage.redaction import visible


def test_numbers_are_written_without_a_zero_before_the_point():
    shown = [number(0.25), number(-0.5, signed=True), number(0.5, signed=True), number(0.0), number(10.25, 1)]
    assert [cell.text for cell in shown] == [".250", "-.500", "+.500", ".000", "10.2"]
    assert [p_value(0.0004).text, p_value(0.05).text, share(0.125).text] == ["<.001", ".050", "12.5 %"]
    assert [number(None), p_value(None), share(None)] == [EMPTY, EMPTY, EMPTY]


def test_a_dollar_sign_in_a_figure_begins_no_formula(tmp_path):
    pytest.importorskip("matplotlib")
    series = tuple(Series(f"${name}", (0.0, 1.0), (0.5, 0.25)) for name in ("{a", "b$"))
    assert all(path.exists() for path in draw(Figure("f", "T", "x", (Panel("one $\\frac$", "F1", series),)), tmp_path))


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_whatever_a_label_holds_it_stays_one_cell_of_one_line(labels):
    rows = tuple((Cell(label, label), number(1.0)) for label in labels)
    grid = Grid("t", "T", (Column("method", right=False), Column("F1")), rows)
    markdown = to_markdown(grid).split("\n")
    assert len(markdown) == 4 + len(labels) + 1
    assert all(line.replace(r"\|", "").count("|") == 3 for line in markdown[2:-1])
    tex = to_latex(grid).split("\n")
    assert sum(line.endswith(r" & 1.000 \\") for line in tex) == len(labels)
    written = list(csv.reader(io.StringIO(to_csv(grid), newline="")))
    visibles = [visible(label.replace("\r", " ")) for label in labels]
    assert [row[0] for row in written[1:]] == [
        f"'{one}" if one.strip()[:1] in set("=+-@＝＋－＠") else one for one in visibles
    ]


@pytest.mark.parametrize("label", ["=1+1", "+1", "-1+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\n=1", " =1", "＝1"])
def test_no_spreadsheet_computes_a_label(label):
    grid = Grid("t", "T", (Column("=2", right=False), Column("F1")), ((text(label), number(-0.5)),))
    assert list(csv.reader(io.StringIO(to_csv(grid), newline=""))) == [["'=2", "F1"], [f"'{label}", "-0.5"]]


def test_what_a_label_holds_acts_in_no_format():
    evil = "[x](javascript:a) &lt;b&gt; $x$ ~y~ \x1b[2J\u202e"
    grid = Grid("t", evil, (Column("m", right=False), Column("F1")), ((text(f"*{evil}"), number(1.0)),), (evil,))
    for written in (to_csv(grid), to_markdown(grid), to_latex(grid)):
        assert "\x1b" not in written
        assert "\u202e" not in written
    shown = r"\[x\](javascript:a) \&lt;b\&gt; \$x\$ \~y\~ ␛\[2J\\u202e"
    assert to_markdown(grid).splitlines()[4] == rf"| \*{shown} | 1.000 |"
    assert r"{*}{[}x{]}(javascript:a)" in to_latex(grid)


def test_a_wide_terminal_shows_one_table_and_a_narrow_one_all_of_it_in_parts(scored):
    grid = overall(entries_of([scored("keqa", (1, 1, 0)), scored("rag", (1, 0, 0), label="[red]rag\x1b[2J")]))
    wide, narrow = printed(Rendered(grid), 200), printed(Rendered(grid), 70)
    assert wide.count("KEQA  ") == 1
    assert narrow.count(" KEQA  ") > 1
    assert "\u2026" not in narrow
    for output in (wide, narrow):
        assert "[red]rag" in output
        assert "\x1b[2J" not in output
        for column in ("F1", "EM", "McNemar", "not parsed"):
            assert column in output
        assert max(map(len, output.splitlines())) <= (200 if output is wide else 70)


def test_a_group_of_columns_that_no_part_has_room_for_is_parted_and_no_number_cut_off():
    group = [((name, "memory's answers"), number(0.417)) for name in ("right", "AUROC", "PRR", "AURC", "ECE")]
    shown = printed(Rendered(table("gates", "Gates", [[("gate", text("a long name " * 2)), *group]])), 60)
    assert (shown.count(".417"), shown.count("memory's answers")) == (len(group), 2)


def test_each_part_of_a_table_has_the_columns_that_tell_its_rows_apart():
    values = [(name, number(0.5)) for name in ("a long heading", "another heading", "the last heading")]
    rows = [[("set", text("nq")), ("method", text(name)), *values] for name in ("rag", "keqa")]
    shown = printed(Rendered(table("costs", "Costs", rows)), 40)
    assert shown.count("set ") == shown.count("keqa") == shown.count(" heading") == 3


def test_sentences_too_long_for_a_terminal_are_broken_and_names_beside_them_are_whole():
    rows = [
        [("method", text(name)), ("said", text("a sentence of words " * 9))] for name in ("Standard", "Standard+doc")
    ]
    shown = printed(Rendered(table("case", "A case", rows)), 60)
    assert "…" not in shown
    assert shown.count("sentence") == 18
    assert "Standard+doc" in shown
