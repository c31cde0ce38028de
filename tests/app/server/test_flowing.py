"""Streams that flow: the story while the answer is found, its words as they are written, sources with links."""

import json
import re
import time

import httpx
import pytest
from fixtures.run_files import make_passage
from fixtures.serving import MARKUP, QUESTION, TOKEN, events_in, until

from keqa.programs.prediction import AnswerPart
from keqa.programs.records import PassageVerdict, QuestionRecord, QuizRecord, Statement, Written
from keqa.programs.stages.documents import missing_quiz
from keqa.programs.unanswered import unanswered_of
from keqa.server.application import Documents
from keqa.server.chat import ChatRequest, Completion, content_of

pytestmark = pytest.mark.server

ASKED = [{"role": "user", "content": QUESTION}]
LISTED = "Flora Isvik\n\nSources:\n\n1. Heidi Fenman (1)"


def streamed(client, **further):
    with client.chat.completions.create(model="keqa", messages=ASKED, stream=True, extra_body=further) as stream:
        chunks = list(stream)
    deltas = [chunk.choices[0].delta for chunk in chunks]
    return [getattr(one, "reasoning_content", None) or "" for one in deltas], [one.content or "" for one in deltas]


def test_the_story_comes_in_the_reasoning_field_and_then_the_answer_word_by_word(client, server):
    reasoning, content = streamed(client)
    lines = "".join(reasoning).splitlines()
    assert lines[0] == "Looking into it."
    assert "Quiz 1: Who governs Carmouth?" in lines
    assert "Answer: Who governs Carmouth? Heidi Fenman" in lines
    assert [part for part in content if part][:2] == ["Flora", " Isvik"]
    assert "".join(content) == LISTED
    assert any(call.body.get("stream") for call in server.calls)


def test_the_story_as_text_that_windows_fold_away(client):
    reasoning, content = streamed(client, story="text")
    assert not any(reasoning)
    assert re.fullmatch(r"<think>\n(.+\n)+\n</think>\n\n" + re.escape(LISTED), "".join(content))
    assert "".join(streamed(client, story="none", sources_in_text=False)[1]) == "Flora Isvik"


def test_what_a_window_sends_back_is_the_answer_alone():
    said = "<think>\nLooking\n</think>\n\nSo it is [1].\n\nSources:\n\n1. [a](http://b)\n\n[1]: http://b"
    body = {"model": "keqa", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": said}]}
    folded = '<details type="reasoning" done="true">\n<summary>Thought</summary>\n> x\n</details>\nNo.'
    body["messages"] += [{"role": "user", "content": "b"}, {"role": "assistant", "content": folded}]
    body["messages"] += [{"role": "user", "content": "c"}]
    read = ChatRequest.read(json.dumps(body).encode())
    assert read.history == [{"question": "a", "answer": "So it is [1]."}, {"question": "b", "answer": "No."}]


def test_sources_link_to_their_documents_with_a_ticket_for_each(serve, server, tmp_path, monkeypatch):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "the mayor.txt").write_text("Heidi Fenman")
    (docs / "other.txt").write_text("other")
    serving = serve(server, documents=Documents(docs), token=TOKEN)
    made = PassageVerdict.__init__
    monkeypatch.setattr(
        PassageVerdict, "__init__", lambda self, **fields: made(self, **{**fields, "file": "the mayor.txt", "page": 2})
    )
    answer = serving.chat(stream=True, headers={"Authorization": f"Bearer {TOKEN}"}).text
    link = re.search(r"http://[^)\\]+", answer)[0]
    assert link.startswith(f"{serving.url}/documents/the%20mayor.txt?ticket=")
    assert link.endswith("#page=2")
    # As a browser sends it that follows a link from the page of a chat window.
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert httpx.get(link, headers=followed).text == "Heidi Fenman"
    assert httpx.get(link.replace("the%20mayor", "other")).status_code == 401
    assert httpx.get(re.sub("ticket=.", "ticket=", link)).status_code == 401
    assert httpx.post(link).status_code in (401, 405)
    assert httpx.get(link, headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}).status_code == 403
    assert TOKEN not in answer
    behind = serve(server, documents=Documents(docs), public_url="https://keqa.example/x/")
    there = "https://keqa.example/x/documents/the%20mayor.txt#page=2"
    assert f"({there})" in behind.chat(stream=True).text
    (annotation,) = behind.chat().json()["choices"][0]["message"]["annotations"]
    assert annotation["url_citation"]["url"] == there


