import inspect
import json
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

import pytest

from keqa.errors import ConfigurationError
from keqa.programs import KEQA, AlwaysRetrieveGate, CertaintyGate, NeverRetrieveGate, VoteGate, baselines
from keqa.programs.baselines import ClosedBook, Rowen
from keqa.programs.gates import (
    ConfidenceGate,
    LexicalSimilarityGate,
    OracleGate,
    ProbabilityGate,
    PromptGate,
    RandomGate,
)
from keqa.programs.saving.values import OWN, read_values, settings_of
from keqa.programs.stages.selection import EmbeddingSimilarity

EVERY = {
    "tries": 7,
    "threshold": "3/7",
    "top_k": 3,
    "temperature": 0.7,
    "top_p": 0.9,
    "decompose": False,
    "examine": False,
    "pick": False,
    "listwise": True,
    "prefer_reliable": True,
    "gate": None,
    "select": "instead",
    "evidence_sentences": 4,
    "similarity": None,
    "extract_sentences": 2,
    "on_nothing_helpful": "closed_book",
    "unanswered": "raise",
    "look_first": False,
    "summarize_single": True,
    "summarize_known": True,
    "demonstrations": False,
    "max_quizzes": 5,
    "max_question_chars": 500,
    "workers": 3,
    "seed": 11,
}


def there_and_back(program: KEQA, **given) -> KEQA:
    return KEQA(None, **read_values(KEQA.Settings, json.loads(json.dumps(settings_of(program))), given))


PARTS = {"gate": CertaintyGate(), "similarity": lambda triples, sentences: [0.0] * len(sentences)}


@pytest.mark.parametrize(("name", "value"), [one for one in {**EVERY, **PARTS}.items() if one[0] != "workers"])
def test_an_argument_that_is_assigned_is_as_if_it_had_been_given(name, value):
    program, given = KEQA(None), KEQA(None, **{name: value})
    before = settings_of(program)
    setattr(program, name, value)
    assert settings_of(program) == settings_of(given) != before
    assert getattr(program, name) == getattr(given, name)
    assert settings_of(program.deepcopy()) == settings_of(program)


def test_every_argument_is_a_setting():
    parts = {"retriever", "lms", "reference"}
    assert set(EVERY) == set(inspect.signature(KEQA).parameters) - parts
    assert settings_of(KEQA(None, **EVERY)) == EVERY
    assert settings_of(there_and_back(KEQA(None, **EVERY))) == EVERY
    assert settings_of(there_and_back(KEQA(None))) == settings_of(KEQA(None))


def test_the_defaults():
    assert settings_of(KEQA(None)) == {
        "tries": 5,
        "threshold": "4/5",
        "top_k": 10,
        "temperature": 1.0,
        "top_p": None,
        "decompose": True,
        "examine": True,
        "pick": True,
        "listwise": False,
        "prefer_reliable": False,
        "gate": None,
        "select": False,
        "evidence_sentences": 2,
        "similarity": None,
        "extract_sentences": None,
        "on_nothing_helpful": "largest_cluster",
        "unanswered": None,
        "look_first": True,
        "summarize_single": False,
        "summarize_known": False,
        "demonstrations": True,
        "max_quizzes": 8,
        "max_question_chars": 8000,
        "workers": 16,
        "seed": 0,
    }


def test_what_was_changed_since_is_what_counts():
    program = KEQA(None)
    program.top_k = 2
    program.tries = 9
    assert (settings_of(program)["top_k"], there_and_back(program).examination.tries) == (2, 9)


@pytest.mark.parametrize(
    "gate",
    [
        CertaintyGate(Fraction(2, 3), "by_types", "types"),
        AlwaysRetrieveGate(),
        NeverRetrieveGate(),
        VoteGate(Fraction(1, 3), name="lenient"),
        LexicalSimilarityGate(Fraction(1, 2), "token_f1"),
        LexicalSimilarityGate(Fraction(0)),
        CertaintyGate(Fraction(-3, 2)),
        ConfidenceGate(Fraction(9, 10)),
        ProbabilityGate(Fraction(1, 7)),
        RandomGate(Fraction(0)),
        RandomGate(Fraction(1), seed=3),
        PromptGate(),
    ],
)
def test_gates(gate):
    assert there_and_back(KEQA(None, gate=gate)).examination.gate == gate


