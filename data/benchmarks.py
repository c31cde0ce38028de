"""The benchmarks that are known by name: those of the papers and their Chinese peers.

A module of this folder tells for each of its benchmarks how to read it; a new one is a module named here.
"""

from __future__ import annotations

from keqa.data import choices, freshqa, hotpotqa, musique, open_domain, rgb, simpleqa, squad, strategyqa, webqa
from keqa.data.benchmark import Benchmark

__all__ = ["BENCHMARKS"]

_MODULES = (open_domain, squad, freshqa, hotpotqa, musique, strategyqa, choices, webqa, simpleqa, rgb)

BENCHMARKS: dict[str, Benchmark] = {benchmark.name: benchmark for module in _MODULES for benchmark in module.BENCHMARKS}
"""Every benchmark by its name."""
