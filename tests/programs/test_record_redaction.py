"""No key of a language model that a program asks gets into a file, that of its boundary model included."""

import json
from types import SimpleNamespace

import pytest
from fixtures.boundary import judging

from keqa.data.example import Example
from keqa.evaluation.evaluate import ask, describe
from keqa.lms import build_lm
from keqa.metrics.answers import f1
from keqa.optimize.asking import Asking
from keqa.programs import KEQA
from keqa.programs.boundary.light import BoundaryError
from keqa.programs.gates import BoundaryGate
from keqa.programs.saving import save
from keqa.storage.journal import Journal

KEY = "lock-of-the-boundary-8231"
QUESTION = Example("q", "Who governs Marton?", ("Al",))


def refused(*seen):
    """What a boundary model comes to whose server repeats the key that it refuses."""
    raise BoundaryError(f"401: no such key: {KEY}")


@pytest.fixture
def program(scripted, retriever):
    def make(gate=None):
        lm, _ = scripted(lambda name, inputs, config: {"reasoning": "", "answer": "Al", "helpful": True})
        boundary = build_lm("openai/judge", api_key=KEY)
        lms = SimpleNamespace(task=lm, consistency=lm, utility=lm, boundary=boundary)
        return KEQA(retriever("Al governs Marton."), lms=lms, decompose=False, gate=gate)

    return make


def test_the_language_model_of_a_boundary_model_is_asked_too(program):
    made = program()
    assert {id(lm) for lm in made.lms_asked()} == {id(made.get_lm()), id(made.lms.boundary)}
    assert None in KEQA(None).lms_asked()


def test_neither_a_run_file_nor_a_journal_holds_its_key(program, tmp_path):
    line = ask(program(BoundaryGate(judging(refused))), QUESTION).model_dump_json()
    with Journal.open(tmp_path / "journal.jsonl", {}) as journal:
        kept = Asking(journal, f1).ask(program(BoundaryGate(judging(refused))), QUESTION).record.model_dump_json()
        assert KEY not in str([journal.get(key) for key in journal])
    for written in (line, kept):
        assert "no such key" in written
        assert KEY not in written


def test_a_saved_program_and_the_header_of_a_run_hold_no_key(program, tmp_path):
    made = program()
    save(made, tmp_path / "saved", note=f"the server said: {KEY} is no key")
    files = [path.read_text(errors="replace") for path in (tmp_path / "saved").rglob("*") if path.is_file()]
    assert any("the server said" in text for text in files)
    assert not any(KEY in text for text in files)
    made.examination.quiz.signature = made.examination.quiz.signature.with_instructions(f"Use {KEY}.")
    assert KEY not in json.dumps(describe(made))
