"""The chat endpoint, asked by OpenAI's own client and by raw requests."""

from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from fixtures.serving import MARKUP, QUESTION, events_in, until
from servers.openai_server import HTTPFault, OpenAIServer

from keqa.errors import StorageError
from keqa.server.limits import problem_of

pytestmark = pytest.mark.server

ASKED = [{"role": "user", "content": QUESTION}]


def test_an_answer_with_its_sources_and_usage(client, server):
    completion = client.chat.completions.create(model="keqa", messages=ASKED)
    (choice,) = completion.choices
    assert (choice.message.content, choice.finish_reason) == ("Flora Isvik", "stop")
    (annotation,) = choice.message.annotations
    cited = annotation.url_citation
    assert (cited.title, cited.url) == ("Heidi Fenman", "urn:keqa:passage:1")
    assert choice.message.content[cited.start_index : cited.end_index] == "Flora Isvik"
    place = {"file": "", "page": None, "heading": "", "date": ""}
    source = {"id": "1", "title": "Heidi Fenman", "text": MARKUP, **place, "sentences": [MARKUP], "quizzes": [2]}
    assert choice.message.sources == [source]
    assert choice.message.disagreements == []
    assert choice.message.explanation == "Heidi Fenman governs Carmouth."
    assert completion.usage.prompt_tokens > 100
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens
    assert server.count > 0


def test_a_stream_is_events_and_says_that_it_is_alive(serving, server, monkeypatch):
    monkeypatch.setattr("keqa.server.application.KEEP_ALIVE", 0.02)
    server.latency = 0.1
    events = serving.chat(stream=True)
    assert events.headers["content-type"].startswith("text/event-stream")
    assert events.headers["x-accel-buffering"] == "no"
    parts = events.text.split("\n\n")
    assert parts[-2:] == ["data: [DONE]", ""]
    assert ": in work" in parts
    # Nobody asked for the usage.
    assert all(one["choices"] for one in events_in(events.text))


def test_the_last_message_of_the_user_is_the_question_and_those_before_it_make_it_stand_alone(client, server):
    earlier = [
        {"role": "system", "content": "You are a pirate."},
        {"role": "user", "content": [{"type": "text", "text": "What is Carmouth?"}]},
        {"role": "assistant", "content": "A quiet town"},
        {"role": "user", "content": ""},
        {"role": "user", "content": [{"type": "text", "text": "To whom is the mayor married?"}]},
    ]
    completion = client.chat.completions.create(model="keqa", messages=earlier)
    assert completion.choices[0].message.content == "Flora Isvik"
    first, second, *others = [str(call.messages) for call in server.calls]
    assert "What is Carmouth? A quiet town" in first
    assert "To whom is the mayor of Carmouth married?" in second
    assert not any("quiet" in messages for messages in [second, *others])
    assert not any("pirate" in messages for messages in [first, second, *others])


@pytest.mark.usefixtures("writing")
def test_a_request_says_how_it_is_answered(client):
    """One server answers all of these at once, each as it was asked."""

    def told(wanted):
        message = client.chat.completions.create(model="keqa", messages=ASKED, extra_body=wanted).choices[0].message
        return message.content.partition("\n\nSources:")[0], getattr(message, "written", {}).get("style")

    choice = {"style": "report", "answer_type": "choice", "choices": ["Flora Isvik", "Ann"]}
    wanted = [{}, {"style": "sentence"}, {"style": "list"}, {"style": "auto"}, {"style": "short"}, choice]
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(told, wanted)) == [
            ("Flora Isvik", None),
            ("She married Flora Isvik [1].", "sentence"),
            ("- Flora Isvik [1]\n\n1 item in 1 passage looked at", "list"),
            ("Flora Isvik", None),
            ("Flora Isvik", None),
            ("Flora Isvik", None),
        ]
    with client.chat.completions.create(
        model="keqa", messages=ASKED, stream=True, extra_body={"style": "sentence"}
    ) as stream:
        words = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert words == "She married Flora Isvik [1].\n\nSources:\n\n1. Heidi Fenman (1)"


def test_a_server_that_answers_in_short_says_so(serving):
    serving.answers._program.style = "short"
    answer = serving.chat(style="report")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "style")
    assert "--style auto" in answer.json()["error"]["message"]
    # Some clients send null for what is not set.
    assert serving.chat(style="short", stream=None, stream_options={"include_usage": None}).status_code == 200


def test_the_model_is_listed(client):
    assert [model.id for model in client.models.list()] == ["keqa"]
    assert client.models.retrieve("keqa").owned_by == "keqa"
    for other in ("gpt-4o", "openai/gpt-4o"):
        with pytest.raises(openai.NotFoundError) as error:
            client.models.retrieve(other)
        assert error.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError, match="questions go to POST /v1/chat/completions"):
        client.responses.create(model="keqa", input=QUESTION)


