"""What the benchmarks' converters share: the fields of a record, its answers, and why one is left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from keqa.data.example import Example, as_example
from keqa.data.question import clean
from keqa.data.quiz_references import check, parse
from keqa.errors import InputError
from keqa.metrics.answers import normalize

_POLAR = re.compile(r"(?:yes|no)(?:[.,!;:].*)?", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class LeftOut:
    """A sound record that is not asked.

    Attributes:
        reason: Why, as it is counted: ``unanswerable``, ``another split``.
    """

    reason: str


Converted = Example | LeftOut


def field(record: Mapping[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    """A field that the format must have.

    Raises:
        InputError: It is missing or of another kind.
    """
    if record.get(name) is None:
        raise InputError(f"there is no {name}")
    value = record[name]
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        expected = " or ".join(one.__name__ for one in kinds)
        raise InputError(f"{name} must be {expected}, not {type(value).__name__}")
    return value


def items(record: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """A field that is a list of objects."""
    found = field(record, name, (list, tuple))
    if not all(isinstance(one, Mapping) for one in found):
        raise InputError(f"{name} must be a list of objects")
    return list(found)


def is_polar(answer: str) -> bool:
    """Whether a gold answer is yes or no, perhaps with a remark after it."""
    return bool(_POLAR.fullmatch(answer.strip()))


def usable(*answers: Any) -> tuple[str, ...]:
    """The gold answers and aliases that an answer can equal, each once.

    Published aliases hold empty texts and such as "???", which nothing equals after normalisation.

    Raises:
        InputError: One is not text, or none can be used.
    """
    given = []
    for answer in _flat(answers):
        if isinstance(answer, bool) or not isinstance(answer, str | int | float):
            raise InputError(f"the answer must be text, not {type(answer).__name__}")
        given.append(clean(str(answer)))
    # Normalising the hundreds of thousands of TriviaQA's aliases takes longest; what has a letter needs none here.
    found = [text for text in given if any(char.isalnum() for char in text) or (text and normalize(text))]
    if not found:
        texts = [text for text in given if text]
        raise InputError(f"the answer {texts[0]!r} is nothing but punctuation" if texts else "there is no answer")
    return tuple(dict.fromkeys(found))


def _flat(answers: Iterable[Any]) -> Iterable[Any]:
    for answer in answers:
        if isinstance(answer, Sequence) and not isinstance(answer, str):
            yield from answer
        elif answer is not None:
            yield answer


def make(fields: Mapping[str, Any]) -> Example:
    """An example from plain fields, checked as every other is, with its evidence.

    A gold decomposition whose references lead nowhere is dropped, and the question stays.

    Args:
        fields: Those of an example that may come from anywhere, and where wanted `supporting_facts`, `triples`,
            `context`, `kind` and `scored_as`, which are those of `Example`.

    Raises:
        InputError: It cannot be used.
    """
    quizzes = [clean(quiz) for quiz in fields.get("quizzes", ())]
    if not all(quizzes) or any(problem.fatal for problem in check(parse(quizzes))):
        fields = {**fields, "quizzes": (), "quiz_answers": ()}
    return replace(
        as_example(fields),
        supporting_facts=tuple(fields.get("supporting_facts", ())),
        triples=tuple(fields.get("triples", ())),
        context=tuple(fields.get("context", ())),
        kind=fields.get("kind", ""),
        scored_as=fields.get("scored_as", ""),
    )
