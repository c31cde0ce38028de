"""The gate of a boundary model: what it draws, what it decides, and where it cannot."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from fixtures.boundary import make_model

import keqa
from keqa.errors import ConfigurationError, InputError
from keqa.evaluation.configuration import describe
from keqa.evaluation.records import RunSettings
from keqa.programs import KEQA
from keqa.programs.build import Parts, make
from keqa.programs.gates import BoundaryGate, Votes
from keqa.programs.registry import parse_spec
from keqa.programs.saving.values import read_values, settings_of
from keqa.programs.shared_draws import SharedDraws

ANSWERS = {"DecomposeQuestion": {"quizzes": "[]"}, "AnswerQuiz": {"answer": "Bo"}, "JudgeConsistency": {"same": True}}


def reply(name, inputs, config):
    return ANSWERS.get(name, {"reasoning": "", "answer": "Al", "helpful": True})


def draft(answer="Bo", probability=0.9, tries=5):
    return Votes((1,) if answer else (), 1, tries, (answer,), probabilities=(probability,), first_tokens=(probability,))


def test_a_draft_decides():
    gate = BoundaryGate(make_model())
    assert (gate.wave(Votes((), 0, 5)), gate.decide(Votes((), 0, 5))) == (1, None)
    assert gate.decide(draft()) is True
    assert gate.decide(draft(probability=0.3)) is False
    assert (gate.wave(draft()), gate.needs_all_draws) == (0, False)
    assert BoundaryGate(make_model(), threshold="0.95").decide(draft()) is False


def test_without_an_answer_nothing_is_known():
    assert BoundaryGate(make_model(), threshold=0).decide(draft(None, None)) is False


def test_draws_are_all_made():
    gate = BoundaryGate(make_model("draws"))
    assert (gate.wave(draft()), gate.decide(draft()), gate.needs_all_draws) == (4, None, True)
    votes = Votes((5,), 5, 5, ("Bo",) * 5, probabilities=(1.0,) * 5, first_tokens=(1.0,) * 5)
    assert gate.decide(votes) is True


def test_a_quiz_is_judged_before_any_draw(scripted):
    gate = BoundaryGate(make_model("quiz"))
    assert (gate.wave(Votes((), 0, 5)), gate.decide(Votes((), 0, 5, quiz="Who governs Marton?"))) == (0, True)
    lm, engine = scripted(reply)
    program = KEQA(None, decompose=False, gate=gate)
    program.set_lm(lm)
    (quiz,) = program("Who governs Marton?").record.quizzes
    assert (quiz.known, quiz.answer, quiz.source, engine.count["AnswerQuiz"]) == (True, "Bo", "closed_book", 1)


@pytest.mark.parametrize(("likely", "known"), [(0.9, True), (0.2, False)])
def test_in_a_program_one_draw_is_made(scripted, retriever, likely, known):
    lm, engine = scripted(reply)
    engine.probability = likely
    program = KEQA(retriever("Al governs Marton."), decompose=False, gate=BoundaryGate(make_model()))
    program.set_lm(lm)
    record = program("Who governs Marton?").record
    (quiz,) = record.quizzes
    assert (quiz.known, quiz.answer) == (known, "Bo" if known else "Al")
    assert (engine.count["AnswerQuiz"], len(quiz.samples), record.cost.retrievals) == (1, 1, int(not known))
    assert quiz.samples[0].probability == pytest.approx(likely)
    assert (quiz.gate, quiz.threshold_exact, record.degradations) == ("boundary model", "4/5", [])
    than = "reaches" if known else "is below"
    assert quiz.stopped == f"one draft decides: mastery {quiz.certainty:.2f} {than} 4/5"


def test_an_lm_without_probabilities_is_judged_by_texts_and_it_says_so(scripted):
    lm, engine = scripted(reply)
    program = KEQA(None, decompose=False, gate=BoundaryGate(make_model(), threshold="1/5"))
    program.set_lm(lm)
    record = program("Who governs Marton?").record
    assert (record.quizzes[0].known, record.quizzes[0].samples[0].probability) == (True, None)
    (note,) = record.degradations
    assert (note.stage, note.cause, note.action, note.touches) == (
        "boundary",
        "NoProbabilities",
        "judged by the texts alone",
        False,
    )
    # Another question does not ask for them again.
    program("Who governs Halden?")
    assert [config.logprobs is None for _, _, config in engine.calls] == [False, True]


def test_a_model_that_fails_is_unknown_with_a_note(scripted, retriever):
    lm, _ = scripted(reply)
    gate = BoundaryGate(make_model(words=[0.0] * 3))
    program = KEQA(retriever("Al governs Marton."), decompose=False, gate=gate)
    program.set_lm(lm)
    record = program("Who governs Marton?").record
    (quiz,) = record.quizzes
    assert (quiz.known, quiz.certainty, quiz.answer, record.touched) == (False, None, "Al", True)
    assert [(note.cause, note.action) for note in record.degradations] == [("BoundaryError", "taken for unknown")]


def test_settings_hold_the_model_and_headers_its_digest():
    program = KEQA(None, gate=BoundaryGate(make_model(), "certainty", "3/4"))
    written = json.loads(json.dumps(settings_of(program)))
    gate = KEQA(None, **read_values(KEQA.Settings, written, {})).examination.gate
    assert gate == program.examination.gate
    assert (gate.of, gate.threshold) == ("certainty", Fraction(3, 4))
    described = describe(program)
    assert described["settings"]["gate"]["model"] == make_model().spec()
    settings = RunSettings.model_validate(described)
    assert (settings.gate, settings.gate_threshold) == ("boundary model certainty", 0.75)


def test_a_program_is_saved_and_loaded_with_its_model(tmp_path):
    keqa.save(KEQA(None, gate=BoundaryGate(make_model("draws"))), tmp_path / "program")
    loaded = keqa.load(tmp_path / "program", None)
    assert loaded.examination.gate == BoundaryGate(make_model("draws"))


@pytest.mark.parametrize("model", ["/etc/passwd", "model.json", None, ["x"], 3])
def test_a_saved_program_opens_no_file(tmp_path, model):
    keqa.save(KEQA(None, gate=BoundaryGate(make_model())), tmp_path / "program")
    path = tmp_path / "program" / "program.json"
    state = json.loads(path.read_text())
    state["settings"]["gate"]["model"] = model
    path.write_text(json.dumps(state))
    with pytest.raises(ConfigurationError, match="holds its model, and opens no file"):
        keqa.load(tmp_path / "program", None)


def test_the_method_reads_the_file_that_the_user_names(tmp_path, retriever):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(make_model().written()))
    parts = Parts(retriever("x"), None, draws=SharedDraws())
    program = make(parse_spec(f"gate-boundary:model={path},threshold=3/5"), parts)
    assert program.examination.gate == BoundaryGate(make_model(), threshold=Fraction(3, 5))
    # What one draft costs is seen in its own draws only.
    assert type(program.examination).__name__ == "Examination"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gate-boundary:model=nowhere.json", "nowhere.json is missing"),
        ("gate-boundary", "gate-boundary needs its model"),
        ("gate-boundary:model=3", "model must be a boundary model, or its file"),
        ("gate-boundary:of=truth,model=nowhere.json", "of must be 'mastery' or 'certainty'"),
    ],
)
def test_methods_that_cannot_be_made(text, message, retriever):
    with pytest.raises((ConfigurationError, InputError), match=message):
        make(parse_spec(text), Parts(retriever("x"), None, draws=SharedDraws()))
