"""Conversations on disk: questions with the whole stories of their answers, in a folder of the user's own.

Each is a file for its owner alone, which is whole or not at all: its first line says what it is, and each further one
is a turn. A question is kept before it is asked, so that of a process that is killed only its answer is missing.
"""

import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from keqa.errors import InputError
from keqa.programs.earlier import Findings, findings_of
from keqa.programs.fingerprint import digest, program_spec, retriever_spec
from keqa.programs.prediction import Source, sources_of
from keqa.programs.program import Program
from keqa.programs.records import QuestionRecord
from keqa.programs.unanswered import answer_text
from keqa.retrievers import Retriever
from keqa.storage.files import atomic_write, private_folder
from keqa.storage.untrusted import open_regular, read_path

MOST, MOST_TURNS, MOST_BYTES = 1000, 200, 32 * 2**20
"""So many conversations are kept, of so many questions and bytes each."""

LAST = 10
"""So many of the last questions are the history of the next one."""

_VARIABLE = "KEQA_CONVERSATIONS"
_NAME = re.compile(r"[0-9a-f]{16}")
_TITLE = 200
_LOADS = re.compile(r"(!(?=\[)|\](?=\()|<(?=[a-zA-Z/!]))")
# What Markdown or a chat window could take for markup.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|])")


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ConversationHead(_Kept):
    """What a conversation is: its name, what it is called, which index and model answered, and when it changed last."""

    id: str
    title: str
    about: str = ""
    changed: str = ""


class Turn(_Kept):
    """A question, and the record of its answer where it has one; `by` is the digest of what answered."""

    question: str
    by: str = ""
    record: QuestionRecord | None = None
    error: str = ""


class Conversation(_Kept):
    """A conversation, its questions in their order."""

    about: ConversationHead
    turns: list[Turn] = Field(default_factory=list)

    @property
    def last(self) -> QuestionRecord | None:
        return next((turn.record for turn in reversed(self.turns) if turn.record is not None), None)

    def with_question(self, question: str) -> "Conversation":
        """The same with a question that has no answer yet."""
        return self.model_copy(update={"turns": [*self.turns, Turn(question=question)]})

    def with_answer(
        self, record: QuestionRecord | None, *, by: str = "", error: str = "", place: int = -1
    ) -> "Conversation":
        """The same with what became of a question, by default the last."""
        turns = list(self.turns)
        turns[place] = turns[place].model_copy(update={"record": record, "by": by, "error": error})
        return self.model_copy(update={"turns": turns})

    @property
    def history(self) -> list[tuple[str, str]]:
        """The last questions, each made to stand alone, with their answers."""
        records = [turn.record for turn in self.turns if turn.record is not None]
        return [(one.standalone or one.question, one.answer) for one in records if one.answer is not None][-LAST:]

    def findings(self, by: str) -> Findings:
        """What earlier questions settled, of those that the same index and program answered."""
        return findings_of(turn.record for turn in self.turns if turn.record is not None and turn.by == by)


