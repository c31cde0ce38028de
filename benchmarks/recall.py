"""Recall of gold passages over real text: BM25, dense retrieval and both together, on four of the shared corpora.

    python benchmarks/recall.py [DATA] [--engine bm25] [--limit-passages 2000] [--limit-questions 200] [--url URL]

Recall is macro-averaged: each question counts the same, however many gold passages it has. Where titles are unique in a
corpus a gold passage is named by its title, elsewhere by its whole text. The model is MiniLM, which encodes 30 to 80
passages a second on a core; vectors are kept in the work folder, and a run that was killed resumes there. Exit code 1
where the hybrid is more than a point below the better of the two.

With `--url` an Elasticsearch cluster is loaded with the vectors of the embedded index (an index of a random name, which
is removed afterwards), and exit code 1 says that one of its engines is more than a point below the embedded one.
"""

from __future__ import annotations

import random
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated
from unittest.mock import patch

import numpy as np
import typer
from common import DATA, remove_indexes
from rich.console import Console
from rich.table import Table

from keqa.data import load
from keqa.data.example import Example
from keqa.errors import KeqaError
from keqa.retrievers import HybridRetriever, Passage, Retriever, build_dense, build_index, open_index, read_corpus
from keqa.retrievers.elasticsearch import address_and_model, dense_address, index_address, load_index, writing
from keqa.retrievers.elasticsearch.mapping import VECTOR, as_sent
from keqa.retrievers.embedding import LOCAL, Encoder
from keqa.retrievers.engines import facts_of
from keqa.retrievers.local.dense import dense_manifest, open_files
from keqa.retrievers.text import clean_text, one_line

ENGINES = ("bm25", "dense", "hybrid")
# How far an engine may be below what it is compared with.
_POINT = 0.01
_ENCODED_AGAIN = 32


@dataclass(frozen=True)
class Benchmark:
    """A corpus, the questions asked over it, and what names a gold passage: its ``title``, or its ``text`` as well."""

    name: str
    corpus: str
    questions: tuple[tuple[str, str], ...]
    gold: str


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
    def read(cls, benchmark: Benchmark, data: Path, limit: int | None, questions: int | None = None) -> Case:
        """Read the files of a benchmark, or so much of them; gold passages of the questions are kept."""
        corpus = list(read_corpus([data / benchmark.corpus]))
        there = {key(benchmark.gold, one.title, one.text) for one in corpus}
        examples = [one for name, file in benchmark.questions for one in load(f"{name}:{data / file}").examples]
        pairs = [(one.question, gold_keys(benchmark, one)) for one in examples]
        usable = [(question, gold) for question, gold in pairs if gold and gold <= there]
        asked, golds = map(list, zip(*usable[:questions], strict=True))
        passages = chosen(benchmark, corpus, set().union(*golds), limit)
        return cls(benchmark, passages, asked, golds, len(pairs) - len(usable))

    def folder(self, work: Path) -> Path:
        """Where its indexes and vectors are kept."""
        return work / f"{self.benchmark.corpus.partition('/')[0]}-{len(self.passages)}"

    def recall(self, retriever: Retriever, k: int = 5) -> float:
        """Macro recall of the gold passages among the first of each question."""
        found = retriever.search_many(self.questions, k)
        names = [[key(self.benchmark.gold, hit.passage.title, hit.passage.text) for hit in hits] for hits in found]
        return fmean(len(wanted.intersection(one)) / len(wanted) for one, wanted in zip(names, self.gold, strict=True))


def prepared(case: Case, folder: Path, engines: Sequence[str], say: Console) -> Iterator[tuple[str, Retriever]]:
    """Build what is not there yet, and open it; the vectors of these passages are not made twice."""
    manifest = build_index(case.passages, folder / "bm25")
    bm25 = open_index(folder / "bm25")
    if {"bm25", "hybrid"} & {*engines}:
        yield "bm25", bm25
    if not {"dense", "hybrid"} & {*engines}:
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


