"""Saving and loading: what is in the folder, what is refused, and what other language models make of it."""

import json
import os
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import dspy
import numpy as np
import pytest
from fixtures.boundary import make_model
from fixtures.choosers import chooser
from fixtures.command_line import reply as of_carmouth
from servers.openai_server import OpenAIServer, markers

import keqa
from keqa.errors import ConfigurationError, InputError, KeqaError
from keqa.programs import KEQA
from keqa.programs import saving as files
from keqa.programs.baselines import KBM, AlwaysRetrieve, ClosedBook, IRCoT, ReAct
from keqa.programs.boundary import Judgement
from keqa.programs.boundary.chooser import Choice
from keqa.programs.fingerprint import program_fingerprint
from keqa.programs.gates import (
    AlwaysRetrieveGate,
    BoundaryGate,
    CertaintyGate,
    ConfidenceGate,
    LexicalSimilarityGate,
    NeverRetrieveGate,
    ProbabilityGate,
    PromptGate,
    RandomGate,
    VoteGate,
)
from keqa.programs.reference.embedding import HashingEmbedder
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.registry import METHODS, compilable, load_class, made, name_of
from keqa.programs.saved_settings import is_own, settings_of
from keqa.programs.saving import about, check_apart, check_place, check_sources, save
from keqa.retrievers import open_index

QUESTION = "To whom is the mayor of Carmouth married?"
SECRET = "sk-very-secret-0123456789"

ENTRIES = [
    UtilityEntry(
        f"q{place}", f"To whom is person {place} married?", f"Person {place}: married Ann {place}.", place % 3 > 0
    )
    for place in range(12)
]


class Embedder(HashingEmbedder):
    """An embedder of one's own, or a model in a folder."""

    name = ""

    def __init__(self, name="own/embedder", dimension=1024):
        super().__init__(dimension)
        self.name = str(name)


@pytest.fixture
def program():
    """A program with something found for every part."""
    made = KEQA(
        None, reference=UtilityReference(k=6).fit(ENTRIES), tries=4, threshold="3/4", top_k=3, unanswered="guess"
    )
    decompose = made.decomposition.decompose
    decompose.demos = [dspy.Example(question="Who is Bö 安?", quizzes=["Who is Bö?"], augmented=True)]
    decompose.signature = decompose.signature.with_instructions("Take the question apart.")
    return made


@pytest.fixture
def saved(program, tmp_path):
    keqa.save(program, tmp_path / "program", command="keqa compile train.jsonl", tuning=[{"alpha": "3/4", "f1": 0.5}])
    return tmp_path / "program"


@pytest.fixture
def cot(tmp_path):
    """A chain of thought, saved."""
    keqa.save(ClosedBook(reason=True), tmp_path / "cot")
    return tmp_path / "cot"


def change(folder: Path, **parts: Any):
    """Rewrite parts of program.json."""
    path = folder / "program.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | parts))


def test_what_was_saved_comes_back(program, saved):
    loaded = keqa.load(saved, None)
    assert loaded.dump_state() == program.dump_state() | {
        name: state | {"demos": [dict(demo) for demo in state["demos"]]}
        for name, state in program.dump_state().items()
        if "demos" in state
    }
    reference = loaded.picking.reference
    assert (reference.entries, reference.settings()) == (program.picking.reference.entries, reference.settings())
    asked = ("To whom is person 3 married?", "Person 3: married Ann 3.")
    assert reference(*asked) == program.picking.reference(*asked)
    assert loaded.decomposition.decompose.signature.instructions == "Take the question apart."
    assert loaded.decomposition.decompose.demos[0]["question"] == "Who is Bö 安?"
    assert (loaded.examination.tries, str(loaded.examination.gate.threshold), loaded.top_k) == (4, "3/4", 3)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if compilable(method)])
