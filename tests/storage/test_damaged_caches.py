"""Caches that a stranger wrote, or that are damaged: passed over or refused, and nothing in them runs."""

import os
import sqlite3
from contextlib import closing
from itertools import cycle

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.openai_server import OpenAIServer, markers

from keqa.errors import InputError
from keqa.evaluation.evaluate import evaluate
from keqa.lms import build_roles
from keqa.programs.baselines import ClosedBook
from keqa.programs.calls.call_cache import CallCache, is_sound
from keqa.programs.gates import VoteGate
from keqa.programs.keqa import KEQA
from keqa.programs.shared_draws import SharedDraws
from keqa.retrievers.caching import _is_sound as hits_are_sound
from keqa.storage.journal import SqliteStore

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
DAMAGED = [
    "5",
    "null",
    "[]",
    "{}",
    "not JSON",
    "[" * 100_000,
    '{"usage": NaN}',
    '{"usage": {}}',
    '{"usage": {}, "record": 5}',
    '{"usage": {"prompt_tokens": -5}, "record": {}}',
    '{"usage": {}, "record": {"_dspy_format": 1, "outputs": [5]}}',
    '{"usage": {}, "reply": {}, "kind": "ModelResponse"}',
    '{"usage": {}, "reply": {"choices": [{"message": {"content": 5}}]}, "kind": "ModelResponse"}',
    '{"usage": {}, "reply": {"model": "x", "messages": [], "api_base": "http://x"}, "kind": "completion"}',
    '{"usage": {}, "reply": {}, "kind": "os"}',
]


def damage(path, values):
    """Writes other values over all that are kept, and says how many."""
    with closing(sqlite3.connect(path)) as file, file:
        keys = file.execute("SELECT key FROM calls").fetchall()
        file.executemany("UPDATE calls SET value = ? WHERE key = ?", [(v, k) for v, (k,) in zip(cycle(values), keys)])
    return len(keys)


@pytest.mark.server
def test_a_damaged_answer_is_asked_for_again(tmp_path):
    values = [*DAMAGED, b"\xff\x00"]
    questions = [{"question": f"Where is {n}?", "answer": "x"} for n, _ in enumerate(values)]
    with OpenAIServer(reply=lambda messages, n, body: [markers(answer="x")] * n) as server:
        program = ClosedBook(lms=build_roles("openai/scripted", api_base=server.api_base, num_retries=0))
        for label in ("first", "second", "third"):
            with CallCache(tmp_path / "calls.sqlite") as cache:
                assert evaluate(program, questions, out=tmp_path / f"{label}.jsonl", cache=cache).failed == 0
            if label == "first":
                assert damage(tmp_path / "calls.sqlite", values) == len(values)
    assert server.count == 2 * len(values)


@pytest.mark.parametrize(
    "value",
    [
        *DAMAGED,
        '{"completions": 5, "tokens": [1, 1], "samples": 1}',
        '{"completions": {"answer": ["Oslo"]}, "tokens": [-1, 1], "samples": 1}',
        '{"completions": {"answer": ["Oslo"]}, "tokens": [1, 1], "samples": 1, "colour": 1}',
    ],
)
def test_damaged_draws_are_made_again(scripted, tmp_path, value):
    lm, engine = scripted(lambda name, inputs, config: {"answer": "Oslo"})
    for label in ("first", "second"):
        with CallCache(tmp_path / "calls.sqlite") as cache, dspy.context(lm=lm):
            program = SharedDraws(store=cache.draws()).sharing(KEQA(None, tries=2, decompose=False), VoteGate())
            assert program("Where?").answer == "Oslo"
        if label == "first":
            made = len(engine.calls)
            assert damage(tmp_path / "calls.sqlite", [value]) == made
    assert len(engine.calls) == 2 * made


@given(JSON, st.fixed_dictionaries({"usage": JSON}, optional={"record": JSON, "reply": JSON, "kind": JSON}))
def test_no_value_of_a_cache_raises(value, kept):
    for one in (value, kept, {"usage": {}, "record": value}, {"usage": {}, "reply": value, "kind": "ModelResponse"}):
        assert is_sound("key", one) in (True, False)
        assert hits_are_sound("key", one) in (True, False)
    assert not hits_are_sound("key", {"hits": [value], "seconds": 1})


def test_which_kept_hits_are_sound():
    row, kept = ["p1", "Title", "Text.", 1.5, ""], {"hits": [], "seconds": 0}
    assert all(hits_are_sound("key", kept | {"hits": hits}) for hits in ([], [row], [row, [*row[:3], 1, "{}"]]))
    rows = (row[:4], [*row, ""], {}, [1, *row[1:]], [*row[:3], "1", ""], [*row[:3], True, ""], [*row[:4], None])
    harmed = [{"hits": [row, one]} for one in rows] + [{"seconds": one} for one in (-1, True, "1", None)]
    assert not any(hits_are_sound("key", kept | change) for change in (*harmed, {"hits": {}}, {"more": 1}))


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TABLE places (id INTEGER, url TEXT)",
        "CREATE TABLE calls (key TEXT PRIMARY KEY, value TEXT, more TEXT)",
        "CREATE TABLE calls (key, value); CREATE TRIGGER t AFTER INSERT ON calls BEGIN DELETE FROM calls; END",
        "CREATE TABLE kept (key TEXT, value TEXT); CREATE VIEW calls AS SELECT * FROM kept",
        "CREATE TABLE calls (key TEXT, value TEXT GENERATED ALWAYS AS (upper(key)), other TEXT)",
    ],
)
def test_a_database_of_something_else_or_that_runs_something_is_refused_and_stays_as_it_is(tmp_path, made):
    path = tmp_path / "calls.sqlite"
    with sqlite3.connect(path) as file:
        file.executescript(made)
    file.close()
    before = path.read_bytes()
    with pytest.raises(InputError, match="something else"):
        SqliteStore(path, "calls", "a cache of calls")
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["calls.sqlite"]


def test_a_pipe_is_no_cache(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="no regular file"):
        SqliteStore(tmp_path / "pipe", "calls", "a cache of calls")
