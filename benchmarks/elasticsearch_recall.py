"""Whether dense and hybrid retrieval on Elasticsearch find as much as embedded: recall@5 on four real corpora.

    python benchmarks/elasticsearch_recall.py http://localhost:9200 [DATA] [--limit-passages 2000 --limit-questions 200]

The corpora, questions and embedded indexes are those of `recall.py`, whose work folder it shares. The cluster is given
the vectors of the embedded index, since encoding takes nearly all the time and the model is the same; some passages are
encoded once more to make sure of it. Questions are encoded by each engine. The index on the cluster has a random name
and is removed afterwards. Exit code 1 where one of the two is more than a point below its embedded counterpart.
"""

from __future__ import annotations

import dataclasses
import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated
from unittest.mock import patch

import numpy as np
import typer
from common import DATA
from elasticsearch_overlap import remove
from recall import BENCHMARKS, Case, chosen, measured, missing
from rich.console import Console
from rich.table import Table

from keqa.errors import KeqaError
from keqa.retrievers import Passage, open_index
from keqa.retrievers.elasticsearch import address_and_model, dense_address, index_address, load_index, writing
from keqa.retrievers.elasticsearch.mapping import VECTOR, as_sent
from keqa.retrievers.embedding import LOCAL, Encoder
from keqa.retrievers.local.dense import dense_manifest, open_files

ENGINES = ("bm25", "dense", "hybrid")
_POINT = 0.01
_ENCODED_AGAIN = 32


def stored_vectors(folder: Path) -> Callable[[Encoder, Sequence[Passage]], list[list[float]]]:
    """What gives the vectors of an embedded index in the place of encoding.

    Raises:
        AssertionError: The first passages are not given the vectors that they have there.
    """
    opened, store = open_files(folder)
    key_of = dense_manifest(opened).encoder.key_of
    row_of = {key: row for row, key in enumerate(store.keys.tolist())}
    checked = False

    def encoded(encoder: Encoder, passages: Sequence[Passage]) -> list[dict[str, list[float]]]:
        nonlocal checked
        if not passages:
            return []
        found = np.stack([store.rows[row_of[key_of(passage)]] for passage in passages])
        if not checked:
            again = encoder.passages(passages[:_ENCODED_AGAIN])
            np.testing.assert_allclose(again, found[:_ENCODED_AGAIN], atol=1e-4)
            checked = True
        return [{VECTOR: as_sent(row)} for row in found]

    return encoded


def on_cluster(case: Case, url: str, folder: Path, model: str = LOCAL) -> dict[str, float]:
    """Recall@5 of each engine on a cluster, with the vectors of the embedded index in a folder."""
    address = index_address(url, f"keqa-recall-{uuid.uuid4().hex[:12]}")
    dense = f"{dense_address(address_and_model(address)[0])}@{model}"
    try:
        with patch.object(writing, "encoded", stored_vectors(folder)):
            load_index(case.passages, address, model=model)
        return {
            name: case.recall(open_index(where))
            for name, where in zip(ENGINES, (address, dense, f"{address},{dense}"), strict=True)
        }
    finally:
        remove(address)


def shortened(case: Case, passages: int | None, questions: int | None) -> Case:
    """A case with the first of its questions only, and so many passages with every gold one of these."""
    gold = case.gold[:questions]
    needed = {one for some in gold for one in some}
    kept = chosen(case.benchmark, case.passages, needed, passages)
    return dataclasses.replace(case, passages=kept, questions=case.questions[:questions], gold=gold)


def compared(embedded: dict[str, float], cluster: dict[str, float]) -> float:
    """How far the worse of the dense engine and the hybrid is below its embedded counterpart; negative where it is."""
    return min(cluster[name] - embedded[name] for name in ("dense", "hybrid"))


def main(
    url: Annotated[str, typer.Argument(help="The cluster, such as http://localhost:9200.")],
    data: Annotated[Path, typer.Argument(help="Folder of the shared data.")] = DATA,
    limit_passages: Annotated[int | None, typer.Option(help="Of each corpus; every gold passage is kept.")] = None,
    limit_questions: Annotated[int | None, typer.Option(help="Of each corpus.")] = None,
    work: Annotated[Path, typer.Option(help="For embedded indexes, as of recall.py.")] = Path("runs/recall"),
) -> None:
    if lacking := missing(data):
        sys.stderr.write(lacking)
        raise typer.Exit(2)
    table = Table("recall@5, embedded / cluster", "passages", "questions", *ENGINES, "worse by")
    worst = 0.0
    try:
        for benchmark in BENCHMARKS:
            case = shortened(Case.read(benchmark, data, None), limit_passages, limit_questions)
            folder = case.folder(work)
            embedded = measured(case, folder, ENGINES, Console(stderr=True))
            cluster = on_cluster(case, url, folder / "dense")
            gap = compared(embedded, cluster)
            worst = min(worst, gap)
            cells = [f"{embedded[name]:.3f} / {cluster[name]:.3f}" for name in ENGINES]
            Console(stderr=True).print(benchmark.name, *cells)
            table.add_row(
                benchmark.name, f"{len(case.passages):,}", f"{len(case.questions):,}", *cells, f"{max(0.0, -gap):.3f}"
            )
    except KeqaError as error:
        sys.stderr.write(f"{error}\n")
        raise typer.Exit(2) from None
    Console(width=110).print(table)
    if worst < -_POINT:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