class Conversations:
    """Those that are kept in a folder, or nowhere; safe to use from many threads of one process."""

    def __init__(self, folder: Path | None = None, *, kept: bool = True) -> None:
        """Keep them in a folder; by default that of the variable KEQA_CONVERSATIONS, or one of the user's data."""
        self.kept = kept
        if folder is None:
            from platformdirs import user_data_path

            given = os.environ.get(_VARIABLE)
            folder = Path(given) if given else user_data_path("keqa", appauthor=False) / "conversations"
        self.folder, self._lock = folder, threading.Lock()

    def begin(self, question: str, about: str = "") -> Conversation:
        """A new conversation; it is kept with its first question."""
        title = " ".join(question.split())[:_TITLE]
        return Conversation(about=ConversationHead(id=secrets.token_hex(8), title=title, about=about))

    def listed(self) -> list[ConversationHead]:
        """Those that are kept, the one that changed last first; what is no conversation is passed over."""
        found = []
        for path in self.folder.glob("*.json") if self.folder.is_dir() else ():
            try:
                with open_regular(path, error=InputError) as stream:
                    found.append(ConversationHead.model_validate_json(stream.readline(10_000)))
            except (OSError, InputError, ValidationError):
                continue
        return sorted(found, key=lambda one: one.changed, reverse=True)

    def read(self, name: str) -> Conversation:
        path = self._path(name)
        if not path.exists():
            raise InputError(f"there is no conversation {name}, or none any more: begin a new one")
        try:
            first, *lines = read_path(path, MOST_BYTES, links=False, error=InputError).splitlines()
            return Conversation(
                about=ConversationHead.model_validate_json(first),
                turns=[Turn.model_validate_json(line) for line in lines],
            )
        except (OSError, ValueError) as error:
            raise InputError(f"{path} is no conversation that this version can read: {type(error).__name__}") from error

    def ask(self, conversation: Conversation, question: str) -> Conversation:
        """Keep a question that is about to be asked; it is the last of the conversation that is returned."""
        if not self.kept:
            return conversation.with_question(question)
        with self._lock:
            path = self._path(conversation.about.id)
            if path.exists():
                conversation = self.read(conversation.about.id)
            elif self.folder.is_dir() and sum(1 for _ in self.folder.glob("*.json")) >= MOST:
                raise InputError(f"{MOST:,} conversations are kept: delete some of them")
            return self._written(conversation.with_question(question))

    def answer(
        self, conversation: Conversation, record: QuestionRecord | None, *, by: str = "", error: str = ""
    ) -> Conversation:
        """Keep what became of the question that `ask` has kept, unless the conversation was deleted meanwhile."""
        if not self.kept:
            return conversation.with_answer(record, by=by, error=error)
        place = len(conversation.turns) - 1
        with self._lock:
            if not self._path(conversation.about.id).exists():
                return conversation
            # Others may have been asked meanwhile.
            now = self.read(conversation.about.id)
            return self._written(now.with_answer(record, by=by, error=error, place=place))

    def delete(self, name: str) -> None:
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            raise InputError(f"there is no conversation {name}") from None

    def _written(self, conversation: Conversation) -> Conversation:
        turns = conversation.turns
        about = conversation.about.model_copy(update={"changed": datetime.now(UTC).isoformat(timespec="milliseconds")})
        changed = Conversation(about=about, turns=turns)
        content = "".join(f"{line.model_dump_json()}\n" for line in (about, *turns)).encode("utf-8", "replace")
        path = self._path(about.id)
        if len(turns) > MOST_TURNS or len(content) > MOST_BYTES:
            raise InputError("this conversation holds as much as is kept of one: begin a new one")
        private_folder(self.folder)
        atomic_write(path, content)
        return changed

    def _path(self, name: str) -> Path:
        # A name from outside leads to no other file.
        if not _NAME.fullmatch(name):
            raise InputError("a conversation is named by sixteen digits and letters, a to f")
        return self.folder / f"{name}.json"


def answered_by(program: Program, retriever: Retriever, lms: Sequence[Any]) -> str:
    """What answers here and now, as a digest: the program, its language models, and the index as it is."""
    models = [getattr(lm, "model", "") for lm in lms]
    return digest([program_spec(program), retriever_spec(retriever), models])


def exported(conversation: Conversation, form: Literal["html", "md"], link: Callable[[Source], str | None]) -> str:
    """A conversation as a file of its own: a page with all stories, or its text in Markdown."""
    if form == "html":
        from keqa.page import document

        return document("one", conversation.about.title, for_page(conversation)).text
    return "\n\n".join(_paragraphs(conversation, link)) + "\n"


def for_page(conversation: Conversation) -> dict[str, Any]:
    from keqa.page import story_data

    turns = [
        {"question": one.question, "error": one.error, **({} if one.record is None else story_data(one.record))}
        for one in conversation.turns
    ]
    return {**conversation.about.model_dump(), "turns": turns}


def _paragraphs(conversation: Conversation, link: Callable[[Source], str | None]) -> Iterator[str]:
    about = conversation.about
    yield f"# {plain_markdown(about.title)}"
    if about.about:
        yield f"{plain_markdown(about.about)}."
    for turn in conversation.turns:
        yield f"## {plain_markdown(turn.question)}"
        if turn.record is None:
            yield plain_markdown(turn.error or "No answer: it was broken off.")
            continue
        yield harmless(answer_text(turn.record))
        if listed := sources_text(sources_of(turn.record), link):
            yield listed


def sources_text(sources: list[Source], link: Callable[[Source], str | None]) -> str:
    """Sources as a list in Markdown, with links where they have any; a ``[2]`` in a text above leads to the second."""
    lines, targets = [SOURCES, ""], []
    for number, source in enumerate(sources, start=1):
        label, target = plain_markdown(source.label), link(source)
        if target is not None:
            label = f"[{label}]({target})"
            targets.append(f"[{number}]: {target}")
        lines.append(f"{number}. {label}{f', {source.date}' if source.date else ''}")
    return "\n".join([*lines, *([""] if targets else []), *targets]) if sources else ""


SOURCES = "Sources:"
"""The heading of sources in a text."""


def harmless(text: str) -> str:
    """Text that loads no image, leads nowhere and holds no tag where it is shown as Markdown."""
    return _LOADS.sub(r"\1 ", text)


def plain_markdown(text: str) -> str:
    """Text as one line of Markdown that shows it as it is."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
