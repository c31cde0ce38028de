"""What a language model answers from memory to the quizzes of a split, and how much of it is right (KBM, section 2.2).

With a retriever every quiz is there twice, without and with passages: LLM Only and LLM + RAG (section 3.1). Draws are
kept in a journal as soon as they are made, so that collecting resumes after a kill and asks nothing twice.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import dspy
from dspy import lm15
from dspy.utils.exceptions import DSPyError
from pydantic import BaseModel, Field, ValidationError

from keqa.data.example import as_examples
from keqa.data.question import AnswerType, Question, question_digest, quiz_key
from keqa.errors import InputError
from keqa.metrics.answers import exact_match
from keqa.optimize.alignment import Settled
from keqa.optimize.asking import Progress, silent
from keqa.optimize.failures import FailureMonitor
from keqa.programs.boundary.light import root_digest
from keqa.programs.calls.errors import CallError, is_transient
from keqa.programs.calls.session import NoCopy, Session, run_blocking
from keqa.programs.examination import Examination
from keqa.programs.fingerprint import lm_spec
from keqa.programs.gate import IF_ANY, Draws
from keqa.programs.keqa import KEQA
from keqa.programs.records import Record
from keqa.programs.shared_draws import SharedDraws
from keqa.retrievers import Retriever
from keqa.retrievers.text import is_chinese
from keqa.signatures.boundary import accuracy_prompt
from keqa.storage.files import atomic_write, private_folder
from keqa.storage.journal import SqliteStore
from keqa.storage.untrusted import parse_jsonl, read_path, reasons

TRIES = 30
"""So many answers KBM draws of a quiz."""
TOP_K = 10
"""So many passages it retrieves."""
_LARGEST_FILE = 512 << 20
_MOST_QUIZZES = 200_000
_LONGEST_VERDICT = 8

Probability = Annotated[float, Field(ge=0, le=1)]


class CollectedDraw(Record):
    """One answer from memory."""

    text: str | None
    right: bool
    probability: Probability | None = None
    first_token: Probability | None = None


class CollectedQuiz(Record):
    """A quiz with the answers that were drawn for it."""

    root: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    quiz: str
    answer_type: AnswerType = "short"
    choices: list[str] = Field(default_factory=list)
    golds: Annotated[list[str], Field(min_length=1)]
    draws: Annotated[list[CollectedDraw], Field(min_length=1)]
    # The passages that the answers were drawn from, as a boundary model is shown them; None where it was memory.
    reference: str | None = None

    @property
    def accuracy(self) -> Fraction:
        """The share of right answers: KBM's mastery."""
        return Fraction(sum(draw.right for draw in self.draws), len(self.draws))

    @property
    def digest(self) -> str:
        return question_digest(self.quiz, self.choices)

    def signals(self, draws: Sequence[CollectedDraw] | None = None) -> Draws:
        """What a boundary model reads of some draws; of all of them where None."""
        draws = self.draws if draws is None else draws
        answers = [[getattr(draw, name) for draw in draws] for name in ("text", "probability", "first_token")]
        return Draws.of(*answers, quiz=self.quiz, answer_type=self.answer_type, choices=tuple(self.choices))


class _Header(Record):
    format: Literal["keqa-boundary-quizzes"] = "keqa-boundary-quizzes"
    version: Literal[1] = 1
    dataset: str = ""
    split: str = ""
    lm: str = ""
    tries: int = 0


@dataclass(frozen=True)
class Collected:
    """What was collected of a split."""

    quizzes: list[CollectedQuiz]
    dataset: str = ""
    split: str = ""
    lm: str = ""
    tries: int = TRIES
    left_out: int = 0


def from_memory(collected: Collected) -> Collected:
    return replace(collected, quizzes=[quiz for quiz in collected.quizzes if quiz.reference is None])


def quizzes_of(examples: Iterable[Any]) -> list[Settled]:
    """The gold quizzes of questions, resolved by gold answers; a question without any is its own quiz."""
    found: dict[tuple[str, tuple[str, ...]], Settled] = {}
    for example in as_examples(examples):
        parts, whole = Settled.parts(example), Settled.whole(example)
        for asked in parts if len(parts) > 1 else [replace(whole, quiz=one.quiz) for one in parts] or [whole]:
            # One that several questions have is the first one's, so that no split by questions divides it.
            found.setdefault((quiz_key(str(asked.quiz.resolved)), asked.choices), asked)
    return list(found.values())


