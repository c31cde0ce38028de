"""How many questions a second a run keeps, and whether its memory stays flat.

    python benchmarks/runner.py [questions]

A closed-book run against a server on this machine that answers at once, in processes of their own: one of a tenth of
the questions and one of all. What counts is the ratio of their peaks of memory. The server is a process, too, so that
neither its memory nor its time is the run's.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import typer
from faulty.server import MODEL, Process

IN_FLIGHT = 16


def run(path, api_base, folder, pipe):
    import dspy

    from keqa.evaluation.evaluate import evaluate
    from keqa.evaluation.questions import of_name
    from keqa.lms import build_roles
    from keqa.programs.baselines import ClosedBook

    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    program = ClosedBook(lms=build_roles(MODEL, api_base=api_base))
    start = time.perf_counter()
    tally = evaluate(program, of_name(str(path)).examples, out=folder / "run" / path.name, in_flight=IN_FLIGHT)
    seconds = time.perf_counter() - start
    pipe.send((tally.done, tally.failed, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def measured(context, count, api_base, folder):
    path = folder / f"questions-{count}.jsonl"
    with path.open("w") as stream:
        for number in range(count):
            row = {"id": f"q{number}", "question": f"Who governs the town of number {number}?", "answer": "Ann"}
            stream.write(json.dumps(row) + "\n")
    ours, theirs = context.Pipe()
    process = context.Process(target=run, args=(path, api_base, folder, theirs))
    process.start()
    # So that a process that dies is noticed, and not waited for.
    theirs.close()
    result = ours.recv()
    process.join()
    return result


def main(count: int = typer.Argument(10_000, help="Questions.")) -> None:
    context = multiprocessing.get_context("spawn")
    peaks = []
    with tempfile.TemporaryDirectory() as folder, Process() as server:
        for questions in (count // 10, count):
            done, failed, seconds, peak = measured(context, questions, server.api_base, Path(folder))
            peaks.append(peak)
            print(f"{done:>7,} questions: {done / seconds:7.1f} a second, peak {peak:6.0f} MiB, {failed} failed")
    print(f"ten times the questions take {peaks[1] / peaks[0]:.2f} times the memory")


if __name__ == "__main__":
    typer.run(main)
