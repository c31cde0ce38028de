"""From rows to examples: what is wrong is named, what is left out is counted, samples are seeded."""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from keqa.data.example import Example
from keqa.data.own import Problem
from keqa.data.records import Converted, LeftOut
from keqa.data.rows import Row
from keqa.errors import InputError

__all__ = ["Loaded", "collect", "sampled"]


@dataclass(frozen=True)
class Loaded:
    """What was loaded.

    Attributes:
        examples: Those that can be used: in the order of the file, or of the sample.
        problems: Records that cannot be used, and why.
        left_out: How many sound records were not taken, by reason, such as ``unanswerable``.
    """

    examples: list[Example]
    problems: list[Problem]
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def ids(self) -> list[str]:
        """What a run records, so that it is known which questions it asked."""
        return [example.id for example in self.examples]


def collect(
    rows: Iterable[Row],
    convert: Callable[[Mapping[str, Any]], Converted],
    *,
    source: str,
    expected: str,
    sample: int | None = None,
    seed: int = 0,
) -> Loaded:
    """Convert rows and sort out what cannot be used.

    Only the sample is held in memory, so that a large file costs what its sample does.

    Args:
        rows: The records with their places.
        convert: From a record to an example or the reason it is left out; raises `InputError` where it is malformed.
        source: The file or data set, for messages.
        expected: What a record looks like, for messages.
        sample: How many questions to take; see `sampled`.
        seed: Of the sample.

    Raises:
        InputError: Nothing can be used, which is what a file of another format looks like; or `sample` is below 1.
    """
    if sample is not None and sample < 1:
        raise InputError(f"sample must be at least 1, not {sample}")
    problems: list[Problem] = []
    left_out: Counter[str] = Counter()
    examples = _usable(rows, convert, problems, left_out)
    taken = list(examples) if sample is None else sampled(examples, sample, seed)
    if not taken and not left_out:
        details = "".join(f"\n  {problem}" for problem in problems[:3])
        raise InputError(f"{source} holds no question that can be used; expected: {expected}{details}")
    if not taken:
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise InputError(f"{source} holds no question to ask: {reasons}")
    return Loaded(taken, problems, dict(left_out))


def sampled(examples: Iterable[Example], count: int, seed: int) -> list[Example]:
    """Draw questions by a hash of seed and id: the order of the file does not matter, only which ids it has.

    A larger sample begins with the smaller one of the same seed; where there are fewer questions, all are taken.

    Args:
        examples: To draw from.
        count: How many.
        seed: Another one draws another sample.
    """

    def place(example: Example) -> bytes:
        return hashlib.blake2b(f"{seed}\0{example.id}".encode(), digest_size=16).digest()

    return heapq.nsmallest(count, examples, key=place)


def _usable(
    rows: Iterable[Row],
    convert: Callable[[Mapping[str, Any]], Converted],
    problems: list[Problem],
    left_out: Counter[str],
) -> Iterator[Example]:
    ids: dict[str, tuple[str, int]] = {}
    for row in rows:
        try:
            if isinstance(row.value, InputError):
                raise row.value
            if not isinstance(row.value, Mapping):
                raise InputError(f"an object is expected, not {type(row.value).__name__}")
            converted = convert(row.value)
            if isinstance(converted, LeftOut):
                left_out[converted.reason] += 1
                continue
            if converted.id in ids:
                place, asked = ids[converted.id]
                again = f"the question of {place} again" if asked == hash(converted.question) else ""
                raise InputError(again or f"its id {converted.id!r} is that of {place}")
        except InputError as error:
            problems.append(Problem(row.path, row.number, str(error), row.unit))
            continue
        # Of the question only the hash is kept, as a sample may be drawn from many more than memory should hold.
        ids[converted.id] = f"{row.unit} {row.number}", hash(converted.question)
        yield converted
