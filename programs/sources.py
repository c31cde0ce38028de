"""The passages that an answer rests on, from the record of its question."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, Field

from keqa.metrics.answers import tokens
from keqa.programs.contradicting import differing_value, newer
from keqa.programs.records import PassageVerdict, PlacedText, QuestionRecord, QuizRecord, Unanswered
from keqa.programs.supporting import as_written, sentences_of, supporting_sentences

_FROM_PASSAGES = frozenset({"passages", "summary", "fallback"})
"""What an answer that rests on passages comes from; any other comes from memory."""

_COPIED = {*PlacedText.model_fields, "sentences"}
"""What a source takes from the record of its passage."""


class Source(PlacedText):
    """A passage that an answer, or an answer to one of its quizzes, was drawn from; see also `PlacedText`.

    Attributes:
        id: The passage's identifier within the index.
        sentences: Those that carried the answer, as the text has them; see `keqa.programs.supporting`.
        quizzes: Numbers of the quizzes that were answered from it; none where the question itself was.
    """

    id: str
    sentences: list[str] = Field(default_factory=list)
    quizzes: list[int] = Field(default_factory=list)

    @property
    def url(self) -> str:
        """A name of the passage in the form of an address; nothing is served there."""
        return f"urn:keqa:passage:{quote(self.id, safe='')}"

    @property
    def label(self) -> str:
        """Title and place, such as ``Harbour rules (rules.pdf, page 3, Fees)``; no two files share one.

        A passage of no file is distinguished by its id.
        """
        place = str(self.place) if self.file else self.id
        return f"{self.title} ({place})" if self.title and self.title != place else place


class Disagreement(BaseModel):
    """Two sources that say the same of something, but for the answer.

    Attributes:
        source: What the answer was drawn from.
        sentence: Its sentence that holds the answer.
        other: Another source of the same quiz, or one that was left out as an older one.
        other_sentence: Its sentence that says otherwise.
    """

    source: Source
    sentence: str
    other: Source
    other_sentence: str

    def __str__(self) -> str:
        """In one sentence."""
        first, second = (
            f"{one.label}{f', {one.date}' if one.date else ''}{', which is older,' if newer(than, one.date) else ''}"
            for one, than in ((self.source, self.other.date), (self.other, self.source.date))
        )
        return f"Sources may disagree: {first} says “{self.sentence}” and {second} says “{self.other_sentence}”"


def with_supporting_sentences(record: QuestionRecord) -> QuestionRecord:
    """A record in which each passage that an answer was drawn from names the sentences that carried the answer.

    Args:
        record: As the program wrote it.
    """
    changed: dict[str, Any] = {}
    if any(quiz.source == "passages" for quiz in record.quizzes):
        changed["quizzes"] = [_supported_quiz(quiz) for quiz in record.quizzes]
    if record.fallback is not None and record.fallback.source == "passages":
        changed["fallback"] = _supported_quiz(record.fallback)
    if record.passages and record.answer_source in _FROM_PASSAGES:
        changed["passages"] = _supported(record.passages, record.standalone or record.question, record.answer)
    return record.model_copy(update=changed) if changed else record


def _supported_quiz(quiz: QuizRecord) -> QuizRecord:
    if quiz.source != "passages":
        return quiz
    passages = _supported(quiz.passages, quiz.resolved or quiz.text, quiz.answer, quiz.evidence)
    return quiz.model_copy(update={"passages": passages})


def _supported(
    passages: list[PassageVerdict], question: str, answer: str | None, evidence: list[str] | None = None
) -> list[PassageVerdict]:
    return [
        one.model_copy(update={"sentences": supporting_sentences(one.text, question, answer, evidence or [])})
        if one.kept
        else one
        for one in passages
    ]


def sources_of(record: QuestionRecord) -> list[Source]:
    """The sources of an answer, in the order in which they were used, each once.

    Where the documents do not say it, they are those of the quizzes that have an answer all the same, and of those to
    which they say several things. Where the program fell back to answering the question itself, the passages of its
    quizzes carried nothing.

    Args:
        record: The record of the question.
    """
    found: dict[tuple[str, str, str], Source] = {}
    for number, passages, _, _ in _carrying(record):
        for passage in filter(lambda passage: passage.kept, passages):
            source = source_of(passage)
            source = found.setdefault((source.id, source.title, source.text), source)
            # What was drawn from it for another quiz may be in another sentence.
            source.sentences += [one for one in passage.sentences if one not in source.sentences]
            if number is not None:
                source.quizzes.append(number)
    return list(found.values())


def disagreements_of(record: QuestionRecord) -> list[Disagreement]:
    """Sources of one quiz that seem to say different things, each pair once; see `keqa.programs.contradicting`.

    Args:
        record: The record of the question.
    """
    found: dict[tuple[str, str], Disagreement] = {}
    for _, passages, asked, answer in _carrying(record):
        pairs = ((one, other) for one in passages for other in passages if _document(one) != _document(other))
        for one, other in pairs if answer is not None else ():
            pair = (min(one.passage_id, other.passage_id), max(one.passage_id, other.passage_id))
            if pair not in found and (said := _says_otherwise(one, other, asked, answer or "")):
                found[pair] = Disagreement(
                    source=source_of(one), sentence=said[0], other=source_of(other), other_sentence=said[1]
                )
    return list(found.values())


def _says_otherwise(one: PassageVerdict, other: PassageVerdict, asked: str, answer: str) -> tuple[str, str] | None:
    """A sentence that carried the answer, and the sentence of another passage that has something else in its place."""
    for sentence in one.sentences:
        for part in sentences_of(other.text):
            if not set(tokens(differing_value(sentence, part, asked))).isdisjoint(tokens(answer)):
                return sentence, as_written(other.text, part)
    return None


def _carrying(record: QuestionRecord) -> list[tuple[int | None, list[PassageVerdict], str, str | None]]:
    """What carried the answer: of each quiz its number, its passages, what it asks and its answer.

    Passages that were left out for a newer one are among them.
    """
    if record.unanswered is not None:
        return [
            (quiz.index, _used(quiz.passages), quiz.resolved or quiz.text, quiz.answer)
            for quiz in record.quizzes
            if _carries_a_part(quiz, record.unanswered)
        ]
    if record.answer_source not in _FROM_PASSAGES:
        return []
    if record.answer_source == "fallback":
        fallback = record.fallback
        if fallback is None or fallback.source != "passages":
            return []
        return [(None, _used(fallback.passages), fallback.resolved or fallback.text, fallback.answer)]
    quizzes = [quiz for quiz in record.quizzes if quiz.source == "passages"]
    own: list[tuple[int | None, list[PassageVerdict], str, str | None]]
    own = [(quiz.index, _used(quiz.passages), quiz.resolved or quiz.text, quiz.answer) for quiz in quizzes]
    return [*own, (None, _used(record.passages), record.standalone or record.question, record.answer)]


def _carries_a_part(quiz: QuizRecord, unanswered: Unanswered) -> bool:
    """Whether passages say something of a question without an answer: a part of it, or several things."""
    known = quiz.source == "passages" and quiz.index in {one.quiz for one in unanswered.found}
    return known or (quiz.missing is not None and bool(quiz.missing.answers))


def _used(passages: list[PassageVerdict]) -> list[PassageVerdict]:
    return [passage for passage in passages if passage.kept or passage.older_than]


def source_of(passage: PassageVerdict) -> Source:
    """A passage as a source."""
    return Source(id=passage.passage_id, **passage.model_dump(include=_COPIED))


def _document(passage: PassageVerdict) -> str:
    return passage.file or passage.passage_id.rpartition("#")[0] or passage.passage_id