def test_every_method_comes_back_as_it_was(name, tmp_path):
    cls = load_class(METHODS[name].target)
    program = made(cls, None, None, {**METHODS[name].fixed, "workers": 3, "max_question_chars": 90})
    for predictor in program.predictors():
        predictor.signature = predictor.signature.with_instructions("Other words.")
        predictor.demos = [dict.fromkeys(predictor.signature.fields)]
    keqa.save(program, tmp_path / "program")
    assert about(tmp_path / "program")["method"] == name == name_of(program)
    loaded = keqa.load(tmp_path / "program", None, method=name)
    assert type(loaded) is cls
    assert loaded.dump_state() == program.dump_state()
    assert loaded.bound.workers == 3


# What brings parts along, and every gate that may be saved.
VARIANTS = [
    {"gate": CertaintyGate(Fraction(2, 3), "by_types", "types")},
    {"gate": CertaintyGate(Fraction(-3, 2))},
    {"gate": AlwaysRetrieveGate()},
    {"gate": NeverRetrieveGate()},
    {"gate": VoteGate(Fraction(1, 3), name="lenient")},
    {"gate": LexicalSimilarityGate(Fraction(0), "token_f1")},
    {"gate": ConfidenceGate(Fraction(9, 10))},
    {"gate": ProbabilityGate(Fraction(1, 7))},
    {"gate": RandomGate(Fraction(1), seed=3)},
    {"gate": PromptGate()},
    {"gate": BoundaryGate(make_model(), "certainty", "3/4")},
    {"draft": True, "cite": True},
    {"listwise": True, "select": "instead", "similarity": "hashing-64"},
    {"unanswered": "raise", "look_first": False},
    {"style": "report", "unanswered": "say"},
    {"settle": "cascade", "chooser": chooser(0.9, {"draft": 0.3, "reading": 0.6}, onward=[0.7])},
    {"settle": "reading", "arbiter": chooser(0.5, {})},
]


@pytest.mark.parametrize("settings", VARIANTS)
def test_a_keqa_comes_back_with_the_parts_that_its_settings_bring(settings, tmp_path):
    program = KEQA(None, **settings)
    for predictor in program.predictors():
        predictor.demos = [dict.fromkeys(predictor.signature.fields)]
    keqa.save(program, tmp_path / "program")
    stated = KEQA(None)
    stated.load_state(program.dump_state())
    for again in (keqa.load(tmp_path / "program", None), stated):
        assert (settings_of(again), again.dump_state()) == (settings_of(program), program.dump_state())
        assert program_fingerprint(again) == program_fingerprint(program) != program_fingerprint(KEQA(None))


@dataclass(frozen=True)
class OwnGate(VoteGate):
    """A gate that is code of the user's."""

    name: str = "own"


class OwnChooser:
    """A chooser that is code of the user's."""

    steps = (1, 2)

    def __init__(self, right=0.9):
        self.right = right

    def choose(self, seen):
        return Choice("draft", (self.right, 1 - self.right)[: len(seen.answers)])


class OwnBoundary:
    """A boundary model that is code of the user's."""

    reads, uses_probabilities = "quiz", False

    def __init__(self, weight=1):
        self.weight = weight

    def judge(self, quiz, draws, reference=None):
        return Judgement(mastery=0.9, certainty=0.9)

    def written(self):
        return {"weight": self.weight}

    spec = written


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("gate", OwnGate()),
        ("gate", BoundaryGate(OwnBoundary())),
        ("similarity", lambda triples, sentences: [0.0] * len(sentences)),
        ("chooser", OwnChooser()),
        ("arbiter", OwnChooser()),
    ],
)
def test_what_is_code_of_the_users_has_to_be_given_again(name, own, tmp_path):
    program = KEQA(None, tries=3, **{name: own})
    assert is_own(settings_of(program)[name])
    keqa.save(program, tmp_path / "program")
    stated = KEQA(None, **{name: own})
    stated.load_state(program.dump_state())
    for again in (keqa.load(tmp_path / "program", None, **{name: own}), stated):
        assert (again.tries, getattr(again, name)) == (3, own)
    for load in (lambda: keqa.load(tmp_path / "program", None), lambda: KEQA(None).load_state(program.dump_state())):
        with pytest.raises(ConfigurationError, match=f"compiled with a {name} of your own; give it again as {name}=…"):
            load()


