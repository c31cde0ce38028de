"""The one type of example that everything learns from and is measured on."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal

from keqa.data.cells import listed
from keqa.data.question import (
    AnswerType,
    broken_references,
    check_answer_type,
    check_text,
    clean,
    is_missing,
    numbered_quizzes,
    refuse_table,
)
from keqa.errors import InputError
from keqa.metrics.answers import normalize, same_answer
from keqa.metrics.refusals import is_refusal

PassageRole = Literal["unknown", "supporting", "distractor", "counterfactual"]
Scoring = Literal["", "hotpotqa", "yes/no"]
"""How answers are scored; see `Example`."""


@dataclass(frozen=True, slots=True)
class SupportingFact:
    """Something needed for the answer; its position is a sentence's in its page, or of MuSiQue a paragraph's."""

    title: str = ""
    position: int | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Triple:
    """A step of reasoning, as KS-LLM constructs them; the object is an entity or a value."""

    subject: str
    relation: str
    object: str


@dataclass(frozen=True, slots=True)
class ContextPassage:
    """A passage that comes with the question: it supports the answer, distracts from it or gives a wrong one (RGB)."""

    title: str
    text: str
    role: PassageRole = "unknown"


@dataclass(frozen=True)
class Example:
    """A question with its gold answers.

    Attributes:
        id: Unique within a data set; also the root of what is learned from the question.
        answers: The gold answer first, then its aliases; none where the documents do not say it, see `unanswerable`.
        quizzes: The gold decomposition with #1, #2, where there is one, and `quiz_answers` the gold answer of each.
        supporting_facts: What the annotators needed for the answer, where the benchmark gives it.
        context: The passages that come with the question, where there are any.
        scored_as: How an answer is scored, where that is not by its type: ``hotpotqa`` by that benchmark's official
            script, ``yes/no`` as a verdict though the prompt does not ask for one. Gold answers may decide this, and do
            of questions of one's own without a type; they never decide the type, which the language model is shown.
        one_hop: Whether it takes one step only, where the data set says so; None where nobody does.
        kind: What kind of question it is, where the benchmark says so: reports have columns for each. Of several kinds,
            such as ``fast-changing; one-hop``, it counts in each.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    answer_type: AnswerType = "short"
    choices: tuple[str, ...] = ()
    quizzes: tuple[str, ...] = ()
    quiz_answers: tuple[str, ...] = ()
    supporting_facts: tuple[SupportingFact, ...] = ()
    triples: tuple[Triple, ...] = ()
    context: tuple[ContextPassage, ...] = ()
    kind: str = ""
    scored_as: Scoring = ""
    one_hop: bool | None = None

    @property
    def name(self) -> str:
        """What messages call it: its id, or the question itself where nobody gave it one."""
        return f"“{self.question}”" if self.id == _identity(self.question, self.choices) else self.id

    @property
    def unanswerable(self) -> bool:
        """Whether the right thing to say is that the documents do not say it."""
        return not self.answers


# Beside these an answer is one that was given, as in what RAGAS scores, and no gold answer.
_GOLD: Final = ("ground_truth", "ground_truths")
FIELDS: Final = (
    *"id question answer answers answer_type choices quizzes quiz_answers unanswerable kind".split(),
    *_GOLD,
)
"""What is read of a mapping or object; `Example` has more, which only benchmarks give."""

_KEPT: Final = ("supporting_facts", "triples", "context", "scored_as", "one_hop")
# How much more has to speak for it that a gold answer is none: "Not the Nine O'Clock News" is one.
_CERTAIN: Final = 3.0
# “No. 5” is no verdict.
_POLAR: Final = re.compile(r"(?:yes|no|true|false)(?:[.,!;:](?!\s*\d).*)?", re.IGNORECASE | re.DOTALL)
_MOST_FOUND: Final = 10
_LONGEST_FOUND: Final = 40
# Beyond it a float says no whole number exactly.
_LARGEST_WHOLE: Final = 2**53


