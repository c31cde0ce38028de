"""The benchmarks that are known by name: those of the papers and their Chinese peers.

A module of this folder defines how each of its benchmarks is read; a new one is a module named here.
`register_benchmark` adds those of other packages while a process runs.
"""

from __future__ import annotations

import re

from keqa.data import choices, multi_hop, open_domain, reading
from keqa.data.benchmark import Benchmark
from keqa.errors import ConfigurationError

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_MODULES = (open_domain, multi_hop, choices, reading)

BENCHMARKS: dict[str, Benchmark] = {benchmark.name: benchmark for module in _MODULES for benchmark in module.BENCHMARKS}
"""Every benchmark by its name."""


def register_benchmark(benchmark: Benchmark) -> Benchmark:
    """Make a benchmark of your own known by its name, to `keqa.data.load` and every command.

    Args:
        benchmark: It lasts as long as the process does.

    Returns:
        The benchmark.

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
