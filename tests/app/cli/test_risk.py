"""``--risk``: what is refused before anything is asked, and what is said of an answer that is withheld."""

import pytest

from keqa.cli.answer import shown_answer
from keqa.cli.options import RiskOptions
from keqa.errors import InputError
from keqa.programs.records import QuestionRecord


def test_a_risk_is_calibrated(tmp_path):
    RiskOptions().check()
    RiskOptions(0.1, tmp_path / "run.jsonl").check()
    with pytest.raises(InputError, match=r"--risk needs --calibrated-on: the run file of this program"):
        RiskOptions(0.1).check()


@pytest.mark.parametrize("given", [{"calibrated_on": "run.jsonl"}, {"delta": 0.05}])
def test_there_is_nothing_to_calibrate_without_a_risk(given):
    with pytest.raises(InputError, match="--calibrated-on and --delta need --risk"):
        RiskOptions(**given).check()


def test_without_a_risk_nothing_is_held():
    assert RiskOptions().hold(None) == ""


def test_the_file_is_missing(keqa_command, tmp_path):
    ended = keqa_command("ask", "Who governs Oslo?", "--risk", "0.1", "--calibrated-on", tmp_path / "run.jsonl")
    assert ended.code == 2
    assert "run.jsonl cannot be read: it is missing" in ended.err


def test_what_is_withheld_is_shown_as_that():
    from rich.console import Console

    console = Console(width=120)
    record = QuestionRecord(
        question="Who?", answer="I do not know", answer_source="withheld", withheld="Ann", confidence=0.4213
    )
    with console.capture() as shown:
        console.print(shown_answer(record))
    lines = shown.get().splitlines()
    assert "Answer: I do not know (withheld: its own answer is too probably wrong for the risk)" in lines
    assert "Withheld: Ann" in lines
    assert "Confidence: 0.42" in lines
