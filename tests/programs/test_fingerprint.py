"""What tells models, retrievers, programs and functions apart."""

import functools
import importlib
import subprocess
import sys
import threading
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

import dspy
import pytest

from keqa.metrics.answers import exact_match, f1
from keqa.programs.baselines import AlwaysRetrieve, ClosedBook, SlimPLM
from keqa.programs.calls.predictor import LearnedQuestions
from keqa.programs.fingerprint import (
    digest,
    function_fingerprint,
    gate_fingerprint,
    lm_spec,
    models_of,
    program_fingerprint,
    program_spec,
    retriever_spec,
    similarity_fingerprint,
)
from keqa.programs.gates import CertaintyGate, VoteGate
from keqa.programs.keqa import KEQA
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.stages.selection import EmbeddingSimilarity, lexical_similarity
from keqa.retrievers import (
    CachingRetriever,
    HybridRetriever,
    Passage,
    Retriever,
    as_retriever,
    build_index,
    open_index,
)
from keqa.retrievers.manifest import DenseManifest, EncoderSettings, VectorSettings


def test_what_names_stand_for_is_short_and_the_same_tomorrow():
    assert digest({"b": [1, None], "a": "安"}) == digest({"a": "安", "b": [1, None]}) == "744cdf0d07892981b1ab"
    assert digest({"a": Fraction(1, 2)}) == digest({"a": "1/2"})


# Functions and gates.


def held(value):
    return lambda: value


class Weighted:
    """A metric of a user's that is an object."""

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, *asked):
        return self.weight * f1(*asked)


class Plain:
    """Without a text of its own."""


def own(first, second):
    def weighted(asked, weight=first, *, more=second):
        return weight * more

    return weighted


def functions():
    kept = (None, 0, True, 0.5, "a", {"a": 1}, {"b": 1}, {"a", "b"}, frozenset({1}), [1, [2]], (1, (3,)), dict, list)
    kept += (Fraction(1, 2), f1, exact_match, SimpleNamespace(a=1), SimpleNamespace(a=2), object(), Plain())
    return [
        *map(held, kept),
        held(lambda one, other: one + other),
        held(lambda one, other: one - other),
        lambda *asked: f1(*asked) / 2,
        lambda *asked: f1(*asked) / 4,
        lambda: [number + 1 for number in range(3)],
        lambda: [number + 2 for number in range(3)],
        functools.partial(f1, answer_type="short"),
        functools.partial(f1, answer_type="choice"),
        functools.partial(f1, "short"),
        functools.partial(f1, "choice"),
        own(1, 1),
        own(2, 1),
        own(1, 2),
        Weighted(2),
        Weighted(3),
    ]


def test_functions_are_told_by_what_they_do_and_hold():
    told = list(map(function_fingerprint, functions()))
    assert len(set(told)) == len(told)
    assert list(map(function_fingerprint, functions())) == told
    assert " at 0x" not in "".join(told)
    assert function_fingerprint(f1) == "keqa.metrics.answers.f1"


def test_a_gate_of_ones_own_is_told_by_its_values_and_by_what_it_does():
    def gate(least, most=5):
        class Own:
            __slots__ = ("lock", "other", "share")

            def __init__(self, share):
                self.share, self.lock, self.other = share, threading.Lock(), object()

            @property
            def threshold(self):
                return least

            def decide(self, votes):
                return votes > most

        return Own

    made = [gate(1)(2), gate(1)(3), gate(1, 6)(2), gate(2)(2)]
    assert len({gate_fingerprint(one) for one in made}) == 4
    assert gate_fingerprint(gate(1)(2)) == gate_fingerprint(made[0])
    assert gate_fingerprint(VoteGate()) == repr(VoteGate())


OWN = """
from keqa.programs.fingerprint import gate_fingerprint

class Own:
    name, kinds, inner = "own", {"a", "b", "c"}, object()

    def decide(self, votes):
        return votes in {"x", "y", "z"}

TOLD = gate_fingerprint(Own())
"""


