"""What became of one question, as typed records: everything that shows, measures or resumes reads these.

All records are frozen and turn into JSON with ``record.model_dump_json()`` and back with ``model_validate_json``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from keqa.data.question import AnswerType
from keqa.programs.citations import without_citations
from keqa.programs.declared import Style, Way
from keqa.retrievers.base import Passage, Place
from keqa.storage.redaction import key_remover, without_secrets

Verdict = Literal["helpful", "not helpful", "failed", "unjudged", "cited", "not cited"]
QuizSource = Literal[
    "memory", "passages", "closed_book", "largest_cluster", "unanswered", "blocked", "skipped", "failed"
]
AnswerSource = Literal[
    "memory", "passages", "closed_book", "largest_cluster", "summary", "fallback", "withheld", "unanswered", "failed"
]
UnansweredKind = Literal["nothing found", "nothing supports an answer", "sources contradict each other"]

_NO_FAILURES = frozenset(
    {
        "ContextWindowExceededError",
        "CopiedDemonstrationError",
        "EmptyChainError",
        "EmptyDecomposition",
        "LaterReference",
        "MissingDrafts",
        "MissingReference",
        "NoAnswerStated",
        "NoCitation",
        "NoItem",
        "NoRephrasing",
        "NoRow",
        "NoVerdict",
        "ReferenceCycle",
        "SelfReference",
        "StepLimit",
        "TooManyQuizzes",
        "Unanswered",
        "UnknownCitation",
        "Unsettled",
    }
)
"""Causes that say what a language model said, or what followed from another degradation, and no call that failed."""

# What an index, the user or this program wrote, and no server that was given a key.
_OWN_WORDS = frozenset({"question", "choices", "passages", "evidence", "cost"})


def fraction_text(value: Fraction) -> str:
    """A fraction as records and saved settings hold it, such as ``"4/5"``, which `arguments.exact` reads."""
    return f"{value.numerator}/{value.denominator}"


def digest(described: Any) -> str:
    """A short name for what is described as JSON: 20 hexadecimal digits."""
    text = json.dumps(described, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


class Record(BaseModel):
    """Base of all records."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class SampleRecord(Record):
    """One closed-book try at a quiz (Algorithm 1, line 3); `cluster` is a position in `QuizRecord.clusters`.

    An abstention says that it does not know, or nothing; it joins no cluster and still counts among the tries. So does
    a failed draw, of which `error` is the error's class name: a failure can lead to retrieval but never to a quiz taken
    for known. `probability` is normalised by the answer's length, where it was asked for.
    """

    text: str | None = None
    abstained: bool = False
    cluster: int | None = None
    error: str | None = None
    probability: float | None = None


class ClusterRecord(Record):
    """Samples of one meaning (a set AS of Algorithm 1): positions in `QuizRecord.samples`, and the first's answer.

    The answer is what later samples were compared with.
    """

    answer: str
    size: int
    members: list[int]


class PlacedText(BaseModel):
    """A passage, the title of its document, and where it stands; what is not known is empty.

    `file` is the path below the folder that was indexed, `page` the slide of a presentation, `heading` what the passage
    stands under, `date` when the document was last changed, as it says itself.
    """

    title: str
    text: str
    file: str = ""
    page: int | None = None
    heading: str = ""
    date: str = ""

    @property
    def place(self) -> Place:
        return Place(self.file, self.page, self.heading, self.date)


class PassageVerdict(PlacedText, Record):
    """A retrieved passage and what became of it (Algorithm 2, lines 8 to 15).

    The verdict is the utility judge's: ``failed`` is not ``not helpful``, and ``unjudged`` stands where picking is off
    or the passage would be left out whatever the judge said; where one call read them all, they are ``cited`` for its
    answer, or ``not cited``. The answer was drawn from it where it was kept; `why` says
    in a sentence why it was or was not. `sentences` carried the answer; `older_than` is the id of the newer passage
    that says otherwise of the same, for which it was left out.
    """

    passage_id: str
    score: float
    verdict: Verdict
    kept: bool
    why: str
    sentences: list[str] = Field(default_factory=list)
    older_than: str = ""

    @property
    def passage(self) -> Passage:
        return Passage(self.passage_id, self.title, self.text, self.place)


class EvidenceSentence(Record):
    """A sentence that was selected from an evidence document by the triple, or question, nearest to it.

    See KS-LLM, equation 3.
    """

    text: str
    passage_id: str
    nearest_to: str
    distance: float