@pytest.mark.parametrize(
    "made",
    [
        lambda value: KEQA(None, chooser=OwnChooser(value)),
        lambda value: KEQA(None, gate=BoundaryGate(OwnBoundary(value))),
        lambda value: KBM(None, model=OwnBoundary(value)),
    ],
)
def test_a_part_of_ones_own_is_told_by_what_it_holds(made):
    first, same, other = (program_fingerprint(made(one)) for one in (0.9, 0.9, 0.8))
    assert first == same != other


def test_a_method_is_loaded_with_a_boundary_model_of_ones_own(tmp_path):
    own = OwnBoundary()
    keqa.save(KBM(None, model=own, top_k=3), tmp_path / "program")
    again = keqa.load(tmp_path / "program", None, model=own)
    assert (again.top_k, again.model) == (3, own)
    with pytest.raises(ConfigurationError, match="compiled with a model of your own; give it again as model=…"):
        keqa.load(tmp_path / "program", None)


def test_the_folder_tells_its_story(saved):
    assert sorted(path.name for path in saved.iterdir()) == ["program.json", "reference.jsonl"]
    state = json.loads((saved / "program.json").read_text())
    assert (state["format"], state["version"], state["keqa"]) == ("keqa-program", 1, keqa.__version__)
    assert state["settings"]["threshold"] == "3/4"
    assert state["reference"] == {"embedder": "hashing", "k": 6, "least": 2, "variant": "similar"}
    assert state["predictors"]["decomposition.decompose"]["signature"]["instructions"] == "Take the question apart."
    prompt = state["signatures"]["picking.judge"]
    assert (prompt["signature"], prompt["instructions"][:32]) == ("JudgeUtility", "Judge whether the passage helps ")
    assert prompt["fields"][-1] == {"name": "helpful", "kind": "output", "type": "bool"}
    lines = (saved / "reference.jsonl").read_text().splitlines()
    first = {"root": "q0", "quiz": "To whom is person 0 married?", "passage": "Person 0: married Ann 0."}
    assert (len(lines), json.loads(lines[0])) == (12, {**first, "helpful": False})
    told = about(saved)
    assert (told["command"], told["tuning"]) == ("keqa compile train.jsonl", [{"alpha": "3/4", "f1": 0.5}])
    assert (told["created"][:2], told["method"], state["method"]) == ("20", "keqa", "keqa")


def test_text_is_saved_as_it_is_half_a_surrogate_pair_and_an_address_too(program, tmp_path):
    entry = UtilityEntry("a", "Where?", "See https://example.org/page", True)
    program.picking.reference.fit([entry])
    program.summarizing.summarize.demos = [{"question": "half \ud800", "answer": "Ann"}]
    keqa.save(program, tmp_path / "program")
    loaded = keqa.load(tmp_path / "program", None)
    assert loaded.summarizing.summarize.demos[0]["question"] == "half \ud800"
    assert loaded.picking.reference.entries == (entry,)


def test_settings_may_be_replaced(saved):
    loaded = keqa.load(saved, None, top_k=7, threshold="1/2", examine=False)
    assert (loaded.top_k, str(loaded.examination.gate.threshold), loaded.examine) == (7, "1/2", False)
    assert loaded.examination.tries == 4
    for given in ({"retriever": 5}, {"retriever": None, "lms": "openai/gpt-4o-mini"}):
        with pytest.raises(ConfigurationError, match=r"^keqa.load: (retriever|lms) must be"):
            keqa.load(saved, **given)


def test_embeddings_of_a_model_are_saved(program, tmp_path):
    program.picking.reference = UtilityReference(Embedder()).fit(ENTRIES)
    keqa.save(program, tmp_path / "program")
    vectors = np.load(tmp_path / "program" / "reference.npy", allow_pickle=False)
    assert vectors.shape == (12, 2048)
    reference = keqa.load(tmp_path / "program", None, embedder=Embedder()).picking.reference
    assert np.array_equal(reference.index.vectors(), vectors)
    # By another name, the same.
    assert keqa.load(tmp_path / "program", None, embedder=HashingEmbedder()).picking.reference.entries == tuple(ENTRIES)
    with pytest.raises(ConfigurationError, match="the vectors are not those"):
        keqa.load(tmp_path / "program", None, embedder=Embedder(dimension=512))


