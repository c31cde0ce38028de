"""Which constant reciprocal rank fusion of BM25 and dense retrieval should have.

    python benchmarks/fusion.py [DATA] [--work FOLDER]

Macro recall@5 on the corpora of `recall.py`, whose indexes and vectors it takes from the same work folder, or makes.
One half of each corpus's questions chooses the constant, by the mean over corpora; the other half shows what that is
worth.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer
from common import DATA
from recall import BENCHMARKS, Case, key, prepared
from rich.console import Console
from rich.table import Table

from keqa.metrics.retrieval import macro_recall_at_k
from keqa.retrievers import Hit
from keqa.retrievers.hybrid import DEPTH, fused

CONSTANTS = (0, 1, 2, 3, 5, 10, 20, 60)
K = 5


def main(
    data: Annotated[Path, typer.Argument(help="Folder of the shared data.")] = DATA,
    work: Annotated[Path, typer.Option(help="Of recall.py.")] = Path("runs/recall"),
) -> None:
    halves: dict[str, list[list[float]]] = {}
    for benchmark in BENCHMARKS:
        case = Case.read(benchmark, data, None)
        engines = dict(prepared(case, case.folder(work), ("bm25", "dense"), Console(stderr=True)))
        for name, recalls in rows(
            case, {name: one.search_many(case.questions, DEPTH) for name, one in engines.items()}
        ):
            halves.setdefault(name, []).append(recalls)
    table = Table("choosing half / other half", *(one.name for one in BENCHMARKS), "mean")
    for name, recalls in halves.items():
        means = [fmean(half) for half in zip(*recalls, strict=True)]
        table.add_row(name, *(" / ".join(f"{value:.3f}" for value in half) for half in [*recalls, means]))
    Console(width=130).print(table)
    best = max(CONSTANTS, key=lambda constant: fmean(half[0] for half in halves[str(constant)]))
    gaps = (
        f"{benchmark.name} {own[1] - max(bm25[1], dense[1]):+.3f}"
        for benchmark, own, bm25, dense in zip(
            BENCHMARKS, halves[str(best)], halves["bm25"], halves["dense"], strict=True
        )
    )
    Console(width=130).print(f"chosen: {best}; on the other half less the better of the two: {', '.join(gaps)}")


def rows(case: Case, lists: dict[str, list[list[Hit]]]) -> list[tuple[str, list[float]]]:
    """Recall in both halves of the questions, by engine and by constant of the fusion of them."""
    together = list(zip(*lists.values(), strict=True))
    hybrids = {str(constant): [fused(one, constant) for one in together] for constant in CONSTANTS}
    return [(name, [_recall(case, found, half) for half in (0, 1)]) for name, found in {**lists, **hybrids}.items()]


def _recall(case: Case, found: list[list[Hit]], half: int) -> float:
    names = [[key(case.benchmark.gold, hit.passage.title, hit.passage.text) for hit in hits[:K]] for hits in found]
    return macro_recall_at_k(names[half::2], case.gold[half::2], K)


if __name__ == "__main__":
    typer.run(main)
