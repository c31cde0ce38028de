"""The one way in: questions by the name of a benchmark, or from the user's own file.

A module of this folder defines how each of its benchmarks is read; a new one is a module named here.
"""

import re
from pathlib import Path

from keqa.data import choices, multi_hop, open_domain, reading
from keqa.data.benchmark import Benchmark, one_split
from keqa.data.loading import Loaded
from keqa.data.own import SUFFIXES, read_examples
from keqa.errors import ConfigurationError, InputError
from keqa.retrievers.readers.common import plain_suffix

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_MODULES = (open_domain, multi_hop, choices, reading)

BENCHMARKS: dict[str, Benchmark] = {benchmark.name: benchmark for module in _MODULES for benchmark in module.BENCHMARKS}
"""Every benchmark by its name."""


def register_benchmark(benchmark: Benchmark) -> Benchmark:
    """Make a benchmark of your own known by its name, to `load` and every command, as long as the process lasts.

    Raises:
        ConfigurationError: Another one has its name, or the name cannot stand before a colon.
    """
    there = BENCHMARKS.get(benchmark.name)
    if there is not None and there.title != benchmark.title:
        raise ConfigurationError(f"there is a benchmark {benchmark.name!r} already: {there.title}")
    if _NAME.fullmatch(benchmark.name) is None:
        raise ConfigurationError(f"a benchmark is named in small letters, digits, - and _, not {benchmark.name!r:.80}")
    BENCHMARKS[benchmark.name] = benchmark
    return benchmark


def load(
    name_or_path: str | Path,
    *,
    split: str | None = None,
    sample: int | None = None,
    seed: int = 0,
    unanswerable: bool = False,
) -> Loaded:
    """Load questions with their gold answers; record `Loaded.ids` with whatever is measured on them.

    Args:
        name_or_path: ``"hotpotqa:data/hotpot_dev_distractor_v1.json"`` is a benchmark of `BENCHMARKS` from a file in
            its original layout, or from a folder of its files; ``"hotpotqa"`` the same from the Hugging Face hub (extra
            ``hub``); ``"questions.jsonl"`` the user's own JSON or CSV, see `keqa.data.own.read_examples`.
        split: Which part; the one that papers report by default.
        sample: How many questions; all of them by default. Which depends on seed and ids, not on the file's order.
        seed: Of the sample.
        unanswerable: Whether the user's own questions may have no answer; see `keqa.data.own.read_examples`.

    Raises:
        InputError: There is no such file or benchmark, the file is of another format, or nothing in it can be used.
        MissingExtraError: A benchmark is given by its name alone, and ``datasets`` is not installed.
    """
    name, named_file, path = str(name_or_path).partition(":")
    benchmark = None if isinstance(name_or_path, Path) else BENCHMARKS.get(name.strip().lower())
    if sample is not None and sample < 1:
        raise InputError(f"sample must be at least 1, not {sample}")
    if benchmark is not None:
        return benchmark.load(path if named_file else None, split=split, sample=sample, seed=seed)
    own = Path(name_or_path)
    if not own.is_file() and (named_file or plain_suffix(own) not in SUFFIXES):
        known = ", ".join(BENCHMARKS)
        raise InputError(
            f"{name_or_path} is neither a benchmark nor a .jsonl, .json or .csv of your own, with question and answer. "
            f"A benchmark is its name (from the Hugging Face hub) or NAME:PATH (from its file); there are {known}"
        )
    if split is not None:
        raise one_split(own, split)
    return read_examples(own, sample=sample, seed=seed, unanswerable=unanswerable)
