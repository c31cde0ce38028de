"""What is declined counts as that, by its type: in scores, run files, tables and compiling."""

import pytest
from fixtures.findings import FINDINGS, NOTHING_FOUND

from keqa.cli.running import figures
from keqa.data.example import as_example
from keqa.errors import NotInDocumentsError
from keqa.evaluation.compare import Row
from keqa.evaluation.evaluate import evaluate
from keqa.evaluation.reports import entries_of, tables
from keqa.evaluation.run_file import read_run
from keqa.metrics.answers import f1
from keqa.optimize.scoring import score_of
from keqa.programs.abstention import abstained
from keqa.programs.baselines import ClosedBook
from keqa.programs.prediction import prediction_of
from keqa.programs.registry import parse_spec

ROWS = [
    {"id": "right", "question": "Who governs Town0?", "answer": "Mayor0"},
    {"id": "wrong", "question": "Who governs Town3?", "answer": "Mayor3"},
    {"id": "missed", "question": "What does Ann Lee earn?", "answer": "Ann Lee earns nothing"},
    {"id": "declined", "question": "What does Bo Kim earn?", "answer": None},
    {"id": "guessed", "question": "Who governs Town7?", "unanswerable": True},
]


@pytest.fixture
def asked(closed_book, write_json, tmp_path, monkeypatch):
    """A run over the rows; what anybody earns is not in the documents."""

    def run(*, raised=False):
        program, _ = closed_book()
        answer = ClosedBook.__call__

        def call(self, question, **further):
            if "earn" not in question:
                return answer(self, question=question, **further)
            if raised:
                raise NotInDocumentsError(NOTHING_FOUND.unanswered, NOTHING_FOUND)
            return prediction_of(NOTHING_FOUND)

        monkeypatch.setattr(ClosedBook, "__call__", call)
        tally = evaluate(program, write_json("rows.jsonl", ROWS), out=tmp_path / "run.jsonl")
        monkeypatch.undo()
        return tally, tmp_path / "run.jsonl"

    return run


@pytest.mark.parametrize("raised", [False, True])
def test_a_run_keeps_it_and_the_table_counts_it(asked, raised):
    tally, path = asked(raised=raised)
    lines = {line.id: line for line in read_run(path).lines}
    assert {name: line.scores["f1"] for name, line in lines.items()} == {
        "right": 1, "wrong": 0, "missed": 0, "declined": 1, "guessed": 0,
    }  # fmt: skip
    assert (tally.failed, lines["declined"].answers, lines["declined"].answer) == (0, [], NOTHING_FOUND.answer)
    assert lines["declined"].record.unanswered == NOTHING_FOUND.unanswered
    (figure,) = figures([Row(parse_spec("closed-book"), path, tally)])
    assert figure["declining"] == {
        "questions": 5, "answered": 3, "right": 1, "declined": 2, "found": 2, "unanswerable": 2, "rightly": 1,
        "coverage": 0.6, "right_of_answered": pytest.approx(1 / 3), "right_to_decline": 0.5, "unanswered_ratio": 0.5,
    }  # fmt: skip
    table = next(one for one in tables(entries_of([read_run(path)])) if one.name == "table1")
    shown = {column.full: cell.text for column, cell in zip(table.columns, table.rows[0], strict=True)}
    columns = ["EM", "answered", "right of answered", "right to decline", "unanswerable declined"]
    assert [shown[name] for name in columns] == [".400", ".600", ".333", "1/2", "1/2"]


@pytest.mark.parametrize("record", FINDINGS.values(), ids=FINDINGS)
def test_it_is_an_abstention_whatever_its_words(record):
    assert abstained(record)
    # Its words have some in common with this answer.
    golds = as_example({"question": record.question, "answer": "your documents: Ann Lee"})
    assert f1(record.answer, golds.answers) > 0 or record.unanswered.kind == "sources contradict each other"
    assert score_of(f1, golds, prediction_of(record)) == 0


def test_who_says_in_words_that_it_is_not_known_declines_as_well(closed_book, tmp_path):
    program, _ = closed_book(lambda name, inputs, config: {"answer": "I do not know"})
    tally = evaluate(program, [{"question": "Who?", "answer": None}], out=tmp_path / "run.jsonl")
    assert (tally.mean("em"), tally.declining.rightly, tally.declining.found) == (1, 1, 0)