def test_an_embedder_that_saves_no_vectors_is_known_by_its_name(saved, program):
    with pytest.raises(ConfigurationError, match="'hashing', not this one"):
        keqa.load(saved, None, embedder=HashingEmbedder(16))
    program.picking.reference = UtilityReference(HashingEmbedder(16)).fit(ENTRIES)
    keqa.save(program, saved)
    assert keqa.load(saved, None).picking.reference.embedder.name == "hashing-16"


def test_a_model_in_a_folder_is_found_wherever_it_lies_now(program, tmp_path, monkeypatch):
    program.picking.reference = UtilityReference(Embedder(tmp_path / "here" / "minilm")).fit(ENTRIES)
    keqa.save(program, tmp_path / "program")
    assert json.loads((tmp_path / "program" / "program.json").read_text())["reference"]["embedder"] == "minilm"
    assert str(tmp_path).encode() not in b"".join(path.read_bytes() for path in (tmp_path / "program").iterdir())
    elsewhere = Embedder(tmp_path / "there" / "minilm")
    loaded = keqa.load(tmp_path / "program", None, embedder=elsewhere)
    assert np.array_equal(loaded.picking.reference.index.vectors(), program.picking.reference.index.vectors())
    opened = []
    monkeypatch.setattr("keqa.programs.reference.embedding.open_model", lambda name: opened.append(name) or elsewhere)
    with pytest.raises(ConfigurationError, match=r"names the embedding model 'minilm' .*keqa\.load\(…, embedder=NAME"):
        keqa.load(tmp_path / "program", None)
    assert opened == []
    loaded = keqa.load(tmp_path / "program", None, embedder=elsewhere.name)
    assert opened == [elsewhere.name]
    assert np.array_equal(loaded.picking.reference.index.vectors(), program.picking.reference.index.vectors())


# Other language models.

DEMO = {"question": "Who?", "answer_type": "short", "choices": [], "reasoning": "So.", "answer": "Ann"}
DEMO |= {"passages": ["Ann is she."], "evidence": [], "triples": [], "thoughts": [], "thought": "It is Ann."}
DEMO |= {"trajectory": "[[ ## thought_0 ## ]]\nLook.", "next_thought": "Look.", "next_tool_name": "search"}
DEMO |= {"next_tool_args": {"query": "Who?"}}


def reply(messages, n, body):
    """To each method's prompts one reply; what is concluded by reasoning tells how many demonstrations were shown."""
    system, shown = messages[0]["content"], (len(messages) - 2) // 2
    if "next_tool_name" in system:
        finish = {"next_thought": "t", "next_tool_name": "finish", "next_tool_args": "{}"}
        return [markers(**finish)] * n
    if "`thought`" in system:
        return [markers(thought="So the answer is Heidi.")] * n
    if "`reasoning`" in system:
        return [markers(reasoning=f"{shown} shown", answer="Heidi")] * n
    return of_carmouth(messages, n, body)


def test_it_answers_alike_with_other_language_models_in_their_roles(program, own_index, tmp_path):
    programs = {"keqa": program, "rag": AlwaysRetrieve(None), "cot": ClosedBook(reason=True)}
    programs |= {"ircot": IRCoT(None), "react": ReAct(None)}
    for name, own in programs.items():
        for predictor in () if name == "keqa" else own.predictors():
            predictor.demos = [{field: DEMO[field] for field in predictor.signature.fields}]
        keqa.save(own, tmp_path / name)

    def answers(*models, **addresses):
        lms = keqa.build_roles(*models, **addresses, temperature=0.0, cache=False)
        loaded = {name: keqa.load(tmp_path / name, open_index(own_index), lms, method=name) for name in programs}
        predictions = {name: one(QUESTION) for name, one in loaded.items()}
        return {name: [one.answer, one.explanation, one.record.cost.calls] for name, one in predictions.items()}

    with OpenAIServer(reply=reply) as server, OpenAIServer(reply=reply) as judges:
        told = answers("openai/scripted", api_base=server.api_base)
        asked = sorted(json.dumps(call.body["messages"]) for call in server.calls)
        assert sum(": married Ann " in prompt for prompt in asked) == 2
        server.calls.clear()
        places = {"consistency_api_base": judges.api_base, "utility_api_base": judges.api_base}
        assert answers("openai/other", "openai/judge", "openai/picker", api_base=server.api_base, **places) == told
        assert {call.body["model"] for call in server.calls} == {"other"}
        assert {call.body["model"] for call in judges.calls} == {"judge", "picker"}
        assert sum(call.body["model"] == "picker" for call in judges.calls) == 2
        assert sorted(json.dumps(call.body["messages"]) for call in [*server.calls, *judges.calls]) == asked
    assert told["cot"] == ["Heidi", "1 shown", 1]
    assert told["react"][2] == told["ircot"][2] == 2


