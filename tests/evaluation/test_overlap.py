"""A program is not measured by what it learned from, unless that is asked for; then every table says so."""

from types import SimpleNamespace

import pytest
from fixtures.run_files import towns

from keqa.cli.running import figures
from keqa.errors import InputError
from keqa.evaluation.compare import compare
from keqa.evaluation.evaluate import evaluate
from keqa.evaluation.questions import Questions
from keqa.evaluation.reports import entries_of, tables
from keqa.evaluation.run_file import read_run
from keqa.evaluation.tally import overlap_notes
from keqa.lms import Roles
from keqa.programs.build import Parts
from keqa.programs.calls.call_cache import CallCache
from keqa.programs.calls.predictor import NOTHING
from keqa.programs.registry import parse_spec
from keqa.programs.saving import save

TOWNS = towns(4)
# Under other ids, as another data set may call them.
LEARNED = NOTHING.and_from(
    [SimpleNamespace(id="train-9", question="Who governs Town1?", choices=())],
    [SimpleNamespace(id="dev-9", question="who governs Town2?", choices=())],
)
STRANGERS = NOTHING.and_from([SimpleNamespace(id="t1", question="Who governs Rome?", choices=())], [])


@pytest.fixture
def asked(closed_book, tmp_path):
    """Evaluates a closed-book program that has learned from some questions."""

    def run(learned, **options):
        program, engine = closed_book()
        program.learned = learned
        return evaluate(program, TOWNS, out=tmp_path / "run.jsonl", **options), engine

    return run


def test_the_ids_of_strangers_do_not_matter(asked, tmp_path):
    tally, _ = asked(STRANGERS)
    assert (tally.done, tally.learned_from) == (4, 0)
    assert "learned_" not in (tmp_path / "run.jsonl").read_text().partition("\n")[0]


def test_questions_that_were_learned_from_are_refused_or_said_in_the_header_and_in_every_table(asked, tmp_path):
    with pytest.raises(InputError, match=r"2 of 4 questions were learned from \(t1, t2\).*--allow-overlap"):
        asked(LEARNED)
    assert not (tmp_path / "run.jsonl").exists()
    tally, _ = asked(LEARNED, allow_overlap=True)
    run = read_run(tmp_path / "run.jsonl")
    assert run.header.learned_from == ["t1", "t2"]
    [first, *others] = tables(entries_of([run]))
    assert first.rows[0][0].text == "run*"
    for grid in (first, *others):
        assert grid.notes[-1] == "* after the name of a row: run: 2 of 4 questions were learned from."
    row = SimpleNamespace(spec=parse_spec("closed-book"), tally=tally, path=tmp_path / "run.jsonl")
    assert figures([row])[0]["learned_from"] == 2


def test_a_comparison_is_refused_before_its_first_question(scripted, tmp_path):
    lm, engine = scripted(lambda name, inputs, config: {"answer": "Ann"})
    from keqa.programs.baselines import ClosedBook

    program = ClosedBook(reason=True)
    program.learned = LEARNED
    save(program, tmp_path / "program")
    parts = Parts(None, Roles(lm, lm, lm), program=[tmp_path / "program"])
    questions = Questions("towns", "", 0, TOWNS)

    def run(**options):
        specs = [parse_spec("closed-book"), parse_spec("cot")]
        with CallCache(None) as cache:
            return list(compare(specs, questions, parts, folder=tmp_path / "runs", cache=cache, **options))

    with pytest.raises(InputError, match="cot: 2 of 4 questions were learned from"):
        run()
    assert engine.calls == []
    assert [row.tally.learned_from for row in run(allow_overlap=True)] == [0, 2]


def test_one_question_of_many():
    assert overlap_notes([("A*", 1, 5, False), ("B", 0, 5, True), ("C*", 5, 5, False)]) == (
        "* after the name of a row: A: 1 of 5 questions was learned from; C: 5 of 5 questions were learned from.",
        "It is not known whether questions were learned from in these rows, for their program was compiled by a "
        "version of KEQA that did not keep them: B.",
    )
