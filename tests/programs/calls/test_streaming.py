"""A question's progress as it happens: events of `Program.stream`, and ``dspy.streamify`` in both of its modes."""

import asyncio
import json
import threading
import time
from typing import Any

import dspy
import pytest
from dspy.streaming import StatusMessage, StreamListener, StreamResponse
from fixtures.choosers import NeverKnown, chooser
from servers.openai_server import HTTPFault, OpenAIServer, markers

from keqa.data.question import Question
from keqa.errors import InputError
from keqa.lms import build_lm
from keqa.lms.loops import who_listens
from keqa.programs import KEQA, UnansweredError
from keqa.programs.baselines import AlwaysRetrieve, ClosedBook
from keqa.programs.calls.batch import astreamed
from keqa.programs.calls.session import CallLimiter, Session, context, within
from keqa.programs.prediction import (
    Answered,
    AnswerPart,
    PassagesKept,
    Progress,
    QuizAnswered,
    QuizExamined,
    QuizFound,
    Searching,
)
from keqa.programs.stage import Answering

QUESTION = "Who is it?"
READ, APART = {"draft": 0.3, "reading": 0.6}, {"draft": 0.3, "reading": 0.5, "quizzes": 0.8}


def reply(name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
    return {
        "DecomposeQuestion": {"quizzes": '["Who wrote it?", "Where was #1 born?"]'},
        "AnswerQuiz": {"answer": "Ann" if "wrote" in inputs.get("quiz", "") else f"a{config.seed}"},
        "JudgeConsistency": {"same": False},
        "JudgeUtility": {"helpful": "good" in inputs.get("passage", "")},
        "Summarize": {"explanation": "so", "answer": "Oslo"},
        "AnswerWithKnowledge": {"answer": "Bergen"},
    }[name]


@pytest.fixture
def program(programmed, retriever) -> KEQA:
    made, _ = programmed(KEQA(retriever("good", "bad"), tries=3), reply)
    return made


EXPECTED: list[Progress] = [
    QuizFound(1, "Who wrote it?"),
    QuizFound(2, "Where was #1 born?", (1,)),
    QuizExamined(1, "Who wrote it?", True, "Ann", 1.0),
    QuizAnswered(1, "Who wrote it?", "Ann", "memory"),
    Searching(2, "Where was Ann born?"),
    PassagesKept(2, "Where was Ann born?", 2, ("p0",)),
    QuizAnswered(2, "Where was Ann born?", "Bergen", "passages"),
]


def check(events: list[Progress]) -> None:
    examined = events.pop(4)
    assert isinstance(examined, QuizExamined)
    assert (examined.index, examined.known) == (2, False)
    last = events.pop()
    assert isinstance(last, Answered)
    assert last.prediction.answer == "Oslo"
    assert events == EXPECTED


def read_in_both_ways(program: Any, question: str, **given: Any) -> list[list[Progress]]:
    async def read() -> list[Progress]:
        return [event async for event in program.astream(question, **given)]

    return [list(program.stream(question, **given)), asyncio.run(read())]


def test_events_come_in_their_order_in_an_event_loop_too(program):
    for events in read_in_both_ways(program, QUESTION):
        check(events)


def test_a_stream_asks_what_it_is_given(programmed):
    """The kind, the options and the questions before: each arrives at the language model."""
    program, engine = programmed(
        ClosedBook(),
        lambda name, inputs, config: {"standalone": "Where was Ann born?"} if "history" in inputs else {"answer": "B"},
    )
    given = {"answer_type": "choice", "choices": ["Oslo", "Bergen"], "history": [("Who wrote it?", "Ann")]}
    for events in read_in_both_ways(program, "Where was she born?", **given):
        assert [str(event) for event in events] == ["Asked as: Where was Ann born?", "Answered: B"]
    for rewritten in engine.asked("RewriteFollowUp"):
        assert (rewritten["question"], rewritten["history"]) == ("Where was she born?", '["Who wrote it? Ann"]')
    asked = {"question": "Where was Ann born?", "answer_type": "choice", "choices": '["Oslo", "Bergen"]'}
    assert engine.asked("AnswerQuestion") == [asked, asked]


@pytest.mark.parametrize("mode", ["stream", "astream"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"answer_type": "long"}, "answer_type"),
        ({"answer_type": "choice"}, "choices"),
        ({"answer_type": "choice", "choices": ["one", 1]}, "the choice must be text, not int"),
        ({"history": "Who wrote it?"}, "history"),
        ({"question": "x" * 11}, "has 11 characters; at most 10 are allowed"),
        ({"question": ""}, "the question is empty"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_an_event_is_wanted(mode, given, message):
    program = ClosedBook(max_question_chars=10)
    with pytest.raises(InputError, match=message):
        getattr(program, mode)(**{"question": "Who?", **given})


def test_who_leaves_early_ends_the_question_whatever_waits(programmed, retriever):
    release = threading.Event()

    def waiting(name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
        if name == "AnswerQuiz":
            assert release.wait(60)
        return reply(name, inputs, config)

    program, engine = programmed(KEQA(retriever("good"), tries=1, threshold="1"), waiting)
    events = program.stream(QUESTION)
    assert engine.calls == []
    assert next(events) == EXPECTED[0]
    events.close()
    for thread in [one for one in threading.enumerate() if one.name == "keqa-stream"]:
        thread.join(60)
        assert not thread.is_alive()
    release.set()
    assert set(engine.count) <= {"DecomposeQuestion", "AnswerQuiz"}


async def test_who_leaves_an_event_loops_stream_cancels_the_question():
    ended = asyncio.Event()

    async def ask() -> Any:
        for hears in context().hears:
            hears(EXPECTED[0])
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    events = astreamed(ask)
    assert await anext(events) == EXPECTED[0]
    assert not ended.is_set()
    await events.aclose()
    await asyncio.wait_for(ended.wait(), 20)


def test_a_question_without_an_answer(programmed):
    def broken(name: str, inputs: dict[str, str], config: Any) -> Any:
        raise dspy.lm15.ServerError("down")

    program, _ = programmed(KEQA(None, decompose=False), broken)
    with pytest.raises(UnansweredError) as caught:
        list(program.stream(QUESTION))
    assert caught.value.record is not None


def served_reply(messages: list[dict[str, Any]], n: int, body: dict[str, Any]) -> list[str]:
    system = messages[0]["content"]
    if "`same`" in system:
        return [markers(same=False)] * n
    if "`helpful`" in system:
        return [markers(helpful=True)] * n
    return [markers(answer=f"Ann of the {place} green gables") for place in range(n)]


def served_by(server: OpenAIServer, program: Any, **settings: Any) -> Any:
    program.set_lm(build_lm("openai/scripted", api_base=server.api_base, api_key="k", cache=False, **settings))
    return program


def streamed(program: Any, *, mode: str, **settings: Any) -> list[Any]:
    stream = dspy.streamify(program, is_async_program=mode == "async", **settings)

    async def read() -> list[Any]:
        return [value async for value in stream(question=QUESTION)]

    return asyncio.run(read())


def texts(values: list[Any]) -> list[str]:
    """The status messages, without those that DSPy has for each call of a tool."""
    found = [value.message for value in values if isinstance(value, StatusMessage)]
    return [message for message in found if not message.startswith(("Calling tool", "Tool calling"))]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_streamify_tells_of_each_stage(program, mode):
    values = streamed(program, mode=mode)
    assert isinstance(values[-1], dspy.Prediction)
    assert all(isinstance(value, StatusMessage) for value in values[:-1])
    assert texts(values) == [
        "Quiz 1: Who wrote it?",
        "Quiz 2: Where was #1 born?",
        "Known: Who wrote it? Ann",
        "Answer: Who wrote it? Ann",
        "Not known: Where was Ann born?",
        "Searching: Where was Ann born?",
        "Kept 1 of 2 passages: Where was Ann born?",
        "Answer: Where was Ann born? Bergen",
    ]


@pytest.mark.server
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_streamify_with_a_served_language_model(retriever, mode):
    with OpenAIServer(served_reply) as server:
        program = served_by(server, KEQA(retriever("good"), decompose=False, tries=2))
        listener = StreamListener("answer", predict=program.answering.answer)
        values = streamed(program, mode=mode, stream_listeners=[listener])
        streaming = [bool(call.body.get("stream")) for call in server.calls]
        without = streamed(program, mode=mode)
    chunks = [value.chunk for value in values if isinstance(value, StreamResponse)]
    assert "".join(chunks) == "Ann of the 0 green gables"
    assert len(chunks) > 1
    assert streaming.count(True) == 1
    assert texts(values) == texts(without) != []
    assert [value for value in without if not isinstance(value, StatusMessage | dspy.Prediction)] == []
    assert values[-1].answer == without[-1].answer == "Ann of the 0 green gables"


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_stream_that_is_left_does_not_hang(program, mode):
    async def read() -> Any:
        async for value in dspy.streamify(program, is_async_program=mode == "async")(question=QUESTION):
            return value

    assert isinstance(asyncio.run(asyncio.wait_for(read(), 60)), StatusMessage)
    assert program(question=QUESTION).answer == "Oslo"


def test_in_a_thread_that_cannot_reach_the_stream_nothing_is_streamed(program):
    with dspy.context(send_stream=object(), stream_listeners=[]):
        assert program(question=QUESTION).answer == "Oslo"


# LiteLLM puts the chunks of a stream together by what pydantic has given up.
@pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning")
def test_the_answer_is_told_while_a_served_model_writes_it(retriever):
    replies = {
        "answered_quizzes": markers(
            explanation="She did [[ ## answer ## ]] both.", answer="Ann wrote and\n[sic] sang it"
        ),
        "quizzes": markers(quizzes='["Who wrote it?", "Who sang it?"]'),
        "": markers(answer="Ann"),
    }

    def said(messages, n, body):
        return [next(told for name, told in replies.items() if name in messages[0]["content"])] * n

    for further in ({}, {"user": "me"}):
        # With a setting of its own a request goes through LiteLLM.
        with OpenAIServer(said) as server:
            program = served_by(server, KEQA(retriever("good"), tries=2), **further)
            for events in read_in_both_ways(program, QUESTION):
                parts = [event for event in events if isinstance(event, AnswerPart)]
                assert len(parts) > 3
                assert "".join(part.text for part in parts) == "Ann wrote and\n[sic] sang it"
                assert [part.at for part in parts] == [
                    len("".join(p.text for p in parts[:n])) for n in range(len(parts))
                ]
                assert events[-1].prediction.answer == "Ann wrote and\n[sic] sang it"
                assert events[-1].prediction.record.cost.total.completion_tokens > 0
            streamed = [call.body for call in server.calls if call.body.get("stream")]
            assert len(streamed) == 2


@pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning")
@pytest.mark.parametrize(
    ("plan", "settings", "told"),
    [
        # What a step of a cascade read, and what it concludes, may give way to another answer.
        (
            ["Who wrote it?", "Who sang it?"],
            {"settle": "cascade", "chooser": chooser(0.4, READ, APART, onward=[0.7, 0.7])},
            {("Ann read it", True), ("Ann sang it", True)},
        ),
        # Without a chooser the answer by quizzes stands, here where nothing was found.
        (["Who wrote it?", "Who sang it?"], {"settle": "cascade"}, {("Ann sang it", False)}),
        (["Who wrote it?", "Who sang it?"], {"settle": "cascade", "gate": NeverKnown()}, {("Ann read it", True)}),
        # What is read is weighed against memory.
        ([QUESTION], {"arbiter": chooser(0.5, {"draft": 0.9, "reading": 0.1}), "gate": NeverKnown()}, set()),
        # A summary follows.
        (
            [QUESTION],
            {"summarize_single": True, "gate": NeverKnown()},
            {("Ann read it", True), ("Ann sang it", False)},
        ),
        (
            ["Who wrote it?", QUESTION],
            {"gate": NeverKnown()},
            {("Ann read it", True), ("Ann sang it", False)},
        ),
        ([QUESTION], {"gate": NeverKnown()}, {("Ann read it", False)}),
        # The summary follows where what is read together does not tell.
        (["Who wrote it?", "Who sang it?"], {"read_together": True, "gate": NeverKnown()}, {("Ann read it", True)}),
    ],
)
def test_what_is_no_answer_yet_is_told_as_a_draft(retriever, plan, settings, told):
    replies = {
        "answered_quizzes": markers(explanation="So.", answer="Ann sang it"),
        "`quizzes`": markers(quizzes=json.dumps(plan)),
        "`helpful`": markers(helpful="True"),
        "`passages`": markers(answer="Ann read it"),
        "": markers(answer="Bo"),
    }

    def said(messages, n, body):
        system = messages[0]["content"]
        return [next(reply for mark, reply in replies.items() if mark in system)] * n

    with OpenAIServer(said) as server:
        texts = [] if settings == {"settle": "cascade"} else ["good"]
        program = served_by(server, KEQA(retriever(*texts), tries=1, unanswered="guess", **settings))
        for events in read_in_both_ways(program, QUESTION):
            answers: list[tuple[str, bool]] = []
            for part in (event for event in events if isinstance(event, AnswerPart)):
                before = answers.pop()[0] if part.at else ""
                answers.append((before[: part.at] + part.text, part.draft))
            assert set(answers) == told


@pytest.mark.parametrize("streamed", [None, False, True])
async def test_an_answer_to_a_part_of_the_question_is_reported_while_it_is_written_where_that_is_wanted(streamed):
    async def called(predictor, **inputs):
        if (listener := who_listens()) is not None:
            listener(markers(answer="Ann"))
        await asyncio.sleep(0)
        return dspy.Prediction(answer="Ann")

    heard: list[Progress] = []
    wanted = {} if streamed is None else {"streamed": streamed}
    with within(hears=(heard.append,), caller=called):
        await Session(CallLimiter(1), blocking=False).run(
            Answering().run(Question("Who sang it?"), ["Ann sang it."], **wanted)
        )
    assert heard == ([AnswerPart(0, "Ann")] if streamed else [])


def test_a_server_that_streams_nothing_is_asked_again_for_all_at_once(retriever):
    def said(messages, n, body):
        if body.get("stream"):
            raise HTTPFault(400, "stream_options is not supported")
        return [markers(explanation="so", answer="Ann")] * n

    with OpenAIServer(said) as server:
        program = served_by(server, AlwaysRetrieve(retriever("good")))
        assert list(program.stream(QUESTION))[-1].prediction.answer == "Ann"


def test_who_leaves_a_stream_frees_its_calls_at_once(retriever):
    """Neither the next event nor a reply is waited for, and nothing more is asked."""
    threads = {thread.name for thread in threading.enumerate()}
    with OpenAIServer(lambda messages, n, body: [markers(quizzes='["Who?", "Where?"]')] * n) as server:
        program = served_by(server, KEQA(retriever("good"), tries=3))
        events = program.stream(QUESTION)
        assert isinstance(next(events), QuizFound)
        server.latency = 20
        while server.count < 3:
            time.sleep(0.01)
        started = time.monotonic()
        events.close()
        while "keqa-stream" in {thread.name for thread in threading.enumerate()} - threads:
            time.sleep(0.01)
        assert time.monotonic() - started < 15
        asked = server.count
        time.sleep(0.2)
        assert server.count == asked
