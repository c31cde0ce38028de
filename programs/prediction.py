"""What a program returns, and the events that tell what a question has come to.

DSPy votes on a prediction's last field, shows all fields to agents and writes them as JSON. So the fields are text and
plain values, the answer last, and the record, which is neither, is an attribute. As a tool of an agent a program gives
a text: the answer with the beginnings of its sources, which are the passages in the record that it rests on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote

import dspy
from dspy.primitives.prediction import Completions
from dspy.utils.callback import with_callbacks
from pydantic import Field, PrivateAttr

from keqa.errors import InputError, NotInDocumentsError, StageError
from keqa.metrics.answers import tokens
from keqa.programs.records import (
    PassageVerdict,
    PlacedText,
    QuestionRecord,
    QuizRecord,
    Unanswered,
    Written,
)
from keqa.programs.sentences import as_written, differing_value, newer, sentences_of, supporting_sentences
from keqa.programs.unanswered import answer_text, lines_of
from keqa.signatures.keqa import TOOL_DESCRIPTION, TOOL_NAME, TOOL_QUESTION

# Where what was imported from here is now: earlier examples of methods import it, and pickled errors name it.
_MOVED = {"RecordBuilder": "keqa.programs.stage", "UnansweredError": "keqa.programs.calls.errors"}
_SOURCES = 5
_LONGEST = 300

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _MOVED:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MOVED[name]), name)


class AnswerPrediction(dspy.Prediction):
    """An answer with what it rests on.

    Its fields are `explanation` (may be empty), `sources` and `answer` (None where there is none). A source is a
    mapping with `title`, `passage_id` and `text` of a passage, the `sentences` that carried the answer, and `file`,
    `page`, `heading` and `date` as far as they are known; an answer from memory has none. Where the documents do not
    say it, `answer` says so, and `unanswered` is the finding.
    """

    explanation: str
    sources: list[dict[str, Any]]
    answer: str | None

    def __init__(self, base: Any = None, *, record: QuestionRecord | None = None, **fields: Any) -> None:
        """Take over fields and record of a mapping or prediction, with others in their places."""
        super().__init__(base, **fields)
        self._record = getattr(base, "_record", None) if record is None else record
        if self._store:
            # As a predictor's reply has them, so that ``dspy.majority`` takes a single prediction, too.
            self._completions = Completions({name: [value] for name, value in self._store.items()})

    @property
    def record(self) -> QuestionRecord:
        """The question's record; None only where the question could not be asked at all."""
        return cast(QuestionRecord, self._record)

    @property
    def text(self) -> str | None:
        """The written answer with its citations, or else the short one; ``[2]`` cites the second of `sources`."""
        written = None if self._record is None else self._record.written
        found: str | None = written.text if written is not None and written.text else self.get("answer")
        return found

    @property
    def unanswered(self) -> Unanswered | None:
        """Why the documents do not say it, where they do not; `answer` says so then."""
        return None if self._record is None else self._record.unanswered


def prediction_of(record: QuestionRecord) -> AnswerPrediction:
    sources = [_plain(one) for one in sources_of(record)]
    return AnswerPrediction(explanation=record.explanation, sources=sources, answer=record.answer, record=record)


def _plain(source: Source) -> dict[str, Any]:
    passage = {"title": source.title, "passage_id": source.id, "text": source.text, "sentences": source.sentences}
    return passage | {name: value for name, value in asdict(source.place).items() if value not in ("", None)}


class ProgramTool(dspy.Tool):
    """A program that DSPy's agents may call, and any other agent through `func`.

    A question without an answer is reported in words, so that an agent may ask otherwise.
    """

    _program: Any = PrivateAttr()

    def __init__(self, program: Any, name: str | None = None, desc: str | None = None) -> None:

        def answer_question(question: str) -> str:
            try:
                return observation(program(question=question))
            except (InputError, NotInDocumentsError, StageError) as error:
                return _failed(error)

        described = {"name": name or TOOL_NAME, "desc": desc or TOOL_DESCRIPTION}
        super().__init__(answer_question, **described, arg_desc={"question": TOOL_QUESTION})
        self._program = program

    @with_callbacks  # type: ignore[untyped-decorator]
    async def acall(self, **kwargs: Any) -> str:
        try:
            return observation(await self._program.acall(**self._validate_and_parse_args(**kwargs)))
        except (InputError, NotInDocumentsError, StageError) as error:
            return _failed(error)