@pytest.mark.process
def test_a_class_in_a_fresh_process_is_told_alike(tmp_path, monkeypatch):
    (tmp_path / "own_gate.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    command = [sys.executable, "-c", "import own_gate; print(own_gate.TOLD)"]
    told = subprocess.check_output(command, cwd=tmp_path, text=True).strip()
    assert told == importlib.import_module("own_gate").TOLD != ""


# Language models.


def test_every_setting_of_a_language_model_is_described():
    settings = {"temperature": 0.3, "max_tokens": 100, "reasoning_effort": "high", "stop": ["\n"], "seed": 3}
    settings |= {"top_p": 0.5, "presence_penalty": 1.0, "allowed_token_ids": [1], "thinking_token_budget": 9}
    assert lm_spec(dspy.LM("openai/x", **settings)) == {"model": "openai/x", **settings}
    assert lm_spec(None) == {"model": None}


def test_keys_addresses_what_is_local_and_the_way_of_sending_are_not_described_at_any_depth():
    lm = dspy.LM(
        "openai/x",
        api_key="sk-0123456789",
        api_base="http://10.0.0.1:8000/v1",
        extra_headers={"Authorization": "Bearer sk-0123456789"},
        timeout=3,
        num_retries=7,
        suffix="asked at http://10.0.0.1:8000/v1 with sk-0123456789",
        user="me@example.org",
        organization="mine",
        ssl_verify="/home/me/ca.pem",
        vertex_project="p",
        model_list=[{"model": "y", "api_key": "short"}],
        guided=[{"grammar": ("/home/me/own.txt", Fraction(1, 2))}],
    )
    spec = lm_spec(lm)
    assert set(spec) <= {"model", "max_tokens", "temperature", "suffix", "model_list", "guided"}
    assert spec["suffix"] == "asked at <address> with <secret>"
    assert (spec["model_list"], spec["guided"]) == ([{"model": "y"}], [{"grammar": ["own.txt", "1/2"]}])


def test_a_model_in_this_process_is_told_by_its_weights(tmp_path):
    weights = tmp_path / "model.safetensors"
    lm = SimpleNamespace(model="mine", kwargs={}, engine=SimpleNamespace(path=str(tmp_path)))
    weights.write_bytes(b"first")
    first = lm_spec(lm)
    weights.write_bytes(b"later")
    assert lm_spec(lm) != first


ROLES = ("task", "consistency", "utility", "boundary")


def test_each_role_is_told_with_its_language_model_and_a_predictor_with_another_by_name():
    lms = {role: dspy.LM(f"openai/{role}", temperature=0.0, max_tokens=9) for role in ROLES}
    described = {role: {"model": f"openai/{role}", "max_tokens": 9, "temperature": 0.0} for role in ROLES}
    assert models_of(SlimPLM(None, lms=SimpleNamespace(**lms))) == {
        role: described[role] for role in ("task", "consistency", "boundary")
    }
    with dspy.context(lm=lms["task"]):
        assert models_of(ClosedBook()) == {"task": described["task"]}
    assert models_of(ClosedBook()) == {"task": {"model": None}}
    program = KEQA(None)
    program.set_lm(dspy.LM("openai/a"))
    uniform = models_of(program)
    program.decomposition.decompose.lm = dspy.LM("openai/b")
    assert models_of(program) == uniform | {"decomposition.decompose": {"model": "openai/b"}}


# Retrievers.


class Cutting:
    """A retriever of a user's that stands before another one and cuts its passages."""

    def __init__(self, retriever, keep, similarity=lexical_similarity):
        self.retriever, self.keep, self._similarity = retriever, keep, similarity

    def search(self, query, k=10):
        return self.retriever.search(query, k)


class Dense(Retriever):
    def __init__(self, prefix):
        self.manifest = DenseManifest(
            name="d",
            encoder=EncoderSettings("m", "m", "", prefix, ": ", "cosine", 4),
            vectors=VectorSettings("flat"),
            **{"language": "en", "probe": (0.0,) * 4, "listed": 0, "rows": 1},
            **{"passages": 1, "renamed": 0, "source_hash": "hash", "sources": (), "created": "", "data": "data-1"},
        )


def test_retrievers_are_told_by_corpus_model_parts_and_what_cuts_their_passages(tmp_path):
    for name in ("one", "two"):
        build_index([Passage("1", name, f"A passage on {name}.")], tmp_path / name)
    one, two = (open_index(tmp_path / name) for name in ("one", "two"))

    def made():
        return [
            one,
            two,
            *(Cutting(one, keep) for keep in (1, 2)),
            Cutting(two, 1),
            Cutting(one, 2, lambda left, right: [0.0]),
            Cutting(one, 2, EmbeddingSimilarity("hashing-64")),
            *(Dense(prefix) for prefix in ("query: ", "ask: ")),
            *(HybridRetriever([one, Dense(prefix)]) for prefix in ("query: ", "ask: ")),
            HybridRetriever([one, Dense("ask: ")], constant=1),
            as_retriever(lambda query, k: ["one"]),
            as_retriever(lambda query, k: ["two"]),
        ]

    told = [str(retriever_spec(each)) for each in made()]
    assert len(set(told)) == len(told)
    assert [str(retriever_spec(each)) for each in made()] == told
    assert retriever_spec(Cutting(one, 1))["cut"]["similarity"] == "keqa.programs.stages.selection.lexical_similarity"
    with CachingRetriever(one, tmp_path / "retrievals.sqlite") as cached:
        assert retriever_spec(cached) == retriever_spec(one)
    assert retriever_spec(None) is None
    assert set(retriever_spec(as_retriever(lambda query, k: ["one"]))) == {"kind", "search"}


# Programs.


def test_each_part_of_a_program_is_described_by_its_name():
    spec = program_spec(ClosedBook())
    assert spec.keys() == {"program", "settings", "prompts"}
    assert spec["program"] == "ClosedBook"
    assert spec["settings"] == {"reason": False, "max_question_chars": 8000}
    assert program_spec(ClosedBook(reason=True, workers=3))["settings"] == {"reason": True, "max_question_chars": 8000}
    assert program_spec(AlwaysRetrieve(None))["program"] == "AlwaysRetrieve"
    assert program_fingerprint(ClosedBook()) == digest(spec) == program_fingerprint(ClosedBook(workers=3))
    settings = program_spec(KEQA(None, threshold="3/7", workers=2))["settings"]
    assert (settings["threshold"], settings["gate"], settings["examination"]) == ("3/7", "votes", "Examination")
    assert not {"workers", "demonstrations"} & settings.keys()
    certain = program_spec(KEQA(None, gate=CertaintyGate("2/3")))["settings"]["gate"]
    assert (certain["kind"], certain["threshold"], certain["over"]) == ("CertaintyGate", "2/3", "clusters")


def gated(most):
    @dataclass(frozen=True)
    class Own(VoteGate):
        def knows(self, votes):
            return votes.largest > most

    return KEQA(None, gate=Own())


def coded(number):
    class Mine(KEQA):
        async def solve(self, asked, story):
            story.answer = str(number)

    return Mine(None)


def having(name, value):
    """A program of which an attribute is another, or one of its predictor."""
    program = ClosedBook()
    setattr(program if hasattr(program, name) else program.answer, name, value)
    return program


def learned(train, demonstrations=()):
    return having("learned", LearnedQuestions(tuple((one, one) for one in train), demonstrations=dict(demonstrations)))


def risking(risk):
    return having("abstention", SimpleNamespace(spec=lambda: {"risk": risk}))


def referring(k, *helpful):
    entries = [UtilityEntry("q", "Who?", f"passage {place}", one) for place, one in enumerate(helpful)]
    return KEQA(None, reference=UtilityReference(k=k).fit(entries))


def compared(weight):
    return KEQA(None, similarity=lambda triples, sentences: [weight] * len(sentences))


def test_programs_are_told_apart_by_all_that_an_answer_depends_on():
    def made():
        demo = dspy.Example(question="q", answer="a")
        return [
            ClosedBook(),
            *(learned(*given) for given in ((["q1"],), (["q1", "q2"],), ([], {"a": ("b",)}), ([], {"a": ("c",)}))),
            *map(risking, (0.1, 0.2)),
            having("signature", ClosedBook().answer.signature.with_instructions("Do it.")),
            having("demos", [demo]),
            having("demos", [demo.copy(answer="b")]),
            having("config", {"temperature": 0.3}),
            *map(gated, (3, 4)),
            *map(coded, (1, 2)),
            *(referring(*given) for given in ((1, True), (2, True), (1, False), (1, True, True))),
            KEQA(None, reference=f1),
            KEQA(None, reference=lambda quiz, passage: []),
            KEQA(None, similarity="hashing-64"),
            *map(compared, (0.1, 0.2)),
        ]

    told = [program_fingerprint(one) for one in made()]
    assert len(set(told)) == len(told)
    assert [program_fingerprint(one) for one in made()] == told
    noted = having("demos", [dspy.Example(question="q", answer="a", augmented=True)])
    assert program_fingerprint(noted) == told[8], "what an optimizer notes in a demonstration is in no prompt"
    assert program_spec(learned(["q2", "q1"])) == program_spec(learned(["q1", "q2"]))
    assert program_spec(risking(0.1))["abstention"] == {"risk": 0.1}
    assert program_spec(KEQA(None, reference=f1))["reference"] == "keqa.metrics.answers.f1"
    assert program_spec(KEQA(None, similarity="hashing-64"))["settings"]["similarity"] == "hashing-64"
    assert similarity_fingerprint(EmbeddingSimilarity("hashing-64")) == "hashing-64"
