"""Recall of gold passages over real text: BM25, dense retrieval and both together, on four of the shared corpora.

    python benchmarks/recall.py [DATA] [--engine bm25] [--limit-passages 2000] [--threads 2] [--work FOLDER]

Recall is macro-averaged: each question counts the same, however many gold passages it has. Where titles are unique in a
corpus a gold passage is named by its title, elsewhere by its whole text. The model is MiniLM, which encodes 30 to 80
passages a second on a core; vectors are kept in the work folder, and a run that was killed resumes there. Exit code 1
where the hybrid is more than a point below the better of the two.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from common import DATA
from rich.console import Console
from rich.table import Table

from keqa.data import load
from keqa.data.example import Example
from keqa.errors import KeqaError
from keqa.metrics.retrieval import macro_recall_at_k
from keqa.retrievers import HybridRetriever, Passage, Retriever, build_dense, build_index, open_index, read_corpus
from keqa.retrievers.engines import facts_of
from keqa.retrievers.text import clean_text, one_line

ENGINES = ("bm25", "dense", "hybrid")
# How far the hybrid may be below the better of the two.
_POINT = 0.01


@dataclass(frozen=True)
class Benchmark:
    """A corpus, the questions asked over it, and what names a gold passage: its ``title``, or its ``text`` as well."""

    name: str
    corpus: str
    questions: tuple[tuple[str, str], ...]
    gold: str

    @property
    def files(self) -> list[str]:
        """All that it reads."""
        return [self.corpus, *(file for _, file in self.questions)]


BENCHMARKS = (
    Benchmark(
        "2WikiMultihopQA",
        "2wikimultihopqa/2wikimultihopqa_corpus.json",
        (("2wikimultihopqa", "2wikimultihopqa/dev.json"), ("2wikimultihopqa", "2wikimultihopqa/dev_nocontext.json")),
        "title",
    ),
    Benchmark(
        "HotpotQA",
        "hotpotqa/hotpotqa_corpus.json",
        (("hotpotqa", "hotpotqa/hotpot_dev_distractor_v1.json"), ("hotpotqa", "hotpotqa/hotpot_dev_fullwiki_v1.json")),
        "title",
    ),
    Benchmark("MuSiQue", "musique/musique_corpus.json", (("musique", "musique/musique_ans_v1.0_dev.jsonl"),), "text"),
    Benchmark("NQ", "nq/psgs_w100.tsv", (("nq", "nq/nq-open-oracle.jsonl"),), "text"),
)


def key(gold: str, title: str, text: str) -> str:
    """The name by which a passage is compared with the gold ones."""
    return one_line(clean_text(title if gold == "title" else f"{title} {text}"))


def gold_keys(benchmark: Benchmark, example: Example) -> set[str]:
    """The gold passages of a question."""
    if benchmark.gold == "title":
        return {key("title", fact.title, "") for fact in example.supporting_facts}
    return {key("text", one.title, one.text) for one in example.context if one.role == "supporting"}


def chosen(benchmark: Benchmark, passages: Sequence[Passage], gold: set[str], limit: int | None) -> list[Passage]:
    """All passages, or so many of them with every gold one, in the order of the corpus."""
    if limit is None or limit >= len(passages):
        return list(passages)
    needed = {place for place, one in enumerate(passages) if key(benchmark.gold, one.title, one.text) in gold}
    others = [place for place in range(len(passages)) if place not in needed]
    random.Random(0).shuffle(others)
    kept = needed | set(others[: max(0, limit - len(needed))])
    return [passages[place] for place in sorted(kept)]


@dataclass(frozen=True)
class Case:
    """The questions of a benchmark whose gold passages are all in its corpus, and the passages to search."""

    benchmark: Benchmark
    passages: list[Passage]
    questions: list[str]
    gold: list[set[str]]
    left_out: int

    @classmethod
    def read(cls, benchmark: Benchmark, data: Path, limit: int | None) -> Case:
        """Read the files of a benchmark."""
        corpus = list(read_corpus([data / benchmark.corpus]))
        there = {key(benchmark.gold, one.title, one.text) for one in corpus}
        examples = [one for name, file in benchmark.questions for one in load(f"{name}:{data / file}").examples]
        pairs = [(one.question, gold_keys(benchmark, one)) for one in examples]
        usable = [(question, gold) for question, gold in pairs if gold and gold <= there]
        needed = {one for _, gold in usable for one in gold}
        return cls(
            benchmark,
            chosen(benchmark, corpus, needed, limit),
            [question for question, _ in usable],
            [gold for _, gold in usable],
            len(pairs) - len(usable),
        )

    def folder(self, work: Path) -> Path:
        """Where its indexes and vectors are kept."""
        return work / f"{self.benchmark.corpus.partition('/')[0]}-{len(self.passages)}"

    def recall(self, retriever: Retriever, k: int = 5) -> float:
        """Macro recall of the gold passages among the first of each question."""
        found = retriever.search_many(self.questions, k)
        names = [[key(self.benchmark.gold, hit.passage.title, hit.passage.text) for hit in hits] for hits in found]
        return macro_recall_at_k(names, self.gold, k)


def prepared(case: Case, folder: Path, engines: Sequence[str], say: Console) -> Iterator[tuple[str, Retriever]]:
    """Build what is not there yet, and open it; the vectors of these passages are not made twice."""
    manifest = build_index(case.passages, folder / "bm25")
    bm25 = open_index(folder / "bm25")
    if "bm25" in engines or "hybrid" in engines:
        yield "bm25", bm25
    if "dense" not in engines and "hybrid" not in engines:
        return
    there = None
    with suppress(KeqaError):
        there = facts_of(folder / "dense")[0]["source_hash"]
    if there != manifest.source_hash:
        started, first = time.monotonic(), [-1]

        def progress(done: int, of: int) -> None:
            first[0] = done if first[0] < 0 else first[0]
            speed = (done - first[0]) / max(time.monotonic() - started, 1e-9)
            say.print(f"{case.benchmark.name}: {done:,} of {of:,} passages encoded, {speed:.1f}/s", highlight=False)

        build_dense(case.passages, folder / "dense", progress=progress)
    dense = open_index(folder / "dense")
    yield "dense", dense
    if "hybrid" in engines:
        yield "hybrid", HybridRetriever([bm25, dense])


def missing(data: Path) -> str:
    """What to say where files are not there; empty where all are."""
    names = [file for one in BENCHMARKS for file in one.files if not (data / file).is_file()]
    return f"not in {data}: {', '.join(names)}\n" if names else ""


def measured(case: Case, folder: Path, engines: Sequence[str], say: Console) -> dict[str, float]:
    """Recall@5 of each engine."""
    return {name: case.recall(retriever) for name, retriever in prepared(case, folder, engines, say)}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path, default=DATA, help="folder of the shared data")
    parser.add_argument("--engine", choices=ENGINES, action="append", help="may be given several times; all by default")
    parser.add_argument("--limit-passages", type=int, help="of each corpus; every gold passage is kept")
    parser.add_argument("--threads", type=int, default=1, help="of the encoding model")
    parser.add_argument("--work", type=Path, default=Path("runs/recall"), help="for indexes and vectors")
    options = parser.parse_args(arguments)
    engines, data = options.engine or list(ENGINES), options.data
    if lacking := missing(data):
        sys.stderr.write(lacking)
        return 2
    console, below = Console(width=100), False
    table = Table("recall@5", "passages", "questions", *ENGINES, "hybrid - better")
    try:
        cases = [Case.read(benchmark, data, options.limit_passages) for benchmark in BENCHMARKS]
        console.print(f"{sum(len(case.passages) for case in cases):,} passages in all")
        if set(engines) != {"bm25"}:
            import torch

            torch.set_num_threads(options.threads)
        for case in cases:
            found = measured(case, case.folder(options.work), engines, Console(stderr=True))
            gap = found["hybrid"] - max(found["bm25"], found["dense"]) if "hybrid" in found else None
            below = below or (gap is not None and gap < -_POINT)
            cells = (f"{found[name]:.3f}" if name in found else "" for name in ENGINES)
            count = f"{len(case.questions):,}" + (f" ({case.left_out} left out)" if case.left_out else "")
            shown = "" if gap is None else f"{gap:+.3f}"
            table.add_row(case.benchmark.name, f"{len(case.passages):,}", count, *cells, shown)
    except KeqaError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    console.print(table)
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
