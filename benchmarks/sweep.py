"""Where KEQA wins and where it loses.

    python benchmarks/sweep.py

The testbed over the share of questions whose facts the shipped LM saw often in training, the number of distracting
paragraphs for each entity, and the number of sources that are out of date. The default setting was fixed before any
method was scored; this shows what it hides. The compiled program is the one that ships: it learned from the default
setting, and no question that it learned from is asked.
"""

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from common import interval
from rich.console import Console
from rich.table import Table

from keqa.evaluation.demo import COMPILED, ask_all
from keqa.evaluation.questions import Questions
from keqa.lms import build_roles
from keqa.retrievers import build_index, open_index
from keqa.testbed.testbed import Settings, Testbed

METHODS = ("closed book", "always retrieve, reasoning", "KEQA", COMPILED)


def main(
    questions: Annotated[int, typer.Option(help="Questions for each setting.")] = 40,
    known: Annotated[list[float] | None, typer.Option(help="Shares of known questions.")] = None,
    distractors: Annotated[list[int] | None, typer.Option(help="Distracting paragraphs for each entity.")] = None,
    stale: Annotated[list[int] | None, typer.Option(help="Sources out of date, at a known share of a half.")] = None,
) -> None:
    default, usual = Settings(), Testbed()
    learned = {question.question for question in (*usual.train, *usual.dev)}
    swept = [
        (share, noise, default.stale_sources) for noise in distractors or (0, 1, 4) for share in known or (0, 0.5, 1)
    ]
    swept += [(0.5, default.distractors, sources) for sources in ((0, 1) if stale is None else stale)]
    roles = build_roles("keqa/tiny")
    scores = (f"{name} F1" for name in METHODS)
    table = Table("known", "distractors", "out of date", *scores, "retrievals", "lead over retrieving")
    with tempfile.TemporaryDirectory() as folder:
        for number, (share, noise, sources) in enumerate(swept):
            settings = Settings(distractors=noise, stale_sources=sources, known=share, questions=(0, 0, 4 * questions))
            testbed, index = Testbed(settings), Path(folder) / str(number)
            asked = [question for question in testbed.test if question.question not in learned][:questions]
            build_index(testbed.passages, index, language="en")
            retriever = open_index(index)
            given = Questions("testbed", "test", 0, asked)
            rows = {row.method: row for row in ask_all(given, retriever, roles, only=METHODS)}
            gain = rows[METHODS[1]].f1_less(rows[COMPILED])
            means = (*(f"{rows[name].f1.mean:.2f}" for name in METHODS), f"{rows[COMPILED].retrievals:.2f}")
            table.add_row(f"{share:.1f}", str(noise), str(sources), *means, interval(gain, "+.2f"))
            Console(stderr=True).print(f"{number + 1} of {len(swept)} settings: done")
    Console(width=160).print(table)


if __name__ == "__main__":
    typer.run(main)
