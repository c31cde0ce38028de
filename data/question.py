"""What a user may ask, checked and cleaned before any call is made, and the quizzes that it is taken apart into.

In the text of a quiz ``#2`` stands for the answer to quiz 2 (KEQA, section 3.3, quiz generation).
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from numbers import Real
from typing import Any, Final, Literal, Self, cast, get_args

from keqa.errors import InputError
from keqa.retrievers.splitting import without_stop
from keqa.retrievers.text import plain

AnswerType = Literal["short", "yes/no", "choice"]
"""What kind of answer a question wants."""

MOST_TURNS: Final = 10
"""So many turns are read, the last ones."""

_MOST_CHOICES: Final = 256
_LONGEST_CHOICES: Final = 50_000
# Of a question or an answer before, so many characters are read.
_LONGEST: Final = 500
_BAD: Final = {"Cc", "Cs"}
# Of pandas, which need not be there.
_MISSING: Final = ("NAType", "NaTType")
# What gives the rows of a table, by how one of pandas, polars and pyarrow is recognised without it. That of polars has
# `to_dict` as well, which takes no such argument.
_ROWS: Final = (("to_dicts", "to_dicts()"), ("to_pylist", "to_pylist()"), ("to_dict", 'to_dict("records")'))
# All digits are taken, so #1 is never found in #10. The sign and its number may be full-width or apart.
_REFERENCE = re.compile(r"[#＃]\s*(\d+)")
_MOST_DIGITS = 18
# How LMs write a reference otherwise: “[1]”, “{answer_1}”, “<the answer to #1>”, “the answer to question 1”.
_OF = r"answer[\s_]*(?:(?:to|of|from|for)\s+)?(?:the\s+)?"
_PART = r"(?:(?:sub-?)?(?:quiz|question)|step|q)[\s_]*"
_WRITTEN = re.compile(
    rf"(?<!\w)(?:\[|<|\{{{{?)(?:the\s+)?(?:{_OF})?(?:{_PART}|a)?[#＃]?(\d{{1,2}})(?:\]|>|\}}}}?)"
    rf"|(?<!\w)[(]?(?:the\s+)?{_OF}(?:{_PART}[#＃]?|[#＃])(\d{{1,2}})\b[)]?",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"^\s*(?:(?:[#＃]|(?:sub-?)?(?:quiz|question|q)\s*)?(\d+)\s*(?:[:.)]\s+|[、：]\s*))(?=\S)", re.IGNORECASE
)


def clean(text: str) -> str:
    """Text on one line that any encoding and prompt can carry: without lone surrogates and control characters."""
    kept = (char if unicodedata.category(char) not in _BAD else " " * char.isspace() for char in text)
    return " ".join("".join(kept).split())


def check_text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"the {what} must be text, not {type(value).__name__}")
    text = clean(value)
    if not text:
        raise InputError(f"the {what} is empty")
    return text


def check_answer_type(value: object) -> AnswerType:
    if value not in (kinds := get_args(AnswerType)):
        raise InputError(f"answer_type must be one of {', '.join(kinds)}, not {value!r}")
    return cast(AnswerType, value)


def is_missing(value: object) -> bool:
    """Whether a value stands for none: None, and what pandas and JSON have in its place, such as ``NaN``."""
    return value is None or (isinstance(value, Real) and value != value) or type(value).__name__ in _MISSING


def refuse_table(items: Any, who: str) -> None:
    """Refuse a table, as of pandas, where a list of questions is expected: iterating gives the names of its columns."""
    if isinstance(items, type) or not hasattr(items, "columns"):
        return
    rows = next((written for method, written in _ROWS if callable(getattr(items, method, None))), None)
    if rows is not None:
        kind = type(items).__name__
        raise InputError(f"{who} takes a list of questions, not a {kind}: give its rows, df.{rows}")


@dataclass(frozen=True)
class Question:
    """A question that passed the checks, or a resolved quiz; `history` has a line for each question before it."""

    question: str
    answer_type: AnswerType = "short"
    choices: Sequence[str] = ()
    history: tuple[str, ...] = ()

    @property
    def kind(self) -> dict[str, Any]:
        """What kind of answer it wants, as prompts take it."""
        return {"answer_type": self.answer_type, "choices": list(self.choices)}

    @classmethod
    def check(
        cls, question: object, answer_type: object, choices: object, max_chars: int, history: object = ()
    ) -> Self:
        """Check and clean what was asked; see `turns` for `history`. None is what is not given."""
        text = check_text(question, "question")
        if len(text) > max_chars:
            raise InputError(f"the question has {len(text):,} characters; at most {max_chars:,} are allowed")
        kind = check_answer_type("short" if answer_type is None else answer_type)
        choices = () if choices is None else choices
        if isinstance(choices, str) or not isinstance(choices, Sequence):
            raise InputError(f"choices must be a list of texts, not {type(choices).__name__}")
        options = [check_text(choice, "choice") for choice in choices]
        if len(options) > _MOST_CHOICES or sum(map(len, options)) > _LONGEST_CHOICES:
            there = f"there are {len(options):,} choices with {sum(map(len, options)):,} characters"
            most = f"at most {_MOST_CHOICES} with {_LONGEST_CHOICES:,} are allowed"
            raise InputError(f"{there}; {most}, for each prompt holds all of them")
        if kind == "choice" and not options:
            raise InputError("a question of answer_type 'choice' needs choices")
        # Choices alone say that it is a choice, as of an example; without, the answer may be none of them.
        kind = "choice" if options and kind == "short" else kind
        return cls(text, kind, options, tuple(turns(() if history is None else history)))

    @staticmethod
    def arguments(item: object) -> dict[str, Any]:
        """The arguments of a program's call from a question, a mapping or an object with these as attributes."""
        names = ("question", "answer_type", "choices", "history")
        if isinstance(item, str) or item is None:
            return {"question": item}
        if isinstance(item, Mapping):
            return {"question": None} | {name: item[name] for name in names if not is_missing(item.get(name))}
        found = {name: getattr(item, name, None) for name in names}
        # What has no question is itself refused as one, with its type.
        return {"question": item} | {name: value for name, value in found.items() if not is_missing(value)}


