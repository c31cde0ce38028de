"""Program folders from strangers: nothing in one sends a key elsewhere, fetches a model, leaves the folder or hangs."""

import copy
import hashlib
import io
import json
import shutil
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import dspy
import numpy as np
import pytest
from fixtures.drawing import at_most
from fixtures.one_quiz import Nesting
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from servers.openai_server import OpenAIServer, markers

import keqa
from keqa.errors import ConfigurationError, KeqaError
from keqa.programs import KEQA
from keqa.programs.baselines.reading import KSLLM
from keqa.programs.reference.embedding import HashingEmbedder, open_embedder
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.stage import Decomposition

HUB = "stranger/embedder"
PART = "examination.quiz"
ENTRIES = [UtilityEntry(f"q{place}", f"Who is {place}?", f"Person {place}.", place % 2 == 0) for place in range(6)]
DEMO = {"quiz": "q", "answer_type": "short", "choices": [], "answer": "a"}
ELSEWHERE = {"api_base": "http://stranger.example/v1"}


class Fetched(HashingEmbedder):
    """A model of the hub."""

    name = HUB


@pytest.fixture
def program():
    made = KEQA(None, reference=UtilityReference(k=4).fit(ENTRIES), tries=3)
    made.examination.quiz.demos = [dspy.Example(**DEMO | {"answer": "Ann"}, augmented=True)]
    return made


@pytest.fixture
def folder(program, tmp_path):
    keqa.save(program, tmp_path / "program")
    return tmp_path / "program"


@pytest.fixture(autouse=True)
def opened(monkeypatch):
    """The names of models that were opened; none is fetched."""
    names: list[str] = []
    monkeypatch.setattr("keqa.programs.reference.embedding.open_model", lambda name: names.append(name) or Fetched())
    return names


def state_of(folder: Path):
    return json.loads((folder / "program.json").read_text())


def write(folder: Path, path: tuple[str, ...], value: Any):
    """Put a value into program.json."""
    state = holder = state_of(folder)
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    (folder / "program.json").write_text(json.dumps(state))


def refused(folder: Path, match: str):
    """It is refused at once, naming the folder."""
    started = time.monotonic()
    with pytest.raises(ConfigurationError, match=match) as error:
        keqa.load(folder, None)
    assert str(folder) in str(error.value)
    assert len(str(error.value)) < 2000
    assert time.monotonic() - started < 20


STRANGE = {
    "config": ELSEWHERE,
    "api_base": "http://stranger.example/v1",
    "lm": {"model": "openai/stranger", **ELSEWHERE},
    "traces": [1],
    "forward": None,
    "__class__": "x",
}


@pytest.mark.parametrize("key", STRANGE)
def test_a_predictor_holds_a_prompt_and_nothing_else(folder, program, tmp_path, key):
    told = rf"examination\.quiz may not hold '{key}'"
    program.save(tmp_path / "state.json")
    state = json.loads((tmp_path / "state.json").read_text())
    state[PART][key] = STRANGE[key]
    (tmp_path / "state.json").write_text(json.dumps(state))
    fresh = KEQA(None, reference=UtilityReference())
    for unsafe in (False, True):
        with pytest.raises(ConfigurationError, match=told):
            fresh.load_state(state, allow_unsafe_lm_state=unsafe)
    with pytest.raises(ConfigurationError, match=told):
        fresh.load(tmp_path / "state.json")
    assert fresh.examination.quiz.config == {}
    write(folder, ("predictors", PART, key), STRANGE[key])
    refused(folder, f"the predictor {told}")


def test_nor_does_the_state_of_a_stage_or_of_a_module_with_a_program(tmp_path):
    stage = Decomposition()
    stage.decompose.lm = bound = dspy.LM("openai/own", api_key="key")
    stage.save(tmp_path / "stage.json")
    state = json.loads((tmp_path / "stage.json").read_text())
    assert state["decompose"]["lm"] is None
    stage.load(tmp_path / "stage.json")
    assert stage.decompose.lm is bound
    state["decompose"]["config"] = ELSEWHERE
    (tmp_path / "stage.json").write_text(json.dumps(state))
    with pytest.raises(ConfigurationError, match="decompose may not hold 'config'"):
        stage.load(tmp_path / "stage.json")
    nesting = Nesting(KEQA(None))
    state = nesting.dump_state()
    state[next(name for name in state if name.endswith("answering.answer"))]["config"] = ELSEWHERE
    with pytest.raises(ConfigurationError, match="config"):
        nesting.load_state(state)
    assert nesting.qa.answering.answer.config == {}


