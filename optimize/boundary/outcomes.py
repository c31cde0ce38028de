"""Recorded outcomes: what a language model answered to questions, and what of it was right. No language model is asked.

A line of JSON is a question with its `draft`, the answer from memory, and whether that was `right` or the gold
`answers` from which it follows. Lines of AdaRAGUE's kind (`closed_book`, `one_retrieval`, `ircot`) are read as well.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from keqa.data.example import whole, worded
from keqa.errors import InputError
from keqa.metrics.accuracy import contains_answer
from keqa.optimize.boundary.collect import Collected, CollectedDraw, CollectedQuiz, Probability, validated
from keqa.programs.boundary.chooser import Seen
from keqa.programs.boundary.light import root_digest
from keqa.storage.untrusted import parse_jsonl, read_path

_LARGEST_FILE = 512 << 20
_SPLITS = re.compile(r"(?:^|[^a-z])(train|dev|val|validation|test)$")
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")

_ANSWERS = {"id", "draft", "reading", "quizzes", "further", "answers"}

Text = Annotated[str, Field(min_length=1, max_length=20_000)]


class RecordedOutcome(BaseModel):
    """One question with what it was answered; other keys of a line are passed over."""

    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)

    id: str | None = None
    split: str = ""
    question: Text
    chain: Annotated[str, Field(max_length=100_000)] = ""
    draft: Annotated[str, Field(max_length=20_000)]
    right: bool
    probability: Probability | None = None
    further: Annotated[list[Text], Field(max_length=100)] = Field(default_factory=list)
    answers: Annotated[list[Text], Field(max_length=1000)] = Field(default_factory=list)
    reading: str | None = None
    reading_right: bool | None = None
    quizzes: str | None = None
    quizzes_right: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _plainly(cls, value: Any) -> Any:
        """The same with the names of this class, and what follows from gold answers and perplexity."""
        if not isinstance(value, dict):
            raise ValueError('a line is an object, such as {"question": …, "draft": …, "right": true}')
        value = _of_adarague(value) if isinstance(value.get("closed_book"), dict) else dict(value)
        for name in _ANSWERS & value.keys():
            given = value[name]
            value[name] = [worded(whole(one)) for one in given] if isinstance(given, list) else worded(whole(given))
        golds = value.get("answers")
        for name in ("draft", "reading", "quizzes"):
            given, label = value.get(name), "right" if name == "draft" else f"{name}_right"
            if not isinstance(given, str) or value.get(label) is not None:
                continue
            if not isinstance(golds, list) or not golds or not all(isinstance(one, str) and one for one in golds):
                raise ValueError(f"whether {name!r} is right is not said: give {label!r}, or gold 'answers'")
            value[label] = contains_answer(given, golds)
        perplexity = value.get("perplexity")
        if perplexity is not None and value.get("probability") is None:
            if type(perplexity) not in (int, float) or perplexity < 1:
                raise ValueError("'perplexity' is a number of 1 or more")
            value["probability"] = 1 / perplexity
        return value

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.quizzes is not None and self.reading is None:
            raise ValueError("'quizzes' needs a 'reading' as well, the step before it")
        return self

    @property
    def root(self) -> str:
        """The digest by which a question is known."""
        return root_digest(self.id or self.question)

    @property
    def seen(self) -> Seen:
        answers = tuple(one for one in (self.draft, self.reading, self.quizzes) if one is not None)
        return Seen(self.question, self.chain, answers, self.probability, tuple(self.further))

    @property
    def rights(self) -> tuple[bool, ...]:
        """Whether each answer that there is was right."""
        steps = ((self.draft, self.right), (self.reading, self.reading_right), (self.quizzes, self.quizzes_right))
        return tuple(right for answer, right in steps if answer is not None and right is not None)


def _of_adarague(line: Mapping[str, Any]) -> dict[str, Any]:
    """A line of AdaRAGUE's results, whose chains are quoted and whose letters are escaped once more."""
    given = {name: one for name in ("closed_book", "one_retrieval", "ircot") if isinstance(one := line.get(name), dict)}
    answers = {name: _unescaped(one.get("answer")) for name, one in given.items()}
    chain = given["closed_book"].get("chain", "")
    with suppress(ValueError, TypeError):
        chain = json.loads(chain)
    # A short draw is another way to ask, and its perplexity another's than the draft's.
    short = line.get("short_draw")
    more = {"further": [short["answer"]]} if isinstance(short, dict) and short.get("answer") else {}
    return {
        **{name: line[name] for name in ("id", "split", "question", "answers") if name in line},
        **{"chain": chain, "draft": answers["closed_book"], **more},
        **{"reading": answers.get("one_retrieval"), "quizzes": answers.get("ircot")},
    }


def _unescaped(text: Any) -> Any:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text) if isinstance(text, str) else text


def read_outcomes(path: str | Path, *, measured: bool = False) -> list[RecordedOutcome]:
    """Read a file of outcomes to learn from, or to be `measured` by: nothing learns from a test split."""
    content = read_path(path, _LARGEST_FILE, error=InputError)
    split, found = _SPLITS.search(Path(path).stem.lower()), []
    for number, value in parse_jsonl(content, path, error=InputError):
        one = validated(RecordedOutcome, value, path, number)
        if not measured and "test" in (one.split.lower(), split[1] if split and not one.split else ""):
            raise InputError(f"{path}, line {number}, is of a test split: nothing learns from that")
        found.append(one)
    if not found:
        raise InputError(f"{path} holds no outcome")
    return found


def as_collected(outcomes: Iterable[RecordedOutcome], dataset: str = "") -> Collected:
    """Outcomes as draws, of which the draft is the first: what light boundary models are trained on."""
    quizzes = [
        CollectedQuiz(root=one.root, quiz=one.question, golds=one.answers or [one.draft or "-"], draws=_draws(one))
        for one in outcomes
    ]
    return Collected(quizzes, dataset, "train", "recorded outcomes", 1)


def _draws(one: RecordedOutcome) -> list[CollectedDraw]:
    first = CollectedDraw(text=one.draft or None, right=one.right, probability=one.probability)
    return [first, *(CollectedDraw(text=text, right=_right(text, one)) for text in one.further)]


def _right(text: str, one: RecordedOutcome) -> bool:
    # Where there is no gold answer, the draft stands for one if it is right.
    golds: Sequence[str] = one.answers or ([one.draft] if one.right else [])
    return bool(golds) and contains_answer(text, golds)
