"""How a call is made, counted, bounded, made again, and how it fails."""

import asyncio
import multiprocessing
import os
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import LMAuthError, LMInvalidRequestError, LMServerError, LMUnexpectedError
from dspy.utils.usage_tracker import UsageTracker
from servers.openai_server import FaultPlan, HTTPFault, OpenAIServer, markers

from keqa.errors import ConfigurationError, RetrievalError, StageError
from keqa.lms import build_roles
from keqa.programs.baselines import ClosedBook
from keqa.programs.calls.ask import ask, lm_of_role, search, searched
from keqa.programs.calls.errors import CallError, is_transient, typed_error
from keqa.programs.calls.session import (
    CallLimiter,
    CallMeter,
    Session,
    context,
    current,
    gather,
    run_blocking,
    within,
)
from keqa.programs.stage import Decomposition
from keqa.retrievers import read_corpus
from keqa.retrievers.base import Hit, SharedRetriever
from keqa.retrievers.caching import KeptHits
from keqa.signatures.chat_format import adapter
from keqa.signatures.keqa import AnswerQuiz


def session() -> Session:
    return Session(CallLimiter(1), blocking=True)


def failure(kind: str) -> CallError:
    """An outage, or a reply that cannot be used, from a server or from this process."""
    error = CallError("LMServerError" if kind == "outage" else "AdapterParseError", kind, unusable=kind != "outage")
    error.served = kind == "served"
    error.spoilt = 3 if kind == "three" else 0
    error.reply = "[[ ## answer ## ]]\nBo\n" if kind == "line" else None
    return error


class Calls:
    """Stands in for language models: fails as told, then answers."""

    def __init__(self, *fails: str) -> None:
        self.errors, self.made = [failure(kind) for kind in fails], []
        self.session = session()

    async def __call__(self, predictor: Any, *, attempt: int, usable: Callable[[Any], object] | None, **inputs: Any):
        self.made.append(attempt)
        if len(self.made) <= len(self.errors):
            raise self.errors[len(self.made) - 1]
        return dspy.Prediction(answer="Ann")

    async def ask(self, **arguments: Any) -> dspy.Prediction:
        with within(caller=self):
            return await self.session.run(ask(None, "plan", 2, **arguments))


@pytest.mark.parametrize(
    ("fails", "draws", "attempts", "notes"),
    [
        ([], 1, [0], []),
        (["outage"], 1, [0, 0], [("outage", True)]),
        # A server may reply otherwise to the same request, and nothing came out otherwise.
        (["served"], 1, [0, 0], [("served", True)]),
        (["served", "outage"], 1, [0, 0, 0], [("served", True), ("outage", True)]),
        # What had to be drawn is not what it would have been.
        (["here"], 1, [0, 1], [("here", False)]),
        (["served", "served"], 1, [0, 0, 1], [("served", False), ("served", False)]),
        (["here", "outage"], 1, [0, 1, 1], [("here", False), ("outage", True)]),
        (["here", "served"], 2, [0, 1, 2], [("here", False), ("served", False)]),
        (["three"], 1, [0, 1], [("three", False)] * 3),
    ],
)
async def test_another_attempt_that_succeeds(fails, draws, attempts, notes):
    calls = Calls(*fails)
    assert (await calls.ask(draws=draws)).answer == "Ann"
    assert calls.made == attempts
    noted = calls.session.degradations
    assert [(one.message, one.harmless) for one in noted] == notes
    assert {(one.stage, one.quiz, one.action) for one in noted} <= {("plan", 2, "asked again")}


