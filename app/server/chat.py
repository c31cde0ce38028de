"""Chat completions in OpenAI's form: what is read of a request, and how an answer is written."""

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from keqa.conversations import SOURCES, harmless, sources_text
from keqa.programs.calls.texts import answer_of
from keqa.programs.declared import WantedStyle
from keqa.programs.prediction import AnswerPart, Progress, Source, disagreements_of, sources_of
from keqa.programs.records import QuestionRecord, Written
from keqa.programs.unanswered import answer_text, listed, without_guess
from keqa.server.limits import ProblemError
from keqa.storage.redaction import without_secrets
from keqa.storage.untrusted import plain

Read = TypeVar("Read", bound=BaseModel)

Story = Literal["reasoning", "text", "none"]
"""Where a stream reports how the answer is found: in the reasoning field, in the text between tags, or nowhere."""

Link = Callable[[Source], str | None]
"""The address of a source's document, where it is given out."""

_FREE = (None, "auto", "none")

# Chat windows fold away what stands between these.
_THINK, _THOUGHT = "<think>\n", "\n</think>\n\n"
_STORY = re.compile(r"\A\s*(<think>.*?</think>|<details.*?</details>)\s*", re.DOTALL)
_LISTED = re.compile(rf"\n+{re.escape(SOURCES)}\n.*\Z", re.DOTALL)
# How Open WebUI passes on what was attached to a question, or found in the web for it.
_ATTACHED = re.compile(r"\s*### Task:\nRespond to the user query using the provided context")
# What Open WebUI, LibreChat and Continue have a model do beside the conversation, and the system messages by which
# LobeChat and Cherry Studio do.
_CHORE = re.compile(
    r"\s*(### Task:\n|(Provide|Generate|Write|Please generate) a concise, (5-word-or-less|3-5 word) title"
    r"|Analyze this conversation and provide:\n1\. The detected language|Query: History:\n"
    r"|Your task is to reflect the speaker's likely facial expression"
    r"|Given the following\.\.\. please reply with a title)"
)
_CHORE_OF_SYSTEM = re.compile(
    r"\s*You are (a professional conversation summarizer\. Generate a concise title"
    r"|an assistant skilled in conversation\. You need to summarize the user's conversation)"
)
CHECKED = "\n\n*Checked against the documents:*\n\n"
"""Stands between a draft that was streamed and what is left of it."""
_CITED = re.compile(r"\[(\d+)\]")

MODEL = "keqa"
"""The one model that a server has."""


def read_body(kind: type[Read], body: bytes) -> Read:
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        message = f"{place}: {plain(first['msg'])}" if place else plain(first["msg"])
        raise ProblemError(400, message, param=place or None) from None


class _TextPart(BaseModel):
    type: str
    text: str | None = None


class _Message(BaseModel):
    role: str
    content: str | list[_TextPart] | None = None


class _StreamOptions(BaseModel):
    include_usage: bool | None = False


class ChatRequest(BaseModel):
    """What is read of a request; other fields, such as a temperature, have no meaning here and are passed over."""

    model: str
    messages: list[_Message] = Field(min_length=1)
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    n: int | None = None
    tool_choice: Any = None
    function_call: Any = None
    response_format: dict[str, Any] | None = None
    answer_type: str = "short"
    choices: list[str] = Field(default_factory=list)
    style: WantedStyle | None = None
    story: Story | None = None
    sources_in_text: bool = True

    @classmethod
    def read(cls, body: bytes) -> "ChatRequest":
        found = read_body(cls, body)
        if found.model != MODEL:
            raise no_model(found.model)
        wants_form = (found.response_format or {}).get("type", "text") != "text"
        refused = {
            "n": (found.n or 1) != 1 and "a question has one answer",
            # A chat window offers its own tools with every question: whoever is offered some need not call any.
            "tool_choice": found.tool_choice not in _FREE and "no tools can be called",
            "function_call": found.function_call not in _FREE and "no functions can be called",
            "response_format": wants_form and "an answer is text",
        }
        if _ATTACHED.match(found.question):
            message = "only the server's own documents are read: ask without the window's files, knowledge and search"
            raise ProblemError(400, message, code="no_attachments", param="messages")
        system = [" ".join(_texts(message.content)) for message in found.messages if message.role == "system"]
        if _CHORE.match(found.question) or any(map(_CHORE_OF_SYSTEM.match, system)):
            # It would cost as much as a question, and the answer would be none.
            message = "a title, tags or questions for a chat window are no question to the documents"
            raise ProblemError(400, message, code="no_question", param="messages")
        for name, why in refused.items():
            if why:
                raise ProblemError(400, f"{name}: {why}", code="unsupported_parameter", param=name)
        return found

    @property
    def question(self) -> str:
        return _text(self.messages[self._last].content)

    @property
    def history(self) -> list[dict[str, str]]:
        """The questions before the last one, each with its answer, where it had one; what else was said is not read."""
        turns: list[dict[str, str]] = []
        for message in self.messages[: self._last]:
            written = "\n".join(_texts(message.content))
            if message.role == "user" and written.strip():
                turns.append({"question": written})
            elif message.role == "assistant" and turns and (answer := _bare(written)):
                turns[-1].setdefault("answer", answer)
        return turns

    @property
    def _last(self) -> int:
        places = [place for place, message in enumerate(self.messages) if message.role == "user"]
        if not places:
            raise ProblemError(400, "messages: none has the role user", param="messages")
        return places[-1]


