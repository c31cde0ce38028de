"""The figures as tables, what they come to at the size of Wikipedia, and the targets."""

from __future__ import annotations

from dataclasses import dataclass

from rich.table import Table

from scaling.steps import Figures

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
        cells = (_cell(figures.get(key), digits) for key, digits in COLUMNS.values())
        return [self.name, f"{self.passages:,}", *cells]

    def at(self, passages: int) -> Line:
        """What it would come to, in proportion."""
        scale = passages / self.passages
        grown = {key: self.figures[key] * scale for key in _GROWING if key in self.figures}
        return Line(f"{self.name}, extrapolated", passages, grown)


def _cell(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def table(lines: list[Line], extrapolate: bool = True) -> Table:
    """The lines, then each in proportion at the size of Wikipedia."""
    shown = Table("", "passages", *COLUMNS)
    for line in lines:
        shown.add_row(*line.row())
    if extrapolate:
        shown.add_section()
        for line in lines:
            shown.add_row(*line.at(WIKIPEDIA).row())
    return shown


@dataclass(frozen=True)
class Target:
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
