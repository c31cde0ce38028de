"""Recall of gold titles over real text: the shared 2WikiMultihopQA and HotpotQA corpora and questions.

Run it from the repository: ``python benchmarks/recall.py [DATA]``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from keqa.errors import KeqaError
from keqa.metrics.retrieval import macro_recall_at_k
from keqa.retrievers import build_index, open_index, read_corpus

DEFAULT_DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"


@dataclass(frozen=True)
class Benchmark:
    """A corpus and the questions asked over it."""

    name: str
    corpus: str
    questions: tuple[str, ...]


BENCHMARKS = (
    Benchmark(
        "2WikiMultihopQA dev",
        "2wikimultihopqa/2wikimultihopqa_corpus.json",
        ("2wikimultihopqa/dev.json", "2wikimultihopqa/dev_nocontext.json"),
    ),
    Benchmark(
        "HotpotQA dev",
        "hotpotqa/hotpotqa_corpus.json",
        ("hotpotqa/hotpot_dev_distractor_v1.json", "hotpotqa/hotpot_dev_fullwiki_v1.json"),
    ),
)


@dataclass(frozen=True)
class Result:
    """What one benchmark gave."""

    passages: int
    questions: int
    recall_at_5: float
    recall_at_10: float
    build_seconds: float
    search_milliseconds: float


def load_questions(paths: list[Path]) -> tuple[list[str], list[list[str]]]:
    """Return questions and the titles of their supporting facts, from files in HotpotQA's format."""
    records = [record for path in paths for record in json.loads(path.read_text(encoding="utf-8"))]
    gold = [[title for title, _ in record["supporting_facts"]] for record in records]
    return [record["question"] for record in records], gold


def measure(benchmark: Benchmark, data: Path) -> Result:
    """Index the corpus in a temporary folder and search for every question."""
    questions, gold = load_questions([data / name for name in benchmark.questions])
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        manifest = build_index(read_corpus([data / benchmark.corpus]), Path(folder, "index"))
        built = time.perf_counter()
        results = open_index(Path(folder, "index")).search_many(questions, k=10)
        searched = time.perf_counter()
    titles = [[hit.passage.title for hit in hits] for hits in results]
    return Result(
        passages=manifest.passages,
        questions=len(questions),
        recall_at_5=macro_recall_at_k(titles, gold, 5),
        recall_at_10=macro_recall_at_k(titles, gold, 10),
        build_seconds=built - begin,
        search_milliseconds=1000 * (searched - built) / len(questions),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Macro recall of gold titles over the shared corpora.")
    parser.add_argument("data", nargs="?", type=Path, default=DEFAULT_DATA, help="folder of the shared data")
    data: Path = parser.parse_args().data
    missing = [name for one in BENCHMARKS for name in (one.corpus, *one.questions) if not (data / name).is_file()]
    if missing:
        sys.stderr.write(f"not in {data}: {', '.join(missing)}\n")
        return 2
    table = Table("questions", "passages", "n", "recall@5", "recall@10", "build, s", "search, ms")
    for benchmark in BENCHMARKS:
        try:
            result = measure(benchmark, data)
        except KeqaError as error:
            sys.stderr.write(f"{error}\n")
            return 2
        table.add_row(
            benchmark.name,
            f"{result.passages:,}",
            str(result.questions),
            f"{result.recall_at_5:.3f}",
            f"{result.recall_at_10:.3f}",
            f"{result.build_seconds:.1f}",
            f"{result.search_milliseconds:.1f}",
        )
    Console(width=100).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
