"""How many questions a second a run keeps, and whether its memory stays flat.

    python benchmarks/runner.py [questions]

A closed-book run against a server on this machine that answers at once, in processes of their own: one of a tenth of
the questions and one of all. What counts is the ratio of their peaks of memory. The server is a process, too, so that
neither its memory nor its time is the run's.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import typer
from common import Beside, alone, write_lines
from faulty.server import MODEL, Server

IN_FLIGHT = 16


def run(count: int, api_base: str, folder: Path) -> dict[str, float]:
    import dspy

    from keqa.evaluation.evaluate import evaluate
    from keqa.evaluation.questions import of_name
    from keqa.lms import build_roles
    from keqa.programs.baselines import ClosedBook

    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    asked = (
        {"id": f"q{number}", "question": f"Who governs town {number}?", "answer": "Ann"} for number in range(count)
    )
    path = write_lines(folder / f"questions-{count}.jsonl", asked)
    program = ClosedBook(lms=build_roles(MODEL, api_base=api_base))
    start = time.perf_counter()
    tally = evaluate(program, of_name(str(path)).examples, out=folder / "run" / path.name, in_flight=IN_FLIGHT)
    return {"done": tally.done, "failed": tally.failed, "speed": tally.done / (time.perf_counter() - start)}


def main(count: int = typer.Argument(10_000, help="Questions.")) -> None:
    peaks = []
    with tempfile.TemporaryDirectory() as folder, Beside(Server) as server:
        for questions in (count // 10, count):
            found = alone(run, questions, server.api_base, Path(folder))
            peaks.append(found["peak_mb"])
            rates = f"{found['speed']:7.1f} a second, peak {found['peak_mb']:6.0f} MB, {found['failed']} failed"
            print(f"{found['done']:>7,} questions: {rates}")
    print(f"ten times the questions take {peaks[1] / peaks[0]:.2f} times the memory")


if __name__ == "__main__":
    typer.run(main)
