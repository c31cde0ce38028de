"""A real, weak LM through the whole program.

    python benchmarks/real_lm.py --data FOLDER

SmolLM2-135M-Instruct on HotpotQA and NQ questions over their corpora, without demonstrations and with four for each
predictor. Each finished question is one line of the output file, and a later start resumes behind the last. Prints how
the questions ended and the share of outputs that parsed, by signature.
"""

import tempfile
import threading
from collections import Counter
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import dspy
import typer
from common import DATA, Lines
from dspy.utils.callback import BaseCallback
from rich.console import Console
from rich.table import Table

from keqa.data import Example, load
from keqa.lms import build_roles
from keqa.metrics.answers import f1
from keqa.programs.keqa import KEQA
from keqa.retrievers import build_index, open_index, read_corpus

QUESTIONS = {"hotpotqa": "hotpotqa/hotpot_dev_distractor_v1.json", "nq": "nq/NQ-open.dev.jsonl"}
Model = Annotated[str, typer.Option(help="The LM.")]
LongestOutput = Annotated[int, typer.Option(help="Tokens of the longest output.")]
CORPORA = {"hotpotqa": "hotpotqa/hotpotqa_corpus.json", "nq": "nq/psgs_w100.tsv"}


class Parsed(BaseCallback):
    """Counts, by signature, the outputs that parsed and all outputs."""

    def __init__(self) -> None:
        self.right: Counter[str] = Counter()
        self.all: Counter[str] = Counter()
        self._open: dict[str, str] = {}
        self._lock = threading.Lock()

    def on_adapter_parse_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Remembers whose output is being parsed."""
        with self._lock:
            self._open[call_id] = inputs["signature"].__name__

    def on_adapter_parse_end(self, call_id: str, outputs: Any, exception: Exception | None = None) -> None:
        """Counts it."""
        with self._lock:
            name = self._open.pop(call_id)
            self.all[name] += 1
            self.right[name] += exception is None


def ask(program: KEQA, question: Example) -> dict[str, Any]:
    """How a question ended, and which outputs parsed on the way, as a line of a file."""
    parsed = Parsed()
    with dspy.context(callbacks=[parsed]):
        [outcome] = program.answer_many([question])
    cost = outcome.record.cost if outcome.record else None
    return {
        "id": question.id,
        "question": question.question,
        "answer": outcome.answer,
        "error": outcome.error and f"{type(outcome.error).__name__}: {outcome.error}"[:200],
        "f1": f1(outcome.answer, question.answers) if outcome.answer else 0.0,
        "seconds": cost.seconds if cost else 0.0,
        "calls": cost.calls if cost else 0,
        "parsed": parsed.right,
        "outputs": parsed.all,
    }


def parsed_of(lines: list[dict[str, Any]], name: str) -> str:
    """How many outputs of a signature parsed, of how many."""
    right, every = (sum(line[key].get(name, 0) for line in lines) for key in ("parsed", "outputs"))
    return f"{right} of {every}"


def main(
    data: Annotated[Path, typer.Option(help="Folder with hotpotqa and nq in their original layouts.")] = DATA,
    out: Annotated[Path, typer.Option(help="One line for each finished question.")] = Path("runs/real_lm.jsonl"),
    lm: Model = "local/smollm2",
    count: Annotated[int, typer.Option(help="Questions of each set.")] = 10,
    max_tokens: LongestOutput = 96,
) -> None:
    console, lines = Console(), Lines(out)
    done = {(line["demonstrations"], line["id"]) for line in lines.done}
    asked = {name: load(f"{name}:{data / file}").examples[:count] for name, file in QUESTIONS.items()}
    roles = build_roles(lm, max_tokens=max_tokens)
    with tempfile.TemporaryDirectory() as folder:
        for name, corpus in CORPORA.items():
            build_index(read_corpus([data / corpus]), Path(folder, name), language="en")
        for shots, name in product((0, 4), asked):
            for question in asked[name]:
                if (shots, question.id) in done:
                    continue
                program = KEQA(open_index(Path(folder, name)), lms=roles, workers=8, demonstrations=shots > 0)
                line = {"demonstrations": shots, "set": name, **ask(program, question)}
                lines.add(line)
                said = f"{shots} demonstrations, {name}: {line['question']} -> {line['answer'] or line['error']}"
                console.print(said, markup=False)
    report(lines.done, console)


def report(lines: list[dict[str, Any]], console: Console) -> None:
    """Prints how the questions ended and what parsed."""
    ended = Table("demonstrations", "set", "questions", "answered", "typed errors", "F1", "calls", "seconds")
    for shots, name in product((0, 4), QUESTIONS):
        own = [line for line in lines if (line["demonstrations"], line["set"]) == (shots, name)]
        if own:
            counts = (len(own), *(sum(line[key] is not None for line in own) for key in ("answer", "error")))
            score, *means = (fmean(line[key] for line in own) for key in ("f1", "calls", "seconds"))
            ended.add_row(str(shots), name, *map(str, counts), f"{score:.2f}", *(f"{mean:.1f}" for mean in means))
    console.print(ended)
    shares = Table("signature", "parsed without", "parsed with four")
    for name in sorted({name for line in lines for name in line["outputs"]}):
        by_shots = ([line for line in lines if line["demonstrations"] == shots] for shots in (0, 4))
        shares.add_row(name, *(parsed_of(own, name) for own in by_shots))
    console.print(shares)


if __name__ == "__main__":
    typer.run(main)