def test_who_goes_away_frees_the_calls(serve, slow):
    """A closed stream and one that was never read: no call stays in work, and none is made any more."""
    serving = serve(slow)
    body = {"model": "keqa", "messages": ASKED, "stream": True}
    for _ in range(2):
        with serving.client as client, client.stream("POST", "/v1/chat/completions", json=body) as answer:
            lines = answer.iter_lines()
            assert next(lines).startswith("data: ")
            until(lambda: serving.metric("keqa_in_work") == 1)
        until(lambda: serving.metric("keqa_in_work") == 0)
    assert serving.metric("keqa_questions_total", outcome="cancelled") == 2
    asked = slow.count
    time.sleep(0.3)
    assert slow.count == asked <= 2


# Requests of Open WebUI 0.12, and of LibreChat's client (@librechat/agents 3.9, with the settings that LibreChat gives
# it for an endpoint of one's own), as they were seen to ask.
OPEN_WEBUI = {
    "stream": True,
    "model": "keqa",
    "messages": [
        {"role": "system", "content": "You are a pirate."},
        {"role": "user", "content": "Who governs Carmouth?"},
        {
            "role": "assistant",
            "content": '<details type="reasoning" done="true" duration="1">\n<summary>Thought for 1 second</summary>\n'
            "&gt; Quiz 1\n</details>\nHeidi Fenman\n\nSources:\n\n1. Heidi Fenman (1)",
        },
        {"role": "user", "content": [{"type": "text", "text": "To whom is the mayor married?"}]},
    ],
    "stream_options": {"include_usage": True},
    "temperature": 0.7,
    "max_tokens": 500,
    # It offers its own tools with every question.
    "tools": [{"type": "function", "function": {"name": "get_current_timestamp", "parameters": {"type": "object"}}}],
}
LIBRECHAT = {
    "model": "keqa",
    "user": "65f0",
    "stream": True,
    "messages": [
        {"role": "system", "content": "You are a pirate."},
        {"role": "user", "content": [{"type": "text", "text": "Who governs Carmouth?"}]},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "Heidi Fenman\n\nSources:\n\n1. Heidi Fenman (1)"}],
        },
        {"role": "user", "content": "To whom is the mayor married?"},
    ],
}


@pytest.mark.parametrize("body", [OPEN_WEBUI, LIBRECHAT], ids=["Open WebUI", "LibreChat"])
def test_a_chat_window_is_answered(serve, server, body):
    headers = {"Authorization": f"Bearer {TOKEN}", "HTTP-Referer": "https://openwebui.com/", "X-Title": "Open WebUI"}
    with serve(server, token=TOKEN).client as client:
        assert client.get("/v1/models", headers=headers).json()["data"][0]["id"] == "keqa"
        text = client.post("/v1/chat/completions", json=body, headers=headers).text
    assert text.endswith("data: [DONE]\n\n")
    chunks = events_in(text)
    # LibreChat asks for no usage, unless it is set up to.
    if "stream_options" in body:
        assert chunks.pop()["usage"]["total_tokens"] > 0
    # What these windows read of a chunk.
    for chunk in chunks:
        assert ("usage" in chunk) == ("stream_options" in body)
        (choice,) = chunk["choices"]
        assert set(choice) == {"index", "delta", "logprobs", "finish_reason"}
    assert "".join(one["choices"][0]["delta"].get("content", "") for one in chunks) == LISTED
    first, last = (chunks[place]["choices"][0] for place in (0, -1))
    assert (first["delta"]["role"], last["finish_reason"]) == ("assistant", "stop")
    (citation,) = last["delta"]["annotations"]
    assert (citation["url_citation"]["title"], last["delta"]["sources"][0]["text"]) == ("Heidi Fenman", MARKUP)
    asked = " ".join(str(call.messages) for call in server.calls)
    assert "pirate" not in asked
    assert "Thought" not in asked
    assert "Sources:" not in asked


