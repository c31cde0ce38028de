import itertools

import dspy
import litellm
import pytest
from servers.openai_server import OpenAIServer, markers

from keqa.errors import StorageError
from keqa.evaluation.evaluate import evaluate
from keqa.evaluation.run_file import read_run
from keqa.lms import build_roles
from keqa.programs.baselines import ClosedBook
from keqa.programs.calls import call_cache
from keqa.programs.calls.call_cache import CallCache
from keqa.programs.calls.session import bypass_cache, keeping
from keqa.programs.keqa import KEQA
from keqa.programs.records import Statement, Unanswered

TOWNS = [{"id": f"t{n}", "question": f"Who governs Town{n}?", "answer": "x"} for n in range(3)]


@pytest.fixture
def numbered():
    """A server that never answers the same twice."""
    numbers = itertools.count()
    with OpenAIServer(
        reply=lambda messages, n, body: [markers(answer=f"a{next(numbers)}", same=False) for _ in range(n)]
    ) as server:
        yield server


@pytest.fixture
def roles(numbered):
    return build_roles("openai/scripted", api_base=numbered.api_base, num_retries=0)


@pytest.fixture
def cache(tmp_path):
    with CallCache(tmp_path / "calls.sqlite") as opened:
        yield opened


def drawn(path):
    return [[sample.text for sample in line.record.quizzes[0].samples] for line in read_run(path).lines]


@pytest.mark.server
@pytest.mark.parametrize("opened", ["once", "twice"])
def test_a_second_run_is_answered_from_it_in_another_process_too(roles, cache, numbered, tmp_path, opened):
    first = evaluate(ClosedBook(lms=roles), TOWNS, out=tmp_path / "first.jsonl", cache=cache)
    assert numbered.count == 3
    if opened == "twice":
        cache.close()
        cache = CallCache(tmp_path / "calls.sqlite")
    second = evaluate(ClosedBook(lms=roles), TOWNS, out=tmp_path / "second.jsonl", cache=cache)
    assert numbered.count == 3
    cache.close()
    assert (first.cost.lm_requests, first.cost.calls) == (3, 3)
    assert (second.cost.lm_requests, second.cost.calls) == (3, 0)
    # What an answer takes does not depend on who asked first.
    assert second.cost.tokens == first.cost.tokens > 0
    answers = [[line.answer for line in read_run(tmp_path / f"{name}.jsonl").lines] for name in ("first", "second")]
    assert answers[0] == answers[1]


@pytest.mark.server
@pytest.mark.parametrize("together", [True, False], ids=["one request", "a request each"])
def test_it_never_makes_draws_equal(roles, cache, numbered, tmp_path, monkeypatch, together):
    if not together:
        monkeypatch.setattr("keqa.lms.served.supports_n", lambda lm: False)
    program = KEQA(None, lms=roles, decompose=False, tries=4)
    evaluate(program, TOWNS, out=tmp_path / "first.jsonl", cache=cache)
    first = drawn(tmp_path / "first.jsonl")
    assert [len(set(samples)) for samples in first] == [4, 4, 4]
    assert len({text for samples in first for text in samples}) == 12
    before = numbered.count
    evaluate(program, TOWNS, out=tmp_path / "second.jsonl", cache=cache)
    assert drawn(tmp_path / "second.jsonl") == first
    assert numbered.count == before


def test_a_model_in_this_process_is_cached_too(programmed, cache):
    numbers = itertools.count()
    program, engine = programmed(ClosedBook(), lambda name, inputs, config: {"answer": f"a{next(numbers)}"}, cache=True)
    with cache.installed():
        records = [program("Who?").record for _ in range(2)]
    assert len(engine.calls) == 1
    assert [record.answer for record in records] == ["a0", "a0"]
    assert [record.cost.calls for record in records] == [1, 0]
    assert [record.cost.by_role["task"].cached for record in records] == [0, 1]
    assert [record.cost.by_role["task"].prompt_tokens for record in records] == [10, 10]


@pytest.mark.server
def test_without_a_file_every_call_is_made(roles, numbered):
    with CallCache(None).installed():
        assert roles.task("Who?") != roles.task("Who?")
    assert numbered.count == 2


@pytest.mark.server
def test_a_question_that_is_asked_again_does_not_get_the_reply_that_it_failed_with(roles, cache, numbered, tmp_path):
    answers, program, run = numbered.reply, ClosedBook(lms=roles), {"out": tmp_path / "run.jsonl", "cache": cache}
    evaluate(program, TOWNS[:1], out=tmp_path / "other.jsonl", cache=cache)
    numbered.reply = lambda messages, n, body: ["no {format"]
    assert evaluate(program, TOWNS[1:], **run).failed == 2
    numbered.reply, before = answers, numbered.count
    # The first was not asked in this run, and is answered by what was kept.
    assert evaluate(program, TOWNS, **run, retry_failed=True).failed == 0
    assert numbered.count == before + 2
    # What the others get now takes the place of what was kept.
    assert evaluate(program, TOWNS, out=tmp_path / "third.jsonl", cache=cache).failed == 0
    assert numbered.count == before + 2


