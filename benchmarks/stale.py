"""How methods fare on questions that depend on a fact of which the shipped LM firmly believes the former value.

    python benchmarks/stale.py RUNS

RUNS is a folder of run files of `keqa compare … --testbed`. Prints the mean F1 of each run on those questions and on
all others: the first is what no gate on consistency can see.
"""

from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from keqa.evaluation.run_file import iter_lines
from keqa.testbed.testbed import Testbed


def main(runs: Annotated[Path, typer.Argument(help="Folder of run files.")]) -> None:
    stale = {question.id: "stale" in question.tiers for question in Testbed().test}
    table = Table("run", "stale", "questions", "others", "questions")
    for file in sorted(runs.glob("*.jsonl")):
        scores: dict[bool, list[float]] = {True: [], False: []}
        for line in iter_lines(file):
            scores[stale[line.id]].append(line.scores["f1"])
        cells = [text for some in scores.values() for text in (f"{fmean(some):.3f}" if some else "", str(len(some)))]
        table.add_row(file.stem, *cells)
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