@pytest.mark.parametrize(
    ("system", "chore"),
    [
        ("", "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history."),
        ("", "### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history"),
        ("", "### Task:\nSuggest 3-5 relevant follow-up questions or prompts"),
        ("Available Tools: []", 'Query: History:\nUSER: """Hi"""\nQuery: Who governs Carmouth?'),
        ("", "Provide a concise, 5-word-or-less title for the conversation, using title case conventions."),
        ("", "Analyze this conversation and provide:\n1. The detected language"),
        ("", "Given the following... please reply with a title for the chat that is 3-4 words in length"),
        ("You are a professional conversation summarizer. Generate a concise title that captures", "user: Who?"),
        ("You are an assistant skilled in conversation. You need to summarize the user's conversation", "a"),
    ],
)
def test_the_chores_of_a_chat_window_are_no_questions(serve, server, system, chore):
    messages = [{"role": "system", "content": system}, {"role": "user", "content": chore}]
    answer = serve(server).chat(messages=messages)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "no_question")
    assert server.count == 0


def test_a_question_with_attachments_is_no_chore_and_whoever_asks_learns_that_they_are_not_read(serve, server):
    asked = "### Task:\nRespond to the user query using the provided context\n<context>A ship.</context>\nWhat is it?"
    error = serve(server).chat(asked).json()["error"]
    assert (error["code"], "ask without" in error["message"], server.count) == ("no_attachments", True, 0)


def test_a_written_answer_has_its_sources_below_it_also_where_documents_contradict_each_other():
    passage = make_passage("1", "It opens at six.", title="Port")
    stated = Statement(text="It opens at six [1].", citations=[1])
    written = Written(style="sentence", text=stated.text, statements=[stated], passages=[passage])
    missing = missing_quiz(0, "?", [passage], "", ["five", "six"], ["?"])
    finding = unanswered_of("?", [], QuizRecord(index=0, text="?", missing=missing))
    told = {"answer": finding.message, "answer_source": "unanswered", "unanswered": finding, "written": written}
    record = QuestionRecord(question="?", **told)
    events = events_in("".join(Completion("none").answered(record, lists=True)))
    deltas = [one["choices"][0]["delta"] for one in events]
    assert "".join(one.get("content") or "" for one in deltas) == content_of(record)
    assert content_of(record).endswith("1. Port (1)")


SAID = (AnswerPart(0, "Yes", True), AnswerPart(3, " or no", True))
OTHERWISE = (AnswerPart(0, "No"), AnswerPart(0, "Yes"))
AROUND = (AnswerPart(0, "The answer is"), AnswerPart(13, " Yes. I hope this helps!"))
MARKUP_APART = (AnswerPart(0, "see !"), AnswerPart(5, "[x](http://evil)"))
CHECKED = "\n\n*Checked against the documents:*\n\n"


@pytest.mark.parametrize(
    ("form", "parts", "answer", "reasoning", "text"),
    [
        # What is checked yet is a part of the story.
        ("reasoning", SAID, "Yes", "Draft: Yes or no", "Yes"),
        ("text", SAID, "Yes", "", "<think>\nDraft: Yes or no\n</think>\n\nYes"),
        ("none", SAID, "Yes", "", "Yes"),
        # An answer that comes out otherwise follows what was sent; without what stood around it, it is the same.
        ("none", OTHERWISE, "Yes", "", f"No{CHECKED}Yes"),
        ("none", AROUND, "Yes", "", "The answer is Yes. I hope this helps!"),
        ("none", AROUND, "No", "", f"The answer is Yes. I hope this helps!{CHECKED}No"),
        # Words that make markup together are broken up.
        ("none", MARKUP_APART, "see ![x](http://evil)", "", "see ! [x] (http://evil)"),
    ],
)
def test_of_words_that_were_written_and_the_answer_that_came_of_them(form, parts, answer, reasoning, text):
    completion = Completion(form)
    events = [completion.happened(part) for part in parts]
    events += completion.answered(QuestionRecord(question="?", answer=answer, answer_source="summary"))
    deltas = [one["choices"][0]["delta"] for one in events_in("".join(events))]
    assert ["".join(one.get(name) or "" for one in deltas) for name in ("reasoning_content", "content")] == [
        reasoning,
        text,
    ]