def test_of_two_that_are_installed_in_threads_the_first_may_leave_first(cache):
    before, first, second = dspy.cache, cache.installed(), CallCache(None).installed()
    first.__enter__()
    second.__enter__()
    own = dspy.cache
    first.__exit__(None, None, None)
    assert dspy.cache is own
    second.__exit__(None, None, None)
    assert dspy.cache is before


# As on a disk that is full, and where the file is damaged.
@pytest.mark.server
@pytest.mark.parametrize(("harm", "cannot"), [("PRAGMA query_only = 1", "written"), ("DROP TABLE calls", "read")])
def test_a_file_that_cannot_be_used_ends_the_run_and_fails_no_question(roles, cache, numbered, tmp_path, harm, cannot):
    cache._file._file.execute(harm)
    with pytest.raises(StorageError, match=rf"calls\.sqlite cannot be {cannot}"):
        evaluate(ClosedBook(lms=roles), TOWNS, out=tmp_path / "run.jsonl", cache=cache)
    assert read_run(tmp_path / "run.jsonl").lines == []
    assert cannot == "written" or numbered.count == 0
    # An examination does not take it for a failed draw.
    with cache.installed(), pytest.raises(StorageError):
        KEQA(None, lms=roles, decompose=False)("Who?")


ASKED = {"model": "m", "messages": ["Who?"], "temperature": 0.0}


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ({"timeout": 3, "num_retries": 2, "headers": {}, "extra_headers": {}, "_fn_identifier": "f"}, True),
        ({"api_key": "secret"}, True),
        ({"messages": ["Why?"]}, False),
        ({"model": "n"}, False),
        ({"temperature": 1.0}, None),
        ({"temperature": 1.0, "rollout_id": 1}, False),
    ],
)
def test_which_requests_are_one_and_which_are_not_kept(cache, other, same):
    both = (ASKED, ASKED | other)
    for request, said in zip(both, ("first", "second"), strict=True):
        cache.put(request, litellm.ModelResponse(choices=[{"message": {"content": said}}]), ("api_key",))
    found = [cache.get(request, ("api_key",)) for request in both]
    said = [one and one.choices[0].message.content for one in found]
    assert said == {True: ["second"] * 2, False: ["first", "second"], None: ["first", None]}[same]
    with bypass_cache():
        assert cache.get(ASKED) is None
    assert cache.get({"model": "m", "request": {"config": {"temperature": 0}}}) is None


def test_what_json_has_no_form_for_tells_requests_apart(cache):
    forms = [Statement, Unanswered, Statement(text="x"), Statement(text="y"), {1}, {2}, dict, list]
    assert len({call_cache._key_of(ASKED | {"form": one}, ()) for one in forms}) == len(forms)
    # Settings in another order make the same request.
    assert call_cache._key_of(ASKED, ()) == call_cache._key_of(dict(reversed(ASKED.items())), ())
    assert call_cache._key_of(ASKED | {"form": Statement(text="x")}, ()) == call_cache._key_of(
        ASKED | {"form": Statement(text="x").model_dump(mode="json")}, ()
    )


@pytest.mark.server
def test_no_key_is_in_the_file(numbered, tmp_path):
    roles = build_roles("openai/scripted", api_base=numbered.api_base, api_key="sk-a-secret-of-mine")
    with CallCache(tmp_path / "calls.sqlite") as cache, cache.installed():
        roles.task("Who?")
    content = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"sk-a-secret" not in content
    assert b"127.0.0.1" not in content


def test_the_replies_of_client_libraries_are_kept_until_they_are_of_no_use(cache):
    chat = litellm.ModelResponse(choices=[{"message": {"content": "Ann"}}], usage={"prompt_tokens": 3})
    text = litellm.TextCompletionResponse(choices=[litellm.utils.TextChoices(text="Bo")])
    for place, (reply, said) in enumerate(((chat, lambda one: one.message.content), (text, lambda one: one.text))):
        request = {"model": "m", "prompt": place, "temperature": 0.0}
        cache.put(request, reply)
        with keeping(None) as kept:
            found = cache.get({**request, "timeout": 3})
        assert type(found) is type(reply)
        assert [said(one) for one in found.choices] == [said(one) for one in reply.choices]
        key = call_cache._key_of(request, ())
        assert call_cache.is_sound(key, cache._file.get(key))
        for forget in kept:
            forget()
        assert cache.get(request) is None
    cache.put({"temperature": 0.0}, "of another kind")
    assert cache.get({"temperature": 0.0}) is None
    record = {"record": {"outputs": ["x"]}, "usage": {}}
    harmed = [
        {},
        {**record, "usage": {"prompt_tokens": -1}},
        {"reply": {"choices": []}, "kind": "ModelResponse", "usage": {}},
    ]
    assert [call_cache.is_sound("x", one) for one in harmed] == [False] * 3
