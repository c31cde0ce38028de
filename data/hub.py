"""Benchmarks by name from the Hugging Face hub, through ``datasets`` (extra ``hub``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from keqa.data.benchmark import Benchmark, pick_split
from keqa.data.loading import Loaded
from keqa.errors import InputError, MissingExtraError

__all__ = ["load_from_hub"]


def load_from_hub(
    benchmark: Benchmark, *, split: str | None = None, sample: int | None = None, seed: int = 0
) -> Loaded:
    """Load a benchmark from the hub, or from the copy that ``datasets`` keeps of it.

    Args:
        benchmark: Which one.
        split: One of its splits there; the one that papers report by default.
        sample: How many questions; all of them by default.
        seed: Of the sample.

    Raises:
        MissingExtraError: ``datasets`` is not installed.
        InputError: The hub has no copy that can be read, or cannot be reached.
    """
    hub, file = benchmark.hub, f"'{benchmark.name}:PATH'"
    if hub is None:
        raise InputError(f"{benchmark.title} is not on the Hugging Face hub as plain data; load a file of it as {file}")
    part = pick_split(split, hub.splits, f"{benchmark.title} on the hub")
    rows = _rows(hub.repository, hub.config, part, benchmark.title, file)
    return benchmark.from_rows(rows, sample=sample, seed=seed)


def _rows(repository: str, config: str | None, split: str, title: str, file: str) -> Iterable[Mapping[str, Any]]:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError("hub", f"{title} from the Hugging Face hub") from error
    try:
        found: Iterable[Mapping[str, Any]] = datasets.load_dataset(repository, config, split=split)
    except Exception as error:
        # The errors of five libraries arrive here: of the hub, of the network, of the cache, of Arrow, of pandas.
        said = " ".join(str(error).split())[:300]
        failed = f"{repository} ({split}) could not be loaded from the Hugging Face hub: {type(error).__name__}: {said}"
        raise InputError(f"{failed}. With a file of {title} at hand, load it as {file}") from error
    return found