def as_examples(items: Iterable[Any], *, unanswerable: bool = False) -> list[Example]:
    """Turn what a program holds into examples: mappings, objects with the same attributes, or examples.

    Several answers, choices or quizzes are a list, or a text that is one as a whole, as JSON, Python and NumPy write
    it; all but `answer` may also be a text with ``|`` between them.
    """
    refuse_table(items, "keqa")
    examples: dict[str, Example] = {}
    for number, item in enumerate(items, start=1):
        try:
            example = own_example(item, unanswerable=unanswerable)
            if example.id in examples:
                raise InputError(f"its id {example.id!r} is taken by another example, or it came before")
        except InputError as error:
            raise InputError(f"example {number}: {error}") from error
        examples[example.id] = example
    return list(examples.values())


def as_example(item: Any, *, unanswerable: bool = False) -> Example:
    """Turn one item into an example; see `as_examples`."""
    given = _given(item)
    marked = _is_marked(given.get("unanswerable"))
    if "question" not in given:
        raise InputError(f"there is no question{_found(item)}")
    if not marked and given.keys().isdisjoint(("answer", "answers")):
        raise InputError(f"there is no answer{_found(item)}")
    question = _text(given["question"], "question")
    choices, quizzes, quiz_answers = (_texts(given, name) for name in ("choices", "quizzes", "quiz_answers"))
    answers = (*_texts(given, "answer", choices), *_texts(given, "answers", choices))
    kind = given.get("answer_type")
    usual: AnswerType = "choice" if choices else "short"
    answer_type = usual if is_missing(kind) else check_answer_type(kind)
    if marked and answers:
        raise InputError("it is marked as unanswerable, and there is an answer")
    without = not answers and (marked or (marked is None and given.get("answer", "") is None))
    if not without:
        _check_answers(answers, answer_type, choices)
    elif not unanswerable:
        raise InputError("there is no answer, as it says itself, and one is needed")
    if quiz_answers and len(quiz_answers) != len(quizzes):
        raise InputError(f"there are {len(quizzes)} quizzes and {len(quiz_answers)} quiz_answers")
    for broken in broken_references(numbered_quizzes(quizzes)):
        if broken.fatal:
            raise InputError(f"quiz {broken.quiz} {broken.message}")
    polar = is_missing(kind) and not choices and answers and all(map(is_polar, answers))
    beyond: dict[str, Any] = {"scored_as": "yes/no" if polar else ""}
    if isinstance(item, Example):
        beyond = {name: getattr(item, name) for name in _KEPT}
    return Example(
        id=_identity(question, choices) if is_missing(given.get("id")) else _text(given["id"], "id"),
        question=question,
        answers=tuple(dict.fromkeys(answers)),
        answer_type=answer_type,
        choices=choices,
        quizzes=quizzes,
        quiz_answers=quiz_answers,
        kind=_kind(given.get("kind")),
        **beyond,
    )


def own_example(item: Any, *, unanswerable: bool = False) -> Example:
    """As `as_example`, but gold answers that all say that there is none, which nobody marked, are refused."""
    example = as_example(item, unanswerable=unanswerable)
    unmarked = not example.choices and _is_marked(_given(item).get("unanswerable")) is None
    if unmarked and example.answers and all(is_refusal(one, _CERTAIN) for one in example.answers):
        raise InputError(
            f"the answer {example.answers[0]!r} says that there is none: give unanswerable as true in its place, or as "
            "false beside it where it is the answer"
        )
    return example


def _given(item: Any) -> dict[str, Any]:
    if isinstance(item, str) or item is None:
        raise InputError(f"a question with its answers is expected, not {type(item).__name__}")
    if isinstance(item, Mapping):
        given = {name: item[name] for name in FIELDS if name in item}
    else:
        given = {name: getattr(item, name) for name in FIELDS if hasattr(item, name)}
    if "answer" in given and (gold := next((name for name in _GOLD if name in given), None)):
        raise InputError(f"there are answer and {gold}: call the one that is right answer, and leave the other out")
    return given