def turns(history: object) -> list[str]:
    """The earlier questions in their order, each with its answer, on a line each."""
    given = getattr(history, "messages", history)
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise InputError(f"history must be a list of earlier questions with their answers, not {type(given).__name__}")
    return [line for line in map(_line, given[-MOST_TURNS:]) if line]


def _line(turn: object) -> str:
    if isinstance(turn, str):
        return clean(turn)[: 2 * _LONGEST]
    if isinstance(turn, Mapping) and "question" in turn:
        question, answer = turn["question"], turn.get("answer")
    elif isinstance(turn, Sequence) and len(turn) == 2:
        question, answer = turn
    else:
        forms = "a line, a question with its answer, or a mapping with question and answer"
        raise InputError(f"a turn of history must be {forms}")
    asked = check_text(question, "question in history")
    replied = "" if answer is None or answer == "" else check_text(answer, "answer in history")
    return f"{asked[:_LONGEST]} {replied[:_LONGEST]}".strip()


def question_digest(question: str, choices: Iterable[str] = ()) -> str:
    """What a question is recognised by, whatever its id, letter case, spaces and the order of its choices."""
    text = json.dumps([plain(question), *sorted(map(plain, choices))])
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


@dataclass(frozen=True)
class Quiz:
    """A quiz as decomposed: its number from 1, and the numbers that its text refers to, in order of appearance."""

    index: int
    text: str
    depends_on: tuple[int, ...] = ()


