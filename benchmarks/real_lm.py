"""A real, weak LM through the whole program.

    python benchmarks/real_lm.py --data ../shared/data

SmolLM2-135M-Instruct on HotpotQA and NQ questions over their corpora, without demonstrations and with four for each
predictor. Each finished question is one line of the output file, and a later start goes on behind the last. Prints how
the questions ended and the share of outputs that parsed, by signature.
"""

import json
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import dspy
import typer
from dspy.utils.callback import BaseCallback
from rich.console import Console
from rich.table import Table

from keqa.lms import build_roles
from keqa.metrics.answers import f1
from keqa.programs.keqa import KEQA
from keqa.retrievers import Retriever, build_index, open_index, read_corpus

HERE = Path(__file__).parent


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


def questions(data: Path, count: int) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yields set, id, question and answers."""
    for item in json.loads((data / "hotpotqa" / "hotpot_dev_distractor_v1.json").read_text())[:count]:
        yield "hotpotqa", item["_id"], item["question"], [item["answer"]]
    lines = (data / "nq" / "NQ-open.dev.jsonl").read_text().splitlines()[:count]
    for number, line in enumerate(lines):
        item = json.loads(line)
        yield "nq", f"nq-{number}", item["question"], item["answer"]


def indexes(data: Path, folder: Path) -> dict[str, Retriever]:
    """Indexes the corpora of both sets."""
    corpora = {"hotpotqa": data / "hotpotqa" / "hotpotqa_corpus.json", "nq": data / "nq" / "psgs_w100.tsv"}
    for name, corpus in corpora.items():
        build_index(read_corpus([corpus]), folder / name, language="en")
    return {name: open_index(folder / name) for name in corpora}


def kept(path: Path) -> list[dict[str, Any]]:
    """Reads finished lines, and cuts off one that a kill tore."""
    if not path.exists():
        return []
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    return [json.loads(line) for line in whole.splitlines()]


def demonstrate(program: KEQA) -> None:
    """Gives each predictor the demonstrations written for its signature."""
    demos = json.loads((HERE / "demonstrations.json").read_text())
    for _, predictor in program.named_predictors():
        predictor.demos = [dspy.Example(**demo) for demo in demos.get(predictor.signature.__name__, [])]


def main(
    data: Annotated[Path, typer.Option(help="Folder with hotpotqa and nq in their original layouts.")] = Path(
        "../shared/data"
    ),
    out: Annotated[Path, typer.Option(help="One line for each finished question.")] = Path("runs/real_lm.jsonl"),
    lm: Annotated[str, typer.Option(help="The LM.")] = "local/smollm2",
    count: Annotated[int, typer.Option(help="Questions of each set.")] = 10,
    max_tokens: Annotated[int, typer.Option(help="The longest output.")] = 96,
) -> None:
    console = Console()
    out.parent.mkdir(parents=True, exist_ok=True)
    lines = kept(out)
    done = {(line["demonstrations"], line["id"]) for line in lines}
    roles = build_roles(lm, max_tokens=max_tokens)
    with tempfile.TemporaryDirectory() as folder, out.open("a") as file:
        retrievers = indexes(data, Path(folder))
        for shots in (0, 4):
            for name, identifier, question, golds in questions(data, count):
                if (shots, identifier) in done:
                    continue
                program, parsed = KEQA(retrievers[name], lms=roles, workers=8), Parsed()
                if shots:
                    demonstrate(program)
                with dspy.context(callbacks=[parsed]):
                    [outcome] = program.answer_many([question])
                record = outcome.record
                line = {
                    "demonstrations": shots,
                    "set": name,
                    "id": identifier,
                    "answer": outcome.answer,
                    "error": outcome.error and f"{type(outcome.error).__name__}: {outcome.error}"[:200],
                    "f1": f1(outcome.answer, golds) if outcome.answer else 0.0,
                    "seconds": record.cost.seconds if record else 0.0,
                    "calls": record.cost.calls if record else 0,
                    "parsed": parsed.right,
                    "outputs": parsed.all,
                }
                file.write(json.dumps(line) + "\n")
                file.flush()
                lines.append(line)
                console.print(
                    f"{shots} demonstrations, {name}: {question} -> {outcome.answer or line['error']}", markup=False
                )
    report(lines, console)


def report(lines: list[dict[str, Any]], console: Console) -> None:
    """Prints how the questions ended and what parsed."""
    ended = Table("demonstrations", "set", "questions", "answered", "typed errors", "F1", "calls", "seconds")
    for shots in (0, 4):
        for name in ("hotpotqa", "nq"):
            own = [line for line in lines if (line["demonstrations"], line["set"]) == (shots, name)]
            if own:
                size = len(own)
                answered = sum(line["answer"] is not None for line in own)
                failed = sum(line["error"] is not None for line in own)
                means = [sum(line[key] for line in own) / size for key in ("f1", "calls", "seconds")]
                ended.add_row(
                    str(shots),
                    name,
                    str(size),
                    str(answered),
                    str(failed),
                    f"{means[0]:.2f}",
                    *(f"{m:.1f}" for m in means[1:]),
                )
    console.print(ended)
    shares = Table("signature", "parsed without", "parsed with four")
    names = sorted({name for line in lines for name in line["outputs"]})
    for name in names:
        cells = []
        for shots in (0, 4):
            own = [line for line in lines if line["demonstrations"] == shots]
            right, every = (sum(line[key].get(name, 0) for line in own) for key in ("parsed", "outputs"))
            cells.append(f"{right} of {every}")
        shares.add_row(name, *cells)
    console.print(shares)


if __name__ == "__main__":
    typer.run(main)
