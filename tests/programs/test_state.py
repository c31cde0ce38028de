"""DSPy's own saving and loading: a state is whole, alone and in a user's module; nothing is pickled."""

import pickle
from fractions import Fraction

import dspy
import pytest
from fixtures.one_quiz import Nesting

from keqa.errors import ConfigurationError
from keqa.programs import KEQA
from keqa.programs.baselines import KBM, AlwaysRetrieve, ClosedBook
from keqa.programs.gates import ConfidenceGate
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.saved_settings import settings_of

ENTRIES = [UtilityEntry(f"q{place}", f"Who is {place}?", f"Person {place}.", place % 2 == 0) for place in range(6)]
SETTINGS = {"tries": 4, "threshold": "3/4", "top_k": 3, "max_quizzes": 5, "seed": 7, "select": "instead"}


@pytest.fixture
def compiled():
    """A program with settings, a reference and a demonstration of its own."""
    made = KEQA(None, reference=UtilityReference(k=4).fit(ENTRIES), **SETTINGS)
    made.summarizing.summarize.demos = [dspy.Example(question="q", answer="a")]
    return made


@pytest.mark.parametrize("wrap", [lambda program: program, Nesting])
def test_a_loaded_program_is_the_one_that_was_saved_alone_and_nested(compiled, retriever, tmp_path, wrap):
    wrap(compiled).save(tmp_path / "program.json")
    found = retriever("text")
    # Alone it needs no place for the reference.
    program = KEQA(found, reference=UtilityReference() if wrap is Nesting else None)
    predictor = program.summarizing.summarize
    wrap(program).load(tmp_path / "program.json")
    assert settings_of(program) == settings_of(compiled)
    assert program.picking.reference.entries == compiled.picking.reference.entries
    assert program.picking.reference.settings() == compiled.picking.reference.settings()
    assert [dict(demo) for demo in predictor.demos] == [{"question": "q", "answer": "a"}]
    assert (program.retriever, program.summarizing.summarize) == (found, predictor)


def referring():
    return KEQA(None, reference=UtilityReference().fit(ENTRIES))


NEITHER = "saved without a utility reference, and this program has one"


@pytest.mark.parametrize(
    ("wrap", "saved", "loaded", "message"),
    [
        (Nesting, referring, lambda: KEQA(None), "with a utility reference, and this program has none"),
        (lambda program: program, lambda: KEQA(None, tries=2), referring, NEITHER),
        (Nesting, lambda: KEQA(None, tries=2), referring, NEITHER),
        (Nesting, lambda: KEQA(None, gate=ConfidenceGate()), lambda: KEQA(None), r"confidence\.state\): .* gate=…"),
        (
            Nesting,
            lambda: KBM(None, reason=True),
            lambda: KBM(None),
            "other prompts than .* gate=…, draft=…, cite=… or reason=…",
        ),
        (
            Nesting,
            lambda: AlwaysRetrieve(None),
            ClosedBook,
            "is that of a 'AlwaysRetrieve', and this is a 'ClosedBook'",
        ),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(wrap, saved, loaded, message):
    program = loaded()
    before = program.dump_state()
    with pytest.raises(ConfigurationError, match=message):
        wrap(program).load_state(wrap(saved()).dump_state())
    assert program.dump_state() == before


def test_the_state_of_a_module_around_a_program_is_named_as_such():
    with pytest.raises(ConfigurationError, match="the state is none of a KEQA: it has no settings"):
        KEQA(None).load_state(Nesting(KEQA(None)).dump_state())


def test_a_gate_comes_along_with_its_question(scripted):
    asking = KEQA(None, gate=ConfidenceGate())
    asking.examination.confidence.state.demos = [dspy.Example(quiz="q")]
    voting = KEQA(None)
    lm, _ = scripted(lambda *_: "")
    voting.set_lm(lm)
    voting.load_state(asking.dump_state())
    assert isinstance(voting.examination.gate, ConfidenceGate)
    assert voting.examination.confidence.state.demos[0]["quiz"] == "q"
    assert voting.examination.confidence.state.lm is lm
    assert voting.examination.confidence.bound is voting.bound
    voting.load_state(KEQA(None, threshold="2/5").dump_state())
    assert voting.examination.question is None
    assert voting.examination.gate.threshold.as_integer_ratio() == (2, 5)


def test_a_nested_gate_that_is_there_is_loaded():
    there = Nesting(KEQA(None, gate=ConfidenceGate()))
    there.load_state(Nesting(KEQA(None, gate=ConfidenceGate(Fraction(1, 2)))).dump_state())
    assert there.qa.examination.gate == ConfidenceGate(Fraction(1, 2))


def test_the_number_of_workers_is_the_machines():
    program = KEQA(None, workers=3)
    bound = program.bound
    program.load_state(KEQA(None, workers=9).dump_state())
    assert (program.bound.workers, program.examination.bound) == (3, bound)


@pytest.mark.parametrize(
    "values",
    [[], {"tries": "many"}, {"similarity": "somebody/model"}, {"retriever": 1}],
)
@pytest.mark.parametrize("wrap", [lambda program: program, Nesting])
def test_a_strangers_settings_are_refused_and_change_nothing(values, wrap):
    program = KEQA(None, tries=3)
    state = wrap(program).dump_state()
    name = next(name for name in state if name.endswith("settings"))
    for change in ({"method": "KEQA", "values": values, "reference": None}, {"values": {}}, []):
        with pytest.raises(ConfigurationError):
            wrap(program).load_state({**state, name: change})
    assert settings_of(program) == settings_of(KEQA(None, tries=3))


@pytest.mark.parametrize("program", [KEQA(None), ClosedBook(), Nesting(KEQA(None))])
def test_no_program_is_pickled(program, tmp_path):
    with pytest.raises(ConfigurationError, match=r"a program is not pickled: keqa\.save"):
        pickle.dumps(program)
    with pytest.raises(RuntimeError, match=r"a program is not pickled: keqa\.save"):
        program.save(tmp_path / "program", save_program=True)
    assert b"api_key" not in (tmp_path / "program" / "program.pkl").read_bytes()
