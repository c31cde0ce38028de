"""The gate of a boundary model: what it draws, what it decides, and where it cannot."""

import json
import threading
from fractions import Fraction

import pytest
from fixtures.boundary import judging, make_model
from fixtures.replies import Replies

import keqa
from keqa.errors import ConfigurationError
from keqa.evaluation.evaluate import describe
from keqa.evaluation.records import RunSettings
from keqa.programs import KEQA
from keqa.programs.boundary import Judgement
from keqa.programs.build import Parts, make
from keqa.programs.gates import BoundaryGate
from keqa.programs.registry import parse_spec
from keqa.programs.saved_settings import read_values, settings_of
from keqa.programs.shared_draws import SharedDraws

SAYS = Replies(AnswerQuiz={"answer": "Bo"}, JudgeUtility={"helpful": True}, AnswerWithKnowledge={"answer": "Al"})


@pytest.fixture
def program(programmed, retriever):
    def made(gate, *passages):
        return programmed(KEQA(retriever(*passages) if passages else None, decompose=False, gate=gate), SAYS)

    return made


@pytest.mark.parametrize(("likely", "known"), [(0.9, True), (0.2, False)])
def test_in_a_program_one_draw_is_made_or_none(program, likely, known):
    asked, engine = program(BoundaryGate(make_model("quiz")))
    (quiz,) = asked("Who governs Marton?").record.quizzes
    assert (quiz.known, quiz.answer, quiz.source, engine.count["AnswerQuiz"]) == (True, "Bo", "closed_book", 1)
    asked, engine = program(BoundaryGate(make_model()), "Al governs Marton.")
    engine.probability = likely
    record = asked("Who governs Marton?").record
    (quiz,) = record.quizzes
    assert (quiz.known, quiz.answer) == (known, "Bo" if known else "Al")
    assert (engine.count["AnswerQuiz"], len(quiz.samples), record.cost.retrievals) == (1, 1, int(not known))
    assert quiz.samples[0].probability == pytest.approx(likely)
    assert (quiz.gate, quiz.threshold_exact, record.degradations) == ("boundary model", "4/5", [])
    than = "reaches" if known else "is below"
    assert quiz.stopped == f"one draft decides: mastery {quiz.certainty:.2f} {than} 4/5"


def test_a_model_judges_once_a_quiz(program):
    asked = []
    model = judging(lambda quiz, *_: asked.append(quiz) or Judgement(0.25, 1.0), "draws")
    (quiz,) = program(BoundaryGate(model))[0]("Who governs Marton?").record.quizzes
    assert (quiz.certainty, quiz.stopped, len(asked)) == (0.25, "all draws decide: mastery 0.25 is below 4/5", 1)


def test_a_model_that_waits_for_a_language_model_holds_up_no_other_question(program):
    both = threading.Barrier(2)

    def judge(*seen):
        # Both questions wait here for each other.
        both.wait(timeout=10)
        return Judgement(1.0, 1.0)

    asked, _ = program(BoundaryGate(judging(judge, waits=True)))
    ended = list(asked.answer_many(["Who governs Marton?", "Who governs Arn?"], in_flight=2))
    assert [(one.error, one.record.quizzes[0].known) for one in ended] == [(None, True)] * 2


def test_an_lm_without_probabilities_is_judged_by_texts_and_it_says_so(program):
    asked, engine = program(BoundaryGate(make_model(), threshold="1/5"))
    record = asked("Who governs Marton?").record
    assert (record.quizzes[0].known, record.quizzes[0].samples[0].probability) == (True, None)
    (note,) = record.degradations
    assert (note.stage, note.quiz, note.cause, note.touches) == ("boundary", 1, "NoProbabilities", False)
    assert note.action == "judged by the texts alone"
    # Another question does not ask for them again.
    asked("Who governs Halden?")
    assert [config.logprobs is None for _, _, config in engine.calls] == [False, True]


def test_a_model_that_fails_is_unknown_with_a_note(program):
    asked, _ = program(BoundaryGate(make_model(words=[0.0] * 3)), "Al governs Marton.")
    record = asked("Who governs Marton?").record
    (quiz,) = record.quizzes
    assert (quiz.known, quiz.certainty, quiz.answer, record.touched) == (False, None, "Al", True)
    assert [(note.cause, note.action) for note in record.degradations] == [("BoundaryError", "taken for unknown")]


def test_settings_hold_the_model_and_headers_its_digest():
    program = KEQA(None, gate=BoundaryGate(make_model(), "certainty", "3/4"))
    written = json.loads(json.dumps(settings_of(program)))
    gate = KEQA(None, **read_values(KEQA.Settings, written, {})).gate
    assert gate == program.gate
    assert (gate.of, gate.threshold) == ("certainty", Fraction(3, 4))
    described = describe(program)
    assert described["settings"]["gate"]["model"] == make_model().spec()
    settings = RunSettings.model_validate(described)
    assert (settings.gate, settings.gate_threshold) == ("boundary model certainty", 0.75)


@pytest.mark.parametrize("model", [None, "/etc/passwd", "model.json", ["x"], 3])
def test_a_saved_program_holds_its_model_and_opens_no_file(tmp_path, model):
    keqa.save(KEQA(None, gate=BoundaryGate(make_model("draws"))), tmp_path)
    assert keqa.load(tmp_path, None).gate == BoundaryGate(make_model("draws"))
    state = json.loads((tmp_path / "program.json").read_text())
    state["settings"]["gate"]["model"] = model
    (tmp_path / "program.json").write_text(json.dumps(state))
    with pytest.raises(ConfigurationError, match="holds its model, and opens no file"):
        keqa.load(tmp_path, None)


def test_the_method_reads_the_file_that_the_user_names(tmp_path, retriever):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(make_model().written()))
    spec = parse_spec(f"gate-boundary:model={path},threshold=3/5")
    program = make(spec, Parts(retriever("x"), None, draws=SharedDraws()))
    assert program.gate == BoundaryGate(make_model(), threshold=Fraction(3, 5))
    # What one draft costs is seen in its own draws only.
    assert program.examination.shared.value is None