@pytest.mark.parametrize(
    ("fails", "draws", "attempts"),
    [
        (["outage", "outage"], 1, [0, 0]),
        (["here"], 0, [0]),
        (["here", "here"], 1, [0, 1]),
        (["served", "served"], 0, [0, 0]),
        (["served", "served", "served"], 1, [0, 0, 1]),
        (["here", "outage", "outage"], 1, [0, 1, 1]),
        (["here"] * 5, 4, [0, 1, 2, 3, 4]),
    ],
)
async def test_the_last_failure_is_left_to_the_caller(fails, draws, attempts):
    calls = Calls(*fails)
    with pytest.raises(CallError) as raised:
        await calls.ask(draws=draws)
    assert (raised.value, calls.made) == (calls.errors[-1], attempts)
    assert [(one.message, one.harmless) for one in calls.session.degradations] == [(kind, True) for kind in fails[:-1]]


async def test_the_first_line_of_an_answer_is_taken_before_anything_is_drawn():
    calls = Calls("line")
    assert (await calls.ask(for_answer=True)).answer == "Bo"
    assert calls.made == [0]
    (note,) = calls.session.degradations
    assert (note.stage, note.quiz, note.action) == ("plan", 2, "took the first line of the answer")
    with pytest.raises(CallError):
        await Calls("line").ask(draws=0)
    # What no encoding holds is no part of it.
    broken = Calls("line")
    broken.errors[0].reply = "[[ ## answer ## ]]\nOs\ud800lo\n"
    assert (await broken.ask(for_answer=True)).answer == "Os\ufffdlo"


def test_a_circle_is_ended_by_drawing(scripted):
    asked: list[tuple[float, int | None]] = []

    def model(name, inputs, config):
        asked.append((config.temperature, config.seed))
        return {"answer": "Oslo"} if len(asked) == 3 else "[[ ## answer ## ]]\n[]\n\n[]\n"

    lm, engine = scripted(model)
    engine.finish_reason = "length"
    with dspy.context(lm=lm):
        record = ClosedBook()("Where?").record
    assert (record.answer, record.cost.samples) == ("Oslo", 3)
    assert [(one.stage, one.cause, one.action) for one in record.degradations] == [
        ("answer", "TruncatedReplyError", "asked again"),
        ("answer", "TruncatedReplyError", "asked again"),
    ]
    assert asked == [(0.0, None), (0.7, 1), (0.7, 2)]


@pytest.mark.parametrize(
    ("chosen", "refusal", "answer", "asked"),
    [
        (None, None, "Oslo", [1024, 4096]),
        # The number that somebody chose holds, and so does what a server takes.
        (1000, None, None, [1000] * 6),
        (None, "This model's maximum context length is 3000 tokens", None, [1024, 4096, *[1024] * 5]),
        (None, "max_tokens is too large: 4096", None, [1024, 4096, *[1024] * 5]),
    ],
)
def test_a_reply_that_was_cut_off_may_be_longer_another_time(chosen, refusal, answer, asked):
    def reply(messages: list[dict[str, Any]], n: int, body: dict[str, Any]) -> list[str]:
        if body["max_tokens"] > 3000 and refusal:
            raise HTTPFault(400, refusal)
        return [markers(answer="Oslo")] * n

    plan = FaultPlan(share=1.0, kinds=("truncated",), only=lambda body: body["max_tokens"] < 3000)
    with OpenAIServer(reply=reply, faults=plan) as api:
        lms = build_roles("openai/scripted", api_base=api.api_base, api_key="any", cache=False, max_tokens=chosen)
        with nullcontext() if answer else pytest.raises(StageError, match="max-tokens"):
            assert ClosedBook(lms=lms)("What is the capital of Norway?").answer == answer
    assert [call.body["max_tokens"] for call in api.calls] == asked


