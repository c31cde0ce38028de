"""What tells models, retrievers and functions apart."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from dataclasses import dataclass
from types import SimpleNamespace

import dspy
import pytest

from keqa.metrics.answers import f1
from keqa.programs.fingerprint import (
    function_fingerprint,
    gate_fingerprint,
    lm_spec,
    program_fingerprint,
    program_spec,
    retriever_spec,
)
from keqa.programs.gates import VoteGate
from keqa.programs.keqa import KEQA
from keqa.programs.stages.selection import EmbeddingSimilarity, lexical_similarity
from keqa.retrievers import (
    CachingRetriever,
    DenseManifest,
    HybridRetriever,
    Passage,
    Retriever,
    build_index,
    open_index,
)
from keqa.retrievers.dense import EncoderSettings
from keqa.retrievers.dense.vectors import VectorSettings


def test_a_function_of_the_package_is_told_by_its_name():
    assert function_fingerprint(f1) == "keqa.metrics.answers.f1"


def test_functions_of_one_name_are_told_by_what_they_do():
    def times(number):
        return lambda *asked: number * f1(*asked)

    halves = [lambda *asked: f1(*asked) / 2, lambda *asked: f1(*asked) / 4, times(2), times(3)]
    halves += [functools.partial(f1, answer_type="short"), functools.partial(f1, answer_type="choice")]
    assert len({function_fingerprint(one) for one in halves}) == 6
    assert function_fingerprint(times(2)) == function_fingerprint(times(2))
    assert " at 0x" not in function_fingerprint(lambda: halves)


class Weighted:
    """A metric of a user's that is an object."""

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, *asked):
        return self.weight * f1(*asked)


def test_objects_that_are_called_are_told_by_their_state():
    assert function_fingerprint(Weighted(2)) == function_fingerprint(Weighted(2)) != function_fingerprint(Weighted(3))


def test_a_model_in_this_process_is_told_by_its_weights(tmp_path):
    weights = tmp_path / "model.safetensors"
    lm = SimpleNamespace(model="mine", kwargs={}, engine=SimpleNamespace(path=str(tmp_path)))
    weights.write_bytes(b"first")
    first = lm_spec(lm)
    weights.write_bytes(b"later")
    assert lm_spec(lm) != first


@pytest.mark.parametrize(
    "setting",
    [
        {"reasoning_effort": "high"},
        {"max_tokens": 5},
        {"stop": ["\n"]},
        {"seed": 3},
        {"top_p": 0.5},
        {"temperature": 0.3},
        {"presence_penalty": 1.0},
    ],
)
def test_language_models_that_differ_in_any_setting_differ(setting):
    plain = dspy.LM("openai/x", temperature=0.0, max_tokens=100)
    other = dspy.LM("openai/x", **{"temperature": 0.0, "max_tokens": 100, **setting})
    assert lm_spec(plain) == {"model": "openai/x", "max_tokens": 100, "temperature": 0.0}
    assert lm_spec(other) == {"model": "openai/x", "max_tokens": 100, "temperature": 0.0, **setting}


def test_keys_and_addresses_and_the_way_of_sending_are_not_described():
    lm = dspy.LM(
        "openai/x",
        api_key="sk-0123456789",
        api_base="http://10.0.0.1:8000/v1",
        extra_headers={"Authorization": "Bearer sk-0123456789"},
        timeout=3,
        num_retries=7,
        suffix="asked at http://10.0.0.1:8000/v1 with sk-0123456789",
    )
    assert lm_spec(lm)["suffix"] == "asked at <address> with <secret>"
    assert set(lm_spec(lm)) <= {"model", "max_tokens", "temperature", "suffix"}


def test_no_language_model_has_a_description_too():
    assert lm_spec(None) == {"model": None}


class Cutting:
    """A retriever of a user's that stands before another one and cuts its passages."""

    def __init__(self, retriever, keep, similarity=lexical_similarity):
        self.retriever, self.keep, self._similarity = retriever, keep, similarity

    def search(self, query, k=10):
        return self.retriever.search(query, k)


@pytest.mark.parametrize("wrapped", [lambda found: found, lambda found: Cutting(found, 2)])
def test_a_retriever_is_told_by_its_corpus_whatever_stands_before_it(tmp_path, wrapped):
    for name in ("one", "two"):
        build_index([Passage("1", name, f"A passage on {name}.")], tmp_path / name)
    told = [retriever_spec(wrapped(open_index(tmp_path / name))) for name in ("one", "two", "one")]
    assert told[0] == told[2] != told[1]


def test_what_cuts_passages_is_told_by_how_many_and_by_what(tmp_path):
    build_index([Passage("1", "one", "A passage.")], tmp_path / "one")
    index = open_index(tmp_path / "one")
    told = [
        Cutting(index, 1),
        Cutting(index, 2),
        Cutting(index, 2, lambda left, right: [0.0]),
        Cutting(index, 2, lambda left, right: [1.0]),
        Cutting(index, 2, EmbeddingSimilarity("hashing")),
        Cutting(index, 2, EmbeddingSimilarity("hashing-64")),
    ]
    assert len({str(retriever_spec(one)) for one in told}) == 6
    assert retriever_spec(told[1])["cut"]["similarity"] == "keqa.programs.stages.selection.lexical_similarity"


