"""How retrieval grows: builds and queries made passages on every engine, and estimates what 21,015,324 take.

    python benchmarks/scale.py [--passages 1000000] [--part embedded] [--es-url http://localhost:9200] [--work FOLDER]

Parts, all by default: `embedded` (the embedded engine beside the calls of Tantivy alone) and `elasticsearch` (needs
`--es-url`). Every step is a process of its own, whose peak of memory is reported; results are kept in the work folder,
so that a run that was killed resumes there. Exit code 1 where a target of the embedded engine is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import common
import scaled
from common import Lines, alone
from rich.console import Console
from rich.table import Table
from scaled import Figures

from keqa.errors import KeqaError

WIKIPEDIA = 21_015_324
"""Passages of the dump that the papers retrieve from (`psgs_w100.tsv`)."""

COLUMNS = {
    "build, s": ("build_s", 1),
    "passages/s": ("per_s", 0),
    "disk, MB": ("disk_mb", 0),
    "peak, MB": ("peak_mb", 0),
    "server, MB": ("server_mb", 0),
    "kw p50, ms": ("kw_p50", 2),
    "kw p95": ("kw_p95", 2),
    "NL p50, ms": ("nl_p50", 2),
    "NL p95": ("nl_p95", 2),
}
# Linear in the number of passages. Memory is not among them: it is bounded by the writer's heap, plus 16 to 48 bytes a
# passage for the ids that were seen.
_GROWING = ("build_s", "disk_mb", "kw_p50", "kw_p95", "nl_p50", "nl_p95")


@dataclass(frozen=True)
class Line:
    """An engine, how many passages it held, and what was measured of building and searching it."""

    name: str
    passages: int
    figures: Figures

    def row(self) -> list[str]:
        """As the cells of a table."""
        figures = dict(self.figures)
        if figures.get("build_s"):
            figures["per_s"] = self.passages / figures["build_s"]
        cells = (f"{figures[key]:,.{digits}f}" if key in figures else "" for key, digits in COLUMNS.values())
        return [self.name, f"{self.passages:,}", *cells]

    def at(self, passages: int) -> Line:
        """What it would come to, in proportion."""
        scale = passages / self.passages
        grown = {key: self.figures[key] * scale for key in _GROWING if key in self.figures}
        return Line(f"{self.name}, extrapolated", passages, grown)


def table(lines: list[Line]) -> Table:
    """The lines, then each in proportion at the size of Wikipedia."""
    shown = Table("", "passages", *COLUMNS)
    for line in lines:
        shown.add_row(*line.row())
    shown.add_section()
    for line in lines:
        shown.add_row(*line.at(WIKIPEDIA).row())
    return shown


class Target(NamedTuple):
    """A figure and what it may be at most."""

    name: str
    value: float
    most: float
    unit: str = ""

    @property
    def met(self) -> bool:
        """Whether it is no more than that."""
        return self.value <= self.most

    def __str__(self) -> str:
        verdict = "met" if self.met else "MISSED"
        return f"{self.name}: {self.value:,.2f}{self.unit} (target: at most {self.most:,.2f}{self.unit}): {verdict}"


def targets(embedded: Figures, raw: Figures) -> list[Target]:
    """What the embedded engine may cost beside the calls of Tantivy alone."""
    return [
        Target("build time over that of the raw calls", embedded["build_s"] / raw["build_s"], 1.5),
        Target("peak memory of the build", embedded["peak_mb"], 1500, " MB"),
        Target("content-word query, p50 over that of the raw call", embedded["kw_p50"] / raw["kw_p50"], 2.0),
    ]


class Steps:
    """The results of the steps that were done, in a file of JSON lines; a killed run resumes behind them."""

    def __init__(self, path: Path) -> None:
        self._lines = Lines(path)
        self.done: dict[tuple[str, int], Figures] = {}
        for line in self._lines.done:
            row = dict(line)
            self.done[row.pop("step"), row.pop("passages")] = row

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
        figures = {**alone(function, *arguments), "options": options}
        self._lines.add({"step": step, "passages": passages, **figures})
        self.done[step, passages] = figures
        return figures


PARTS = ("embedded", "elasticsearch")
RATIOS = {"build_s": "load time", "disk_mb": "disk", "kw_p50": "content-word query, p50,", "nl_p50": "question, p50,"}


def embedded(steps: Steps, options: argparse.Namespace, console: Console) -> bool:
    count, work = options.passages, options.work
    corpus, ours, theirs = _corpus(options), work / f"embedded-{count}", work / f"raw-{count}"
    source = steps.run("corpus", count, scaled.make, corpus, count)
    steps.together(count, "embedded build", "raw build")
    built = steps.run("embedded build", count, scaled.build_embedded, corpus, ours)
    bare = steps.run("raw build", count, scaled.build_raw, corpus, theirs)
    assert built["found"] == bare["found"] == count
    searched = steps.run("embedded search", count, scaled.search_both, corpus, ours, theirs, options.queries)
    # The peak of a search is not that of the build.
    figures = {**built, **{key: value for key, value in searched.items() if key.startswith(("kw", "nl"))}}
    raw = {**bare, **{key.removeprefix("raw_"): value for key, value in searched.items() if key.startswith("raw")}}
    lines = [Line("embedded engine", count, figures), Line("raw Tantivy calls", count, raw)]
    console.print(table(lines))
    console.print(f"of each build, {source['build_s']:.1f} s are the reading of the made passages")
    console.print(f"build time over that of the raw calls, in CPU seconds: {built['cpu_s'] / bare['cpu_s']:.2f}")
    met = targets(figures, raw)
    for target in met:
        console.print(str(target), highlight=False)
    return all(target.met for target in met)


def elasticsearch(steps: Steps, options: argparse.Namespace, console: Console) -> bool:
    count, name = options.passages, f"keqa-scale-{options.passages}"
    corpus, ours = _corpus(options), options.work / f"embedded-{count}"
    steps.run("corpus", count, scaled.make, corpus, count)
    loaded = steps.run("elasticsearch load", count, scaled.load_server, corpus, options.es_url, name)
    assert loaded["found"] == count
    arguments = (corpus, options.es_url, name, options.queries, ours)
    searched = steps.run("elasticsearch search", count, scaled.search_server, *arguments)
    console.print(table([Line("Elasticsearch", count, {**searched, **loaded})]))
    heap = f", {loaded['heap_mb']:,.0f} MB of heap in use" if "heap_mb" in loaded else ""
    console.print(f"peak memory is the loader's; the server's is what its JVMs had reserved when all was loaded{heap}")
    console.print(f"{searched['many_per_s']:,.0f} natural-language queries a second by search_many")
    if "overlap" in searched:
        console.print(f"mean overlap@10 with the embedded engine on them: {searched['overlap']:.3f}")
    both, beside = {**searched, **loaded}, {}
    for step in ("search", "build"):
        beside |= steps.done.get((f"embedded {step}", count), {})
    for key, what in RATIOS.items():
        if key in beside and key in both:
            console.print(f"{what} over the embedded engine's: {both[key] / beside[key]:.2f}")
    console.print(f"the index {name} stays on the server, where another run finds it", highlight=False)
    return True


def _corpus(options: argparse.Namespace) -> Path:
    return Path(options.work, f"made-{options.passages}.tsv")


def main(arguments: list[str] | None = None) -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=500, help="of each kind")
    parser.add_argument("--part", choices=PARTS, action="append", help="may be given several times")
    parser.add_argument("--es-url", help="where Elasticsearch listens")
    parser.add_argument("--work", type=Path, default=Path("runs/scale"), help="for indexes and results")
    options = parser.parse_args(arguments)
    chosen = options.part or [part for part in PARTS if part != "elasticsearch" or options.es_url]
    if "elasticsearch" in chosen and not options.es_url:
        parser.error("part elasticsearch needs --es-url")
    if options.passages < 1 or options.queries < 10:
        parser.error("at least one passage and ten queries are needed")
    options.work.mkdir(parents=True, exist_ok=True)
    steps, console = Steps(options.work / "results.jsonl"), Console(width=160)
    run = {"embedded": embedded, "elasticsearch": elasticsearch}
    try:
        return 0 if all([run[part](steps, options, console) for part in chosen]) else 1
    except KeqaError as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
