"""What programs are set up with, as it is written down and read again."""

import inspect
import json
import re
from fractions import Fraction
from types import SimpleNamespace

import pytest
from fixtures.choosers import chooser

from keqa.programs import KEQA
from keqa.programs.baselines import Rowen
from keqa.programs.gates import AlwaysRetrieveGate, CertaintyGate, NeverRetrieveGate, OracleGate, VoteGate
from keqa.programs.saved_settings import OWN, read_values, settings_of
from keqa.programs.stages.selection import EmbeddingSimilarity
from keqa.programs.wrapper import ModuleWrapper

# Of each setting its default and another value.
EVERY = {
    "tries": (5, 7),
    "threshold": ("4/5", "3/7"),
    "top_k": (10, 3),
    "temperature": (1.0, 0.7),
    "top_p": (None, 0.9),
    "settle": ("quizzes", "reading"),
    "chooser": (None, None),
    "arbiter": (None, None),
    "decompose": (True, False),
    "examine": (True, False),
    "pick": (True, False),
    "listwise": (False, True),
    "draft": (False, True),
    "cite": (False, True),
    "read_together": (False, True),
    "reason": (False, True),
    "expand": (0, 3),
    "prefer_reliable": (False, True),
    "gate": (None, None),
    "select": (False, "instead"),
    "evidence_sentences": (2, 4),
    "similarity": (None, None),
    "extract_sentences": (None, 2),
    "on_nothing_helpful": ("largest_cluster", "closed_book"),
    "unanswered": (None, "raise"),
    "look_first": (True, False),
    "style": (None, "report"),
    "max_passages": (50, 20),
    "list_step": (None, 2),
    "mark_unsupported": (False, True),
    "summarize_single": (False, True),
    "summarize_known": (False, True),
    "demonstrations": (True, False),
    "max_quizzes": (8, 5),
    "max_question_chars": (8000, 500),
    "workers": (16, 3),
    "seed": (0, 11),
}
DEFAULTS, OTHERS = ({name: values[place] for name, values in EVERY.items()} for place in (0, 1))
PARTS = {
    "gate": CertaintyGate(),
    "chooser": chooser(0.5),
    "arbiter": chooser(0.5, {}),
    "similarity": lambda triples, sentences: [0.0] * len(sentences),
}


def there_and_back(program: KEQA, **given) -> KEQA:
    return KEQA(None, **read_values(KEQA.Settings, json.loads(json.dumps(settings_of(program))), given))


@pytest.mark.parametrize(("name", "value"), [one for one in {**OTHERS, **PARTS}.items() if one[0] != "workers"])
def test_an_argument_that_is_assigned_is_as_if_it_had_been_given(name, value):
    program, given = KEQA(None), KEQA(None, **{name: value})
    before = settings_of(program)
    setattr(program, name, value)
    assert settings_of(program) == settings_of(given) != before
    assert getattr(program, name) == getattr(given, name)
    assert settings_of(program.deepcopy()) == settings_of(program)


@pytest.mark.parametrize(
    ("name", "message"),
    [("tires", "KEQA has no setting tires; is tries meant?"), ("lm", "KEQA has no lm: give all roles one with set_lm")],
)
@pytest.mark.parametrize("around", [lambda program: program, ModuleWrapper])
def test_what_would_have_no_effect_is_not_assigned(name, message, around):
    program = around(KEQA(None))
    with pytest.raises(AttributeError, match=re.escape(message)):
        setattr(program, name, 3)
    own = around(type("Own", (KEQA,), {"__module__": "mine"})(None))
    for free in (program, own):
        free.score = 3  # as DSPy's optimizers do
    setattr(own, name, 3)
    assert getattr(own, name) == 3
    assert program.score == 3
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'; is (tries|lms) meant"):
        KEQA(None, **{name: 3})


def test_every_argument_is_a_setting_and_comes_back():
    assert set(EVERY) == set(inspect.signature(KEQA).parameters) - {"retriever", "lms", "reference"}
    for given, settings in (({}, DEFAULTS), (OTHERS, OTHERS)):
        assert settings_of(KEQA(None, **given)) == settings
        assert settings_of(there_and_back(KEQA(None, **given))) == settings


def test_a_given_threshold_takes_the_place_of_any_gate():
    program = KEQA(None, gate=AlwaysRetrieveGate())
    assert there_and_back(program, threshold="1/2").examination.gate == VoteGate(Fraction(1, 2))
    own = there_and_back(program, threshold="1/2", gate=NeverRetrieveGate()).examination.gate
    assert own == NeverRetrieveGate()
    program.top_k = 1
    assert program.gate == AlwaysRetrieveGate()
    program.threshold = "1/2"
    assert program.gate == VoteGate(Fraction(1, 2))


def test_gold_answers_are_not_written_down_nor_is_a_gate_that_is_no_dataclass():
    for gate in (OracleGate({"q": ["a"]}), SimpleNamespace(name="x", threshold=None, decide=max)):
        assert settings_of(KEQA(None, gate=gate))["gate"] == OWN


def test_a_similarity_by_embeddings_is_its_name():
    program = KEQA(None, similarity="hashing-64", extract_sentences=2)
    assert settings_of(program)["similarity"] == "hashing-64"
    again = there_and_back(program)
    assert isinstance(again.selection.similarity, EmbeddingSimilarity)
    assert settings_of(again) == settings_of(program)
    assert settings_of(there_and_back(program, similarity=None))["similarity"] is None


def test_shares_stay_exact():
    settings = settings_of(Rowen(None, min_consistency="1/3", cross_model_weight="0.25"))
    assert (settings["min_consistency"], settings["cross_model_weight"]) == ("1/3", "1/4")
