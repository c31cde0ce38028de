"""The questions that a program learned from, so that it is not measured by them or shown its own labels.

A question is recognised by a digest of its text and choices: ids such as ``train-0`` are those of many data sets.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any

import dspy
from pydantic import Field, StrictBool, TypeAdapter, ValidationError

from keqa.data.example import Example
from keqa.data.question import question_digest
from keqa.errors import ConfigurationError
from keqa.programs.calls.session import context, within
from keqa.programs.predictor import shown

_AUGMENTED = "augmented"

Text = Annotated[str, Field(max_length=1_000)]
Known = tuple[Text, Text]
"""The id of a question in its data set, and `question_digest`."""
KnownQuestions = Annotated[tuple[Known, ...], Field(max_length=1_000_000)]


def demonstration_digest(demo: Any, signature: type[dspy.Signature]) -> str:
    """What a demonstration is recognised by: all that a prompt shows of it."""
    [seen] = shown([dict(demo)], signature)
    text = json.dumps({name: value for name, value in seen.items() if name != _AUGMENTED}, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


def asking_for(question: str, choices: Iterable[str] = ()) -> AbstractContextManager[None]:
    """Within this context no utility reference shows what it holds of a training question that is asked again.

    Every program does so for the question that it answers: an optimizer of DSPy's asks the questions that the reference
    was built from, and would otherwise choose by their own labels.
    """
    return within(asked=question_digest(question, choices))


def leaving_out(*roots: str) -> AbstractContextManager[None]:
    """Within this context no utility reference shows what it holds of the training questions with these ids.

    It binds the calls that are made in other threads and tasks for the context, too. A question that is asked in the
    very words of a training question needs none: see `asking_for`.
    """
    return within(left_out=context().left_out | set(roots))


@dataclass(frozen=True)
class LearnedQuestions:
    """What a program learned from, by id and digest."""

    train: KnownQuestions = ()
    """Questions that demonstrations, instructions and the utility reference come from."""
    validation: KnownQuestions = ()
    """Questions by which it was chosen among others."""
    demonstrations: dict[str, tuple[Text, ...]] = field(default_factory=dict)
    """By `demonstration_digest`, the digests of the questions that a demonstration comes from."""
    complete: StrictBool = True
    """Whether that is all: of demonstrations from elsewhere nobody knows what they were learned from."""

    def ids_of(self, question: str, choices: Iterable[str] = ()) -> tuple[str, ...]:
        """The ids under which a question was learned from; none where it was not."""
        return self._ids.get(question_digest(question, choices), ()) if self._ids else ()

    def hides(self, question: str, choices: Iterable[str], demo: Any, signature: type[dspy.Signature]) -> bool:
        """Whether a predictor's demonstration comes from a question, so that it is not shown while that is asked."""
        roots = self.demonstrations.get(demonstration_digest(demo, signature), ())
        return bool(roots) and question_digest(question, choices) in roots

    def and_from(
        self,
        train: Iterable[Example],
        validation: Iterable[Example],
        demonstrations: Mapping[str, Iterable[str]] | None = None,
    ) -> LearnedQuestions:
        """What it is after more was learned; demonstrations as in the attribute."""
        merged = dict(self.demonstrations)
        for name, roots in (demonstrations or {}).items():
            merged[name] = tuple(dict.fromkeys((*merged.get(name, ()), *roots)))
        return LearnedQuestions(
            train=tuple(dict.fromkeys((*self.train, *map(_known, train)))),
            validation=tuple(dict.fromkeys((*self.validation, *map(_known, validation)))),
            demonstrations=merged,
            complete=self.complete,
        )

    def as_json(self) -> dict[str, Any]:
        """As a saved program holds it; see `learned_from_json`."""
        return asdict(self)

    @cached_property
    def _ids(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for name, digest in (*self.train, *self.validation):
            found[digest] = tuple(dict.fromkeys((*found.get(digest, ()), name)))
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> LearnedQuestions:
        return self


NOTHING = LearnedQuestions()
"""That of a program that has learned from no question."""
_ADAPTER = TypeAdapter(LearnedQuestions)


def learned_from_json(value: Any) -> LearnedQuestions:
    """Read what `LearnedQuestions.as_json` gave, from a file that may be a stranger's."""
    parts = {one.name for one in fields(LearnedQuestions)}
    if not isinstance(value, Mapping) or set(value) != parts:
        raise ConfigurationError(f"what it learned from has {', '.join(sorted(parts))} and nothing else")
    try:
        return _ADAPTER.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigurationError(f"what it learned from is damaged: {where[:80]!a}: {first['msg']}") from None


def _known(example: Example) -> Known:
    return example.id, question_digest(example.question, example.choices)