UNASKABLE = [
    ({"model": "gpt-4o"}, 404, "model"),
    ({"messages": []}, 400, "messages"),
    ({"messages": [{"role": "system", "content": "x"}]}, 400, "messages"),
    ({"messages": [{"role": "user", "content": " "}]}, 400, None),
    ({"messages": [{"role": "user", "content": "long " * 100_000}]}, 400, None),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, 400, "messages"),
    ({"messages": "hello"}, 400, "messages"),
    ({"n": 2}, 400, "n"),
    ({"tools": [{"type": "function"}], "tool_choice": "required"}, 400, "tool_choice"),
    ({"tool_choice": {"type": "function", "function": {"name": "x"}}}, 400, "tool_choice"),
    ({"functions": [{"name": "x"}], "function_call": {"name": "x"}}, 400, "function_call"),
    ({"response_format": {"type": "json_object"}}, 400, "response_format"),
    ({"answer_type": "essay"}, 400, None),
    ({"answer_type": "choice"}, 400, None),
    ({"style": "essay"}, 400, "style"),
]


@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_asked_is_an_error_in_openais_form(serving, server, stream):
    for change, status, param in UNASKABLE:
        answer = serving.chat(**change, stream=stream)
        error = answer.json()["error"]
        assert (answer.status_code, error["type"], error["param"]) == (status, "invalid_request_error", param), change
        assert error["message"]
    assert server.count == 0


def test_a_body_that_is_no_request(serving):
    with serving.client as client:
        for body in (b"", b"{", b"[]", b"\xff", b'{"model":' + b"[" * 100_000):
            answer = client.post("/v1/chat/completions", content=body, headers={"Content-Type": "application/json"})
            assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error"), body


@pytest.mark.parametrize("stream", [False, True])
def test_a_question_without_an_answer_is_an_error(serve, stream, caplog):
    with (
        OpenAIServer(lambda messages, n, body: ["no form at all"] * n) as lm,
        caplog.at_level("INFO", logger="keqa.server"),
    ):
        serving = serve(lm)
        # Over documents of one's own a reply that cannot be read is a finding.
        serving.answers._program.unanswered = "guess"
        client = openai.OpenAI(base_url=f"{serving.url}/v1", api_key="none")
        with client, pytest.raises(openai.APIError) as error:
            list(client.chat.completions.create(model="keqa", messages=ASKED, stream=stream))
    assert error.value.code == "no_answer"
    assert "failed" in error.value.message
    assert "no answer: AdapterParseError in " in caplog.text
    # OpenAI's client makes no second attempt, which would be paid for again.
    assert serving.metric("keqa_questions_total", outcome="failed") == 1


def test_a_key_that_expired_is_no_news_for_whoever_asks(serve, caplog):
    secret = "sk-of-the-server-0123456789"

    def reply(messages, n, body):
        raise HTTPFault(401, f"Incorrect API key provided: {secret}, asked {QUESTION}")

    with OpenAIServer(reply) as lm, caplog.at_level("INFO", logger="keqa.server"):
        answer = serve(lm).chat()
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "misconfigured")
    assert secret not in answer.text + caplog.text
    assert QUESTION not in caplog.text
    assert "LMAuthError" in caplog.text
    full = problem_of(StorageError("/home/ann/calls.db cannot be written: the disk is full"), [])
    assert (full.status, "calls.db" in full.message) == (502, False)


def test_a_fault_says_nothing_to_whoever_asks(serving, monkeypatch, caplog):
    async def faulty(question, **further):
        raise TypeError(f"no place for {question}")

    monkeypatch.setattr(serving.answers, "_program", type("P", (), {"acall": faulty, "max_question_chars": 1000})())
    with caplog.at_level("INFO", logger="keqa.server"):
        answer = serving.chat()
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "fault")
    assert "Carmouth" not in answer.text + caplog.text
    assert "fault: TypeError" in caplog.text


def test_the_metrics(serving):
    serving.chat()
    with serving.client as client:
        client.get("/of/somebody?secret=1")
        counted = 'keqa_http_requests_total{method="GET",path="other",status="404"} 1.0'
        # A request is counted once its reply is out.
        until(lambda: counted in client.get("/metrics").text)
        page = client.get("/metrics").text
    assert 'keqa_questions_total{outcome="answered"} 1.0' in page
    assert counted in page
    assert 'keqa_lm_calls_total{cached="no",role="task"}' in page
    assert "keqa_retrievals_total 1.0" in page
    assert "secret" not in page
    assert "Carmouth" not in page