@pytest.mark.parametrize(("errors", "searches"), [([], 1), ([OSError("away")], 2), ([OSError("away")] * 2, 2)])
async def test_a_search_that_may_pass_is_made_once_more(retriever, errors, searches):
    own, found, left, asked = session(), retriever("a", "b", "c"), list(errors), []
    finds = found.search

    def failing(query: str, k: int = 10) -> list:
        asked.append((query, k))
        if left:
            raise left.pop(0)
        return finds(query, k)

    found.search = failing
    if len(errors) == 2:
        with pytest.raises(CallError, match="away"):
            await own.run(searched(found, "who", 2, 5))
    else:
        assert len(await own.run(searched(found, "who", 2, 5))) == 2
    assert asked == [("who", 2)] * searches
    assert [(one.stage, one.cause, one.message, one.action, one.quiz, one.harmless) for one in own.degradations] == [
        ("retrieve", "OSError", "away", "searched again", 5, True)
    ] * (searches - 1)


async def test_the_same_document_in_several_files_takes_the_place_of_one(tmp_path):
    fee = "The fee of the pool is 4 crowns for all who live in the town. Children pay half of it, and dogs are free."
    # What differs in a sentence, or has another name, folder or year, is no copy, nor what stands under another head.
    texts = {"a.txt": f"Fee\n{fee} It is closed.", **dict.fromkeys(("a.md", "a (1).md"), f"# Fee\n\n{fee}")}
    texts |= {"a - Copy.txt": f"Fee\n{fee.replace('4', '5')}"}
    texts |= dict.fromkeys(("2024/a.md", "c.md", "c (2024).md"), f"# Fee\n\n{fee}")
    texts |= {"d (1).csv": "Name,Days\nVarn,24\nSkarn,24", "d.csv": "Name,Days\nVarn,24\nSkarn,20"}
    (tmp_path / "2024").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    passages = sorted(read_corpus(tmp_path), key=lambda one: [*texts].index(one.place.file))

    class Ranked(SharedRetriever):
        def search(self, query, k=10):
            return [Hit(passage, 1.0) for passage in passages[:k]]

    found = [[one.passage.place.file for one in await session().run(searched(Ranked(), "fee", k))] for k in (9, 3)]
    others = ["c.md", "c (2024).md", "d (1).csv", "d (1).csv", "d.csv"]
    assert found == [["a.txt", "a - Copy.txt", "2024/a.md", *others], ["a.txt", "a - Copy.txt", "2024/a.md"]]


def test_a_search_that_a_cache_answers_counts_and_takes_the_time_that_it_took_when_it_was_made():
    class Cached(SharedRetriever):
        def search(self, query, k=10):
            return KeptHits([], 5.0) if query == "met before" else []

    own = session()
    for query in ("met before", "met before", "new"):
        run_blocking(lambda query=query: own.run(search(Cached(), query, 3)))
    cost = own.cost()
    assert (cost.retrievals, cost.retrievals_cached) == (3, 2)
    assert all(10 <= seconds < 11 for seconds in (cost.retrieval_seconds, cost.seconds))


async def test_a_program_that_a_question_asks_gives_its_place_back(scripted):
    lm, _ = scripted(lambda name, inputs, config: {"answer": "Ann"})
    inner, outer = ClosedBook(), Session(CallLimiter(1), blocking=False, lms={"task": "task"})
    outer.lms = type("Lms", (), {"task": "task", "boundary": "boundary"})
    inner.set_lm(lm)

    async def asks() -> None:
        await inner.acall("Who governs Oslo?")
        assert current() is outer
        assert lm_of_role("boundary", own=True) == "boundary"

    await outer.run(asks())
    assert outer.cost().calls == 0
    assert context().session is None
    with dspy.context(lm=lm):
        assert (lm_of_role("boundary"), lm_of_role("boundary", own=True)) == (lm, None)


def test_one_failing_task_stops_the_others():
    stopped = []

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(True)
            raise

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ConfigurationError("no key")

    with pytest.raises(ConfigurationError, match="no key"):
        run_blocking(lambda: gather([wait(), fail(), fail()]))
    assert stopped == [True]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_calls_in_threads_of_its_own():
    limiter = CallLimiter(1)

    def called() -> int:
        return run_blocking(lambda: limiter.in_thread(os.getpid))

    assert called() == os.getpid()
    child = multiprocessing.get_context("fork").Process(target=called)
    child.start()
    child.join(60)
    ended = child.exitcode
    child.kill()
    assert ended == 0