def collect(
    program: KEQA,
    examples: Iterable[Any] = (),
    quizzes: Sequence[Settled] | None = None,
    *,
    retriever: Retriever | None = None,
    top_k: int = TOP_K,
    tries: int = TRIES,
    store: SqliteStore | None = None,
    judge_lm: Any = None,
    in_flight: int = 8,
    dataset: str = "",
    split: str = "",
    progress: Progress = silent,
) -> Collected:
    """Draw answers to the quizzes of questions: from memory, and with a retriever also from what it finds.

    Open Chinese answers that are not exactly right are judged by `judge_lm`, where it is given (see `contains`).
    """
    asked = quizzes_of(examples) if quizzes is None else quizzes
    if not asked:
        raise InputError("there is no question to collect answers to")
    like = program.examination
    examination = Examination(tries, None, like.temperature, like.top_p, like.seed, like.bound)
    examination.quiz, examination.shared = like.quiz, NoCopy(SharedDraws(probabilities=IF_ANY, store=store))

    wanted = [(one, retrieved) for retrieved in (False, True)[: 1 + (retriever is not None)] for one in asked]
    watch = FailureMonitor("collecting", len(wanted))
    judge = None if judge_lm is None else cache(partial(contains, judge_lm))

    def drawn(place: tuple[Settled, bool]) -> CollectedQuiz | str:
        one, retrieved = place
        session = Session(like.bound, blocking=True)
        how: dict[str, Any] = {}
        if retrieved and retriever is not None:
            hits = retriever.search(str(one.quiz.resolved), top_k)
            # Where nothing is found, memory answers.
            reader = program.answering.answer if hits else None
            how = {"passages": [hit.passage.rendered for hit in hits], "reader": reader}
        found = run_blocking(lambda: session.run(examination.every_draw(Question(*one.asked().values()), **how)))
        failed = next((draw.error for draw in found.made if draw.error is not None), None)
        reference = "\n\n".join(how["passages"]) if how else None
        try:
            return _collected(one, found, reference, judge) if failed is None else failed
        except CallError as error:
            return error.cause
        except DSPyError as error:
            if not is_transient(type(error).__name__):
                raise
            return type(error).__name__

    def count(made: CollectedQuiz | str) -> None:
        cause = made if isinstance(made, str) else None
        watch.count(cause, cause if cause and is_transient(cause) else None)

    made = watch.each(wanted, drawn, count, in_flight, progress)
    kept = [one for one in made if isinstance(one, CollectedQuiz)]
    lm = str(lm_spec(examination.quiz.lm or dspy.settings.lm).get("model") or "")
    return Collected(kept, dataset, split, lm, tries, len(wanted) - len(kept))


def contains(lm: Any, predicted: str, answer: str) -> bool:
    """Whether a prediction contains the answer, as a language model says (KBM, first version, Figure 13)."""
    message = lm15.Message.user(accuracy_prompt(predicted, answer))
    config = lm15.Config(max_tokens=_LONGEST_VERDICT, temperature=0.0)
    reply = str(lm(lm15.Request(model=lm.model, messages=(message,), config=config)).text or "").strip()
    if reply[:1] not in ("0", "1"):
        raise CallError("NoVerdict", f"{reply!r} is neither 0 nor 1", unusable=True)
    return reply[0] == "1"


def write_collected(collected: Collected, path: Path) -> None:
    """Write what was collected to a file that only its owner may read: a header, then a line a quiz."""
    header = _Header(**{name: getattr(collected, name) for name in ("dataset", "split", "lm", "tries")})
    lines = [one.model_dump_json() for one in (header, *collected.quizzes)]
    write_private(path, "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace"))


def write_private(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all, and that only its owner may read."""
    try:
        private_folder(path.resolve().parent)
        atomic_write(path, content)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error


def read_collected(path: str | Path) -> Collected:
    """Read what `write_collected` wrote; it may come from a stranger."""
    content = read_path(path, _LARGEST_FILE, error=InputError)
    lines = parse_jsonl(content, path, error=InputError)
    number, first = next(lines, (1, None))
    if not isinstance(first, dict) or (first.get("format"), first.get("version")) != ("keqa-boundary-quizzes", 1):
        raise InputError(
            f"{path} is no file of collected quizzes of this version; keqa boundary collect writes one, and recorded "
            "outcomes are for keqa boundary train --outcomes"
        )
    header = validated(_Header, first, path, number)
    quizzes = [validated(CollectedQuiz, value, path, number) for number, value in islice(lines, _MOST_QUIZZES)]
    if next(lines, None) is not None:
        raise InputError(f"{path} has more than {_MOST_QUIZZES:,} quizzes, the most that are read")
    return Collected(quizzes, header.dataset, header.split, header.lm, header.tries)


def validated(kind: type[BaseModel], value: Any, path: str | Path, number: int) -> Any:
    """A line of a file as a model reads it."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise InputError(f"{path}, line {number}: {reasons(error)}") from None


def _collected(
    asked: Settled, found: Draws, reference: str | None, judge: Callable[[str, str], bool] | None
) -> CollectedQuiz:
    # Open Chinese answers that are not exactly right are judged, where somebody can.
    judged = judge if asked.answer_type == "short" and is_chinese(str(asked.quiz.resolved)) else None
    draws = []
    for draw in found.made:
        right = draw.answer is not None and asked.correctness(exact_match, draw.answer) >= 1
        if judged is not None and draw.answer is not None and not right:
            right = any(judged(draw.answer, gold) for gold in asked.golds)
        given = {name: getattr(draw, name) for name in ("probability", "first_token")}
        # Without the rounding errors of logarithms.
        likely = {name: None if one is None else min(1.0, max(0.0, one)) for name, one in given.items()}
        draws.append(CollectedDraw(text=draw.answer, right=right, **likely))
    golds, root = list(asked.golds), root_digest(asked.root)
    return CollectedQuiz(root=root, **asked.asked(), golds=golds, draws=draws, reference=reference)
