import inspect
import json
import re
import time
from fractions import Fraction
from types import SimpleNamespace
from typing import Annotated

import dspy
import pytest
from fixtures.boundary import make_model
from fixtures.drawing import at_most
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keqa.errors import ConfigurationError, InputError, KeqaError
from keqa.programs import arguments, baselines, gates
from keqa.programs.arguments import Kind, TopK, check, checked, exact
from keqa.programs.build import Parts, make
from keqa.programs.calls.session import CallLimiter
from keqa.programs.gate import as_fraction
from keqa.programs.gates import CertaintyGate, OracleGate, RandomGate, VoteGate
from keqa.programs.keqa import KEQA
from keqa.programs.registry import METHODS, arguments_of, check_arguments, load_class, parse_spec
from keqa.programs.saved_settings import settings_of

CLASSES = [KEQA, *(getattr(baselines, name) for name in baselines.__all__)]
GATES = list(gates.GATES.values())

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["1e-999999999", "nan", "1/0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


class OwnGate:
    """A gate that a user wrote; it lacks what it is not given."""

    def __init__(self, **attributes: object) -> None:
        if attributes:
            vars(self).update({"name": "own", **attributes})

    def decide(self, draws: object) -> int:
        return 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tries": 1.5}, "KEQA: tries must be a whole number from 1 to 1,000, not 1.5"),
        ({"tries": True}, "KEQA: tries must be a whole number from 1 to 1,000, not True"),
        ({"tries": 10**5000}, "KEQA: tries must be a whole number from 1 to 1,000, not a value of the type int"),
        ({"top_k": "5"}, "KEQA: top_k must be a whole number from 1 to 1,000, not '5'"),
        ({"top_k": 0}, "KEQA: top_k must be a whole number from 1 to 1,000, not 0"),
        ({"pick": "maybe"}, "KEQA: pick must be True or False, not 'maybe'"),
        ({"temperature": float("nan")}, "KEQA: temperature must be a number above 0 and at most 10, not nan"),
        ({"top_p": 2}, "KEQA: top_p must be a number above 0 and at most 1 or None, not 2"),
        ({"threshold": 0}, "KEQA: threshold must be a number above 0 and at most 1, such as 0.8 or '4/5', not 0"),
        ({"select": "both"}, "KEQA: select must be True, False, 'beside' or 'instead', not 'both'"),
        ({"on_nothing_helpful": "?"}, "must be 'largest_cluster', 'closed_book' or 'top_passage', not '?'"),
        ({"settle": "guess"}, "KEQA: settle must be 'draft', 'reading', 'quizzes' or 'cascade', not 'guess'"),
        ({"unanswered": "no"}, "KEQA: unanswered must be 'say', 'guess', 'raise' or None, not 'no'"),
        ({"extract_sentences": 0}, "KEQA: extract_sentences must be a whole number from 1 to 1,000 or None, not 0"),
        ({"reference": "own"}, "KEQA: reference must be a utility reference, or a function"),
        ({"similarity": 3}, "KEQA: similarity must be a function of triples and sentences"),
        ({"gate": VoteGate}, "KEQA: gate must be a gate, such as keqa.programs.gates.VoteGate() or None, not <class"),
        ({"gate": "votes"}, "it has to have the method decide"),
        ({"gate": OwnGate()}, "it has to have the attributes name and threshold"),
        ({"gate": OwnGate(threshold=0.5)}, "its threshold has to be a Fraction or None, not 0.5"),
        ({"lms": "openai/gpt-4o"}, "make them with keqa.build_roles('openai/gpt-4o')"),
        ({"lms": SimpleNamespace(task=None)}, "lms must be an object with the language models task, consistency and"),
    ],
)
def test_what_keqa_refuses(arguments, message):
    program = KEQA(None)
    before = settings_of(program)
    with pytest.raises(ConfigurationError) as refused:
        KEQA(None, **arguments)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    # What is assigned afterwards is refused alike, and the program stays what it was.
    [(name, value)] = arguments.items()
    with pytest.raises(ConfigurationError, match=re.escape(str(refused.value))):
        setattr(program, name, value)
    assert settings_of(program) == before


