"""Steps of a measurement: each in a process of its own, each kept as a line, none done twice."""

from __future__ import annotations

import json
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

Figures = dict[str, Any]


class Steps:
    """The results of the steps that were done, in a file of JSON lines; a killed run resumes behind them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.done: dict[tuple[str, int], Figures] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    row = json.loads(line)
                    self.done[row.pop("step"), row.pop("passages")] = row
                except (ValueError, KeyError):
                    # The last line of a killed run may be half a line.
                    continue

    def together(self, passages: int, *steps: str) -> None:
        """Have these done in one run, for the sake of their ratio: where one of them is missing, all are done again."""
        if any((step, passages) not in self.done for step in steps):
            for step in steps:
                self.done.pop((step, passages), None)

    def run(self, step: str, passages: int, function: Callable[..., Figures], *arguments: Any) -> Figures:
        """Do a step in a process of its own, unless it was done; its CPU seconds and its peak of memory are added."""
        options = [argument for argument in arguments if not isinstance(argument, Path | None)]
        known = self.done.get((step, passages))
        if known is not None and known.get("options") == options:
            sys.stderr.write(f"{step}: kept from an earlier run\n")
            return known
        sys.stderr.write(f"{step} …\n")
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            figures = {**pool.submit(_measured, function, arguments).result(), "options": options}
        with self._path.open("a", encoding="utf-8") as stream:
            # Ends what a kill may have left of a line.
            stream.write("\n" + json.dumps({"step": step, "passages": passages, **figures}) + "\n")
        self.done[step, passages] = figures
        return figures


def _measured(function: Callable[..., Figures], arguments: tuple[Any, ...]) -> Figures:
    started = time.process_time()
    figures = function(*arguments)
    used = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {**figures, "cpu_s": used, "peak_mb": peak / (1e6 if sys.platform == "darwin" else 1e3)}


def disk_mb(path: Path) -> float:
    """Megabytes of a file or of all files of a folder."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / 1e6


def latencies(searches: Sequence[Callable[[str], object]], queries: Sequence[str]) -> list[tuple[float, float]]:
    """Median and 95th percentile in milliseconds, of several ways to search.

    Each query is searched for in all ways, one after the other and in turns, so that other work on the machine meets
    all of them alike; a first round, which finds nothing in memory, does not count.
    """
    for query in queries[: max(10, len(queries) // 10)]:
        for search in searches:
            search(query)
    times: list[list[float]] = [[] for _ in searches]
    for turn, query in enumerate(queries):
        for number in range(len(searches)):
            chosen = (number + turn) % len(searches)
            started = time.perf_counter()
            searches[chosen](query)
            times[chosen].append(1000 * (time.perf_counter() - started))
    return [(statistics.median(one), statistics.quantiles(one, n=20)[-1]) for one in times]


def named(kind: str, one: tuple[float, float]) -> Figures:
    """Median and 95th percentile under the names that the tables look for."""
    return {f"{kind}_p50": one[0], f"{kind}_p95": one[1]}