def test_no_request_and_no_key_goes_where_a_folder_says(folder, keqa_command, server, own_index):
    with OpenAIServer(reply=lambda messages, n, body: [markers(answer="stranger")] * n) as stranger:
        for part in state_of(folder)["predictors"]:
            write(folder, ("predictors", part, "config"), {"api_base": stranger.api_base})
        asked = ["--index", own_index, "--lm", "openai/scripted", "--api-base", server.api_base]
        ended = keqa_command("ask", "Who is Bö?", "--program", folder, *asked)
        assert (ended.code, stranger.count, server.count) == (2, 0, 0)
        assert "may not hold 'config'" in " ".join(ended.err.split())


HUGE, DEEP = "1e-999999999", [[[[[[[[[["x"]]]]]]]]]]
WRONG: list[tuple[str, Any, str]] = [
    # What the file holds.
    ("lm", ELSEWHERE, "may not hold 'lm'"),
    *(("files", {name: hashlib.sha256(b"key").hexdigest()}, "names the file") for name in ("../secret.txt", "/etc/x")),
    *(("files", {name: "x"}, "names the file") for name in ("..", "sub/x", "reference.pkl")),
    # What a predictor holds; every kind of it is in tests/programs/calls/test_predictor.py.
    ("predictors", {"other": {}}, "no prompt for the predictor 'other'"),
    (f"predictors {PART} demos", [DEMO] * 1001, "'demos'"),
    (f"predictors {PART} demos", [DEMO | {"answer": "x" * 5_000_000}], "more than 4,000,000 characters"),
    (f"predictors {PART} demos", [DEMO | {"choices": DEEP}], "nested deeper than 8 levels"),
    # Settings.
    ("settings threshold", HUGE, r"program\.json"),
    ("settings threshold", "1" * 5000, r"program\.json"),
    ("settings gate", {"kind": "VoteGate", "threshold": HUGE}, r"program\.json"),
    ("settings gate", {"kind": "RandomGate", "threshold": HUGE}, r"program\.json"),
    *(("settings gate", wrong, r"program\.json") for wrong in ({"kind": ["VoteGate"]}, "VoteGate", 7)),
    *((f"settings {name}", "x", r"program\.json") for name in ("api_base", "lms", "retriever", "reference")),
    *(("settings tries", value, "tries") for value in (10**12, 0, -1, 1.5, "3", True, [3])),
    *((f"settings {name}", 10**12, name) for name in ("top_k", "evidence_sentences", "workers", "max_quizzes")),
    ("settings temperature", "hot", "temperature"),
    ("settings seed", 10**40, "seed"),
    # The utility reference.
    *(("reference embedder", f"hashing-{size}", "program") for size in (10**12, "9" * 5000, 0)),
    ("reference embedder", 7, "program"),
    ("reference k", 10**12, "program"),
    ("reference k", True, "program"),
    ("reference least", -1, "program"),
    ("reference variant", ["similar"], "program"),
    ("reference api_base", "x", "program"),
]


@pytest.mark.parametrize(("path", "value", "match"), WRONG, ids=[f"{one[0]}-{at}" for at, one in enumerate(WRONG)])
def test_what_a_program_may_not_say_is_refused(folder, path, value, match):
    (folder.parent / "secret.txt").write_text("key")
    if path == "settings gate":
        write(folder, ("settings", "threshold"), None)
    if path in ("files", "predictors"):
        value = state_of(folder)[path] | value
    write(folder, tuple(path.split(" ")), value)
    refused(folder, match)


def test_what_optimizers_note_in_demonstrations_is_not_saved(program, tmp_path):
    program.examination.quiz.demos = [dspy.Example(**DEMO, id="7", dspy_split="train"), DEMO | {"id": "8"}]
    keqa.save(program, tmp_path / "program")
    assert [dict(demo) for demo in keqa.load(tmp_path / "program", None).examination.quiz.demos] == [DEMO, DEMO]


