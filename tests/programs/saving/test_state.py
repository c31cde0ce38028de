"""DSPy's own saving and loading: a state is whole, alone and in a user's module; a pickle says what it lacks."""

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import dspy
import pytest

import keqa
from keqa.errors import ConfigurationError
from keqa.programs import KEQA, VoteGate
from keqa.programs.baselines import AlwaysRetrieve, ClosedBook
from keqa.programs.gates import ConfidenceGate
from keqa.programs.reference.embedding import HashingEmbedder
from keqa.programs.reference.utility_reference import Entry, UtilityReference
from keqa.programs.saving.values import settings_of

ENTRIES = [Entry(f"q{place}", f"Who is {place}?", f"Person {place}.", place % 2 == 0) for place in range(6)]
SETTINGS: dict[str, Any] = {
    "tries": 4,
    "threshold": "3/4",
    "top_k": 3,
    "select": "instead",
    "on_nothing_helpful": "closed_book",
    "max_quizzes": 5,
    "seed": 7,
}


@pytest.fixture
def compiled() -> KEQA:
    """A program with settings, a reference and a demonstration of its own."""
    made = KEQA(None, reference=UtilityReference(k=4).fit(ENTRIES), **SETTINGS)
    made.summarizing.summarize.demos = [dspy.Example(question="q", answer="a")]
    return made


class Nesting(dspy.Module):
    """A user's module with a program in it."""

    def __init__(self, program: Any) -> None:
        super().__init__()
        self.qa = program

    def forward(self, question: str) -> dspy.Prediction:
        return self.qa(question=question)


def check_same(loaded: Any, compiled: Any) -> None:
    assert settings_of(loaded) == settings_of(compiled)
    assert loaded.picking.reference.entries == compiled.picking.reference.entries
    assert loaded.picking.reference.settings() == compiled.picking.reference.settings()
    assert [dict(demo) for demo in loaded.summarizing.summarize.demos] == [{"question": "q", "answer": "a"}]


def test_a_loaded_program_is_the_one_that_was_saved(compiled, retriever, tmp_path):
    compiled.save(tmp_path / "program.json")
    found = retriever("text")
    loaded = KEQA(found)
    loaded.load(tmp_path / "program.json")
    check_same(loaded, compiled)
    assert loaded.given_retriever is found


def test_a_nested_program_is_the_one_that_was_saved(compiled, retriever, tmp_path):
    Nesting(compiled).save(tmp_path / "parent.json")
    found = retriever("text")
    loaded = Nesting(KEQA(found, reference=UtilityReference()))
    predictor = loaded.qa.summarizing.summarize
    loaded.load(tmp_path / "parent.json")
    check_same(loaded.qa, compiled)
    assert loaded.qa.given_retriever is found
    assert loaded.qa.summarizing.summarize is predictor


def test_a_nested_program_without_a_place_for_the_reference_is_refused(compiled):
    with pytest.raises(ConfigurationError, match=r"a utility reference of 6 entries, and this program has none"):
        Nesting(KEQA(None)).load_state(Nesting(compiled).dump_state())


@pytest.mark.parametrize("wrap", [lambda program: program, Nesting])
def test_a_reference_is_not_dropped_for_a_state_without(wrap):
    program = KEQA(None, reference=UtilityReference().fit(ENTRIES))
    with pytest.raises(ConfigurationError, match="saved without a utility reference, and this program has one"):
        wrap(program).load_state(wrap(KEQA(None, tries=2)).dump_state())
    assert program.examination.tries == 5
    assert len(program.picking.reference.entries) == 6


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


def test_a_nested_gate_has_to_be_there():
    state = Nesting(KEQA(None, gate=ConfidenceGate())).dump_state()
    with pytest.raises(ConfigurationError, match=r"examination\.confidence\.state.*such as gate=…"):
        Nesting(KEQA(None)).load_state(state)
    there = Nesting(KEQA(None, gate=ConfidenceGate()))
    there.load_state(state)
    assert isinstance(there.qa.examination.gate, ConfidenceGate)


class OwnGate(VoteGate):
    """A gate that is code of the user's."""


def test_what_is_code_of_the_users_has_to_be_there():
    state = KEQA(None, gate=OwnGate(), tries=3).dump_state()
    with pytest.raises(ConfigurationError, match="compiled with a gate of your own; give it again as gate=…"):
        KEQA(None).load_state(state)
    program = KEQA(None, gate=OwnGate())
    program.load_state(state)
    assert program.examination.tries == 3
    assert isinstance(program.examination.gate, OwnGate)


def test_cutting_of_passages_follows_the_settings(retriever):
    found = retriever("text")
    program = KEQA(found)
    program.load_state(KEQA(None, extract_sentences=1).dump_state())
    assert (program.extract_sentences, program.given_retriever) == (1, found)
    program.load_state(KEQA(None).dump_state())
    assert (program.extract_sentences, program.given_retriever) == (None, found)


def test_the_number_of_workers_is_the_machines():
    program = KEQA(None, workers=3)
    bound = program.bound
    program.load_state(KEQA(None, workers=9).dump_state())
    assert (program.bound.workers, program.examination.bound) == (3, bound)


def test_a_state_without_settings_leaves_them_with_a_warning():
    state = KEQA(None, tries=2).dump_state()
    del state["settings"]
    program = KEQA(None)
    with pytest.warns(UserWarning, match="says nothing of the program's settings"):
        program.load_state(state)
    assert program.examination.tries == 5


