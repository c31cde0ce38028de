"""How many replies to KBM's prompt are the JSON that it asks for, by each language model.

    python benchmarks/boundary_format.py FILE… --lm local/smollm2 --lm transformers/kbm.json.lm [--every 5]

Each FILE is the ``quizzes.jsonl`` of a folder that ``keqa boundary collect`` wrote; of all together every fifth quiz is
asked, at temperature 0. A fine-tuned model may have learned from some of them: what counts is the form of the reply.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from dspy import lm15
from rich.console import Console
from rich.table import Table

from keqa.lms import build_lm
from keqa.optimize.boundary.collect import read_collected
from keqa.signatures.boundary import assessment_prompt

_REPLY = re.compile(r'\{"mastery": "(True|False)", "certainty": "(True|False)"\}')
_LONGEST_REPLY = 40


def in_form(reply: str) -> bool:
    """Whether a reply is the JSON that KBM's prompt asks for, and nothing else."""
    return _REPLY.fullmatch(reply.strip()) is not None


def replies(lm: Any, prompts: list[str]) -> list[str]:
    """A language model's replies at temperature 0."""
    config = lm15.Config(max_tokens=_LONGEST_REPLY, temperature=0.0)
    requests = (lm15.Request(model=lm.model, messages=(lm15.Message.user(one),), config=config) for one in prompts)
    return [lm(request).text or "" for request in requests]


def main(
    files: Annotated[list[Path], typer.Argument(help="Collected quizzes.")],
    lm: Annotated[list[str], typer.Option(help="A language model; several times for several.")],
    every: Annotated[int, typer.Option(min=1, help="Ask one in so many quizzes.")] = 5,
) -> None:
    quizzes = [quiz for file in files for quiz in read_collected(file).quizzes][::every]
    prompts = [assessment_prompt(quiz.quiz, quiz.choices, None, "en") for quiz in quizzes]
    table = Table("language model", "quizzes", "in form", "most frequent reply")
    for name in lm:
        said = replies(build_lm(name), prompts)
        most, _ = Counter(reply.strip() for reply in said).most_common(1)[0]
        table.add_row(name, str(len(said)), str(sum(map(in_form, said))), most[:60])
    Console(width=140).print(table)


if __name__ == "__main__":
    typer.run(main)
