"""The passages that an answer rests on, from the record of its question."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

from pydantic import BaseModel, Field

from keqa.metrics.answers import tokens
from keqa.programs.records import PassageVerdict, PlacedText, QuestionRecord, QuizRecord, Unanswered
from keqa.programs.sentences import as_written, differing_value, newer, sentences_of, supporting_sentences

_FROM_PASSAGES = frozenset({"passages", "summary", "fallback"})
"""What an answer that rests on passages comes from; any other comes from memory."""

_COPIED = {*PlacedText.model_fields, "sentences"}
"""What a source takes from the record of its passage."""


class Source(PlacedText):
    """A passage that an answer, or an answer to one of its quizzes, was drawn from; see also `PlacedText`.

    Attributes:
        id: The passage's identifier within the index.
        sentences: Those that carried the answer, as the text has them; see `keqa.programs.sentences`.
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
    """Two sources that say the same of something, but for the answer, each with its sentence.

    The first is what the answer was drawn from; the other is of the same quiz, or was left out as older.
    """

    source: Source
    sentence: str
    other: Source
    other_sentence: str

    def __str__(self) -> str:
        first, second = (
            f"{one.label}{f', {one.date}' if one.date else ''}{', which is older,' if newer(than, one.date) else ''}"
            for one, than in ((self.source, self.other.date), (self.other, self.source.date))
        )
        return f"Sources may disagree: {first} says “{self.sentence}” and {second} says “{self.other_sentence}”"


def with_supporting_sentences(record: QuestionRecord) -> QuestionRecord:
    """A record in which each passage that an answer was drawn from names the sentences that carried the answer."""
    changed: dict[str, Any] = {}
    if any(quiz.source == "passages" for quiz in record.quizzes):
        changed["quizzes"] = [_supported_quiz(quiz) for quiz in record.quizzes]
    if record.fallback is not None and record.fallback.source == "passages":
        changed["fallback"] = _supported_quiz(record.fallback)
    if record.passages and record.answer_source in _FROM_PASSAGES:
        changed["passages"] = _supported(_Carrying.answer_of(record))
    return record.model_copy(update=changed) if changed else record


def _supported_quiz(quiz: QuizRecord) -> QuizRecord:
    if quiz.source != "passages":
        return quiz
    return quiz.model_copy(update={"passages": _supported(_Carrying.quiz_of(quiz), quiz.evidence)})


class _Carrying(NamedTuple):
    """What an answer was drawn from: the number of its quiz, where it is one, its passages, and what they answer."""

    number: int | None
    passages: list[PassageVerdict]
    asked: str
    answer: str | None

    @classmethod
    def quiz_of(cls, quiz: QuizRecord) -> _Carrying:
        return cls(quiz.index, quiz.passages, quiz.resolved or quiz.text, quiz.answer)

    @classmethod
    def answer_of(cls, record: QuestionRecord) -> _Carrying:
        return cls(None, record.passages, record.standalone or record.question, record.answer)


def _supported(one: _Carrying, evidence: list[str] | None = None) -> list[PassageVerdict]:
    def named(passage: PassageVerdict) -> PassageVerdict:
        found = supporting_sentences(passage.text, one.asked, one.answer, evidence or [])
        return passage.model_copy(update={"sentences": found})

    return [named(passage) if passage.kept else passage for passage in one.passages]


def sources_of(record: QuestionRecord) -> list[Source]:
    """The sources of an answer, in the order in which they were used, each once.

    Where the documents do not say it, they are those of the quizzes that have an answer all the same, and of those to
    which they say several things. Where the program fell back to answering the question itself, the passages of its
    quizzes carried nothing.
    """
    found: dict[tuple[str, str, str], Source] = {}
    for one in _carrying(record):
        for passage in filter(lambda passage: passage.kept, one.passages):
            source = source_of(passage)
            source = found.setdefault((source.id, source.title, source.text), source)
            # What was drawn from it for another quiz may be in another sentence.
            source.sentences += [sentence for sentence in passage.sentences if sentence not in source.sentences]
            if one.number is not None:
                source.quizzes.append(one.number)
    return list(found.values())


def disagreements_of(record: QuestionRecord) -> list[Disagreement]:
    """Sources of one quiz that seem to say different things, each pair once; see `keqa.programs.sentences`."""
    found: dict[tuple[str, str], Disagreement] = {}
    for _, passages, asked, answer in _carrying(record):
        used = [one for one in passages if one.kept or one.older_than]
        pairs = ((one, other) for one in used for other in used if _document(one) != _document(other))
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


def _carrying(record: QuestionRecord) -> list[_Carrying]:
    """What carried the answer, quiz by quiz; passages that were left out are among theirs."""
    if record.unanswered is not None:
        return [_Carrying.quiz_of(quiz) for quiz in record.quizzes if _carries_a_part(quiz, record.unanswered)]
    if record.answer_source not in _FROM_PASSAGES:
        return []
    if record.answer_source == "fallback":
        if record.fallback is None or record.fallback.source != "passages":
            return []
        return [_Carrying.quiz_of(record.fallback)._replace(number=None)]
    quizzes = [quiz for quiz in record.quizzes if quiz.source == "passages"]
    return [*map(_Carrying.quiz_of, quizzes), _Carrying.answer_of(record)]


def _carries_a_part(quiz: QuizRecord, unanswered: Unanswered) -> bool:
    """Whether passages say something of a question without an answer: a part of it, or several things."""
    known = quiz.source == "passages" and quiz.index in {one.quiz for one in unanswered.found}
    return known or (quiz.missing is not None and bool(quiz.missing.answers))


def source_of(passage: PassageVerdict) -> Source:
    """A passage as a source."""
    return Source(id=passage.passage_id, **passage.model_dump(include=_COPIED))


def _document(passage: PassageVerdict) -> str:
    return passage.file or passage.passage_id.rpartition("#")[0] or passage.passage_id
