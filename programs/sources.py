"""The passages that an answer rests on, from the record of its question."""

from __future__ import annotations

from urllib.parse import quote

from pydantic import BaseModel, Field

from keqa.programs.records import PassageVerdict, QuestionRecord

_FROM_PASSAGES = frozenset({"passages", "summary", "fallback"})
"""What an answer that rests on passages comes from; any other comes from memory."""


class Source(BaseModel):
    """A passage that an answer, or an answer to one of its quizzes, was drawn from.

    Attributes:
        id: The passage's identifier within the index.
        title: Title of its document; may be empty.
        text: The passage.
        quizzes: Numbers of the quizzes that were answered from it; none where the question itself was.
    """

    id: str
    title: str
    text: str
    quizzes: list[int] = Field(default_factory=list)

    @property
    def url(self) -> str:
        """A name of the passage in the form of an address; nothing is served there."""
        return f"urn:keqa:passage:{quote(self.id, safe='')}"


def sources_of(record: QuestionRecord) -> list[Source]:
    """The sources of an answer, in the order in which they were used, each once.

    Where the program fell back to answering the question itself, the passages of its quizzes carried nothing.

    Args:
        record: The record of the question.
    """
    found: dict[tuple[str, str, str], Source] = {}

    def add(passages: list[PassageVerdict], quiz: int | None) -> None:
        for passage in passages:
            if passage.kept:
                source = Source(id=passage.passage_id, title=passage.title, text=passage.text)
                source = found.setdefault((source.id, source.title, source.text), source)
                if quiz is not None:
                    source.quizzes.append(quiz)

    if record.answer_source not in _FROM_PASSAGES:
        return []
    if record.answer_source == "fallback":
        if record.fallback is not None and record.fallback.source == "passages":
            add(record.fallback.passages, None)
        return list(found.values())
    for quiz in record.quizzes:
        if quiz.source == "passages":
            add(quiz.passages, quiz.index)
    add(record.passages, None)
    return list(found.values())