class FoundQuiz(Record):
    """A quiz that has an answer, of a question that has none: its number, its text, resolved, and its answer."""

    quiz: int
    asked: str
    answer: str
    source: QuizSource


class MissingQuiz(Record):
    """A quiz, or the question itself (0), that the documents do not answer, resolved.

    ``nothing found``: no passage has to do with it. ``nothing supports an answer``: passages were read, best first, and
    none carries an answer, for the reason `why`. ``sources contradict each other``: they carry several `answers`, and
    neither a date nor anything else decides between them.
    """

    quiz: int
    asked: str
    kind: UnansweredKind
    searched: list[str] = Field(default_factory=list)
    read: list[str] = Field(default_factory=list)
    why: str = ""
    answers: list[str] = Field(default_factory=list)


class Unanswered(Record):
    """A finding of its own: the documents do not say what was asked.

    Attributes:
        kind: That of the first missing quiz.
        asked: The question, made to stand alone.
        missing: The quizzes that lack an answer, or the question itself; at least one.
        found: What is known of the other quizzes.
        guess: The answer that would be given if guessing were wanted; None where there is none.
        message: All of it in a sentence or two, in the language of the question.
    """

    kind: UnansweredKind
    asked: str
    missing: list[MissingQuiz] = Field(min_length=1)
    found: list[FoundQuiz] = Field(default_factory=list)
    guess: str | None = None
    message: str


class Weighed(Record):
    """An answer from memory and another one from passages, how probably each is right, and which was kept."""

    memory: str
    evidence: str
    memory_right: float
    evidence_right: float
    kept: Literal["memory over evidence", "evidence over memory"]

    def __str__(self) -> str:
        sides = (f"“{self.memory}” ({self.memory_right:.2f})", f"“{self.evidence}” ({self.evidence_right:.2f})")
        first, second = sides if self.kept == "memory over evidence" else sides[::-1]
        return f"{self.kept}: {first} is more probably right than {second}"


class QuizRecord(Record):
    """One quiz from its text to its answer (Algorithm 2, lines 3 to 18).

    Attributes:
        index: Its number, from 1, as references count.
        text: As decomposed, with references such as ``#1``.
        resolved: With earlier answers in their places; None where it could not be resolved.
        depends_on: Numbers of the quizzes it refers to.
        samples: The draws made, in the order in which Algorithm 1 reads them.
        clusters: In the order of their first members.
        tries: N_c; 0 without examination.
        complete: Whether all N_c draws were made. Where not, `consistency` counts the draws made over N_c, which is
            a lower bound that settled the verdict.
        drafted: Whether its one draw is the draft that was written with the quizzes.
        stopped: Why no further draw was made, or none at all; None where examination is off, and in records of a
            version that did not say.
        consistency: T_c, size of the largest cluster over N_c; None without examination.
        consistency_exact: The same as a fraction, such as ``"4/5"``.
        threshold: α or the gate's own threshold; None where the gate has none.
        threshold_exact: The same as a fraction.
        gate: Name of the gate that decided.
        certainty: The gate's measure where it is not T_c.
        known: The gate's verdict; None without examination.
        retrieved: Whether passages were searched for.
        passages: All that were found, best first.
        evidence: Selected sentences (KS-LLM), where selection is on.
        selected: Of evidence that KS-LLM selected by distance: each sentence with the triple that it is nearest to.
        triples: Constructed triples (KS-LLM), where selection is on.
        answer: None where there is none.
        abstained: Whether the answer says that it does not know; such a quiz cannot be referred to.
        source: Where the answer came from.
        missing: Why the documents do not answer it, where that is the finding; there is no answer then.
        guess: What would have been answered, had guessing been wanted, as far as it came up.
        supported: Whether an answer from passages is in them; None where that was not checked.
        support: By what that was found.
        reasoning: The thought that led to an answer from passages, where one was asked for.
        earlier: The earlier question of a conversation that settled it, for which it was not asked again; empty where
            it was asked.
        weighed: What the arbiter chose between, where memory and passages answer it otherwise.
    """

    index: int
    text: str
    resolved: str | None = None
    depends_on: list[int] = Field(default_factory=list)
    samples: list[SampleRecord] = Field(default_factory=list)
    clusters: list[ClusterRecord] = Field(default_factory=list)
    tries: int = 0
    complete: bool = True
    drafted: bool = False
    stopped: str | None = None
    consistency: float | None = None
    consistency_exact: str | None = None
    threshold: float | None = None
    threshold_exact: str | None = None
    gate: str | None = None
    certainty: float | None = None
    known: bool | None = None
    retrieved: bool = False
    passages: list[PassageVerdict] = Field(default_factory=list)
    evidence: list[str] = Field(default_factory=list)
    selected: list[EvidenceSentence] = Field(default_factory=list)
    triples: list[str] = Field(default_factory=list)
    answer: str | None = None
    abstained: bool = False
    source: QuizSource = "failed"
    missing: MissingQuiz | None = None
    guess: str | None = None
    supported: bool | None = None
    support: str = ""
    reasoning: str = ""
    earlier: str = ""
    weighed: Weighed | None = None

    @property
    def is_guess(self) -> bool:
        """Whether the answer rests on no passage, and on a memory that was not found to be sure."""
        return self.source in ("largest_cluster", "closed_book") and not self.known


