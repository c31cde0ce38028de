"""What becomes of the process that reads documents, and what it says of one that it cannot read."""

import io
import json
import resource
import sys
from types import SimpleNamespace

import pytest

from keqa.errors import InputError
from keqa.retrievers.base import Place
from keqa.retrievers.readers import beside, common, formats
from keqa.retrievers.readers.common import UnreadError

ROW = ["a.txt#1", "a", "A note.", Place("a.txt").packed()]
HEAD = {"path": "a.txt", "identifier": "a.txt", "words": 100, "limits": [60, 2]}


def line(value):
    return json.dumps(value).encode() + b"\n"


@pytest.fixture
def own():
    reading = beside._Beside()
    yield reading
    reading.end()


@pytest.mark.process
def test_one_process_reads_one_document_after_another_and_one_that_dies_is_replaced(own, monkeypatch):
    head, ended = {**HEAD, "bytes": 7}, {"lost": "", "notices": []}
    assert own.ask(head, b"A note.") == ([ROW], ended)
    first = own._process
    assert own.ask(head, b"A note.") == ([ROW], ended)
    assert own._process is first
    first.kill()
    first.wait()
    with monkeypatch.context() as dying:
        dying.setattr(own, "_started", lambda: first)
        rows, said = own.ask(head, b"A note.")
    why = "a.txt cannot be read: reading it ended the process that read it (-9); divide it, or leave it out"
    assert (rows, said["reason"], said["error"]) == ([], "too large", why)
    assert own.ask(head, b"A note.") == ([ROW], ended)
    # What reading took is given back, and so is one whose answer nobody waits for.
    monkeypatch.setattr(beside.json, "loads", lambda line: {"reason": "too large"})
    own.ask(head, b"A note.")
    assert own._process is None

    def interrupted(line):
        raise KeyboardInterrupt

    monkeypatch.setattr(beside.json, "loads", interrupted)
    with pytest.raises(KeyboardInterrupt):
        own.ask(head, b"A note.")
    assert own._process is None


def test_it_reads_what_comes_in_with_bounds_until_the_input_ends(monkeypatch):
    bounds, allowed, out, given = [], [], io.StringIO(), [b"A note.", b"\x00", b""]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (0, 1 << 40))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, bound: bounds.append((kind, bound)))
    monkeypatch.setattr(beside, "allow", allowed.append)
    monkeypatch.setattr(beside, "_IN_A_LINE", 1)
    monkeypatch.setattr(common, "limits", beside.limits)
    sent = b"".join(line({**HEAD, "limits": [3, 4], "bytes": len(data)}) + data for data in given)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(sent)))
    monkeypatch.setattr(sys, "stdout", out)
    before = beside.limits[:]
    beside.main()
    assert beside.limits == [3, 4]
    beside.limits[:] = before
    ended = {"lost": "", "notices": []}
    assert list(map(json.loads, out.getvalue().splitlines())) == [[ROW], [], ended, [], ended, [], ended]
    assert (bounds, allowed) == ([(resource.RLIMIT_AS, (4 << 30, 1 << 40))], [7, 1, 0])


FAILURES = {
    "missing": (ImportError("bs4"), {"missing": "Reading a.txt"}),
    "input": (InputError("no"), {"reason": "", "error": "no"}),
    "unread": (UnreadError("damaged", "no"), {"reason": "damaged", "error": "no"}),
    "memory": (
        MemoryError(),
        {
            "reason": "too large",
            "error": "d/a.txt cannot be read: it takes more memory than is given to a document: divide it",
        },
    ),
    "any": (
        KeyError("x" * 400),
        {"reason": "damaged", "error": f"d/a.txt cannot be read as .txt: KeyError: '{'x' * 299}"},
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_a_reader_raises_is_an_answer(monkeypatch, name):
    error, answer = FAILURES[name]

    def fail(data, path, identifier, words, notice):
        notice(f"{data} {path} {identifier} {words}")
        raise error

    monkeypatch.setattr(formats, "passages_of", fail)
    head = {"path": "d/a.txt", "identifier": "i", "words": 9}
    assert beside._answer(None, head, b"x") == {**answer, "notices": ["b'x' d/a.txt i 9"]}


def test_a_document_of_too_much_text_is_one_answer(monkeypatch):
    monkeypatch.setattr(beside, "MOST_TEXT", 10)
    said = []
    head = {"path": "d/a.txt", "identifier": "i", "words": 9}
    assert beside._answer(said.append, head, b"a note.") == {"lost": "", "notices": []}
    why = "d/a.txt has more than 10 characters of text: divide it"
    assert beside._answer(said.append, head, b"a note!!!!!") == {"reason": "too large", "error": why, "notices": []}