def test_a_cache_makes_no_difference(tmp_path):
    build_index([Passage("1", "", "one")], tmp_path / "index")
    index = open_index(tmp_path / "index")
    with CachingRetriever(index, tmp_path / "retrievals.sqlite") as cached:
        assert retriever_spec(cached) == retriever_spec(index)


def test_a_dense_index_is_told_by_its_models_and_a_hybrid_by_its_parts(tmp_path):
    build_index([Passage("1", "", "one")], tmp_path / "index")
    index = open_index(tmp_path / "index")

    class Dense(Retriever):
        def __init__(self, prefix):
            encoder = EncoderSettings("m", "m", "", prefix, ": ", "cosine", 4)
            self.manifest = DenseManifest(
                name="d",
                encoder=encoder,
                vectors=VectorSettings("flat"),
                **{"passages": 1, "renamed": 0, "source_hash": "hash", "sources": (), "created": "", "data": "data-1"},
            )

    described = [retriever_spec(Dense(prefix)) for prefix in ("query: ", "ask: ", "query: ")]
    assert described[0] == described[2] != described[1]
    hybrids = [retriever_spec(HybridRetriever([index, Dense(prefix)])) for prefix in ("query: ", "ask: ", "query: ")]
    assert hybrids[0] == hybrids[2] != hybrids[1]
    assert retriever_spec(HybridRetriever([index, Dense("ask: ")], constant=1)) != hybrids[1]
    assert hybrids[0]["parts"][0] == retriever_spec(index)


def test_a_retriever_whose_class_has_no_search_is_told_by_its_class():
    class Searching:
        def __init__(self):
            self.search = lambda query, k=10: []

    spec = retriever_spec(Searching())
    assert spec.keys() == {"kind", "search"}
    assert spec["kind"] == "Searching"
    assert spec["search"].endswith("test_a_retriever_whose_class_has_no_search_is_told_by_its_class.<locals>.Searching")


def test_a_gate_of_ones_own_is_told_by_its_values_and_by_what_it_does():
    def gate(least, most=5):
        class Own:
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


def test_a_program_is_told_by_what_a_gate_of_ones_own_does():
    def gate(most):
        @dataclass(frozen=True)
        class Own(VoteGate):
            def knows(self, votes):
                return votes.largest > most

        return Own()

    described = [program_spec(KEQA(None, gate=gate(most)))["settings"] for most in (3, 4, 3)]
    assert described[0] == described[2] != described[1]
    assert described[0].keys() - program_spec(KEQA(None))["settings"].keys() == {"gate_code"}
    assert described[0] | {"gate_code": None} == described[1] | {"gate_code": None}


def test_a_gate_with_slots_is_told_by_their_values():
    @dataclass(frozen=True, slots=True)
    class Slotted:
        threshold: int = 1

    assert gate_fingerprint(Slotted(1)) == gate_fingerprint(Slotted()) != gate_fingerprint(Slotted(2))


@pytest.mark.process
def test_a_class_in_a_fresh_process_is_told_alike(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    told = [
        subprocess.run([sys.executable, "own.py"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert told[0] == told[1] != ""


OWN = """
from keqa.programs.fingerprint import gate_fingerprint

class Own:
    name, kinds, inner = "own", {"a", "b", "c"}, object()

    def decide(self, votes):
        return votes in {"x", "y", "z"}

print(gate_fingerprint(Own()))
"""


@pytest.mark.parametrize("name", ["allowed_token_ids", "stop_token_ids", "thinking_token_budget"])
def test_a_setting_whose_name_resembles_a_secret_is_described(name):
    assert lm_spec(dspy.LM("openai/x", **{name: [1]}))[name] == [1]


def test_what_is_local_or_secret_is_not_described_at_any_depth():
    lm = dspy.LM(
        "openai/x",
        user="me@example.org",
        organization="mine",
        ssl_verify="/home/me/ca.pem",
        vertex_project="p",
        model_list=[{"model": "y", "api_key": "short"}],
        guided="/home/me/grammar.txt",
    )
    spec = lm_spec(lm)
    assert spec["model_list"] == [{"model": "y"}]
    assert spec["guided"] == "grammar.txt"
    assert not {"user", "organization", "ssl_verify", "vertex_project"} & set(spec)


def test_a_reference_of_ones_own_and_settings_of_a_predictor_are_described():
    plain, other, set_up = KEQA(None), KEQA(None, reference=lambda quiz, passage: []), KEQA(None)
    set_up.answering.answer.config = {"logit_bias": {"1": 5}}
    assert len({program_fingerprint(one) for one in (plain, other, set_up)}) == 3


def test_a_program_of_ones_own_is_described_by_its_code():
    def program(number):
        class Mine(KEQA):
            async def solve(self, session, asked, story):
                story.answer = str(number)

        return Mine(None)

    def other():
        class Mine(KEQA):
            async def solve(self, session, asked, story):
                story.answer = "other"

        return Mine(None)

    assert program_fingerprint(program(1)) == program_fingerprint(program(1))
    assert program_fingerprint(program(1)) != program_fingerprint(other())