def test_an_index_is_no_name_of_one(retriever):
    with pytest.raises(ConfigurationError, match=r"keqa\.open_index\('my-index'\)"):
        KEQA("my-index")
    with pytest.raises(ConfigurationError, match="AlwaysRetrieve: retriever must be an index"):
        baselines.AlwaysRetrieve({"search": print})
    with pytest.raises(ConfigurationError, match="retriever must be an index"):
        KEQA(type(retriever("x")))


def test_a_method_that_searches_says_that_it_has_no_retriever(scripted):
    lm, _ = scripted(lambda name, inputs, config: {"answer": "Oslo"})
    with dspy.context(lm=lm), pytest.raises(ConfigurationError, match="has no retriever"):
        baselines.AlwaysRetrieve(None)("Where?")


@pytest.mark.parametrize("cls", [*CLASSES, *GATES], ids=lambda cls: cls.__name__)
def test_every_argument_of_every_method_and_gate_is_in_the_schema(cls):
    required = {"retriever": None, "threshold": "1/2", "cut": 0.5, "golds": {}, "model": make_model()}
    given = {
        key: required[key] for key in arguments_of(cls) if key in required and (cls in GATES or key == "retriever")
    }
    assert cls in GATES or "lms" in inspect.signature(cls.__init__).parameters
    for name in arguments_of(cls):
        with pytest.raises(ConfigurationError, match=rf"^{cls.__name__}: {name} must be"):
            cls(**given | {name: object()})


def test_thresholds_of_gates_are_exact_whatever_they_are_written_as():
    assert [VoteGate("0.9"), VoteGate(0.9), VoteGate("9/10")] == [VoteGate(Fraction(9, 10))] * 3
    assert RandomGate(0).threshold == RandomGate("0").threshold == 0
    assert CertaintyGate(-0.5, form="plain").threshold == Fraction(-1, 2)
    for wrong in (VoteGate, RandomGate, CertaintyGate, lambda share: OracleGate({}, threshold=share)):
        with pytest.raises(ConfigurationError, match="threshold must be a number"):
            wrong("3/2")


@pytest.mark.parametrize(
    "written", ["1e-999999999", "1e999999999", "1/0", "9" * 1000, "0x1", "", "nan", "inf", "١", True, None, [1], 1e-300]
)
def test_a_threshold_that_is_no_number_of_a_setting_is_refused_at_once(written):
    begun = time.monotonic()
    with pytest.raises(ValueError, match=r"^$"):
        exact(written)
    with pytest.raises(ConfigurationError, match="a threshold must be"):
        as_fraction(written)
    with pytest.raises(ConfigurationError, match="KEQA: threshold must be"):
        KEQA(None, threshold=written)
    assert time.monotonic() - begun < 5


def test_how_many_calls_and_questions_may_be_in_work():
    for number in ("abc", 0, 1.5, True, 10**6, None):
        with pytest.raises(ConfigurationError, match="CallLimiter: workers must be a whole number from 1 to 1,000"):
            CallLimiter(number)
        with pytest.raises(ConfigurationError, match=r"^answer_many: in_flight must be a whole number from 1 to 1,000"):
            baselines.ClosedBook().answer_many(["Where?"], in_flight=number)


def test_many_questions_are_neither_one_nor_a_table():
    for questions in ("Where?", b"Where?", {"question": "Where?"}, 3, None):
        with pytest.raises(InputError, match="answer_many takes a list of questions"):
            baselines.ClosedBook().answer_many(questions)
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InputError, match=r"^answer_many takes .*, not a DataFrame: give its rows, df\.to"):
        baselines.ClosedBook().answer_many(pandas.DataFrame({"question": ["Where?"]}))


