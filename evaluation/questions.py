"""The questions of a run: the testbed's, a benchmark's, or the user's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from keqa.data.benchmarks import BENCHMARKS
from keqa.data.example import Example
from keqa.data.load import load
from keqa.data.loading import sampled
from keqa.data.own import Problem, iter_examples
from keqa.errors import InputError
from keqa.evaluation.build import merged
from keqa.retrievers.readers.common import plain_suffix

_LINES = (".jsonl", ".ndjson")

_CHINESE: Mapping[str, Mapping[str, Any]] = {
    # Its other language must be another one than that of the questions.
    "rowen": {"language": "English"},
}
_ONE_HOP: Mapping[str, Mapping[str, Any]] = {
    # There is nothing to reason about, and their papers do not.
    name: {"reason": False}
    for name in ("rowen", "self-rag", "slimplm")
}

_TESTBED: Mapping[str, Mapping[str, Any]] = {
    # So many the language model that ships was trained to read at once; IRCoT's own limit is 15.
    "ircot": {"max_passages": 8},
}


@dataclass(frozen=True)
class Questions:
    """What a run asks.

    Attributes:
        dataset: Name of the data set, without a folder.
        split: Part of it; empty where it has none, or the usual one is meant.
        seed: Of the sample.
        examples: Can be gone through more than once.
        problems: What of the data cannot be used, and why.
        settings: By a method's name, the arguments that it is given for these questions unless others are asked for;
            see `keqa.evaluation.build.Parts`. They are in the run's header.
        left_out: How many sound questions of the data are not asked, by reason; they are in the run's header.
    """

    dataset: str
    split: str
    seed: int
    examples: Iterable[Any]
    problems: list[str] = field(default_factory=list)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)


def of_testbed(split: str = "test", limit: int | None = None) -> Questions:
    """The testbed's questions, whose four shapes come in turn.

    Raises:
        InputError: There is no such split, or it has fewer questions.
    """
    from keqa.testbed.testbed import Testbed

    if split not in ("train", "dev", "test"):
        raise InputError(f"the testbed has the splits train, dev and test, not {split!r}")
    found = getattr(Testbed(), split)
    if limit is not None and not 1 <= limit <= len(found):
        raise InputError(f"the testbed's split {split} has {len(found)} questions; ask for 1 to {len(found)} of them")
    return Questions("testbed", split, 0, found[:limit], settings=_TESTBED)


def of_name(
    name: str,
    folder: Path | None = None,
    *,
    split: str | None = None,
    sample: int | None = None,
    seed: int = 0,
    limit: int | None = None,
) -> Questions:
    """The questions of a benchmark or of the user's own file.

    The user's own JSON lines are read each time they are iterated over, and not kept; of other data the sample is.

    Args:
        name: A benchmark of `keqa.data.load`, as a name or as ``NAME:PATH``, or a .jsonl or .csv file.
        folder: The benchmark's files; from the hub by default.
        split: Part of the benchmark.
        sample: So many, drawn by the seed.
        seed: Of the sample; it matters where one is drawn only.
        limit: The first so many, of the sample where one is drawn.

    Raises:
        InputError: There are no such questions, or none can be used.
    """
    seed = seed if sample is not None else 0
    own = folder is None and plain_suffix(Path(name)) in _LINES and Path(name).is_file()
    if own and split is None:
        lines = _Lines(Path(name))
        found: Iterable[Example] = lines if sample is None else sampled(lines, sample, seed)
        return Questions(Path(name).name, "", seed, _First(found, limit) if limit else found, lines.problems())
    loaded = load(name if folder is None else f"{name}:{folder}", split=split, sample=sample, seed=seed)
    benchmark, named, _ = name.partition(":")
    title = benchmark if named or folder is not None else Path(name).name
    problems = [str(problem) for problem in loaded.problems]
    known = BENCHMARKS.get(benchmark.strip().lower())
    chinese = known is not None and known.language == "zh"
    settings = merged(_CHINESE if chinese else {}, {} if known is None or known.multi_hop else _ONE_HOP)
    return Questions(title, split or "", seed, loaded.examples[:limit], problems, settings, loaded.left_out)


class _First:
    """The first so many, each time."""

    def __init__(self, examples: Iterable[Example], count: int) -> None:
        self._examples, self._count = examples, count

    def __iter__(self) -> Iterator[Example]:
        return islice(iter(self._examples), self._count)


class _Lines:
    """The examples of a file of JSON lines, one in memory at a time; what cannot be used is passed over."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if next(iter(self), None) is None:
            details = "".join(f"\n  {problem}" for problem in self.problems()[:5])
            raise InputError(f"{path} holds no question that can be used{details}")

    def __iter__(self) -> Iterator[Example]:
        return (found for found in iter_examples(self.path) if isinstance(found, Example))

    def problems(self) -> list[str]:
        """Why lines are passed over."""
        return [str(found) for found in iter_examples(self.path) if isinstance(found, Problem)]
