"""The questions that a program learned from, so that it is not measured by them or shown its own labels.

A question is recognised by a digest of its text and choices: ids such as ``train-0`` are those of many data sets.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import dspy

from keqa.data.example import Example
from keqa.data.question import question_digest
from keqa.errors import ConfigurationError
from keqa.programs.predictor_state import shown

_MOST = 1_000_000
_LONGEST = 1_000
_PARTS = {"train", "validation", "demonstrations", "complete"}
_AUGMENTED = "augmented"

Known = tuple[str, str]
"""The id of a question in its data set, and `question_digest`."""


def demonstration_digest(demo: Any, signature: type[dspy.Signature]) -> str:
    """What a demonstration is recognised by: all that a prompt shows of it."""
    [seen] = shown([dict(demo)], signature)
    text = json.dumps({name: value for name, value in seen.items() if name != _AUGMENTED}, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


@dataclass(frozen=True)
class LearnedQuestions:
    """What a program learned from, by id and digest.

    Attributes:
        train: Questions that demonstrations, instructions and the utility reference come from.
        validation: Questions by which it was chosen among others.
        demonstrations: By `demonstration_digest`, the digests of the questions that a demonstration comes from.
        complete: Whether that is all. A program that was saved before these were kept has learned from questions that
            nobody knows.
    """

    train: tuple[Known, ...] = ()
    validation: tuple[Known, ...] = ()
    demonstrations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    complete: bool = True

    def ids_of(self, question: str, choices: Iterable[str] = ()) -> tuple[str, ...]:
        """The ids under which a question was learned from; none where it was not."""
        return self._ids.get(question_digest(question, choices), ()) if self._ids else ()

    def hides(self, question: str, choices: Iterable[str], demo: Any, signature: type[dspy.Signature]) -> bool:
        """Whether a demonstration comes from a question, so that it is not shown while that is asked.

        Args:
            question: Its text.
            choices: Its options.
            demo: The demonstration.
            signature: Of the predictor that has it.
        """
        roots = self.demonstrations.get(demonstration_digest(demo, signature), ())
        return bool(roots) and question_digest(question, choices) in roots

    def and_from(
        self,
        train: Iterable[Example],
        validation: Iterable[Example],
        demonstrations: Mapping[str, Iterable[str]] | None = None,
    ) -> LearnedQuestions:
        """What it is after more was learned.

        Args:
            train: Questions that were learned from.
            validation: Questions that were chosen by.
            demonstrations: By `demonstration_digest`, the digests of the questions that demonstrations come from.
        """
        merged = {name: tuple(roots) for name, roots in self.demonstrations.items()}
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
        return {
            "train": [list(one) for one in self.train],
            "validation": [list(one) for one in self.validation],
            "demonstrations": {name: list(roots) for name, roots in self.demonstrations.items()},
            "complete": self.complete,
        }

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


def learned_from_json(value: Any) -> LearnedQuestions:
    """Read what `LearnedQuestions.as_json` gave, which may come from a stranger.

    Args:
        value: From a saved program.

    Raises:
        ConfigurationError: It is damaged.
    """
    if not isinstance(value, Mapping) or set(value) != _PARTS or not isinstance(value["complete"], bool):
        raise ConfigurationError(f"what it learned from has {', '.join(sorted(_PARTS))} and nothing else")
    demonstrations = value["demonstrations"]
    if not isinstance(demonstrations, Mapping) or not all(map(_texts, demonstrations.values())):
        raise ConfigurationError("demonstrations that it learned must name the questions that they come from")
    return LearnedQuestions(
        train=_pairs(value["train"], "train"),
        validation=_pairs(value["validation"], "validation"),
        demonstrations={str(name): tuple(roots) for name, roots in demonstrations.items()},
        complete=value["complete"],
    )


def _pairs(value: Any, what: str) -> tuple[Known, ...]:
    if not isinstance(value, list) or len(value) > _MOST:
        raise ConfigurationError(f"the {what} questions that it learned from must be a list of at most {_MOST:,}")
    if not all(_texts(one) and len(one) == 2 for one in value):
        raise ConfigurationError(f"each of the {what} questions that it learned from must be an id and a digest")
    return tuple((name, digest) for name, digest in value)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) and len(one) <= _LONGEST for one in value)


def _known(example: Example) -> Known:
    return example.id, question_digest(example.question, example.choices)
