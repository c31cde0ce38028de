"""What a question costs, from lines made by hand."""

import pytest

from keqa.evaluation.parsing import Parsed
from keqa.evaluation.reports.measures import measure, parsed
from keqa.evaluation.reports.rows import entries_of
from keqa.evaluation.reports.summary import brief_of
from keqa.evaluation.reports.tables.overall import overall
from keqa.evaluation.reports.tables.variants import costs, costs_by_role
from keqa.evaluation.reproduction.compare_with_paper import compare_with_paper
from keqa.evaluation.tally import Tally
from keqa.programs.records import CallCost, Degradation


@pytest.fixture
def drawn(line):
    """A question whose eight tries went out in two requests, with calls of the other roles."""
    one = line(0, 1.0)
    roles = {
        "task": CallCost(calls=2, samples=8, prompt_tokens=50, completion_tokens=10),
        "consistency": CallCost(calls=2, cached=1, prompt_tokens=200, completion_tokens=3),
        "utility": CallCost(calls=10, prompt_tokens=4000, completion_tokens=30),
    }
    cost = one.record.cost.model_copy(update={"by_role": roles})
    return one.model_copy(update={"record": one.record.model_copy(update={"cost": cost})})


def test_lm_calls_are_tries_and_requests_are_what_was_sent(drawn):
    lines = [brief_of(drawn)]
    expected = {
        "samples": 21,
        "task samples": 8,
        "consistency samples": 3,
        "utility samples": 10,
        "requests": 15,
        "calls": 14,
        "tokens": 4293,
        "task tokens": 60,
        "consistency tokens": 203,
        "utility tokens": 4030,
    }
    assert {name: measure(name, lines) for name in expected} == expected
    assert not lines[0].timed


def test_the_share_that_did_not_parse_is_that_of_all_tries(drawn):
    notes = [Degradation(stage="examine", cause="AdapterParseError", message="", action="")] * 2
    spoilt = drawn.model_copy(update={"record": drawn.record.model_copy(update={"degradations": notes})})
    # Of the 15 requests they would be more than a tenth.
    assert parsed([brief_of(spoilt)]) == Parsed(2, 21)
    assert parsed([brief_of(spoilt)]).comparable


def test_a_run_as_it_stands_counts_them_too(drawn):
    tally = Tally(1)
    tally.add(drawn)
    assert (tally.cost.samples, tally.cost.lm_requests, tally.cost.calls) == (21, 15, 14)


def test_tables_count_samples_as_lm_calls(drawn, run):
    entries = entries_of([run("keqa", [drawn])])

    def shown(grid):
        return {column.full: cell.text for column, cell in zip(grid.columns, grid.rows[0].cells, strict=True)}

    assert (shown(overall(entries))["LM calls"], shown(overall(entries))["sent"]) == ("21.0", "14.0")
    assert shown(costs(entries))["L"] == "21.00"
    assert shown(costs_by_role(entries))["LM calls task"] == "8.00"


def test_beside_the_papers_costs_stand_those_of_the_task_role(drawn, run):
    grid = compare_with_paper(entries_of([run("keqa", [drawn], dataset="nq")]))[-1]
    assert grid.name == "paper-table5"
    shown = {column.full: cell.text for column, cell in zip(grid.columns, grid.rows[0].cells, strict=True)}
    assert (shown["nq L here"], shown["nq L paper"]) == ("8.000", "5.080")
    assert (shown["nq token here"], shown["nq token paper"]) == ("60.000", "239.000")
    assert any("D_s and D_u" in note for note in grid.notes)
