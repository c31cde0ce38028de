"""What a gate or a method of one's own has to be, to be listed beside the others."""

from dataclasses import dataclass, replace

import pytest

from keqa.errors import ConfigurationError
from keqa.programs.baselines import AlwaysRetrieve, ClosedBook
from keqa.programs.gates import GATES, ConfidenceGate, NamedGate, PromptGate, VoteGate, questions, saved_gate
from keqa.programs.gates.uncertainty import RetrievalDecision, StatedConfidence
from keqa.programs.registry import METHODS, Method, register_gate, register_method


@pytest.fixture(autouse=True)
def _as_before():
    gates, methods = dict(GATES), dict(METHODS)
    yield
    for now, then in ((GATES, gates), (METHODS, methods)):
        now.clear()
        now.update(then)


def made(name: str = "OtherGate", of: type = VoteGate, **change: object) -> type:
    return type(name, (of,), {"method": "gate-other", **change})


def test_a_registered_gate_is_a_method_and_saved_by_its_name():
    cls = made()
    assert register_gate(cls) is cls
    assert (saved_gate("OtherGate"), GATES["OtherGate"]) == (cls, cls)
    of_keqa = METHODS["keqa"].target, {"settle": "quizzes"}
    assert METHODS["gate-other"] == Method("gate-other", "KEQA's vote", "gate", *of_keqa, gate=cls)
    # A notebook's cell that runs again makes its class again.
    again = register_gate(made())
    assert (GATES["OtherGate"], METHODS["gate-other"].gate) == (again, again)


def test_a_gate_may_be_no_method():
    register_gate(made(method=None, title=""))
    assert "OtherGate" in GATES
    assert not any(method.gate is GATES["OtherGate"] for method in METHODS.values())


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (VoteGate(), "a gate is registered as a class, not VoteGate("),
        (type("Bare", (), {}), "Bare has to be a NamedGate with a kind and, as a method, with a title"),
        (made(title=""), "OtherGate has to be a NamedGate with a kind and, as a method, with a title"),
        (made(decide=None), "OtherGate has no method decide; see keqa.programs.gates.Gate"),
        (made("VoteGate"), "there is a gate VoteGate already, in keqa.programs.gate"),
        (made(method="gate-votes"), "there is a method 'gate-votes' already: KEQA's vote"),
        (made(asks="politely"), "a gate asks 'probabilities' or a GateQuestion class, not 'politely'"),
        (made(method="Gate!"), "a method is named in small letters, digits and hyphens, not 'Gate!'"),
        (
            made(of=ConfidenceGate, asks=type("Mine", (StatedConfidence,), {})),
            "the attribute 'confidence' of Mine is StatedConfidence's",
        ),
    ],
)
def test_a_gate_that_cannot_be_registered(cls, message):
    with pytest.raises(ConfigurationError) as refused:
        register_gate(cls)
    assert str(refused.value).startswith(message)
    assert GATES.get("OtherGate") is None


def test_a_gate_that_is_saved_is_a_dataclass():
    bare = {name: vars(VoteGate)[name] for name in ("decide", "kind", "title", "name", "threshold")}
    cls = type("Bare", (VoteGate.__mro__[1],), {**bare, "method": "gate-bare"})
    with pytest.raises(ConfigurationError, match="Bare has to be a dataclass, or say savable = False"):
        register_gate(cls)
    cls.savable = False
    register_gate(cls)
    assert (GATES["Bare"], saved_gate("Bare"), saved_gate(3)) == (cls, None, None)


def test_a_gate_has_a_name_and_a_threshold():
    bare = {name: vars(VoteGate)[name] for name in ("decide", "kind", "title")}
    bare |= {"method": "gate-bare", "savable": False}
    nameless, named = (type("Bare", (NamedGate,), {**bare, **more}) for more in ({}, {"name": "bare"}))
    with pytest.raises(ConfigurationError, match="Bare has no name and no threshold: a gate has a name, for records,"):
        register_gate(nameless)
    for cls in (named, dataclass(frozen=True)(named)):
        with pytest.raises(ConfigurationError, match=r"Bare has no threshold: .* which is None where it has none"):
            register_gate(cls)
    assert "gate-bare" not in METHODS
    # What a gate writes into itself is there once it is made.
    writing = {"__init__": lambda self: vars(self).update(name="bare", threshold=None)}
    assert register_gate(type("Bare", (NamedGate,), {**bare, **writing})) is METHODS["gate-bare"].gate


def test_the_same_question_may_be_asked_by_two_gates():
    register_gate(made(of=ConfidenceGate))
    assert list(questions()) == [StatedConfidence, RetrievalDecision, StatedConfidence]
    assert PromptGate.asks is RetrievalDecision


@pytest.mark.parametrize(
    "change",
    [
        {"target": ClosedBook},
        {"fixed": {"reason": False}},
        {"variant": "none"},
        {"gate": VoteGate},
    ],
)
def test_a_method_is_registered_once_unless_it_is_the_same_again(change):
    @dataclass(kw_only=True, eq=False, repr=False)
    class Mine(AlwaysRetrieve):
        """A method of one's own."""

    method = Method("mine", "Mine", "baseline", Mine, {"reason": True})
    assert register_method(method) is METHODS["mine"] is method
    later = replace(method, title="Mine, again")
    assert register_method(later) is METHODS["mine"]
    with pytest.raises(ConfigurationError, match="there is a method 'mine' already: Mine, again"):
        register_method(replace(method, **change))
    assert METHODS["mine"] is later
