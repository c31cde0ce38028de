"""What tells models, retrievers and functions apart."""

from __future__ import annotations

import functools
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
from keqa.programs.learned import LearnedQuestions
from keqa.programs.reference.utility_reference import Entry, UtilityReference
from keqa.programs.stages.selection import EmbeddingSimilarity, lexical_similarity
from keqa.retrievers import (
    CachingRetriever,
    DenseManifest,
    HybridRetriever,
    Passage,
    Retriever,
    as_retriever,
    build_index,
    open_index,
)
from keqa.retrievers.manifest import EncoderSettings, VectorSettings


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
                **{"language": "en", "probe": (0.0,) * 4, "listed": 0, "rows": 1},
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


def test_a_function_is_told_by_a_class_that_it_holds():
    def making(kind):
        return lambda *asked: kind(f1(*asked))

    assert function_fingerprint(making(int)) == function_fingerprint(making(int)) != function_fingerprint(making(bool))


def held(value):
    """A function that holds a value."""
    return lambda: value


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (None, 0),
        (True, False),
        (1, 2),
        (0.5, 0.25),
        ("a", "b"),
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ({"a", "b"}, {"a", "c"}),
        (frozenset({1}), frozenset({2})),
        ([1, [2]], [1, [3]]),
        ((1, (2,)), (1, (3,))),
        (dict, list),
        (Fraction(1, 2), Fraction(1, 3)),
        (f1, exact_match),
        (lambda: 1, lambda: 2),
        (lambda one, other: one + other, lambda one, other: one - other),
        (SimpleNamespace(a=1), SimpleNamespace(a=2)),
    ],
)
def test_what_a_function_holds_tells_it_apart(value, other):
    assert function_fingerprint(held(value)) == function_fingerprint(held(value)) != function_fingerprint(held(other))


def test_an_object_that_a_function_holds_is_told_by_its_class_and_not_by_its_address():
    class Plain:
        """Without a text of its own."""

    class Other(Plain):
        """As well."""

    class Addressed:
        def __init__(self, inner):
            self.inner = inner

        def __repr__(self):
            return f"Addressed({self.inner!r})"

    assert function_fingerprint(held(Plain())) == function_fingerprint(held(Plain()))
    assert function_fingerprint(held(Plain())) != function_fingerprint(held(Other()))
    assert function_fingerprint(held(Addressed(object()))) == function_fingerprint(held(Addressed(object())))
    assert function_fingerprint(held(Addressed(1))) != function_fingerprint(held(Addressed(2)))


def test_functions_are_told_by_their_defaults_and_by_what_is_given_beforehand():
    def made(first, second):
        def own(asked, weight=first, *, more=second):
            return weight * more

        return own

    def whole(first, second):
        return first

    told = [made(1, 1), made(2, 1), made(1, 2)]
    told += [functools.partial(whole, 1), functools.partial(whole, 2), functools.partial(whole, second=1)]
    told += [functools.partial(whole, first=1), functools.partial(made(1, 1), 1), functools.partial(made(2, 1), 1)]
    assert len({function_fingerprint(one) for one in told}) == len(told)
    assert function_fingerprint(made(1, 2)) == function_fingerprint(told[2])
    assert function_fingerprint(functools.partial(whole, 1)) == function_fingerprint(told[3])


def test_code_within_code_counts_whatever_it_is_called():
    def nested(one):
        if one:
            return lambda: [number + 1 for number in range(3)]
        return lambda: [number + 2 for number in range(3)]

    def calling(one):
        return (lambda: f1("a", ["a"])) if one else (lambda: exact_match("a", ["a"]))

    for made in (nested, calling):
        assert function_fingerprint(made(True)) == function_fingerprint(made(True)) != function_fingerprint(made(False))


def test_what_names_stand_for_is_short_and_the_same_tomorrow():
    assert digest({"b": [1, None], "a": "安"}) == digest({"a": "安", "b": [1, None]}) == "744cdf0d07892981b1ab"
    assert digest({"a": Fraction(1, 2)}) == digest({"a": "1/2"})


def test_each_part_of_a_program_is_described_by_its_name():
    spec = program_spec(ClosedBook())
    assert spec.keys() == {"program", "settings", "prompts"}
    assert spec["program"] == "ClosedBook"
    assert spec["settings"] == {"reason": False, "max_question_chars": 8000}
    assert program_spec(ClosedBook(reason=True, workers=3))["settings"] == {"reason": True, "max_question_chars": 8000}
    assert program_spec(AlwaysRetrieve(None))["program"] == "AlwaysRetrieve"
    assert program_fingerprint(ClosedBook()) == digest(spec) == program_fingerprint(ClosedBook(workers=3))


def test_programs_that_learned_or_hold_a_risk_differ_from_those_that_did_not():
    def learned(train, demonstrations=()):
        program = ClosedBook()
        program.learned = LearnedQuestions(tuple((one, one) for one in train), demonstrations=dict(demonstrations))
        return program

    def made(risk):
        program = ClosedBook()
        program.abstention = SimpleNamespace(spec=lambda: {"risk": risk})
        return program

    told = [
        ClosedBook(),
        learned(["q1"]),
        learned(["q1", "q2"]),
        learned([], {"a": ("b",)}),
        learned([], {"a": ("c",)}),
        made(0.1),
        made(0.2),
    ]
    assert len({program_fingerprint(one) for one in told}) == len(told)
    assert program_spec(learned(["q2", "q1"])) == program_spec(told[2])
    assert program_spec(made(0.1))["abstention"] == {"risk": 0.1}
    assert "learned" in program_spec(told[1])
    assert not {"learned", "abstention", "reference"} & program_spec(told[0]).keys()