# Models that only a folder names.


@pytest.mark.parametrize("name", [HUB, "../elsewhere", "/srv/model", "local/other", "hashing-x", "Hashing", ""])
def test_whatever_name_it_has(folder, name, opened):
    own = state_of(folder)["reference"]["embedder"]
    write(folder, ("reference", "embedder"), name)
    refused(folder, "names the embedding model")
    write(folder, ("reference", "embedder"), own)
    write(folder, ("settings", "similarity"), name)
    refused(folder, "names the embedding model .* for the comparison of sentences")
    assert opened == []


def test_nor_is_one_that_a_state_of_dspy_names(program, opened):
    state = program.dump_state()
    state["picking.reference"]["embedder"] = HUB
    with pytest.raises(ConfigurationError, match="is not opened unless you name it"):
        KEQA(None, reference=UtilityReference()).load_state(state)
    assert opened == []
    KEQA(None, reference=UtilityReference(open_embedder(HUB))).load_state(state)
    assert opened == [HUB]


@pytest.mark.parametrize("method", [KEQA, KSLLM])
def test_a_similarity_is_named_by_the_user_as_well(tmp_path, opened, method):
    keqa.save(method(None, similarity=HUB), tmp_path / "program")
    del opened[:]
    refused(tmp_path / "program", rf"names the embedding model '{HUB}' for the comparison of sentences")
    assert opened == []
    for named in ({"embedder": f"/models/{HUB}"}, {"similarity": HUB}, {"similarity": None}):
        assert keqa.load(tmp_path / "program", None, **named)
    with pytest.raises(ConfigurationError, match="for the comparison of sentences"):
        keqa.load(tmp_path / "program", None, embedder="another/model")
    assert opened[0] == f"/models/{HUB}"
    # No folder of this machine is in what is given away.
    keqa.save(method(None, similarity=str(tmp_path / "minilm")), tmp_path / "portable")
    held = (tmp_path / "portable" / "program.json").read_text()
    assert '"minilm"' in held
    assert str(tmp_path) not in held


def test_the_command_line_names_it_too(program, tmp_path, keqa_command, server, own_index, opened):
    program.picking.reference = UtilityReference(Fetched(), k=4).fit(ENTRIES)
    keqa.save(program, tmp_path / "program")
    (tmp_path / "q.jsonl").write_text('{"question": "Who is Bö?", "answer": "Ann"}\n')
    asked = ["--index", own_index, "--lm", "openai/scripted", "--api-base", server.api_base]
    asked += ["--program", tmp_path / "program", "--unanswered", "guess"]
    for command in (["ask", "Who?"], ["evaluate", "keqa", "-q", tmp_path / "q.jsonl", "--out", tmp_path / "runs"]):
        ended = keqa_command(*command, *asked)
        assert (ended.code, "--embedder NAME" in " ".join(ended.err.split()), opened) == (2, True, [])
        ended = keqa_command(*command, *asked, "--embedder", HUB)
        assert (ended.code, opened) == (0, [HUB]), ended.err
        del opened[:]
    ended = keqa_command("ask", "Who?", "--embedder", HUB)
    assert (ended.code, "--embedder needs --program" in ended.err) == (2, True)


# Files: what their one reader refuses is in tests/storage/test_untrusted.py.


@pytest.mark.parametrize("name", ["program.json", "reference.jsonl"])
def test_every_file_is_a_plain_one_of_the_folder_and_no_larger_than_what_is_read(folder, name):
    (folder / name).rename(folder.parent / "elsewhere")
    (folder / name).symlink_to(folder.parent / "elsewhere")
    refused(folder, "a regular file is expected there")
    (folder / name).unlink()
    with (folder / name).open("wb") as stream:
        stream.truncate(1 << 42)
    refused(folder, "the most that is read")
    (folder / "program.json").write_text('{"a":' * 100_000)
    refused(folder, "nested too deeply")


def with_file(folder: Path, name: str, content: bytes):
    """A file with its digest, as a stranger would write it."""
    (folder / name).write_bytes(content)
    write(folder, ("files", name), hashlib.sha256(content).hexdigest())


