"""Lines of run files in brief, and what is measured over them."""

from fractions import Fraction

import pytest
from fixtures.run_files import make_passage, write_run

from keqa.evaluation.reports.paper import costs_by_role, costs_by_step
from keqa.evaluation.reports.questions import brief_of, measure, read_brief, searched, unparsed, unreadable
from keqa.evaluation.reports.rows import entries_of
from keqa.evaluation.reproduction.compare_with_paper import compare_with_paper
from keqa.programs.records import CallCost, Cost, Degradation, Failure, QuestionRecord, QuizRecord


@pytest.fixture
def examined(line, quiz):
    """A question with draws and passages."""
    answers = ["gold", "lead", "gold", "gold", None]
    bulk = {"passages": [make_passage("p", "word " * 200)] * 10, "evidence": ["a sentence"]}
    drawn = quiz("Question 0?", answers, [[0, 2, 3], [1]], known=False, retrieved=True, **bulk)
    return line(0, 0.0, quizzes=[drawn])


def test_a_question_that_could_not_be_asked_cost_nothing(line):
    brief = brief_of(line(0, 0.0, failed=True).model_copy(update={"record": None}))
    assert {brief.number(name) for name in ("requests", "calls", "samples", "tokens", "retrievals")} == {0}
    assert measure("question retrieval ratio", [brief]) is None
    assert measure("quiz retrieval ratio", [brief]) is None


def test_steps_that_are_not_the_quizzes_are_one_with_the_searches(line, run):
    names = ("quiz answering", "assessment", "everything else")
    plain = brief_of(line(0, 1.0))
    assert {plain.number(f"{name} {what}") for name in names for what in ("seconds", "samples")} == {None}
    steps = {
        "answering.answer": CallCost(samples=2, seconds=0.5),
        "examination.quiz": CallCost(samples=5, seconds=1.0),
        "picking.judge": CallCost(samples=3, seconds=0.25),
    }
    brief = brief_of(line(0, 1.0, cost=Cost(by_step=steps, retrieval_seconds=2.0)))
    assert [brief.number(f"{name} seconds") for name in names] == [1.0, 0.0, 2.75]
    assert [brief.number(f"{name} samples") for name in names] == [5, 0, 5]
    # Where a cache answered, that is said of the time.
    costs = [
        Cost(by_step=steps, by_role={"task": CallCost(calls=1, cached=cached, samples=1 + cached)}) for cached in (0, 1)
    ]
    grid = costs_by_step(entries_of([run("keqa", [line(n, 1.0, cost=cost) for n, cost in enumerate(costs)])]))
    assert "The time is that of questions whose calls no cache answered: KEQA 1 of 2." in grid.notes[-1]


def test_a_line_takes_a_small_part_of_its_file(examined, run, tmp_path):
    import tracemalloc

    many = run("keqa", [examined.model_copy(update={"id": f"q{n}"}) for n in range(200)])
    path = write_run(tmp_path / "many.jsonl", many)
    read_brief(path)
    tracemalloc.start()
    kept = read_brief(path)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(kept.lines) == 200
    assert size / 200 < 2048 < path.stat().st_size / 200


def test_which_quizzes_were_searched_for():
    known = QuizRecord(index=1, text="a", source="memory")
    looked_up = QuizRecord(index=2, text="b", source="passages", retrieved=True)
    blocked = QuizRecord(index=3, text="c #2", source="blocked")
    fallback = QuizRecord(index=0, text="q", source="passages", retrieved=True)
    records = [
        QuestionRecord(question="one", quizzes=[known, looked_up], cost=Cost(retrievals=1)),
        QuestionRecord(question="two", quizzes=[known], cost=Cost()),
        QuestionRecord(question="three", quizzes=[known, blocked], fallback=fallback, cost=Cost(retrievals=1)),
        QuestionRecord(question="four", method="always_retrieve", cost=Cost(retrievals=1)),
        QuestionRecord(question="five", method="closed_book", cost=Cost()),
    ]
    assert [[was for _, was in searched(record)] for record in records] == [
        [False, True],
        [False],
        [False, True],
        [True],
        [False],
    ]


# Eight tries that went out in two requests, and calls of the other roles.
ROLES = {
    "task": CallCost(calls=2, samples=8, prompt_tokens=50, completion_tokens=10),
    "consistency": CallCost(calls=2, cached=1, samples=3, prompt_tokens=200, completion_tokens=3),
    "utility": CallCost(calls=10, samples=10, prompt_tokens=4000, completion_tokens=30),
}
DRAWN = Cost(by_role=ROLES, retrievals=1)


def test_calls_of_a_boundary_model_have_a_column_where_there_are_any(line, run):
    with_boundary = line(0, 1.0, cost=Cost(by_role=ROLES | {"boundary": CallCost(calls=1, samples=1)}))
    grids = [costs_by_role(entries_of([run("keqa", [one])])) for one in (line(0, 1.0, cost=DRAWN), with_boundary)]
    assert [[cell.text for cell in grid.rows[0][1:-2]] for grid in grids] == [
        ["8.00", "3.00", "10.00"],
        ["8.00", "3.00", "10.00", "1.00"],
    ]


def test_lm_calls_are_tries_and_requests_are_what_was_sent(line, run):
    drawn = line(0, 1.0, cost=DRAWN)
    lines = [brief_of(drawn)]
    expected = {"samples": 21, "task samples": 8, "consistency samples": 3, "utility samples": 10, "requests": 15}
    expected |= {"calls": 14, "tokens": 4293, "task tokens": 60, "consistency tokens": 203, "utility tokens": 4030}
    expected |= {"tokens read": 4250, "task tokens read": 50}
    assert {name: measure(name, lines) for name in expected} == expected
    assert not lines[0].timed
    # Beside the paper's costs stand those of the task role.
    grid = compare_with_paper(entries_of([run("keqa", [drawn], dataset="nq")]))[-1]
    shown = {column.full: cell.text for column, cell in zip(grid.columns, grid.rows[0], strict=True)}
    assert (grid.name, shown["nq L here"], shown["nq L paper"]) == ("paper-table5", "8.000", "5.080")
    assert (shown["nq token here"], shown["nq token paper"]) == ("60.000", "239.000")


def test_the_share_that_did_not_parse_is_that_of_all_tries(line):
    assert unparsed([brief_of(line(0, 1.0, cost=DRAWN, unreadable=2))]) == Fraction(2, 21)
    assert unparsed([]) == 0


@pytest.mark.parametrize(
    ("noted", "end", "count"),
    [
        ([("examine", "AdapterParseError"), ("retrieve", "TimeoutError")], None, 1),
        ([("answer", "TruncatedReplyError"), ("examine", "LMServerError")], None, 1),
        # Nothing stands in for a summary.
        ([("examine", "EmptyAnswerError")], ("summarize", "AdapterParseError"), 2),
        # The failure of a question whose last stage was noted is that note.
        ([("answer", "AdapterParseError")], ("answer", "AdapterParseError"), 1),
    ],
)
def test_outputs_that_did_not_parse_are_counted_once(noted, end, count):
    notes = [Degradation(stage=stage, cause=cause, message="", action="") for stage, cause in noted]
    failure = end and Failure(stage=end[0], cause=end[1], message="")
    assert unreadable(QuestionRecord(question="q", degradations=notes, failure=failure)) == count