def test_a_state_is_of_its_method(retriever):
    with pytest.raises(ConfigurationError, match="the state is that of a 'rag', and this is a 'keqa'"):
        KEQA(None).load_state(AlwaysRetrieve(None).dump_state())
    loaded = AlwaysRetrieve(retriever("text"))
    loaded.load_state(AlwaysRetrieve(None, top_k=2).dump_state())
    assert loaded.top_k == 2


@pytest.mark.parametrize(
    "change",
    [
        [],
        {"values": {}},
        {"method": "keqa", "values": [], "reference": None},
        {"method": "keqa", "values": {"tries": "many"}, "reference": None},
        {"method": "keqa", "values": {"similarity": "somebody/model"}, "reference": None},
        {"method": "keqa", "values": {"api_base": "http://stranger.example"}, "reference": None},
        {"method": "keqa", "values": {"retriever": 1}, "reference": None},
        {"method": "keqa", "values": {"gate": {"kind": "VoteGate", "threshold": {}}}, "reference": None},
    ],
)
@pytest.mark.parametrize("wrap", [lambda program: program, Nesting])
def test_a_strangers_settings_are_refused_and_change_nothing(change, wrap):
    program = KEQA(None, tries=3)
    state = wrap(program).dump_state()
    name = next(name for name in state if name.endswith("settings"))
    with pytest.raises(ConfigurationError):
        wrap(program).load_state({**state, name: change})
    assert settings_of(program) == settings_of(KEQA(None, tries=3))


def test_a_method_of_ones_own_keeps_its_settings_to_itself():
    class Own(ClosedBook):
        """A method of the user's own."""

    state = json.loads(json.dumps(Own().dump_state()))
    assert state["settings"] == {"method": "Own", "values": None, "reference": None}
    Own().load_state(state)


def saved_whole(program: Any, folder: Path) -> Any:
    program.save(folder, save_program=True)
    return dspy.load(folder, allow_pickle=True)


SECRET = "sk-very-secret-0123456789"


def roles() -> keqa.Roles:
    lm = keqa.build_lm("openai/m", api_base="http://127.0.0.1:9/v1", api_key=SECRET)
    return keqa.Roles(lm, lm, lm)


@pytest.mark.parametrize("wrap", [lambda program: program, Nesting])
def test_a_pickled_program_leaves_behind_what_cannot_travel(compiled, wrap, retriever, tmp_path):
    compiled.bind_retriever(retriever("text"))
    compiled.bind_lms(roles())
    with pytest.warns(
        UserWarning, match=r"without its retriever \(ScriptedRetriever; .* its language models \(openai/m"
    ):
        loaded = saved_whole(wrap(compiled), tmp_path / "program")
    content = (tmp_path / "program" / "program.pkl").read_bytes()
    assert SECRET.encode() not in content
    assert b"127.0.0.1" not in content
    program = loaded.qa if wrap is Nesting else loaded
    check_same(program, compiled)
    assert program.get_lm() is None
    assert compiled.get_lm() is not None


def test_a_pickled_program_answers_nothing_from_memory_for_want_of_its_retriever(scripted, retriever):
    def reply(name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
        return {
            "AnswerQuiz": {"answer": f"a{config.seed}"},
            "JudgeConsistency": {"same": False},
            "JudgeUtility": {"helpful": True},
            "AnswerWithKnowledge": {"answer": "Ann"},
        }[name]

    lm, _ = scripted(reply)
    with pytest.warns(UserWarning, match="without its retriever"):
        program = pickle.loads(pickle.dumps(KEQA(retriever("text"), decompose=False)))
    program.set_lm(lm)
    with pytest.raises(ConfigurationError, match=r"without its retriever \(ScriptedRetriever\): give it one"):
        program(question="Who?")
    program.bind_retriever(retriever("text"))
    assert program(question="Who?").answer == "Ann"


def test_a_pickled_program_that_lacks_nothing_says_nothing(compiled):
    compiled._compiled = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = pickle.loads(pickle.dumps(compiled))
    check_same(loaded, compiled)
    assert loaded._compiled


class Mine(KEQA):
    """A program of the user's own."""


def test_a_pickled_program_of_ones_own_has_no_key_either(retriever):
    program = Mine(retriever("text"), lms=roles(), gate=OwnGate())
    written = pickle.dumps(program)
    assert SECRET.encode() not in written
    with pytest.warns(UserWarning, match="the Mine was saved without"):
        loaded = pickle.loads(written)
    assert isinstance(loaded, Mine)
    assert isinstance(loaded.examination.gate, OwnGate)
    assert loaded.get_lm() is None
    assert loaded.bound.workers == 16


def test_a_pickled_gate_of_ones_own_travels():
    assert isinstance(pickle.loads(pickle.dumps(KEQA(None, gate=OwnGate()))).examination.gate, OwnGate)


class OwnEmbedder(HashingEmbedder):
    """An embedder of the user's own."""

    name = "own/embedder"


def test_a_reference_that_cannot_be_pickled_is_refused_when_it_is_saved(tmp_path):
    program = KEQA(None, reference=UtilityReference(OwnEmbedder()).fit(ENTRIES))
    with pytest.raises(RuntimeError, match=r"'own/embedder' cannot be pickled; keqa\.save writes it"):
        program.save(tmp_path / "program", save_program=True)


def test_a_retriever_is_checked_whenever_it_is_given(retriever):
    program = KEQA(None)
    with pytest.raises(ConfigurationError, match="retriever must be"):
        program.bind_retriever(7)
    with pytest.raises(ConfigurationError, match="a ClosedBook searches nothing"):
        ClosedBook().bind_retriever(retriever("text"))
    method = AlwaysRetrieve(None)
    found = retriever("text")
    method.bind_retriever(found)
    assert method.given_retriever is found