def _found(item: Any) -> str:
    """The names of an item's fields, as a message ends with them; nothing where it does not say them."""
    keys = getattr(type(item), "keys", None)
    fields = keys(item) if callable(keys) else getattr(item, "__dict__", ())
    found = names_of(fields)
    return f", found {found}" if found else ""


def names_of(fields: Iterable[Any]) -> str:
    """The first names of fields, as messages have them."""
    names = (clean(str(name))[:_LONGEST_FOUND] for name in islice(fields, _MOST_FOUND) if str(name)[:1] != "_")
    return ", ".join(names)


def _text(value: Any, what: str) -> str:
    """Text, cleaned; see `worded`."""
    if is_missing(value):
        raise InputError(f"there is no {what}")
    return check_text(worded(value), what)


def worded(value: Any) -> Any:
    """A number as it is written, and true and false as yes and no; all else as it is."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, int | float) else value


def _texts(given: Mapping[str, Any], name: str, options: Sequence[str] = ()) -> tuple[str, ...]:
    value: Any = given.get(name)
    # What NumPy holds has that, as the lists in columns of pandas are.
    value = value.tolist() if hasattr(value, "tolist") else value
    if is_missing(value):
        return ()
    if name == "answer" and isinstance(value, str):
        # Of a solution as GSM8K has it, the last line is the answer.
        *solution, last = value.rstrip().rsplit("\n#### ", 1)
        value = last if solution and "\n" not in last and re.search(r"\d", last) else value
    if isinstance(value, str) and value not in options:
        found = listed(value)
        if name != "answer":
            value = value.split("|") if found is None else found
        elif found is not None and (len(found) < 2 or any(isinstance(one, str) or is_missing(one) for one in found)):
            # Of numbers alone it may be an interval.
            value = found
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_text(whole(one), f"{name}[{position}]") for position, one in enumerate(value))
    return (_text(whole(value), name),)


def _kind(value: Any) -> str:
    several = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else ()
    return "; ".join(filter(None, (clean(one) for one in several if isinstance(one, str))))


def whole(value: Any) -> Any:
    """A float that is a whole number as that number: pandas makes 1871 to 1871.0 where others of its column miss."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_WHOLE
    return int(value) if whole else value


def _is_marked(value: Any) -> bool | None:
    """Whether a question is said to be unanswerable; None where nothing is said."""
    if is_missing(value):
        return None
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if (marked := words.get(str(value).strip().lower())) is None:
        raise InputError(f"unanswerable must be true or false, not {value!r}")
    return marked


def _check_answers(answers: Sequence[str], answer_type: AnswerType, choices: Sequence[str]) -> None:
    """Refuse gold answers that no answer could ever equal."""
    if not answers:
        raise InputError("there is no answer")
    if answer_type == "choice" and not choices:
        raise InputError("a question of answer_type 'choice' needs choices")
    for answer in answers:
        if not normalize(answer, answer_type, choices):
            raise InputError(f"the answer {answer!r} is nothing but punctuation")
        if answer_type == "yes/no" and normalize(answer, answer_type) not in ("yes", "no"):
            raise InputError(f"the answer {answer!r} is neither yes nor no")
        if answer_type == "choice" and not any(same_answer(answer, option, "choice", choices) for option in choices):
            named = ", ".join(map(repr, choices))
            raise InputError(f"the answer {answer!r} is none of the choices, by its text or its letter: {named:.100}")


def is_polar(answer: str) -> bool:
    """Whether a gold answer is yes or no, or true or false, perhaps with a remark after it."""
    return bool(_POLAR.fullmatch(answer.strip()))


def _identity(question: str, choices: Sequence[str]) -> str:
    """An id that is the same wherever and whenever the question is read."""
    text = json.dumps([question, *choices])
    return "q-" + hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
