"""The training and validation questions of a compilation, checked before any call is made."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from keqa.data.example import Example
from keqa.data.loading import Problem
from keqa.data.own import read_examples, sort_examples
from keqa.data.question import refuse_table
from keqa.errors import InputError

Questions = Iterable[Any] | str | Path
"""Examples in any of the forms that `keqa.data.example.as_examples` takes, or a file of them."""

_FEW = 8
_HELD_OUT = 4
_MOST_HELD_OUT = 100


@dataclass(frozen=True)
class Split:
    """Questions to learn from and to choose by."""

    train: list[Example]
    val: list[Example]
    problems: list[str] = field(default_factory=list)


def split(trainset: Questions, valset: Questions | None, seed: int) -> Split:
    """Read the questions and keep the two parts apart; by default a seeded quarter, at most 100, is held out."""
    train, problems = _read(trainset, "train")
    if valset is None:
        if len(train) < _FEW:
            problems.append(f"{len(train)} training questions are too few to hold some out: they choose as well")
            return Split(train, list(train), problems)
        held = min(len(train) // _HELD_OUT, _MOST_HELD_OUT)
        places = set(random.Random(f"validation {seed}").sample(range(len(train)), held))
        val = [example for place, example in enumerate(train) if place in places]
        return Split([example for place, example in enumerate(train) if place not in places], val, problems)
    val, more = _read(valset, "validation")
    known = set(map(_asked, train))
    fresh = [example for example in val if _asked(example) not in known]
    if not fresh:
        raise InputError("every validation question is a training question as well")
    seen = [
        f"validation question {example.question!r} is a training question as well: left out of the validation questions"
        for example in val
        if _asked(example) in known
    ]
    return Split(train, fresh, [*problems, *more, *seen])


def _read(source: Questions, what: str) -> tuple[list[Example], list[str]]:
    if not isinstance(source, Iterable | Path):
        raise InputError(f"the {what} questions must be examples, or a file of them, not {source!r}")
    refuse_table(source, "keqa.compile")
    reading = read_examples(source) if isinstance(source, str | Path) else sort_examples(source)
    if not reading.examples:
        details = "".join(f"\n  {problem}" for problem in reading.problems[:5])
        raise InputError(f"no {what} question can be used{details}")
    return reading.examples, [f"{what}: {problem}" for problem in named(reading.problems)]


def named(problems: Iterable[Problem]) -> list[str]:
    """What is wrong with examples, by the name of their file: its folder is of this machine only."""
    return [str(replace(one, path=None if one.path is None else Path(one.path.name))) for one in problems]


def _asked(example: Example) -> tuple[str, tuple[str, ...]]:
    return example.question.casefold(), example.choices