class Statement(Record):
    """A sentence of a text, an item of a list or a cell of a table, with its citations as ``[2]``, and its check.

    It is `supported` where the passages that it cites carry it, None where the judge could not be asked; `why` says by
    what that was found. `given` says whether it stands in the text.
    """

    text: str
    citations: list[int] = Field(default_factory=list)
    supported: bool | None = None
    why: str = ""
    given: bool = True

    @property
    def bare(self) -> str:
        return without_citations(self.text)


class Written(Record):
    """A written answer.

    Attributes:
        style: What it is.
        text: The text, a list and a table in Markdown; ``[2]`` cites the second source. Empty where nothing that was
            written is carried by its passages.
        statements: What the language model wrote, with what checking found.
        passages: The first sources of the answer, in the order of their numbers, and then what nothing cites.
        table: Of a table the cells by row, the head first.
        looked_at: How many passages were read.
        more: Of a list, whether members may be missing: not all passages were gone through that might tell some.
    """

    style: Style
    text: str = ""
    statements: list[Statement] = Field(default_factory=list)
    passages: list[PassageVerdict] = Field(default_factory=list)
    table: list[list[str]] = Field(default_factory=list)
    looked_at: int = 0
    more: bool = False

    @property
    def given(self) -> list[Statement]:
        return [one for one in self.statements if one.given]

    @property
    def plain(self) -> str:
        """What stands there without citations; the items of a list beside each other."""
        return (" " if self.style in ("sentence", "report") else "; ").join(one.bare for one in self.given)


class CallCost(Record):
    """What calls to language models cost: those of a role, of a step, or all; costs can be added.

    `calls` are requests that were sent, failed ones and further attempts included, and `cached` those that DSPy's cache
    answered at no cost; each without a usable reply is also `failed`. `samples` are replies, or asked for where none
    came: the papers call these LM calls, and one request for n samples is n of them. `seconds` is the sum over all
    requests, side by side or not, as the KEQA paper gives it (section 4.2, efficiency analysis).
    """

    calls: int = 0
    cached: int = 0
    samples: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        """Read and written."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: CallCost) -> CallCost:
        return CallCost(**{name: getattr(self, name) + getattr(other, name) for name in type(self).model_fields})


class Cost(Record):
    """What one question cost.

    By role (``task``, ``consistency``, ``utility``, ``boundary``) and by step (the name of the predictor), each without
    those that made no request. A search that a cache answered counts with the time that it took when it was made, in
    `retrieval_seconds` and in `seconds`, the wall time of the question.
    """

    by_role: dict[str, CallCost] = Field(default_factory=dict)
    by_step: dict[str, CallCost] = Field(default_factory=dict)
    retrievals: int = 0
    retrievals_cached: int = 0
    retrieval_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def total(self) -> CallCost:
        return sum(self.by_role.values(), CallCost())

    @property
    def calls(self) -> int:
        """Requests that reached a language model, over all roles."""
        return self.total.calls

    @property
    def lm_requests(self) -> int:
        """Requests made, those answered by the cache included."""
        return self.total.calls + self.total.cached

    @property
    def samples(self) -> int:
        """LM calls as the papers count them, over all roles; see `CallCost`."""
        return self.total.samples

    @property
    def tokens(self) -> int:
        """Read and written, over all roles."""
        return self.total.tokens

    def __add__(self, other: Cost) -> Cost:
        """What both cost, the one after the other."""

        def both(mine: Any, theirs: Any) -> Any:
            if not isinstance(mine, dict):
                return mine + theirs
            return {name: mine.get(name, CallCost()) + theirs.get(name, CallCost()) for name in {**mine, **theirs}}

        return Cost(**{name: both(mine, getattr(other, name)) for name, mine in self})


class Degradation(Record):
    """Something that went wrong and what was done instead.

    The stage is ``rewrite`` (of a follow-up question), ``decompose``, ``references``, ``examine``,
    ``judge_consistency``, ``state_confidence``, ``retrieve``, ``judge_utility``, ``select``, ``answer`` or
    ``summarize``, or one of a baseline's or gate's own; the cause the class name of an error or the name of a broken
    rule. It is harmless where nothing came out otherwise for it, such as an outage after which the same request
    succeeded.
    """

    stage: str
    quiz: int | None = None
    cause: str
    message: str
    action: str
    harmless: bool = False

    @property
    def touches(self) -> bool:
        """Whether a failure decided something: what follows may not be what it would have been without."""
        return not self.harmless and self.cause not in _NO_FAILURES


class Failure(Record):
    """Why a question has no answer: the stage that failed, the error's class name, and what happened."""

    stage: str
    cause: str
    message: str