def observation(prediction: AnswerPrediction) -> str:
    """What an agent reads of an answer: the answer, and the beginnings of a few of its sources."""
    if prediction.unanswered is not None:
        return _not_in_documents(prediction.unanswered)
    answer = prediction.answer if prediction.record is None else answer_text(prediction.record)
    sources = prediction.sources
    if not sources:
        return f"{answer}\n(from memory, without sources)"
    lines = [f"[{number}] {_beginning(source)}" for number, source in enumerate(sources[:_SOURCES], start=1)]
    more = [f"and {len(sources) - _SOURCES} more"] if len(sources) > _SOURCES else []
    return "\n".join([str(answer), "Sources:", *lines, *more])


def _beginning(source: dict[str, str]) -> str:
    text = " ".join(": ".join(filter(None, (source["title"], source["text"]))).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _not_in_documents(unanswered: Unanswered) -> str:
    """The finding, with what was looked at in vain and what is known of the rest."""
    return "\n".join(
        [unanswered.message, *(line for first, others in lines_of(unanswered) for line in (first, *others))]
    )


def _failed(error: Exception) -> str:
    if isinstance(error, NotInDocumentsError):
        return _not_in_documents(error.unanswered)
    return f"No answer: {error}"


@dataclass(frozen=True)
class Progress:
    """Something that happened on the way to an answer; its text is for a person to read."""

    def __str__(self) -> str:
        return type(self).__name__


@dataclass(frozen=True)
class Rewritten(Progress):
    """A follow-up question was made to stand alone.

    Attributes:
        text: The question that is answered.
    """

    text: str

    def __str__(self) -> str:
        return f"Asked as: {self.text}"


@dataclass(frozen=True)
class QuizProgress(Progress):
    """Something that happened to a quiz.

    Attributes:
        index: The quiz's number, from 1; 0 for the question itself, where that is asked after its quizzes.
        text: Resolved; where the quiz is found, as decomposed.
    """

    index: int
    text: str


@dataclass(frozen=True)
class QuizFound(QuizProgress):
    """The question was taken apart, and this is a part of it; in its text ``#1`` stands for the answer to quiz 1.

    Attributes:
        depends_on: The quizzes whose answers it needs.
    """

    depends_on: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"Quiz {self.index}: {self.text}"


@dataclass(frozen=True)
class QuizExamined(QuizProgress):
    """It is known whether the language model knows the answer to a quiz.

    Attributes:
        known: Whether it is taken for known; passages are wanted where not.
        answer: Of its tries, the first of the largest cluster; None where there is none.
        consistency: How much of the tries that cluster holds.
        provisional: Whether the program holds a risk, and may yet withhold the answer to the question.
    """

    known: bool
    answer: str | None
    consistency: float
    provisional: bool = False

    def __str__(self) -> str:
        return f"{_marked('Known', self)}: {self.text} {self.answer}" if self.known else f"Not known: {self.text}"


@dataclass(frozen=True)
class Searching(Progress):
    """The retriever is asked.

    Attributes:
        index: The number of the quiz, or of the search of a method without quizzes; None where it has none.
        query: What is searched for.
    """

    index: int | None
    query: str

    def __str__(self) -> str:
        return f"Searching: {self.query}"


@dataclass(frozen=True)
class PassagesKept(QuizProgress):
    """The passages found for a quiz were judged.

    Attributes:
        found: How many were found.
        kept: The ids of those that are kept.
    """

    found: int
    kept: tuple[str, ...]

    def __str__(self) -> str:
        return f"Kept {len(self.kept)} of {self.found} passages: {self.text}"


@dataclass(frozen=True)
class ItemsListed(Progress):
    """Passages were gone through for a list.

    Attributes:
        items: How many items there are by now.
        passages: In how many passages these were looked for.
    """

    items: int
    passages: int

    def __str__(self) -> str:
        return f"Listed {self.items} from {self.passages} passages"


@dataclass(frozen=True)
class QuizAnswered(QuizProgress):
    """A quiz has its answer, or has none.

    Attributes:
        answer: None where it has none.
        source: Where the answer came from, as in `QuizRecord`.
        provisional: As of `QuizExamined`.
        earlier: The earlier question of the conversation that settled it, where one did.
    """

    answer: str | None
    source: str
    provisional: bool = False
    earlier: str = ""

    def __str__(self) -> str:
        if self.answer is None:
            return f"No answer: {self.text}"
        return f"{_marked('Answer', self)}: {self.text} {self.answer}"


def _marked(word: str, event: QuizExamined | QuizAnswered) -> str:
    return f"{word} (provisional)" if event.provisional else word


@dataclass(frozen=True)
class AnswerPart(Progress):
    """The language model writes the answer, where it tells its words one by one; what counts is `Answered`.

    Attributes:
        at: Where in the answer the text stands: it takes the place of what was told from there on.
        text: The next words.
        draft: Whether what is written is checked yet, and may come out otherwise.
    """

    at: int
    text: str
    draft: bool = False

    def __str__(self) -> str:
        return f"Writing: {self.text}"


@dataclass(frozen=True)
class Answered(Progress):
    """The question has its answer; nothing follows.

    Attributes:
        prediction: What calling the program would have returned.
    """

    prediction: dspy.Prediction

    def __str__(self) -> str:
        return f"Answered: {self.prediction.answer}"


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


def with_supporting_sentences(record: QuestionRecord) -> QuestionRecord:
    """A record in which each passage that an answer was drawn from names the sentences that carried the answer."""

    def named(by: _Carrying, evidence: Sequence[str] = ()) -> dict[str, list[PassageVerdict]]:
        def quoted(passage: PassageVerdict) -> PassageVerdict:
            sentences = supporting_sentences(passage.text, by.asked, by.answer, evidence)
            return passage.model_copy(update={"sentences": sentences})

        return {"passages": [quoted(one) if one.kept else one for one in by.passages]}

    def supported(quiz: QuizRecord) -> QuizRecord:
        from_passages = quiz.source == "passages"
        return quiz.model_copy(update=named(_Carrying.quiz_of(quiz), quiz.evidence)) if from_passages else quiz

    changed: dict[str, Any] = {"quizzes": [supported(quiz) for quiz in record.quizzes]}
    for name in ("fallback", "whole"):
        if (quiz := getattr(record, name)) is not None:
            changed[name] = supported(quiz)
    if record.written is not None:
        changed["written"] = _with_sentences(record.written, record.standalone or record.question)
    if record.passages and record.answer_source in _FROM_PASSAGES:
        changed |= named(_Carrying.answer_of(record))
    return record.model_copy(update=changed)


def _with_sentences(written: Written, asked: str) -> Written:
    """A written answer of which each passage names the sentences that carried what cites it."""

    def carrying(number: int, text: str) -> list[str]:
        statements = [one.bare for one in written.given if number in one.citations]
        return list(dict.fromkeys(part for one in statements for part in supporting_sentences(text, asked, one)))

    passages = [
        one.model_copy(update={"sentences": carrying(number, one.text)})
        for number, one in enumerate(written.passages, start=1)
    ]
    return written.model_copy(update={"passages": passages})


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


def sources_of(record: QuestionRecord) -> list[Source]:
    """The sources of an answer, in the order in which they were used, each once.

    Where the documents do not say it, they are those of the quizzes that have an answer all the same, and of those to
    which they say several things. Where the program fell back to answering the question itself, the passages of its
    quizzes carried nothing.
    """
    found: dict[tuple[str, str, str], Source] = {}
    written = [] if record.written is None else [(None, record.written.passages)]
    for number, passages in [*written, *((one.number, one.passages) for one in _carrying(record))]:
        for passage in filter(lambda passage: passage.kept, passages):
            source = source_of(passage)
            source = found.setdefault((source.id, source.title, source.text), source)
            # What was drawn from it for another quiz may be in another sentence.
            source.sentences += [sentence for sentence in passage.sentences if sentence not in source.sentences]
            if number is not None:
                source.quizzes.append(number)
    return list(found.values())


def disagreements_of(record: QuestionRecord) -> list[str]:
    """What an answer was drawn from and what other sources of the same quiz say otherwise, in words, each pair once."""
    found: dict[tuple[str, str], str] = {}
    # Members of a list are told by sentences that differ in nothing else, and contradict nobody.
    for _, passages, asked, answer in _carrying(record):
        used = [one for one in passages if one.kept or one.older_than]
        pairs = ((one, other) for one in used for other in used if _document(one) != _document(other))
        for one, other in pairs if answer is not None else ():
            pair = (min(one.passage_id, other.passage_id), max(one.passage_id, other.passage_id))
            if pair not in found and (conflict := _says_otherwise(one, other, asked, answer or "")):
                first, second = _dated(one, other.date), _dated(other, one.date)
                found[pair] = f"Sources may disagree: {first} says “{conflict[0]}” and {second} says “{conflict[1]}”"
    return list(found.values())


def _dated(passage: PassageVerdict, than: str) -> str:
    date = f", {passage.date}" if passage.date else ""
    return f"{source_of(passage).label}{date}{', which is older,' if newer(than, passage.date) else ''}"


def _says_otherwise(one: PassageVerdict, other: PassageVerdict, asked: str, answer: str) -> tuple[str, str] | None:
    """A sentence that carried the answer, and the sentence of another passage that has something else in its place."""
    for sentence in one.sentences:
        for part in sentences_of(other.text):
            if not set(tokens(differing_value(sentence, part, asked))).isdisjoint(tokens(answer)):
                return sentence, as_written(other.text, part)
    return None


def _carrying(record: QuestionRecord) -> list[_Carrying]:
    """What carried the short answer, quiz by quiz; passages left out are among theirs."""
    if record.unanswered is not None:
        return [_Carrying.quiz_of(quiz) for quiz in record.quizzes if _carries_a_part(quiz, record.unanswered)]
    if record.answer_source not in _FROM_PASSAGES:
        return []
    if record.answer_source == "fallback":
        if record.fallback is None or record.fallback.source != "passages":
            return []
        found = [_Carrying.quiz_of(record.fallback)._replace(number=None)]
        # A step before the last may be in none of the passages that have the answer's words.
        steps = [quiz for quiz in record.quizzes if record.together and quiz.source == "passages"]
        return [*found, *map(_Carrying.quiz_of, steps)]
    quizzes = [_Carrying.quiz_of(quiz) for quiz in record.quizzes if quiz.source == "passages"]
    if record.settled_by == "reading":
        # Of the question itself, whose quiz is none that anybody reads of.
        quizzes = [one._replace(number=None) for one in quizzes]
    return [*quizzes, _Carrying.answer_of(record)]


def _carries_a_part(quiz: QuizRecord, unanswered: Unanswered) -> bool:
    """Whether passages say something of a question without an answer: a part of it, or several things."""
    known = quiz.source == "passages" and quiz.index in {one.quiz for one in unanswered.found}
    return known or (quiz.missing is not None and bool(quiz.missing.answers))


def source_of(passage: PassageVerdict) -> Source:
    return Source(id=passage.passage_id, **passage.model_dump(include=_COPIED))


def _document(passage: PassageVerdict) -> str:
    return passage.file or passage.passage_id.rpartition("#")[0] or passage.passage_id