ENTRY = {"root": "a", "quiz": "q", "passage": "p", "helpful": True}


@pytest.mark.parametrize(
    "line",
    [
        "7",
        "[]",
        json.dumps(ENTRY | {"more": 1}),
        json.dumps(ENTRY | {"helpful": "yes"}),
        json.dumps(ENTRY | {"root": ["a"]}),
        '{"root": NaN}',
    ],
)
def test_what_entries_are_refused(folder, line):
    with_file(folder, "reference.jsonl", f"{json.dumps(ENTRY)}\n{line}\n".encode())
    refused(folder, r"reference\.jsonl, line 2,")


NOT_FINITE, WIDE = np.full((6, 2048), np.nan, np.float32), np.zeros((6, 2048), np.float64)
VAST = "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 100000000000)}\n"


@pytest.mark.parametrize("rows", [np.array([{}] * 6), np.zeros((6, 2, 1024), np.float32), NOT_FINITE, WIDE, VAST, ""])
def test_what_vectors_are_refused(folder, rows):
    stream = io.BytesIO()
    if isinstance(rows, str):
        stream.write(b"\x93NUMPY\x01\x00" + len(rows).to_bytes(2, "little") + rows.encode())
    else:
        np.save(stream, rows, allow_pickle=True)
    with_file(folder, "reference.npy", stream.getvalue())
    refused(folder, r"reference\.npy")


# Anything else.

PLAIN = [None, True, 0, -1, 1.5, 10**30, 1e300, "", "x", HUGE, "\ud800", "\x1b]0;x\x07"]
ODD = st.sampled_from([*PLAIN, [], {}, [[]], [None], {"a": 1}]) | st.text(max_size=8)


def paths(value: Any, here: tuple = ()):
    """Every place in a JSON value."""
    found = [here] if here else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return found + [path for key, part in inner for path in paths(part, (*here, key))]


def mutate(state: Any, path: tuple, data: Any):
    """Delete, replace or insert at a place."""
    holder: Any = state
    for key in path[:-1]:
        holder = holder[key]
    kind = data.draw(st.sampled_from(["delete", "replace", "insert", "copy"]))
    if kind == "delete":
        del holder[path[-1]]
    elif kind == "replace":
        holder[path[-1]] = data.draw(ODD)
    elif kind == "copy":
        holder[path[-1]] = copy.deepcopy(state[data.draw(st.sampled_from(sorted(state)))])
    elif isinstance(holder, dict):
        holder[data.draw(st.sampled_from(["config", "lm", "n", "x", "demos", "kind"]))] = data.draw(ODD)
    else:
        holder.insert(0, data.draw(ODD))


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A valid program; every example writes another one over it."""
    made = KEQA(None, reference=UtilityReference(k=4).fit(ENTRIES), tries=3)
    made.examination.quiz.demos = [dict(DEMO)]
    place = tmp_path_factory.mktemp("shelf") / "program"
    keqa.save(made, place)
    shutil.copy(place / "program.json", place.parent / "valid.json")
    return place


@pytest.mark.slow
@settings(max_examples=at_most(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_is_changed_it_is_a_program_or_a_typed_error(shelf, opened, monkeypatch, data):
    def unreachable(*args: Any):
        raise AssertionError("a program folder made a connection")

    monkeypatch.setattr(socket.socket, "connect", unreachable)
    state = json.loads((shelf.parent / "valid.json").read_text())
    places = paths(state)
    for _ in range(data.draw(st.integers(1, 3))):
        # An earlier change may have taken the place of a later one away.
        with suppress(LookupError, TypeError, AttributeError):
            mutate(state, data.draw(st.sampled_from(places)), data)
    (shelf / "program.json").write_text(json.dumps(state))
    started = time.monotonic()
    try:
        loaded = keqa.load(shelf, None)
    except KeqaError:
        loaded = None
    assert time.monotonic() - started < 20
    assert opened == []
    for predictor in [] if loaded is None else loaded.predictors():
        assert (predictor.config, predictor.lm, predictor.traces, predictor.train) == ({}, None, [], [])
