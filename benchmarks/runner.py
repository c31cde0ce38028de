"""How many questions a second a run keeps, and whether its memory stays flat.

    python benchmarks/runner.py [QUESTIONS]

Closed book against a server on this machine that answers at once: a tenth of the questions, then all, in processes of
their own. What counts is the ratio of the peaks of memory.
"""

import tempfile
from pathlib import Path

import common
from common import Beside, alone, show, timed, write_lines
from faulty.server import MODEL, Server

IN_FLIGHT = 16


def run(count: int, api_base: str, folder: Path) -> dict[str, float]:
    import dspy

    from keqa.evaluation.evaluate import evaluate
    from keqa.lms import build_roles
    from keqa.programs.baselines import ClosedBook

    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    asked = (
        {"id": f"q{number}", "question": f"Who governs town {number}?", "answer": "Ann"} for number in range(count)
    )
    path = write_lines(folder / f"questions-{count}.jsonl", asked)
    program = ClosedBook(lms=build_roles(MODEL, api_base=api_base))
    seconds, tally = timed(lambda: evaluate(program, path, out=folder / "run" / path.name, in_flight=IN_FLIGHT))
    return {"questions": tally.done, "a second": tally.done / seconds, "failed": tally.failed}


def main() -> None:
    count = common.options(__doc__, "questions", questions=10_000).questions
    with tempfile.TemporaryDirectory() as folder, Beside(Server) as server:
        rows = [alone(run, questions, server.api_base, Path(folder)) for questions in (count // 10, count)]
    show(rows, digits=1)
    print(f"ten times the questions take {rows[1]['peak_mb'] / rows[0]['peak_mb']:.2f} times the memory")


if __name__ == "__main__":
    main()
