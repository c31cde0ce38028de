"""A program that holds a risk, calibrated by its own run file."""

import pytest
from fixtures.run_files import shown

import keqa
from keqa.errors import InputError
from keqa.evaluation.evaluate import evaluate
from keqa.evaluation.reports import entries_of, tables
from keqa.evaluation.risk import hold_risk, outcomes_of, refuse_calibrated
from keqa.evaluation.run_file import iter_lines, read_header, read_run
from keqa.optimize.abstention import UnheldRiskError
from keqa.programs.keqa import KEQA

pytestmark = pytest.mark.slow

COUNT = 120


def towns(count=COUNT, first=0):
    """Half of the questions are of bridges, which the language model knows nothing of."""
    asked = [(n, "Who built Bridge" if n % 2 else "Who governs Town") for n in range(first, first + count)]
    return [{"id": f"t{n}", "question": f"{words}{n}?", "answer": f"Somebody{n}"} for n, words in asked]


def knows_towns(name, inputs, config):
    town = inputs["question"].removeprefix("Who governs Town").rstrip("?")
    return {"answer": f"Somebody{town}" if town.isdigit() else "Nobody"}


@pytest.fixture
def program(closed_book):
    return closed_book(knows_towns)[0]


@pytest.fixture
def run_file(program, tmp_path):
    path = tmp_path / "run.jsonl"
    evaluate(program, towns(), out=path, dataset="towns", split="dev")
    return path


def test_it_answers_what_it_knows_and_nothing_else_and_tables_tell_silence_from_wrong_answers(
    program, run_file, tmp_path
):
    held = hold_risk(program, run_file, 0.2)
    assert held.controlled.wrong == 0
    assert "With a chance of 90% at most 20% of its answers to such questions are wrong" in str(held)
    path = tmp_path / "held.jsonl"
    evaluate(program, towns(20, COUNT), out=path, dataset="towns", split="dev")
    answers = {line.question.split()[1]: line.answer for line in iter_lines(path)}
    assert answers == {"built": "I do not know", "governs": "Somebody138"}
    described = read_header(path).configuration.model_extra["abstention"]
    assert (described["risk"], described["delta"]) == (0.2, 0.1)
    with pytest.raises(InputError, match=r"was run with --risk; calibrate on a run without it"):
        outcomes_of(path)
    assert "abstention" not in [grid.name for grid in tables(entries_of([read_run(run_file)]))]
    (grid,) = (one for one in tables(entries_of([read_run(run_file), read_run(path)])) if one.name == "abstention")
    assert shown(grid) == [
        ["run", "120", "1.000", ".500", ".000", "-1.000", "-4.000"],
        ["held", "20", ".500", ".000", ".500", ".500", ".500"],
    ]


def test_the_answers_of_another_program_calibrate_nothing(closed_book, run_file):
    other, _ = closed_book(knows_towns)
    other.answer.demos = [{"question": "Who governs Rome?", "answer": "Nero"}]
    with pytest.raises(InputError, match=r"holds the answers of another program .*prompts was"):
        hold_risk(other, run_file, 0.2)


def test_over_documents_of_ones_own_it_is_of_short_answers(scripted, retriever, tmp_path):
    def reply(name, inputs, config):
        return {"support": "no"} if name == "JudgeSupport" else knows_towns(name, inputs, config)

    lms = keqa.build_roles(scripted(reply)[0])

    def made(**more):
        found = {asked["question"]: [place // 2] for place, asked in enumerate(towns())}
        texts = [f"Somebody{n} governs Town{n}." for n in range(0, COUNT, 2)]
        return KEQA(retriever(*texts, found=found, own=True), lms=lms, settle="reading", pick=False, **more)

    evaluate(made(style="short"), towns(), out=tmp_path / "run.jsonl", dataset="towns", split="dev")
    program = made()
    with pytest.raises(UnheldRiskError):
        hold_risk(program, tmp_path / "run.jsonl", 0.001)
    assert (program.style, program.abstention) == (None, None)
    hold_risk(program, tmp_path / "run.jsonl", 0.2)
    assert program.style == "short"


def test_what_failed_says_nothing_of_what_is_known(program, run_file):
    assert len(outcomes_of(run_file)) == COUNT
    header, *lines = run_file.read_text().splitlines(keepends=True)
    lines.sort(key=lambda line: not line.startswith('{"id": "t0"'))
    failed = lines[0].replace('"error": null', '"error": {"stage": "answer", "cause": "X", "message": "away"}')
    answered = '"answer": "Somebody0", "scores"'
    assert answered in failed
    run_file.write_text("".join([header, failed.replace(answered, '"answer": null, "scores"'), *lines[1:]]))
    assert len(outcomes_of(run_file)) == COUNT - 1


def test_calibration_questions_are_not_asked_for_figures(run_file):
    with pytest.raises(InputError, match=r"2 of the questions are those of .*--allow-overlap"):
        refuse_calibrated(run_file, "towns", "dev", ["t0", "t1", "other"])
    refuse_calibrated(run_file, "towns", "dev", ["other"])
    refuse_calibrated(run_file, "towns", "test", ["t0"])
