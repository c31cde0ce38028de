"""What an instruction optimizer gains on the testbed.

    python benchmarks/instructions.py --work runs/instructions

GEPA rewrites the instructions of the program on the shipped LM, and the test questions are asked before and after. A
local server stands in for a LM that is able to reflect, which costs money or a GPU. It reads nothing of the feedback:
in turn it adds one sentence to the instruction, of those that can be true of the testbed (how dates and names are
written, which two sources are out of date), true or not. Which of them stay is GEPA's choice, by the scores that they
bring.
"""

import itertools
import json
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from common import gain_table
from rich.console import Console
from servers.openai_server import OpenAIServer

import keqa
from keqa.evaluation.demo import COMPILED, ask_all
from keqa.evaluation.questions import of_testbed
from keqa.lms import build_lm
from keqa.programs.keqa import KEQA
from keqa.testbed import words
from keqa.testbed.skills import Setting
from keqa.testbed.testbed import Testbed
from keqa.testbed.world import Convention

_CURRENT = re.compile(r"\[\[ ## current_instruction ## \]\]\n(.*?)\n\n\[\[ ## ", re.DOTALL)
"""The instruction in a request of GEPA's."""


def main(
    work: Annotated[Path, typer.Option(help="Folder of finished work; the same command resumes there.")],
    train: Annotated[int, typer.Option(help="Training questions.")] = 40,
    val: Annotated[int, typer.Option(help="Questions to choose by.")] = 60,
    budget: Annotated[int, typer.Option(help="Questions that GEPA may ask.")] = 600,
    questions: Annotated[int, typer.Option(help="Test questions.")] = 200,
) -> None:
    testbed, console = Testbed(), Console()
    retriever, roles = keqa.open_encyclopedia(testbed.passages), keqa.build_roles("keqa/tiny", cache=False)
    program = KEQA(retriever, lms=roles)
    with scripted_reflection() as address:
        found = keqa.compile(
            program,
            testbed.train[:train],
            testbed.dev[:val],
            folder=work,
            optimizer="gepa",
            reflection_lm=build_lm("hosted_vllm/scripted", api_base=address, cache=False),
            budget=budget,
            reference=False,
            tuning=False,
        )
    compiled, folder = found.program, work.with_name(f"{work.name}-program")
    found.save(folder, overwrite=True)
    asked = of_testbed("test", questions)
    before, after = ask_all(asked, retriever, roles, program=folder, only=("KEQA", COMPILED))
    console.print(gain_table(before, after))
    was = dict(program.named_predictors())
    for name, predictor in compiled.named_predictors():
        if predictor.signature.instructions != was[name].signature.instructions:
            console.print(f"{name}: {predictor.signature.instructions}", markup=False)


def sentences() -> list[str]:
    """Every sentence that an instruction may add, in a random order."""
    rng = random.Random(0)
    world = Testbed().world
    conventions = [Convention(date, surname) for date in range(3) for surname in (False, True)]
    settings = [
        Setting(world, rng, convention, stale)
        for convention in conventions
        for stale in itertools.combinations(words.SOURCES, 2)
    ]
    every = sorted({hint for setting in settings for hint in setting.hints()})
    return rng.sample(every, len(every))


@contextmanager
def scripted_reflection() -> Iterator[str]:
    """Serves the OpenAI protocol, and answers GEPA's requests with longer instructions; gives the address."""
    turn = itertools.cycle(sentences())

    def reply(messages: list[dict[str, Any]], n: int, body: dict[str, Any]) -> list[str]:
        current = _CURRENT.search(messages[-1]["content"])
        # Without an instruction, it is asked whether there is anybody who answers.
        return [json.dumps({"new_instruction": f"{current[1].strip()} {next(turn)}"}) if current else "ready"]

    with OpenAIServer(reply=reply) as server:
        yield server.api_base


if __name__ == "__main__":
    typer.run(main)
