"""From rows to examples: what is wrong is named, what is left out is counted, samples are seeded."""

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeGuard

from keqa.data.example import Example, names_of
from keqa.data.rows import SourceRow
from keqa.errors import InputError


@dataclass(frozen=True)
class NotAsked:
    """A sound record that is not asked, and why, as it is counted: ``unanswerable``, ``another split``."""

    reason: str


Converted = Example | NotAsked


@dataclass(frozen=True)
class Problem:
    """A record that cannot be used, by line of its file or by what `unit` counts; of a program's there is no file."""

    path: Path | None
    line: int
    message: str
    unit: str = "line"

    def __str__(self) -> str:
        where = f"example {self.line}" if self.path is None else f"{self.path}, {self.unit} {self.line}"
        return f"{where}: {self.message}"


@dataclass(frozen=True)
class Loaded:
    """The examples that can be used, in order, what was wrong, and how many sound records were left out, by reason.

    Of the user's own file, `unread` are the names of fields that mean nothing here.
    """

    examples: list[Example]
    problems: list[Problem]
    left_out: dict[str, int] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    @property
    def remarks(self) -> list[str]:
        """What is wrong with records, and which fields mean nothing, by the name of the file alone."""
        wrong = [str(one if one.path is None else replace(one, path=Path(one.path.name))) for one in self.problems]
        unread = names_of(self.unread)
        return [*wrong, *([f"fields from which nothing is read: {unread}"] if unread else [])]

    @property
    def ids(self) -> list[str]:
        """What a run records, so that it is known which questions it asked."""
        return [example.id for example in self.examples]


def read_records(
    rows: Iterable[SourceRow], convert: Callable[[Any], Converted], *, own: bool = False
) -> Iterator[Example | NotAsked | Problem]:
    """Convert rows one at a time; of a question only the hash is kept, as there may be more than memory holds."""
    ids: dict[str, str] = {}
    questions: dict[Any, tuple[str, int]] = {}
    for row in rows:
        place = f"{row.unit} {row.number}"
        try:
            if isinstance(row.value, InputError):
                raise row.value
            if not own and not isinstance(row.value, Mapping | NotAsked):
                raise InputError(f"an object is expected, not {type(row.value).__name__}")
            found = row.value if isinstance(row.value, NotAsked) else convert(row.value)
            if isinstance(found, Example):
                asked = hash((found.question.casefold(), found.choices))
                key = asked if own else (asked, found.id)
                answers = hash(found.answers)
                if key in questions:
                    first, same = questions[key][0], questions[key][1] == answers
                    raise InputError(f"the question of {first} again{'' if same else ', with another answer'}")
                if found.id in ids:
                    raise InputError(f"its id {found.id!r} is that of {ids[found.id]}")
                ids[found.id], questions[key] = place, (place, answers)
        except InputError as error:
            yield Problem(row.path, row.number, str(error), row.unit)
        else:
            yield found


def collect(
    found: Iterable[Example | NotAsked | Problem],
    *,
    source: str = "",
    expected: str = "",
    sample: int | None = None,
    seed: int = 0,
) -> Loaded:
    """Sort what was read; of the examples only the sample is held, so that a large file costs what its sample does."""
    if sample is not None and sample < 1:
        raise InputError(f"sample must be at least 1, not {sample}")
    problems: list[Problem] = []
    left_out: Counter[str] = Counter()

    def is_example(one: Example | NotAsked | Problem) -> TypeGuard[Example]:
        if isinstance(one, Problem):
            problems.append(one)
        elif isinstance(one, NotAsked):
            left_out[one.reason] += 1
        return isinstance(one, Example)

    examples = filter(is_example, found)
    taken = list(examples) if sample is None else sampled(examples, sample, seed)
    if source and not taken:
        if reasons := ", ".join(f"{count} {reason}" for reason, count in left_out.items()):
            raise InputError(f"{source} holds no question to ask: {reasons}")
        layout = f"; expected: {expected}" if expected else ""
        details = "".join(f"\n  {problem}" for problem in problems[: 3 if expected else 5])
        raise InputError(f"{source} holds no question that can be used{layout}{details}")
    return Loaded(taken, problems, dict(left_out))


def sampled(examples: Iterable[Example], count: int, seed: int) -> list[Example]:
    """Draw questions by a hash of seed and id: the order of the file does not matter, only which ids it has.

    A larger sample begins with the smaller one of the same seed; where there are fewer questions, all are taken.
    """

    def place(example: Example) -> bytes:
        return hashlib.blake2b(f"{seed}\0{example.id}".encode(), digest_size=16).digest()

    return heapq.nsmallest(count, examples, key=place)