def _texts(content: str | list[_TextPart] | None) -> list[str]:
    if isinstance(content, list):
        return [part.text for part in content if part.type == "text" and part.text]
    return [content] if content else []


def _bare(text: str) -> str:
    """An answer as a window sends it back, without the story before it and the sources after it."""
    return _LISTED.sub("", _STORY.sub("", text)).rpartition(CHECKED)[2].strip()


def _text(content: str | list[_TextPart] | None) -> str:
    if isinstance(content, list):
        if any(part.type != "text" or part.text is None for part in content):
            raise ProblemError(400, "messages: a question is text, and nothing else", param="messages")
        return "\n".join(part.text or "" for part in content)
    return content or ""


def no_model(name: str) -> ProblemError:
    return ProblemError(404, f"there is no model {name[:100]!r}, only {MODEL!r}", code="model_not_found", param="model")


class Completion:
    """The answer to one request, whole or as events."""

    def __init__(
        self,
        story: Story = "none",
        lms: Sequence[Any] = (),
        *,
        with_usage: bool = False,
        link: Link = lambda source: None,
    ) -> None:
        """Begin one; the story must repeat no key of its language models."""
        self._link = link
        self._id, self._created = f"chatcmpl-{uuid.uuid4().hex}", int(time.time())
        self._story, self._lms, self._with_usage = story, lms, with_usage
        # Of an answer, what was written and what was sent of it; and whether it was written otherwise since.
        self._written, self._sent, self._otherwise, self._thinks = "", "", False, False

    def whole(self, record: QuestionRecord) -> dict[str, Any]:
        message = {"role": "assistant", "content": content_of(record, self._link), "refusal": None}
        message |= _beside(record, self._link)
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage(record)}

    def begun(self) -> str:
        return self._event({"role": "assistant", "content": ""}) + "".join(self._story_events("Looking into it.\n"))

    def happened(self, one: Progress) -> str:
        """The events of what happened; words that are checked yet are a part of the story, as is all else."""
        if not isinstance(one, AnswerPart):
            return "".join(self._story_events(f"{one}\n"))
        if one.draft:
            return "".join(self._story_events(one.text if one.at else f"Draft: {one.text}"))
        self._otherwise = self._otherwise or one.at != len(self._written)
        # What was sent cannot be taken back: another answer is sent when it counts.
        if self._otherwise:
            return ""
        self._written += one.text
        # What can be the beginning of markup waits for what follows.
        new = harmless(self._written.rstrip("!]<"))[len(self._sent) :]
        self._sent += new
        return "".join(self._text_events(new))

    def answered(self, record: QuestionRecord, *, lists: bool = False) -> Iterator[str]:
        """The events of an answer, whose text may end with a list of its sources."""
        answer, sent = harmless(text_of(record)), self._sent
        waiting = harmless(self._written)[len(sent) :]
        if sent and answer_of(self._written, record.standalone or record.question, record.choices) == text_of(record):
            # What stood around it was sent with it, and is no other answer.
            rest = waiting
        else:
            rest = answer[len(sent) :] if answer.startswith(sent) else f"{waiting}{CHECKED}{answer}"
        # A written answer cites its sources by number, whatever else the documents do not say.
        cites = record.unanswered is None or (record.written is not None and record.written.text)
        listed = sources_text(sources_of(record), self._link) if lists and cites else ""
        yield from self._text_events(rest)
        if listed:
            yield from self._text_events(f"\n\n{listed}")
        yield self._event({**_beside(record, self._link), "answer": text_of(record)}, "stop")
        if self._with_usage:
            yield event({**self._head("chat.completion.chunk"), "choices": [], "usage": usage(record)})

    def _story_events(self, words: str) -> Iterator[str]:
        words = str(without_secrets(words, self._lms))
        if self._story == "reasoning":
            yield self._event({"reasoning_content": words})
        elif self._story == "text" and not self._sent:
            yield self._event({"content": f"{'' if self._thinks else _THINK}{words.replace('<', '‹')}"})
            self._thinks = True

    def _text_events(self, text: str) -> Iterator[str]:
        if self._thinks:
            self._thinks = False
            yield self._event({"content": _THOUGHT})
        if text:
            yield self._event({"content": text})

    def _event(self, delta: dict[str, Any], finish_reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        # OpenAI's streams have the field in each chunk where it is wanted, with its value in the last one.
        further = {"usage": None} if self._with_usage else {}
        return event({**self._head("chat.completion.chunk"), "choices": [choice], **further})

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._created, "model": MODEL}