# Secrets.


def test_no_key_endpoint_or_header_is_in_any_file(program, tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "environment-key-98765")
    lms = keqa.build_roles(
        "openai/gpt-secretive",
        api_base="http://10.1.2.3:8000/v1",
        api_key=SECRET,
        extra_headers={"Authorization": "Bearer header-token-4711", "X-Team": "team-blue-42"},
    )
    program.bind_lms(lms)
    program.set_lm(lms.task)
    command = f"keqa compile --api-base http://10.1.2.3:8000/v1 --key {SECRET}"
    history = {"tried": [f"refused: environment-key-98765 at https://u:p@host.example/v1?x=1, {SECRET}"]}
    keqa.save(program, tmp_path / "program", command=command, history=history, where=Path("runs"))
    for path in (tmp_path / "program").iterdir():
        content = path.read_bytes()
        for secret in (SECRET, "10.1.2.3", "host.example", "header-token", "team-blue", "environment-key", "gpt-secre"):
            assert secret.encode() not in content, (path, secret)
    told = about(tmp_path / "program")
    assert told["command"] == "keqa compile --api-base <address> --key <secret>"
    assert told["history"] == {"tried": ["refused: <secret> at <address> <secret>"]}
    assert told["where"] == "runs"
    assert program.picking.judge.lm is lms.task


# What is refused.


@pytest.mark.parametrize(
    ("drift", "told"),
    [
        (lambda found, judge: judge.update(instructions="Guess."), "the instructions of {} have changed"),
        (lambda found, judge: judge["fields"][-1].update(type="str"), "the fields of {} have changed"),
        (lambda found, judge: judge["fields"].reverse(), "the fields of {} have changed"),
        (lambda found, judge: found.update({"picking.oracle": judge}), r"picking\.oracle is gone"),
        (lambda found, judge: found.pop("picking.judge"), r"picking\.judge is new"),
    ],
)
def test_a_drifted_signature_is_refused(saved, drift, told):
    signatures = json.loads((saved / "program.json").read_text())["signatures"]
    drift(signatures, signatures["picking.judge"])
    change(saved, signatures=signatures)
    told = told.format(r"picking\.judge \(JudgeUtility\)")
    with pytest.raises(ConfigurationError, match=rf"compiled for other prompts: {told}\. Compile the program again"):
        keqa.load(saved, None)


@pytest.mark.parametrize("content", [None, '{"format": "keqa-index"}', "[]"])
def test_where_no_program_is(tmp_path, content):
    if content:
        (tmp_path / "program.json").write_text(content)
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(InputError, match="compiled program"):
            keqa.load(place, None)


@pytest.mark.parametrize("part", ["settings", "files", "signatures", "predictors", "about", "created", "learned"])
@pytest.mark.parametrize("value", [7, {"x": {}}, {"train": []}])
def test_a_part_that_is_none_is_refused(saved, part, value):
    change(saved, **{part: 7 if part == "about" else value})
    with pytest.raises(ConfigurationError):
        keqa.load(saved, None)