def test_a_new_argument_takes_an_annotation_and_nothing_else():
    @checked
    class Base:
        def __init__(
            self, top_k: TopK = 10, *, colour: Annotated[str, Kind("red", {"red": "RED"}.__getitem__)] = "red"
        ):
            self.top_k, self.colour = top_k, colour

    class Derived(Base):
        pass

    assert (Base(3).top_k, Base().colour) == (3, "red")
    with pytest.raises(ConfigurationError, match="Derived: top_k must be"):
        Derived("3")
    with pytest.raises(TypeError, match="colours"):
        Base(colours="red")


def taking(hint):
    def called(given):
        """Takes one argument."""

    called.__annotations__["given"] = hint
    return called


@pytest.mark.parametrize(
    ("hint", "least", "greatest", "below", "above"),
    [
        (arguments.Tries, 1, 1000, 0, 1001),
        (arguments.Steps, 1, 100, 0, 101),
        (arguments.Characters, 1, 1_000_000, 0, 1_000_001),
        (arguments.Seed, -(2**63), 2**63 - 1, -(2**63) - 1, 2**63),
        (arguments.Temperature, 1e-9, 10, 0, 10.1),
        (arguments.Probability, 0, 1, -0.1, 1.1),
        (arguments.Weight, 0, 1000, -0.1, 1000.1),
        (arguments.Word, "x", "x" * 300, "", "x" * 301),
        (Annotated[Fraction, arguments.Threshold], "1/1000", 1, 0, "1001/1000"),
        (Annotated[Fraction, arguments.Share], 0, "1", "-1/1000", "1001/1000"),
        (Annotated[Fraction, arguments.Certainty], -10, "1", "-10.001", "1.001"),
    ],
)
def test_the_ends_of_each_range(hint, least, greatest, below, above):
    called = taking(hint)
    for allowed in (least, greatest):
        assert check(called, {"given": allowed}, "called") == {
            "given": exact(allowed) if "Fraction" in str(hint) else allowed
        }
    for refused in (below, above):
        with pytest.raises(ConfigurationError, match=r"^called: given must be "):
            check(called, {"given": refused}, "called")


@pytest.mark.parametrize(
    "text",
    [
        "rag:top_k=abc",
        "keqa:tries=true",
        "keqa:temperature=NaN",
        "keqa:threshold=1e-999999999",
        "keqa:tries=" + "[" * 100_000,
        "gate-votes:threshold=1e-999999999",
        "gate-certainty:over=5",
        "gate-oracle:golds=x",
        "gate-votes:name=x",
        "rowen:language=",
        "rag:top_k=5,top_k=6",
        "rag:top_k=5\x1b[2J",
    ],
)
def test_a_specification_that_cannot_work_is_one_line_that_names_it(retriever, text):
    with pytest.raises(InputError) as refused:
        make(parse_spec(text), Parts(retriever("x"), None))
    told = str(refused.value)
    assert "\n" not in told
    assert "\x1b" not in told
    assert text.partition("=")[0].replace(":", "-") in told or "argument" in told or "there twice" in told


# The name of an embedder may be that of a model, which takes its time to be looked for.
ARGUMENTS = [
    (method, name)
    for method in METHODS.values()
    for name in arguments_of(method.gate or load_class(method.target))
    if name != "similarity"
]


@pytest.mark.slow
@settings(deadline=5000, max_examples=at_most(500), suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(ARGUMENTS), st.text(min_size=1) | JSON.map(json.dumps))
def test_any_text_of_any_specification_makes_a_program_or_a_known_error(argument, text):
    method, name = argument
    told = ""
    try:
        spec = parse_spec(f"{method.name}:{name}={text}")
        check_arguments(spec)
        if method.gate is None:
            make(spec, Parts(None, None))
    except KeqaError as error:
        told = str(error)
    assert "\n" not in told
