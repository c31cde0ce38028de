"""Programs with demonstrations written by hand, for comparisons on an LM that nothing was compiled for.

    python benchmarks/demonstrated.py FOLDER

Writes FOLDER/keqa, FOLDER/closed-book and FOLDER/rag, each predictor with four demonstrations of its signature, for
`keqa compare --program`.
"""

from pathlib import Path
from typing import Annotated

import typer
from real_lm import demonstrate

import keqa
from keqa.programs.baselines import AlwaysRetrieve, ClosedBook
from keqa.programs.keqa import KEQA


def main(folder: Annotated[Path, typer.Argument(help="Where to.")]) -> None:
    for name, program in {"keqa": KEQA(None), "closed-book": ClosedBook(), "rag": AlwaysRetrieve(None)}.items():
        demonstrate(program)
        keqa.save(program, folder / name)


if __name__ == "__main__":
    typer.run(main)