@pytest.mark.parametrize(
    "change",
    [
        lambda predictor: setattr(predictor, "signature", predictor.signature.with_instructions("Do it.")),
        lambda predictor: setattr(predictor, "demos", [dspy.Example(question="q", answer="a")]),
        lambda predictor: setattr(predictor, "config", {"temperature": 0.3}),
    ],
)
def test_a_prompt_that_was_changed_tells_a_program_apart(change):
    program = ClosedBook()
    before = program_spec(program)
    change(program.answer)
    after = program_spec(program)
    assert {name for name in after if after[name] != before[name]} == {"prompts"}
    change(program.answer)
    assert program_spec(program) == after


def test_notes_of_an_optimizer_in_a_demonstration_change_no_prompt():
    told = []
    for more in ({}, {"augmented": True}, {"answer": "b"}):
        program = ClosedBook()
        program.answer.demos = [dspy.Example(**{"question": "q", "answer": "a", **more})]
        told.append(program_fingerprint(program))
    assert told[0] == told[1] != told[2]


def test_utility_references_are_told_by_their_entries_and_settings():
    def program(k, *helpful):
        entries = [Entry("q", "Who?", f"passage {place}", one) for place, one in enumerate(helpful)]
        return KEQA(None, reference=UtilityReference(k=k).fit(entries))

    told = [program(1, True), program(2, True), program(1, False), program(1, True, True)]
    specs = [program_spec(one)["reference"] for one in told]
    assert [one["k"] for one in specs] == [1, 2, 1, 1]
    assert len({str(one) for one in specs}) == 4
    assert program_spec(program(1, True))["reference"] == specs[0]
    assert program_spec(KEQA(None, reference=f1))["reference"] == "keqa.metrics.answers.f1"


def test_each_role_is_told_with_its_language_model():
    lms = {role: dspy.LM(f"openai/{role}", temperature=0.0, max_tokens=9) for role in ROLES}
    described = {role: {"model": f"openai/{role}", "max_tokens": 9, "temperature": 0.0} for role in ROLES}
    program = SlimPLM(None, lms=SimpleNamespace(**lms))
    assert models_of(program) == {role: described[role] for role in ("task", "consistency", "boundary")}
    with dspy.context(lm=lms["task"]):
        assert models_of(ClosedBook()) == {"task": described["task"]}
    assert models_of(ClosedBook()) == {"task": {"model": None}}


def test_a_predictor_with_another_language_model_than_its_role_is_told_by_name():
    program = KEQA(None)
    program.set_lm(dspy.LM("openai/a"))
    uniform = models_of(program)
    assert set(uniform) == {"task", "consistency", "utility"}
    program.decomposition.decompose.lm = dspy.LM("openai/b")
    assert models_of(program) == uniform | {"decomposition.decompose": {"model": "openai/b"}}
    program.decomposition.decompose.lm = dspy.LM("openai/c")
    assert models_of(program) == uniform | {"decomposition.decompose": {"model": "openai/c"}}


ROLES = ("task", "consistency", "utility", "boundary")


def test_a_similarity_is_told_by_the_name_of_an_embedder_or_as_a_function():
    assert similarity_fingerprint(EmbeddingSimilarity("hashing-64")) == "hashing-64"
    assert similarity_fingerprint(lexical_similarity) == "keqa.programs.stages.selection.lexical_similarity"

    def own(weight):
        return lambda triples, sentences: [weight] * len(sentences)

    told = [program_spec(KEQA(None, similarity=own(weight)))["settings"]["similarity"] for weight in (0.1, 0.2, 0.1)]
    assert told[0] == told[2] != told[1]
    assert program_spec(KEQA(None))["settings"]["similarity"] is None
    assert program_spec(KEQA(None, similarity="hashing-64"))["settings"]["similarity"] == "hashing-64"


def test_settings_are_described_without_folders_and_fractions_exactly():
    settings = program_spec(KEQA(None, threshold="3/7", workers=2))["settings"]
    assert settings["threshold"] == "3/7"
    assert settings["gate"] == "votes"
    assert settings["examination"] == "Examination"
    assert not {"workers", "demonstrations"} & settings.keys()
    assert lm_spec(dspy.LM("openai/x", guided=[{"grammar": ("/home/me/own.txt", Fraction(1, 2))}]))["guided"] == [
        {"grammar": ["own.txt", "1/2"]}
    ]


def test_a_program_is_told_by_the_parts_of_its_gate():
    def spec(gate):
        return program_spec(KEQA(None, gate=gate))["settings"]["gate"]

    assert spec(CertaintyGate("2/3")) == {
        "kind": "CertaintyGate",
        "threshold": "2/3",
        "form": "by_types",
        "over": "clusters",
        "needs_all_draws": True,
    }
    assert spec(CertaintyGate("1/3")) != spec(CertaintyGate("2/3"))


def test_a_function_that_searches_is_told_by_what_it_does():
    def searching(text):
        return lambda query, k: [text]

    told = [retriever_spec(as_retriever(searching(text))) for text in ("one", "two", "one")]
    assert told[0] == told[2] != told[1]
    assert retriever_spec(None) is None