def test_a_reference_that_was_cut_off_or_is_missing_is_refused(saved):
    path = saved / "reference.jsonl"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(ConfigurationError, match=r"reference\.jsonl is not the file that was saved"):
        keqa.load(saved, None)
    path.unlink()
    with pytest.raises(ConfigurationError, match=r"reference\.jsonl is missing"):
        keqa.load(saved, None)


def test_what_cannot_be_saved_is_refused(tmp_path, program, monkeypatch):
    with pytest.raises(ConfigurationError, match="with a UtilityReference or with none"):
        keqa.save(KEQA(None, reference=lambda quiz, passage: []), tmp_path / "program")
    program.answering.answer = dspy.Predict("question -> answer")
    with pytest.raises(ConfigurationError, match=r"cannot be saved: the fields of answering\.answer"):
        keqa.save(program, tmp_path / "program")
    monkeypatch.setitem(files._LIMITS, files._PROGRAM, 1000)
    with pytest.raises(ConfigurationError, match=r"cannot be saved: program\.json would have [\d,]+ bytes"):
        save(KEQA(None), tmp_path / "program")
    assert not (tmp_path / "program").exists()


# Writing.


def test_an_older_program_is_replaced_also_by_one_with_an_empty_reference_or_none(program, saved):
    program.picking.reference = UtilityReference(variant="random")
    keqa.save(program, saved)
    reference = keqa.load(saved, None).picking.reference
    assert (reference.entries, reference.variant) == ((), "random")
    program.picking.reference = None
    program.top_k = 9
    keqa.save(program, saved)
    assert keqa.load(saved, None).top_k == 9
    assert [path.name for path in saved.iterdir()] == ["program.json"]
    assert [path.name for path in saved.parent.iterdir()] == ["program"]


def test_other_files_are_never_lost_which_is_known_beforehand(program, saved, tmp_path):
    for free in (saved, tmp_path / "new", tmp_path / "new" / "program"):
        check_place(free)
    (saved / "thesis.txt").write_text("years of work")
    for place, told in ((saved, r"holds other files \(thesis\.txt\)"), (saved / "thesis.txt", "is a file")):
        with pytest.raises(InputError, match=rf"{told}; name a"):
            check_place(place)
        with pytest.raises(InputError, match=told):
            keqa.save(program, place)
    assert (saved / "thesis.txt").read_text() == "years of work"
    for number in range(4):
        (saved / f"{number}.txt").touch()
    with pytest.raises(InputError, match=r"\(0\.txt, 1\.txt, 2\.txt\)"):
        check_place(saved)


@pytest.mark.parametrize(
    ("then", "told"),
    [
        ({"sources": {"data": "1", "lm": "2"}}, None),
        ({"sources": {"data": "1", "lm": "2", "more": "3"}}, None),
        ({"sources": {"data": "1", "lm": "3"}}, "compiled from other sources (lm), and"),
        ({"sources": {"other": "1"}}, "compiled from other sources (data, lm), and"),
        ({"sources": {}}, "compiled from sources that it does not name, and"),
        ({"sources": "all"}, "compiled from sources that it does not name, and"),
        ({}, "compiled from sources that it does not name, and"),
    ],
)
def test_a_program_of_other_sources_is_not_replaced(program, tmp_path, then, told):
    folder = tmp_path / "program"
    check_sources(folder, {"data": "1"})
    keqa.save(program, folder, **then)
    if told is None:
        check_sources(folder, {"data": "1", "lm": "2"})
        return
    told = (
        f"holds a program that was {told} would be replaced: name another folder, or say that it shall be, with --for"
    )
    with pytest.raises(InputError, match=re.escape(told)):
        check_sources(folder, {"data": "1", "lm": "2"})
    (folder / "program.json").write_text("{")
    with pytest.raises(InputError, match="holds a program that cannot be read, and would be replaced: name another"):
        check_sources(folder, {})


def test_finished_work_is_kept_beside_a_program_and_not_in_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for beside in (tmp_path, tmp_path / "work", "program2"):
        check_apart("program", beside)
    for within in ("program", "program/work", tmp_path / "other" / ".." / "program", tmp_path / "program" / "work"):
        with pytest.raises(InputError, match="where finished work is kept, is or lies in program, which"):
            check_apart("program", within)