def test_the_replies_of_one_request_that_cannot_be_used_are_counted():
    whole, bare = "[[ ## answer ## ]]\na\n\n[[ ## completed ## ]]", "[[ ## answer ## ]]\na"
    replies = [(whole, "stop"), (whole, "length"), (bare, "stop"), (bare, "length"), ("{a", "stop"), (None, "stop")]
    meter = CallMeter(None)
    meter.history = [
        {
            "outputs": [text if text is None else {"text": text} for text, _ in replies],
            "response": SimpleNamespace(choices=[{"finish_reason": reason} for _, reason in replies]),
        }
    ]
    assert len(meter.replies) == 6
    with dspy.context(adapter=adapter()):
        assert meter.spoilt(AnswerQuiz) == 3


def test_a_request_without_a_reply_counts_wherever_its_usage_is_reported():
    outer = CallMeter(UsageTracker())
    inner = CallMeter(outer)
    inner.add_failed()
    inner.add_usage("lm", {"prompt_tokens": 5, "completion_tokens": 2})
    assert [(one.calls, one.prompt, one.completion) for one in (inner, outer)] == [(2, 5, 2), (2, 5, 2)]
    CallMeter(None).add_failed()


def raised(error):
    try:
        raise error
    except Exception as caught:
        return caught


CUT, WHOLE = SimpleNamespace(finish_reason="length"), SimpleNamespace(finish_reason="stop")


@pytest.mark.parametrize(
    ("response", "cut"),
    [
        (SimpleNamespace(choices=[{"finish_reason": "stop"}, {"finish_reason": "length"}]), True),
        (SimpleNamespace(choices=[WHOLE, CUT]), True),
        ((WHOLE, CUT), True),
        (SimpleNamespace(choices=[WHOLE, WHOLE]), False),
        (SimpleNamespace(choices=[{}, SimpleNamespace()]), False),
        ((WHOLE, SimpleNamespace()), False),
    ],
)
def test_a_reply_that_was_cut_off_is_refused_however_the_response_tells(response, cut):
    meter = CallMeter(None)
    meter.history = [{"outputs": ["Oslo", "Oslo is a"], "response": response}]
    if not cut:
        meter.refuse_truncated()
        return
    with pytest.raises(CallError) as refused:
        meter.refuse_truncated()
    assert (refused.value.cause, refused.value.unusable) == ("TruncatedReplyError", True)


@pytest.mark.parametrize(("ending", "only"), [(CUT, "Oslo"), (WHOLE, "Oslo\n")])
def test_a_reply_alone_ends_its_line_unless_it_was_cut_off(ending, only):
    meter = CallMeter(None)
    meter.history = [{"outputs": ["Oslo"], "response": ending}]
    assert meter.only == only


@pytest.mark.parametrize(
    ("error", "overflow"),
    [
        (LMInvalidRequestError("This model's maximum context length is 4096 tokens"), True),
        (LMInvalidRequestError("prompt is too long: 9000 tokens"), True),
        (dspy.ContextWindowExceededError(model="m"), True),
        (LMInvalidRequestError("temperature must be positive"), False),
        (LMServerError("context length exceeded"), False),
        (ValueError("odd"), False),
        # Raised in a program, what a server or disk does is no fault of it.
        *((raised(error), False) for error in (OSError("away"), TimeoutError("late"), RetrievalError("x"))),
    ],
)
def test_what_can_be_degraded_around_and_whether_it_is_an_overflow(error, overflow):
    typed = typed_error(error)
    assert isinstance(typed, CallError)
    assert (typed.cause, typed.overflow) == (type(error).__name__, overflow)