@dataclass(frozen=True)
class BrokenReference:
    """A reference that does not hold, and in which quiz.

    Its cause is ``MissingReference``, ``SelfReference``, ``ReferenceCycle`` or ``LaterReference``. Where it is fatal
    the quiz cannot be resolved; a reference to a later quiz only changes the order.
    """

    quiz: int
    cause: str
    message: str
    fatal: bool


def references(text: str) -> tuple[int, ...]:
    """The numbers that a text refers to, each once, in order of appearance."""
    return tuple(dict.fromkeys(map(_number, _REFERENCE.findall(text))))


def _number(digits: str) -> int:
    """A number as written; Python reads none of thousands of digits, and no quiz has one of more than a few."""
    return int(digits[:_MOST_DIGITS])


def quiz_key(text: str) -> str:
    """A quiz's text, by which it is found again: spaces and case do not matter."""
    return " ".join(text.split()).casefold()


def numbered_quizzes(texts: Sequence[str], question: str | None = None) -> list[Quiz]:
    """Number the quizzes of a decomposition.

    Blank ones are left out and keep their number, so that references to the others still hold. A label that repeats the
    quiz's own number ("2. Who ...", "#2: Who ...") is dropped. Of those of a question references to earlier ones may be
    written in other ways ("the answer to question 1", "[1]"), unless the question has these words.
    """
    quizzes, asked = [], (question or "").casefold()
    for index, raw in enumerate(texts, start=1):
        label = _LABEL.match(raw)

        def plain_reference(found: re.Match[str], index: int = index) -> str:
            number = int(found[1] or found[2])
            return f"#{number}" if 0 < number < index and found[0].casefold() not in asked else found[0]

        text = (raw[label.end() :] if label and _number(label[1]) == index else raw).strip()
        text = text if question is None else _WRITTEN.sub(plain_reference, text)
        if text:
            quizzes.append(Quiz(index, text, references(text)))
    return quizzes


def broken_references(quizzes: Sequence[Quiz]) -> list[BrokenReference]:
    """Find the broken references; none is fatal exactly when every quiz can come after those that it refers to."""
    numbers = {quiz.index for quiz in quizzes}
    broken = []
    for quiz in quizzes:
        for number in quiz.depends_on:
            if number == quiz.index:
                broken.append(BrokenReference(quiz.index, "SelfReference", f"refers to itself, #{number}", True))
            elif number not in numbers:
                problem = f"refers to #{number}, which is not there"
                broken.append(BrokenReference(quiz.index, "MissingReference", problem, True))
            elif number > quiz.index:
                problem = f"refers to #{number}, which comes later"
                broken.append(BrokenReference(quiz.index, "LaterReference", problem, False))
    graph = {quiz.index: {n for n in quiz.depends_on if n in numbers and n != quiz.index} for quiz in quizzes}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        problem = f"quizzes wait for each other: {' -> '.join(f'#{number}' for number in error.args[1])}"
        broken.append(BrokenReference(min(error.args[1]), "ReferenceCycle", problem, True))
    return broken


def resolvable(quizzes: Sequence[Quiz]) -> set[int]:
    """Numbers of the quizzes whose references, and theirs in turn, all lead to quizzes that are there."""
    sound: set[int] = set()
    for _ in quizzes:
        sound |= {quiz.index for quiz in quizzes if sound.issuperset(quiz.depends_on)}
    return sound


def resolved_text(quiz: Quiz, answers: Mapping[int, str | None]) -> str | None:
    """Put answers in the places of references, in one pass, so that a ``#1`` within an answer stays what it is.

    The stop that an answer ends with ends no part of the quiz; that of an abbreviation is a part of a name.
    """
    if any(answers.get(number) is None for number in quiz.depends_on):
        return None

    def answer(reference: re.Match[str]) -> str:
        text = str(answers[_number(reference[1])])
        return without_stop(text) if text.endswith((".", "。")) else text

    return _REFERENCE.sub(answer, quiz.text)