def stored_vectors(folder: Path) -> Callable[[Encoder, Sequence[Passage]], list[dict[str, list[float]]]]:
    """What gives the vectors of an embedded index in the place of encoding, after some were compared with new ones."""
    opened, store = open_files(folder)
    key_of = dense_manifest(opened).encoder.key_of
    row_of = {key: row for row, key in enumerate(store.keys.tolist())}
    checked = False

    def encoded(encoder: Encoder, passages: Sequence[Passage]) -> list[dict[str, list[float]]]:
        nonlocal checked
        found = [store.rows[row_of[key_of(passage)]] for passage in passages]
        if found and not checked:
            again = encoder.passages(passages[:_ENCODED_AGAIN])
            np.testing.assert_allclose(again, np.stack(found[:_ENCODED_AGAIN]), atol=1e-4)
            checked = True
        return [{VECTOR: as_sent(row)} for row in found]

    return encoded


def on_cluster(case: Case, url: str, folder: Path) -> dict[str, float]:
    """Recall@5 of each engine on a cluster, with the vectors of the embedded index in a folder."""
    name = f"keqa-recall-{uuid.uuid4().hex[:12]}"
    address = index_address(url, name)
    dense = f"{dense_address(address_and_model(address)[0])}@{LOCAL}"
    addresses = zip(ENGINES, (address, dense, f"{address},{dense}"), strict=True)
    try:
        with patch.object(writing, "encoded", stored_vectors(folder)):
            load_index(case.passages, address, model=LOCAL)
        return {engine: case.recall(open_index(where)) for engine, where in addresses}
    finally:
        remove_indexes(address, f"{name}*")


def row_of(case: Case, found: dict[str, float], cluster: dict[str, float] | None) -> tuple[list[str], float]:
    """The cells of a corpus, and how far below what it is compared with the worse engine is."""
    better = max(found.get("bm25", 0), found.get("dense", 0))
    gaps = [found[name] - one for name, one in (cluster or {}).items()]
    gaps += [better - found["hybrid"]] if cluster is None and "hybrid" in found else []
    cells = dict.fromkeys(ENGINES, "")
    cells |= {name: f"{one:.3f}" + (f" / {cluster[name]:.3f}" if cluster else "") for name, one in found.items()}
    count = f"{len(case.questions):,}" + (f" ({case.left_out} left out)" if case.left_out else "")
    gap = max(gaps, default=0.0)
    return [case.benchmark.name, f"{len(case.passages):,}", count, *cells.values(), f"{gap:+.3f}" if gaps else ""], gap


def main(
    data: Annotated[Path, typer.Argument(help="Folder of the shared data.")] = DATA,
    engine: Annotated[list[str] | None, typer.Option(help="May be given several times; all by default.")] = None,
    limit_passages: Annotated[int | None, typer.Option(help="Of each corpus; every gold passage is kept.")] = None,
    limit_questions: Annotated[int | None, typer.Option(help="Of each corpus.")] = None,
    url: Annotated[str | None, typer.Option(help="A cluster to compare with, such as http://localhost:9200.")] = None,
    threads: Annotated[int, typer.Option(help="Of the encoding model.")] = 1,
    work: Annotated[Path, typer.Option(help="For indexes and vectors.")] = Path("runs/recall"),
) -> None:
    engines = ENGINES if url else engine or ENGINES
    files = [file for one in BENCHMARKS for file in (one.corpus, *(file for _, file in one.questions))]
    if missing := [file for file in files if not (data / file).is_file()]:
        sys.stderr.write(f"not in {data}: {', '.join(missing)}\n")
        raise typer.Exit(2)
    table = Table("recall@5" + (", embedded / cluster" if url else ""), "passages", "questions", *ENGINES, "below")
    worst = 0.0
    try:
        if set(engines) != {"bm25"}:
            import torch

            torch.set_num_threads(threads)
        for benchmark in BENCHMARKS:
            case = Case.read(benchmark, data, limit_passages, limit_questions)
            folder = case.folder(work)
            found = {name: case.recall(one) for name, one in prepared(case, folder, engines, Console(stderr=True))}
            cells, gap = row_of(case, found, on_cluster(case, url, folder / "dense") if url else None)
            table.add_row(*cells)
            worst = max(worst, gap)
    except KeqaError as error:
        sys.stderr.write(f"{error}\n")
        raise typer.Exit(2) from None
    Console(width=110).print(table)
    if worst > _POINT:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
