"""What compiling does for a real, weak LM on real questions.

    python benchmarks/compiled_real.py --data FOLDER

Compiles the program for SmolLM2-135M-Instruct on 60 questions of NQ (one hop, so without decomposition) over its
corpus, and asks the program as it comes and the compiled one 40 others. Finished work is kept in the work folder, and
a later start resumes there. Prints the share of outputs that parsed, by signature, and F1 with its paired
interval.
"""

from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated, Any

import typer
from common import DATA, Lines, interval
from real_lm import LongestOutput, Model, ask, parsed_of
from rich.console import Console
from rich.table import Table

import keqa
from keqa.cli.compile_tables import report_parts
from keqa.cli.progress import Bars
from keqa.data import Example, load
from keqa.lms import build_roles
from keqa.metrics.significance import paired_bootstrap
from keqa.programs.keqa import KEQA
from keqa.retrievers import build_index, open_index, read_corpus

IN_FLIGHT = 16
"""Questions in work at once: what they ask at the same time, the LM reads and writes together."""


def main(
    data: Annotated[Path, typer.Option(help="Folder with nq in its original layout.")] = DATA,
    work: Annotated[Path, typer.Option(help="Where finished work is kept.")] = Path("runs/compiled_real"),
    lm: Model = "local/smollm2",
    train: Annotated[int, typer.Option(help="Questions to compile on.")] = 60,
    test: Annotated[int, typer.Option(help="Other questions, to score on.")] = 40,
    top_k: Annotated[int, typer.Option(help="Passages to search for.")] = 5,
    max_tokens: LongestOutput = 48,
) -> None:
    console = Console()
    work.mkdir(parents=True, exist_ok=True)
    if not (work / "index").exists():
        build_index(read_corpus([data / "nq" / "psgs_w100.tsv"]), work / "index", language="en")
    questions = load(f"nq:{data / 'nq' / 'NQ-open.dev.jsonl'}").examples[: train + test]
    roles = build_roles(lm, max_tokens=max_tokens)
    program = KEQA(open_index(work / "index"), lms=roles, decompose=False, top_k=top_k, workers=8)
    with Bars() as bars:
        compiled = keqa.compile(
            program, questions[:train], folder=work / "compile", progress=bars.report, in_flight=IN_FLIGHT
        )
    compiled.save(work / "program", command="python benchmarks/compiled_real.py")
    console.print(*report_parts(compiled.report), sep="\n")
    lines = {
        label: asked(one, questions[train:], work / f"{label}.jsonl", console)
        for label, one in (("as it comes", program), ("compiled", compiled.program))
    }
    report(lines, console)


def asked(program: KEQA, questions: list[Example], path: Path, console: Console) -> list[dict[str, Any]]:
    """Asks what was not asked before, and returns one line a question."""
    lines = Lines(path)
    done = {line["id"] for line in lines.done}
    left = [question for question in questions if question.id not in done]
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        for future in as_completed([pool.submit(ask, program, question) for question in left]):
            line = future.result()
            lines.add(line)
            console.print(f"{line['question']} -> {line['answer'] or line['error']}", markup=False)
    return sorted(lines.done, key=lambda line: line["id"])


def report(lines: dict[str, list[dict[str, Any]]], console: Console) -> None:
    """Prints what parsed, and F1 before and after."""
    table = Table("", *lines)
    names = sorted({name for own in lines.values() for line in own for name in line["outputs"]})
    for name in names:
        table.add_row(f"{name} parsed", *(parsed_of(own, name) for own in lines.values()))
    answered = [f"{sum(line['answer'] is not None for line in own)} of {len(own)}" for own in lines.values()]
    table.add_row("answered", *answered)
    scores = [[line["f1"] for line in own] for own in lines.values()]
    table.add_row("F1", *(f"{sum(own) / len(own):.3f}" for own in scores))
    console.print(table)
    console.print(f"gain in F1 {interval(paired_bootstrap(scores[1], scores[0]), '+.3f')}", markup=False)


if __name__ == "__main__":
    typer.run(main)
