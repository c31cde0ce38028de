"""Where KEQA wins and where it loses.

    python benchmarks/sweep.py

The testbed over the share of questions whose facts the shipped LM was told often, and over the number of distracting
paragraphs for each entity. The default setting was fixed before any method was scored; this shows what it hides.
"""

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from keqa.demo import compare, methods
from keqa.lms import build_roles
from keqa.retrievers import build_index, open_index
from keqa.testbed.testbed import Settings, Testbed

METHODS = ("closed book", "always retrieve, reasoning", "KEQA")


def main(
    questions: Annotated[int, typer.Option(help="Questions for each setting.")] = 40,
    known: Annotated[list[float] | None, typer.Option(help="Shares of known questions.")] = None,
    distractors: Annotated[list[int] | None, typer.Option(help="Distracting paragraphs for each entity.")] = None,
) -> None:
    roles = build_roles("keqa/tiny")
    table = Table(
        "known", "distractors", *(f"{name} F1" for name in METHODS), "KEQA retrievals", "KEQA - always retrieve"
    )
    with tempfile.TemporaryDirectory() as folder:
        for noise in distractors or [0, 1, 4]:
            for share in known or [0.0, 0.5, 1.0]:
                testbed = Testbed(Settings(distractors=noise, known=share, questions=(0, 0, questions)))
                index = Path(folder) / f"{noise}-{share}"
                build_index(testbed.passages, index, language="en")
                every = methods(open_index(index), roles)
                rows = {row.method: row for row in compare({name: every[name] for name in METHODS}, testbed.test)}
                gain = rows[METHODS[1]].f1_less(rows["KEQA"])
                table.add_row(
                    f"{share:.1f}",
                    str(noise),
                    *(f"{rows[name].f1.mean:.2f}" for name in METHODS),
                    f"{rows['KEQA'].retrievals:.2f}",
                    f"{gain.mean:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}]",
                )
                Console(stderr=True).print(f"known {share:.1f}, distractors {noise}: done")
    Console(width=140).print(table)


if __name__ == "__main__":
    typer.run(main)
