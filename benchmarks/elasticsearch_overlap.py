"""How far Elasticsearch and the embedded engine find the same passages: mean overlap@10 on 500 real questions.

    python benchmarks/elasticsearch_overlap.py http://localhost:9200 [DATA] [--k 10]

Both index the shared 2WikiMultihopQA corpus; the index in the cluster has a random name and is removed afterwards. What
is left of a difference comes from the analyzers: that of Elasticsearch keeps ``U.S.`` in one piece, cuts the possessive
``'s`` and stems by the first algorithm of Porter, that of the embedded engine by his second. Exit code 1 below .90.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import uuid
from pathlib import Path

from common import DATA
from rich.console import Console
from rich.table import Table

from keqa.data import load
from keqa.errors import KeqaError
from keqa.metrics.retrieval import mean_overlap_at_k
from keqa.retrievers import Retriever, build_index, open_index, read_corpus
from keqa.retrievers.elasticsearch import ElasticsearchRetriever, index_address, load_index
from keqa.retrievers.elasticsearch.address import parse_address
from keqa.retrievers.elasticsearch.client import connect
from keqa.retrievers.elasticsearch.generation import Generations

CORPUS = "2wikimultihopqa/2wikimultihopqa_corpus.json"
QUESTIONS = ("2wikimultihopqa/dev.json", "2wikimultihopqa/dev_nocontext.json")
LEAST = 0.9


def found(retriever: Retriever, questions: list[str], k: int) -> tuple[list[list[str]], float]:
    """The ids found for each question, and the milliseconds a question."""
    begin = time.perf_counter()
    hits = retriever.search_many(questions, k)
    taken = 1000 * (time.perf_counter() - begin) / len(questions)
    return [[hit.passage.id for hit in one] for one in hits], taken


def measure(url: str, data: Path, k: int) -> float:
    """Index the corpus twice, search for every question, print the figures and return the overlap."""
    questions = [one.question for file in QUESTIONS for one in load(f"2wikimultihopqa:{data / file}").examples]
    address = index_address(url, f"keqa-overlap-{uuid.uuid4().hex[:12]}")
    table = Table("engine", "passages", "questions", "build, s", "search, ms")
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for engine in ("embedded", "elasticsearch"):
                passages = read_corpus([data / CORPUS])
                begin = time.perf_counter()
                if engine == "embedded":
                    manifest = build_index(passages, Path(folder, "index"))
                    retriever: Retriever = open_index(Path(folder, "index"))
                else:
                    manifest = load_index(passages, address)
                    retriever = ElasticsearchRetriever.open(address)
                built = time.perf_counter() - begin
                ids, taken = found(retriever, questions, k)
                answers.append(ids)
                table.add_row(engine, f"{manifest.passages:,}", f"{len(questions)}", f"{built:.1f}", f"{taken:.1f}")
        finally:
            remove(address)
    overlap = mean_overlap_at_k(answers[0], answers[1], k)
    same = sum(one[:1] == other[:1] for one, other in zip(*answers, strict=True)) / len(questions)
    console = Console(width=100)
    console.print(table)
    console.print(f"mean overlap@{k}: {overlap:.3f}; the same passage first: {same:.3f}")
    return overlap


def remove(address: str) -> None:
    """Remove the index and whatever an interrupted load left of it."""
    target = parse_address(address)
    client = connect(target)
    generations = Generations(client, target)
    for data in generations.found(f"{target.name}*"):
        generations.remove(data)
    client.close()


def main() -> int:
    parser = argparse.ArgumentParser(description="Overlap of Elasticsearch and the embedded engine on real questions.")
    parser.add_argument("url", help="the cluster, such as http://localhost:9200")
    parser.add_argument("data", nargs="?", type=Path, default=DATA, help="folder of the shared data")
    parser.add_argument("--k", type=int, default=10, help="how many passages a question")
    given = parser.parse_args()
    try:
        overlap = measure(given.url, given.data, given.k)
    except KeqaError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0 if overlap >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
