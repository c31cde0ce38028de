import http.client
import json
from urllib.parse import urlsplit

import faults
import pytest
from faulty.server import KINDS, Server

from keqa.evaluation.records import Run, RunHeader, RunLine
from keqa.programs.records import Degradation, QuestionRecord

pytestmark = pytest.mark.server

HEADER = RunHeader(method="keqa", label="keqa", dataset="", ids=["q0"], configuration={}, fingerprint="")
MESSAGES = [
    {"role": "system", "content": "your objective is: \n        Answer the quiz from memory, as briefly as possible."},
    {"role": "user", "content": "[[ ## quiz ## ]]\nWho governs Town0?\n\nRespond with the corresponding output fields"},
]


def line(answer="Ann", *, cause=None, note=None):
    notes = [Degradation(stage="answer", cause=note, message="", action="")] if note else []
    failure = {"stage": "answer", "cause": cause, "message": ""} if cause else None
    record = QuestionRecord(question="Who?", answer=None if cause else answer, degradations=notes, failure=failure)
    scores = {"em": float(answer == "Ann"), "f1": float(answer == "Ann")}
    return RunLine(
        id="q0", question="Who?", answers=["Ann"], answer=record.answer, scores=scores, record=record, error=failure
    )


def run(*lines):
    return Run(HEADER, list(lines))


@pytest.fixture
def server():
    with Server(patience=0.3) as started:
        yield started


def asked(server, n=1, **body):
    """Status and body of a request, or the class of the error that it ends in."""
    connection = http.client.HTTPConnection(urlsplit(server.api_base).netloc, timeout=5)
    body = {"messages": MESSAGES, "n": n, "temperature": 0, **body}
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Authorization": "Bearer sk-secret"})
        reply = connection.getresponse()
        return reply.status, reply.read()
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__, b""
    finally:
        connection.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_is_no_sound_answer(server, kind):
    sound = asked(server, 2)
    assert sound[0] == 200
    server.plan(share=1.0, kinds=[kind])
    status, body = asked(server, 2)
    if kind == "slow drip":
        assert body == sound[1]
    else:
        assert (status, body) != sound
    assert server.counts()["faults"] == {kind: 1}
    assert isinstance(status, str) == (kind in ("connection reset", "closed in mid-body", "hang"))


def test_which_call_fails_depends_on_the_request_and_how_often_it_came(server):
    def drawn(seed, count=40):
        server.plan(share=0.5, kinds=["500"], seed=seed)
        return [[asked(server, 1, user=str(number))[0] for _ in range(2)] for number in range(count)]

    first = drawn(0)
    assert first == drawn(0) != drawn(1)
    assert {200, 500} == {status for statuses in first for status in statuses}
    assert any(statuses[0] != statuses[1] for statuses in first)
    assert server.counts()["requests"] == 80
    # A request that is none of the program's is answered and counted apart.
    server.plan(share=1.0)
    assert asked(server, messages=[{"role": "user", "content": "hi"}])[0] == 200
    assert server.counts() == {"requests": 0, "faults": {}, "other": 1, "strayed": [0, 0]}


@pytest.mark.parametrize(
    ("given", "changed", "mistaken"),
    [
        (line(), [], []),
        (line("Bo"), ["q0: 'Bo' for 'Ann'; nothing noted"], []),
        (line(cause="LMTimeoutError"), [], []),
        (line("Bo", note="ConnectionError"), [], []),
        (line(cause="AttributeError"), [], ["q0: AttributeError"]),
        (line(note="KeyError"), [], ["q0: KeyError"]),
    ],
)
def test_what_a_failure_changed_is_failed_or_marked_and_no_failure_is_a_mistake(given, changed, mistaken):
    assert faults.compared(run(given), run(line())).broken == changed
    assert faults.programming_errors(run(given)).broken == mistaken


def test_a_question_without_a_line_and_one_with_two_are_found(tmp_path):
    (tmp_path / "run.jsonl").write_text('{"header": {}}\n{"id": "q1"}\n{"id": "q1"}\n')
    lost, twice = faults.whole(tmp_path / "run.jsonl", ["q0", "q1"])
    assert (lost.broken, twice.broken) == (["q0"], ["q1: 2 lines"])


def test_a_healed_run_has_the_same_answers_figures_and_no_marks():
    assert [check.broken for check in faults.healed(run(line()), run(line()))] == [[], [], []]
    answers, marks, figures = faults.healed(run(line("Bo", note="LMTimeoutError")), run(line()))
    assert len(answers.broken) == len(marks.broken) == 1
    assert figures.broken == ["em 0.0000 for 1.0000", "f1 0.0000 for 1.0000"]


def test_a_key_in_any_file_is_found(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "calls.sqlite").write_bytes(b"\0\0sk-secret\0")
    (tmp_path / "clean").write_text("nothing")
    check = faults.leaks(tmp_path, {"the key": "sk-secret"})
    assert (check.tested, check.broken) == (2, ["runs/calls.sqlite holds the key"])


def test_every_promise_is_kept_while_the_server_fails(capsys):
    faults.main("--questions 12 --share 0.3 --methods keqa closed-book --in-flight 12".split())
    reported = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert reported["faults"] > 20
    assert reported["requests"]["without faults"] > 0
    broken = {name: count for name, count in reported["broken"].items() if "every way of failing" not in name}
    assert broken == {}
