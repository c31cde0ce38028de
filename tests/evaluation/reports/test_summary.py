import pytest

from keqa.evaluation.records import Run, header_line, run_line
from keqa.evaluation.reports.questions import NUMBERS, brief_of, measure, read_brief, searched
from keqa.evaluation.reports.write import figures, tables
from keqa.evaluation.run_file import read_run
from keqa.programs.records import CallCost, Cost, Degradation, PassageVerdict, QuestionRecord, QuizRecord


@pytest.fixture
def whole(run, line, quiz):
    """A run of three questions with draws, passages and a failure."""
    passage = PassageVerdict(
        passage_id="p", title="", text="word " * 200, score=1.0, verdict="helpful", kept=True, why="it was kept"
    )
    draws = [
        (["gold", "lead", "gold", "gold", None], [[0, 2, 3], [1]], False),
        (["gold"] * 5, [[0, 1, 2, 3, 4]], True),
    ]
    lines = [
        line(
            number,
            float(known),
            quizzes=[
                quiz(
                    f"Question {number}?",
                    answers,
                    clusters,
                    probabilities=[0.25] * 5,
                    known=known,
                    retrieved=not known,
                    passages=[passage] * 10,
                    evidence=["a sentence"],
                )
            ],
        )
        for number, (answers, clusters, known) in enumerate(draws)
    ]
    return run("keqa", [*lines, line(2, 0.0, failed=True, kind="bridge", unreadable=1)], gate="votes", threshold="4/5")


@pytest.fixture
def path(whole, tmp_path):
    """Its file."""
    found = tmp_path / "keqa.jsonl"
    found.write_bytes(header_line(whole.header) + b"".join(map(run_line, whole.lines)))
    return found


def test_a_line_in_brief(whole):
    brief = brief_of(whole.lines[0])
    assert (brief.id, brief.question, brief.answers, brief.kind) == ("q0", "Question 0?", ("gold",), "one hop")
    assert {name: number for name in NUMBERS if (number := brief.number(name)) is not None} == {
        "em": 0.0,
        "f1": 0.0,
        "contains": 0.0,
        "failed": 0,
        "retrievals": 1,
        "requests": 2,
        "samples": 2,
        "task samples": 2,
        "consistency samples": 0,
        "utility samples": 0,
        "calls": 2,
        "tokens": 100,
        "task tokens": 100,
        "consistency tokens": 0,
        "utility tokens": 0,
        "tokens read": 90,
        "tokens written": 10,
        "seconds": 0.5,
        "question retrieval ratio": 1,
    }
    assert (brief.failed, brief.impaired, brief.unreadable, brief.searched, brief.asked) == (False, False, 0, 1, 1)
    (quiz,) = brief.quizzes
    assert (quiz.passages, quiz.evidence) == ([], [])
    before = whole.lines[0].record.quizzes[0]
    assert quiz == before.model_copy(update={"passages": [], "evidence": []})
    failed = brief_of(whole.lines[2])
    assert (failed.failed, failed.unreadable, failed.quizzes) == (True, 1, [])


def test_a_question_that_could_not_be_asked_cost_nothing(line):
    brief = brief_of(line(0, 0.0, failed=True).model_copy(update={"record": None}))
    assert brief.asked == 0
    assert {brief.number(name) for name in ("requests", "calls", "samples", "tokens", "retrievals")} == {0}
    assert measure("question retrieval ratio", [brief]) is None
    assert measure("quiz retrieval ratio", [brief]) is None


def test_steps_that_are_not_the_quizzes_are_one_with_the_searches(line):
    one = line(0, 1.0)
    names = ("quiz answering", "assessment", "everything else")
    assert {brief_of(one).number(f"{name} {what}") for name in names for what in ("seconds", "samples")} == {None}
    steps = {
        "answering.answer": CallCost(samples=2, seconds=0.5),
        "examination.quiz": CallCost(samples=5, seconds=1.0),
        "picking.judge": CallCost(samples=3, seconds=0.25),
    }
    cost = one.record.cost.model_copy(update={"by_step": steps, "retrieval_seconds": 2.0})
    brief = brief_of(one.model_copy(update={"record": one.record.model_copy(update={"cost": cost})}))
    assert [brief.number(f"{name} seconds") for name in names] == [1.0, 0.0, 2.75]
    assert [brief.number(f"{name} samples") for name in names] == [5, 0, 5]


def test_an_outage_is_still_there_in_brief(line):
    away = Degradation(stage="retrieve", cause="RetrievalError", message="", action="")
    one = line(0, 1.0)
    one = one.model_copy(update={"record": one.record.model_copy(update={"degradations": [away]})})
    assert brief_of(one).impaired


def test_tables_and_figures_of_lines_in_brief_are_those_of_the_whole_ones(path):
    run, brief = read_run(path), read_brief(path)
    assert isinstance(run, Run)
    assert brief.header == run.header
    assert tables([brief]) == tables([run])
    assert figures([brief]) == figures([run])
    assert {grid.name for grid in tables([brief])} >= {"table1", "table2", "table5"}
    assert [figure.name for figure in figures([brief])] == ["figure3"]


def test_of_a_question_asked_twice_the_later_line_stands(whole, path):
    later = whole.lines[2].model_copy(update={"error": None, "answer": "now"})
    with path.open("ab") as stream:
        stream.write(run_line(later))
    assert [line.failed for line in read_brief(path).lines] == [False, False, False]


def test_a_line_takes_a_small_part_of_its_file(path, whole, tmp_path):
    import tracemalloc

    many = tmp_path / "many.jsonl"
    copies = [whole.lines[0].model_copy(update={"id": f"q{n}"}) for n in range(200)]
    header = whole.header.model_copy(update={"ids": [line.id for line in copies]})
    many.write_bytes(header_line(header) + b"".join(map(run_line, copies)))
    read_brief(path)
    tracemalloc.start()
    kept = read_brief(many)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(kept.lines) == 200
    assert size / 200 < 2048 < many.stat().st_size / 200


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
    assert [searched(record) for record in records] == [[False, True], [False], [False, True], [True], [False]]