def test_a_vote_gate_is_its_threshold():
    settings = settings_of(KEQA(None, gate=VoteGate(Fraction(2, 5))))
    assert (settings["threshold"], settings["gate"]) == ("2/5", None)


def test_a_given_threshold_takes_the_place_of_any_gate():
    program = KEQA(None, gate=AlwaysRetrieveGate())
    assert there_and_back(program, threshold="1/2").examination.gate == VoteGate(Fraction(1, 2))
    own = there_and_back(program, threshold="1/2", gate=NeverRetrieveGate()).examination.gate
    assert own == NeverRetrieveGate()


@dataclass(frozen=True)
class OwnGate(VoteGate):
    name: str = "own"


def test_own_code_has_to_be_given_again():
    def similarity(triples, candidates):
        return [1.0] * len(candidates)

    program = KEQA(None, gate=OwnGate(), similarity=similarity)
    settings = settings_of(program)
    assert (settings["gate"], settings["similarity"]) == (OWN, OWN)
    with pytest.raises(ConfigurationError, match="gate of your own; give it again as gate="):
        there_and_back(program)
    with pytest.raises(ConfigurationError, match="similarity of your own"):
        there_and_back(program, gate=OwnGate())
    assert there_and_back(program, gate=OwnGate(), similarity=similarity).examination.gate == OwnGate()


def test_a_similarity_by_embeddings_is_its_name():
    program = KEQA(None, similarity="hashing-64", extract_sentences=2)
    assert settings_of(program)["similarity"] == "hashing-64"
    again = there_and_back(program)
    assert isinstance(again.selection.similarity, EmbeddingSimilarity)
    assert settings_of(again) == settings_of(program)
    assert settings_of(there_and_back(program, similarity=None))["similarity"] is None


def test_gold_answers_are_not_written_down():
    assert settings_of(KEQA(None, gate=OracleGate({"q": ["a"]})))["gate"] == OWN


def test_a_gate_that_is_no_dataclass_is_own_code_too():
    gate = SimpleNamespace(name="x", threshold=None, decide=max)
    assert settings_of(KEQA(None, gate=gate))["gate"] == OWN


@pytest.mark.parametrize(
    "wrong",
    [
        {"more": 1},
        {"gate": {"kind": "Other"}},
        {"gate": {"kind": "VoteGate", "colour": 1}},
        {"gate": {"kind": "VoteGate", "threshold": "0/1"}},
        {"gate": {"kind": "RandomGate", "threshold": "x"}},
        {"gate": {}},
    ],
)
def test_settings_of_another_version_are_refused(wrong):
    with pytest.raises(ConfigurationError):
        read_values(KEQA.Settings, settings_of(KEQA(None)) | wrong, {})


# Those of the methods that KEQA is compared with.


@pytest.mark.parametrize("name", [name for name in baselines.__all__ if name != "ClosedBook"])
def test_a_method_made_from_its_settings_has_the_same(name):
    cls = getattr(baselines, name)
    settings = settings_of(cls(None, workers=3, max_question_chars=90, top_k=2))
    assert set(settings) == set(inspect.signature(cls).parameters) - {"retriever", "lms"}
    assert (settings["workers"], settings["max_question_chars"], settings["top_k"]) == (3, 90, 2)
    assert settings_of(cls(None, **json.loads(json.dumps(settings)))) == settings


def test_closed_book_searches_nowhere():
    assert settings_of(ClosedBook(reason=True)) == {
        "reason": True,
        "demonstrations": True,
        "max_question_chars": 8000,
        "workers": 16,
    }


def test_shares_stay_exact():
    settings = settings_of(Rowen(None, min_consistency="1/3", cross_model_weight="0.25"))
    assert (settings["min_consistency"], settings["cross_model_weight"]) == ("1/3", "1/4")