def test_long_messages_are_shortened():
    assert CallError("X", "no such page; " * 50).message == "no such page; " * 35 + "no such..."
    assert CallError("X", "y" * 500).message == "y" * 500


def test_a_secret_is_never_cut_in_two():
    secret = "sk-abc+def/012.345_678=="
    for before in range(440, 500):
        told = CallError("X", " " * before + f"'{secret}' is no key" + " of ours" * 9).message
        assert len(told) <= 500
        assert secret in told or "sk" not in told


@pytest.mark.parametrize(("kind", "typed"), [(LMAuthError, ConfigurationError), (LMServerError, CallError)])
def test_no_error_repeats_the_key_that_a_server_refused(kind, typed):
    lm = dspy.LM("openai/x", api_key="sk-proj-Abc123DEF456ghi789JKL")
    for echoed in ("sk-proj-Abc123DEF456ghi789JKL", "sk-proj-******9JKL"):
        said = f"no such key: {echoed}. " + "Go away. " * 100
        error = typed_error(kind(f"{said}\n\n  To fix:\n    - Pass the key explicitly (api_key)"), [lm])
        assert isinstance(error, typed)
        assert "no such key: <secret>." in str(error)
        assert "JKL" not in str(error)
        # DSPy's advice is of arguments that are not KEQA's.
        assert "To fix" not in str(error)


@pytest.mark.parametrize(
    "fault",
    [TypeError("x"), AttributeError("x"), KeyError("x"), NameError("x"), NotImplementedError(), AssertionError()],
)
def test_a_fault_in_a_program_surfaces_as_it_is(fault):
    assert typed_error(raised(fault)) is fault
    # So it does out of a language model's class, from which DSPy reports an unexpected error.
    unexpected = LMUnexpectedError("x")
    unexpected.__cause__ = raised(fault)
    assert typed_error(unexpected) is fault


def test_what_a_client_library_trips_over_is_what_a_server_sent():
    scope = {"__name__": "litellm.llms.somebody", "error": AttributeError("choices")}
    exec("def read(): raise error", scope)
    unexpected = LMUnexpectedError("choices")
    with pytest.raises(AttributeError) as caught:
        scope["read"]()
    unexpected.__cause__ = caught.value
    assert typed_error(unexpected).cause == "LMUnexpectedError"
    # So is what readers of values trip over, which another draw may do without.
    scope |= {"__name__": "json_repair.parser", "error": RecursionError("deep")}
    with pytest.raises(RecursionError) as caught:
        scope["read"]()
    typed = typed_error(caught.value)
    assert (typed.cause, typed.unusable) == ("AdapterParseError", True)


class Fieldless(dspy.ChatAdapter):
    def __call__(self, *arguments):
        return [{} for _ in super().__call__(*arguments)]


@pytest.mark.parametrize(("reads", "depth"), [(adapter(), 100_000), (Fieldless(), 1)])
def test_a_reply_that_is_nested_too_deeply_or_has_no_field_is_one_that_cannot_be_used(programmed, reads, depth):
    stage, engine = programmed(Decomposition(), lambda name, inputs, config: {"quizzes": "[" * depth + '"Who?"]'})
    session = Session(stage.bound, blocking=True)
    with dspy.context(adapter=reads):
        (quiz,) = asyncio.run(session.run(stage.run("Who?")))
    assert quiz.text == "Who?"
    assert {(note.cause, note.stage) for note in session.degradations} == {("AdapterParseError", "decompose")}
    # A call that failed would not be drawn again.
    assert engine.count == {"DecomposeQuestion": 2}


def test_what_another_attempt_may_not_meet():
    passing = ["LMServerError", "LMRateLimitError", "LMTimeoutError", "RetrievalError", "TimeoutError"]
    staying = ["AdapterParseError", "EmptyAnswerError", "LMInvalidRequestError", "Any", ""]
    assert [cause for cause in [*passing, *staying] if is_transient(cause)] == passing