@pytest.mark.parametrize("folder", [None, 3, ["here"], b"here"])
def test_a_folder_is_a_path(program, folder):
    for use in (lambda: keqa.save(program, folder), lambda: keqa.load(folder, None)):
        with pytest.raises(InputError, match=re.escape(f"a program is a folder: give its path, not {folder!r}")):
            use()


@pytest.mark.parametrize(
    ("version", "named"), [("0.9.1", "0.9.1"), ("no version", "unknown"), (None, "unknown"), ("1" * 41, "unknown")]
)
def test_a_newer_format_names_the_version_that_reads_it(saved, version, named):
    change(saved, version=2, keqa=version)
    told = (
        rf"format version 2, this version of KEQA reads 1\. Use the version that wrote it \(keqa {named}\), or compile"
    )
    with pytest.raises(ConfigurationError, match=told):
        keqa.load(saved, None)


@pytest.mark.parametrize("step", ["write", "rename", "second rename"])
def test_a_save_that_fails_leaves_the_older_program(program, saved, monkeypatch, step):
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    renamed = []
    real = Path.rename

    def fail(*args: Any):
        raise OSError("disk full")

    def rename(self: Path, target: Path):
        renamed.append(target)
        if len(renamed) == {"rename": 1, "second rename": 2}[step]:
            raise OSError("disk full")
        return real(self, target)

    if step == "write":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        monkeypatch.setattr(Path, "rename", rename)
    program.top_k = 9
    with pytest.raises(InputError, match="cannot be written: disk full"):
        keqa.save(program, saved)
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
    assert [path.name for path in saved.parent.iterdir()] == ["program"]


def test_the_program_that_ships_has_a_name_unless_a_folder_has_it(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "testbed").mkdir()
    assert keqa.load("testbed", None).picking.reference.entries[0].root.startswith("train-")
    keqa.save(program, "testbed")
    assert keqa.load("testbed", None).picking.reference.entries[0].root == "q0"


# Other methods than KEQA, and arguments that are none.


@pytest.mark.parametrize("name", ["telepathy", "cot-few-shot", "keqa-full"])
def test_a_method_that_is_another_or_not_known_is_refused(cot, name):
    with pytest.raises(InputError, match="holds a compiled cot, not rag: give a program that was compiled for that"):
        keqa.load(cot, None, method="rag")
    change(cot, method=name)
    with pytest.raises(ConfigurationError, match=f"unknown method '{name}': .* of your own, which is registered"):
        keqa.load(cot, None)


def test_settings_that_a_method_has_not_are_refused(cot):
    with pytest.raises(ConfigurationError, match="cot has no top_k; it has demonstrations, max_question_chars"):
        keqa.load(cot, None, top_k=3)
    with pytest.raises(ConfigurationError, match="compiled for other prompts: the fields of answer"):
        keqa.load(cot, None, reason=False)
    change(cot, settings={"reason": True, "depth": 3})
    with pytest.raises(ConfigurationError, match=r"unknown settings \['depth'\]"):
        keqa.load(cot, None)


class Own(IRCoT):
    """A method of one's own."""


def test_a_class_of_ones_own_cannot_be_saved(tmp_path):
    with pytest.raises(ConfigurationError, match=r"only a KEQA can be saved.*: register a class of your own"):
        keqa.save(Own(None), tmp_path / "program")
    assert not (tmp_path / "program").exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"embedder": 5}, "keqa.load: embedder must be an embedder, or the name of one, not 5"),
        ({"reference": None}, "keqa has no reference; it has arbiter, chooser, cite, decompose,"),
        ({"colour": "red"}, "keqa has no colour; it has arbiter, chooser, cite, decompose,"),
    ],
)
def test_arguments_of_loading_that_are_none_are_refused_in_one_line(tmp_path, wrong, message):
    keqa.save(KEQA(None), tmp_path / "program")
    with pytest.raises(KeqaError, match=message) as refused:
        keqa.load(**{"folder": tmp_path / "program", "retriever": None, **wrong})
    assert "\n" not in str(refused.value)