DONE = "data: [DONE]\n\n"
"""The end of a stream."""

ALIVE = ": in work\n\n"
"""A comment, which keeps what lies between from taking a stream for dead."""


def event(data: dict[str, Any]) -> str:
    """A server-sent event; JSON holds no line break."""
    return f"data: {json.dumps(data)}\n\n"


def usage(record: QuestionRecord) -> dict[str, int]:
    """The tokens of all calls that the answer took, but for those that a cache answered."""
    roles = record.cost.by_role.values()
    read, written = sum(role.prompt_tokens for role in roles), sum(role.completion_tokens for role in roles)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def text_of(record: QuestionRecord) -> str:
    """The answer as a message says it, without its sources."""
    written = record.written
    if written is None or not written.text:
        return answer_text(record)
    # What is quoted from documents shall load no image and lead nowhere where a client shows it as Markdown.
    return harmless("\n\n".join([answer_text(record), *([listed(written)] if written.style == "list" else [])]))


def content_of(record: QuestionRecord, link: Link = lambda source: None) -> str:
    """What a message says; below a written answer its sources by number, as not all clients show annotations."""
    text = text_of(record)
    if record.written is None or not record.written.text:
        return text
    return f"{text}\n\n{sources_text(sources_of(record), link)}"


def facts_of(record: QuestionRecord) -> dict[str, Any]:
    return {
        "sources": sources_of(record),
        "disagreements": disagreements_of(record),
        **{name: getattr(record, name) for name in ("explanation", "answer_source", "confidence", "guessed")},
        "unanswered": without_guess(record.unanswered),
        **({} if record.written is None else {"short_answer": record.answer, "written": _brief(record.written)}),
    }


def _brief(written: Written) -> dict[str, Any]:
    return written.model_dump(mode="json", include={"style", "statements", "looked_at", "more"})


def _beside(record: QuestionRecord, link: Link) -> dict[str, Any]:
    """What a message holds beside the answer: annotations for clients of OpenAI's, and KEQA's own fields."""
    facts, annotations = facts_of(record), []
    text = text_of(record)
    for number, source in enumerate(facts["sources"], start=1):
        title = source.label if source.file else source.title or source.id
        written = record.written is not None and record.written.text
        places = [found.span() for found in _CITED.finditer(text) if int(found[1]) == number] if written else []
        for start, end in places or [(0, len(text) if written else len(record.answer or ""))]:
            cited = {"start_index": start, "end_index": end, "title": title, "url": link(source) or source.url}
            annotations.append({"type": "url_citation", "url_citation": cited})
    shown = {"sources": [source.model_dump() for source in facts["sources"]]}
    return {"annotations": annotations, **facts, **shown}