class QuestionRecord(Record):
    """All that became of one question.

    Attributes:
        question: As asked, cleaned.
        standalone: A follow-up question as it was rewritten to stand alone, where that changed it; it is what was
            answered.
        answer_type: What kind of answer it wants.
        choices: The options of a choice.
        method: ``keqa`` or the name of a baseline.
        quizzes: In the order of their numbers. Of a baseline that searches as it goes: its searches, each with what was
            concluded from it; of the others, none.
        fallback: The question itself, answered with retrieval: where the quizzes could not settle it, or `together`.
        together: Whether it was read over what was found for its quizzes, instead of summarizing their answers.
        passages: What a baseline answered from.
        degradations: In the order in which they happened.
        explanation: May be empty where no summary was needed.
        answer: None exactly where `failure` is set.
        answer_source: Where the answer came from.
        failure: Why there is no answer.
        cost: What it took.
        confidence: How probably the answer is right, where the program was to hold a risk; see
            `keqa.programs.abstention`.
        withheld: The answer that was too probably wrong for that risk, and is not given.
        unanswered: Why the documents do not say it, where they do not; `answer` is then its message.
        guessed: Whether the answer is a guess: no source carries it, and the language model is not sure of it either.
        written: The answer as a text with citations, where that was wanted; `answer` is the short one beside it.
        settled_by: What KEQA settled it by; None where it did not, and in records of a version that did not say.
        chances: Of a cascade how probably each answer is right, by the last word of the chooser.
        whole: Of a cascade the question itself, as it was answered from memory and by a reading before its quizzes.
    """

    question: str
    standalone: str | None = None
    answer_type: AnswerType = "short"
    choices: list[str] = Field(default_factory=list)
    method: str = "keqa"
    quizzes: list[QuizRecord] = Field(default_factory=list)
    fallback: QuizRecord | None = None
    passages: list[PassageVerdict] = Field(default_factory=list)
    degradations: list[Degradation] = Field(default_factory=list)
    explanation: str = ""
    answer: str | None = None
    answer_source: AnswerSource = "failed"
    failure: Failure | None = None
    cost: Cost = Cost()
    confidence: float | None = None
    withheld: str | None = None
    unanswered: Unanswered | None = None
    guessed: bool = False
    written: Written | None = None
    settled_by: Way | None = None
    chances: dict[Way, float] = Field(default_factory=dict)
    whole: QuizRecord | None = None
    together: bool = False

    @property
    def touched(self) -> bool:
        """Whether a failure decided something on the way, or the question failed: its answer is no verdict."""
        return self.failure is not None or any(note.touches for note in self.degradations)


def record_without_keys(record: QuestionRecord, lms: Sequence[Any]) -> QuestionRecord:
    """A record in which no reply and no message repeats a key of these language models; addresses stay."""
    cleaned_text = key_remover(lms)

    def cleaned(part: Any) -> Any:
        if isinstance(part, str):
            return cleaned_text(part)
        if isinstance(part, dict):
            return {name: inner if name in _OWN_WORDS else cleaned(inner) for name, inner in part.items()}
        return [cleaned(inner) for inner in part] if isinstance(part, list) else part

    before = record.model_dump()
    after = cleaned(before)
    return record if after == before else type(record).model_validate(after)


def record_without_secrets(record: QuestionRecord, lms: Sequence[Any]) -> QuestionRecord:
    """A record without what a server may have brought into it: keys anywhere, and addresses in its messages."""
    record = record_without_keys(record, lms)

    def cleaned(part: Any) -> Any:
        return part and part.model_copy(update={"message": without_secrets(part.message, lms)})

    notes = [cleaned(note) for note in record.degradations]
    return record.model_copy(update={"failure": cleaned(record.failure), "degradations": notes})
