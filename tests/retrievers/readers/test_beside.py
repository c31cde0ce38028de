"""What the process that reads documents is told and says, and what becomes of it, without one."""

import io
import json
import resource
import signal
import sys
from types import SimpleNamespace

import pytest

from keqa.errors import InputError, MissingExtraError
from keqa.retrievers import Passage
from keqa.retrievers.base import Place
from keqa.retrievers.readers import beside, common, formats
from keqa.retrievers.readers.common import UnreadError

ROW = ["a.txt#1", "a", "A note.", Place("a.txt").packed()]


class Process:
    """Takes what is written and answers with lines; `ended` says how it ends of itself, None where it stays."""

    def __init__(self, *said, ended=None):
        self.stdin, self.stdout, self.returncode = io.BytesIO(), iter(said), ended
        self.done = []

    def poll(self):
        return None if "killed" not in self.done else -9

    def wait(self):
        return self.returncode

    def kill(self):
        self.done.append("killed")

    def communicate(self):
        self.done.append("closed")


@pytest.fixture
def started(monkeypatch):
    """Gives each process that is begun, in turn; `begun` has how."""
    own, begun, waiting = beside._Beside(), [], []

    def begin(command, **how):
        begun.append((command, how))
        return waiting.pop(0)

    monkeypatch.setattr(beside, "_BESIDE", own)
    monkeypatch.setattr(beside.subprocess, "Popen", begin)
    return SimpleNamespace(begun=begun, waiting=waiting, own=own)


def line(value):
    return json.dumps(value).encode() + b"\n"


def read(notices=None):
    """With the real `ask`: that of other tests reads in this process."""
    return beside.read_beside(
        b"data", common.Path("d/a.txt"), "a.txt", 7, (notices if notices is not None else []).append
    )


def test_one_process_reads_one_document_after_another(started, monkeypatch):
    ending = {"lost": "1 formula", "notices": ["one", "two"]}
    process, notices = Process(line([ROW]), line([ROW]), line(ending), line([]), line({"lost": "", "notices": []})), []
    started.waiting.append(process)
    monkeypatch.setattr(sys, "path", ["", "/modules"])
    passage = Passage("a.txt#1", "a", "A note.", Place("a.txt"))
    assert (read(notices), read(), notices) == (([passage, passage], "1 formula"), ([], ""), ["one", "two"])
    start = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from keqa.retrievers.readers.beside import main; "
    start += "main()"
    how = {"stdin": -1, "stdout": -1, "stderr": -3, "cwd": sys.prefix}
    assert started.begun == [([sys.executable, "-P", "-c", start, '["/modules"]'], how)]
    head = {"path": "d/a.txt", "identifier": "a.txt", "words": 7, "limits": [60.0, 2.0], "bytes": 4}
    assert process.stdin.getvalue() == (line(head) + b"data") * 2
    assert process.done == []
    started.own.end()
    assert (process.done, started.own._process) == (["killed", "closed"], None)
    started.own.end()


@pytest.mark.parametrize(
    ("said", "error", "message", "ends"),
    [
        ({"missing": "Reading a.docx"}, MissingExtraError, r"^Reading a\.docx needs", False),
        ({"reason": "", "error": "a: no"}, InputError, "^a: no$", False),
        ({"reason": "damaged", "error": "a: no"}, UnreadError, "^a: no$", False),
        # What it took is given back.
        ({"reason": "too large", "error": "a: no"}, UnreadError, "^a: no$", True),
    ],
)
def test_what_it_says_of_a_document_that_it_cannot_read_is_raised(started, said, error, message, ends):
    process = Process(line([ROW]), line({**said, "notices": []}))
    started.waiting.append(process)
    with pytest.raises(error, match=message) as caught:
        read()
    assert type(caught.value) is error
    assert getattr(caught.value, "reason", "") == (said.get("reason", "") if error is UnreadError else "")
    assert (process.done != []) is ends


@pytest.mark.parametrize(
    ("code", "why"),
    [(-signal.SIGPROF, "it takes too long"), (-9, "reading it ended the process that read it (-9)")],
)
@pytest.mark.parametrize("said", [[], [b"no JSON"]])
def test_one_that_dies_is_replaced_and_the_document_too_large(started, code, why, said):
    died, next_ = Process(*said, ended=code), Process(line([]), line({"lost": "", "notices": []}))
    started.waiting += [died, next_]
    with pytest.raises(UnreadError) as caught:
        read()
    assert (str(caught.value), caught.value.reason) == (
        f"d/a.txt cannot be read: {why}; divide it, or leave it out",
        "too large",
    )
    assert (died.done, read(), len(started.begun)) == (["killed", "closed"], ([], ""), 2)


def test_one_that_is_no_longer_waited_for_is_ended(started):
    def interrupted():
        raise KeyboardInterrupt
        yield

    process = Process()
    process.stdout = interrupted()
    started.waiting.append(process)
    with pytest.raises(KeyboardInterrupt):
        read()
    assert process.done == ["killed", "closed"]
    # In a copy of this process nothing is known of it.
    started.waiting.append(Process(line({"lost": "", "notices": []})))
    read()
    started.own.forget()
    assert started.own._process is None


def test_it_reads_what_comes_in_with_bounds_until_the_input_ends(monkeypatch):
    bounds, allowed, out, given = [], [], io.StringIO(), [b"A note.", b"\x00", b""]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (0, 1 << 40))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, bound: bounds.append((kind, bound)))
    monkeypatch.setattr(beside, "allow", allowed.append)
    monkeypatch.setattr(beside, "_IN_A_LINE", 1)
    monkeypatch.setattr(common, "limits", beside.limits)
    heads = [{"path": "a.txt", "identifier": "a.txt", "words": 100, "limits": [3, 4]} for _ in given]
    sent = b"".join(line({**head, "bytes": len(data)}) + data for head, data in zip(heads, given, strict=True))
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
