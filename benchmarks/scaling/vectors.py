"""Dense retrieval at scale: FAISS over made vectors, and real encodings."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from keqa.retrievers import build_dense, open_index, read_corpus
from keqa.retrievers.dense.encoding import Encoder
from keqa.retrievers.dense.vectors import (
    Search,
    VectorFile,
    VectorSettings,
    drop_unused,
    finish,
    open_search,
    settings_for,
)
from scaling.steps import Figures, disk_mb, latencies, named

DIMENSION = 384
REAL = 20_000
# Encoded first to last, until there are enough passages.
CORPORA = ("2wikimultihopqa/2wikimultihopqa_corpus.json", "hotpotqa/hotpotqa_corpus.json")
QUESTIONS = "2wikimultihopqa/dev_nocontext.json"
_BLOCK = 20_000
_TOPICS, _FACTORS = 1000, 48


def _made(seed: int) -> Iterator[np.ndarray]:
    """Blocks of unit vectors without end that lie as embeddings do: around topics, and in fewer directions than 384.

    Vectors drawn evenly from the sphere have no neighbours to speak of; no index of lists could find them.
    """
    fixed = np.random.default_rng(0)
    topics = fixed.standard_normal((_TOPICS, _FACTORS), np.float32)
    directions = fixed.standard_normal((_FACTORS, DIMENSION), np.float32) / np.sqrt(_FACTORS, dtype=np.float32)
    draw = np.random.default_rng(seed)
    while True:
        own = topics[draw.integers(0, _TOPICS, _BLOCK)] + 0.7 * draw.standard_normal((_BLOCK, _FACTORS), np.float32)
        block = own @ directions + 0.15 * draw.standard_normal((_BLOCK, DIMENSION), np.float32)
        yield block / np.linalg.norm(block, axis=1, keepdims=True)


def build(folder: Path, vectors: int, flat: bool) -> Figures:
    """Write made vectors and index them; the time to make them does not count."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    settings = _settings(vectors, flat)
    file = VectorFile(folder, vectors, DIMENSION)
    seconds = 0.0
    for block in _made(seed=1):
        started = time.perf_counter()
        file.append(block[: vectors - file.done])
        seconds += time.perf_counter() - started
        if file.done == vectors:
            break
    started = time.perf_counter()
    finish(folder, settings)
    drop_unused(folder, settings)
    return {"build_s": seconds + time.perf_counter() - started, "disk_mb": disk_mb(folder), "kind": settings.kind}


def search(folder: Path, vectors: int, count: int, flat: Path | None) -> Figures:
    """Search made vectors; where the flat ones are given, say how many of their ten nearest are found."""
    queries = next(_made(seed=2))[:count]
    find = open_search(folder, _settings(vectors, flat is None), vectors, DIMENSION)
    figures = named(
        "kw", latencies([lambda number: find(queries[int(number)][None], 10)], [*map(str, range(count))])[0]
    )
    if flat is not None:
        exact = open_search(flat, _settings(vectors, True), vectors, DIMENSION)
        figures["recall"] = shared(find, exact, queries)
    return figures


def _settings(vectors: int, flat: bool) -> VectorSettings:
    # From the first vector on lists, so that a small trial measures the same thing.
    return VectorSettings("flat") if flat else settings_for(vectors, 0)


def encode(data: Path, folder: Path, passages: int, threads: int) -> Figures:
    """Encode real passages; a build that was interrupted resumes, and reports the speed of what it did itself."""
    import torch

    torch.set_num_threads(threads)
    chosen = islice(chain.from_iterable(read_corpus([data / corpus]) for corpus in CORPORA), passages)
    begun: list[Any] = []

    def progress(done: int, of: int) -> None:
        begun[:] = begun or [done, time.perf_counter()]
        begun[2:] = [done, time.perf_counter()]

    manifest = build_dense(chosen, folder, progress=progress)
    encoded, seconds = begun[2] - begun[0], begun[3] - begun[1]
    speed = encoded / seconds if encoded else float("nan")
    whole = manifest.passages / speed
    return {"build_s": whole, "disk_mb": disk_mb(folder), "found": manifest.passages, "threads": threads}


def search_real(data: Path, folder: Path, count: int) -> Figures:
    """Search by real questions: what encoding a question takes is most of it.

    Their vectors are searched for by lists, too: how many of the ten nearest those find of real ones.
    """
    import torch

    from keqa.data import load

    torch.set_num_threads(1)
    asked = [one.question for one in load(f"2wikimultihopqa:{data / QUESTIONS}").examples[:count]]
    retriever = open_index(folder)
    figures = named("nl", latencies([retriever.search], asked)[0])
    manifest = retriever.manifest
    real = np.load(folder / manifest.data / "vectors.npy", mmap_mode="r", allow_pickle=False)
    lists = folder.with_name(f"{folder.name}-lists")
    shutil.rmtree(lists, ignore_errors=True)
    lists.mkdir()
    VectorFile(lists, *real.shape).append(real[:])
    settings = _settings(len(real), False)
    finish(lists, settings)
    queries = Encoder.choose(manifest.encoder.model).queries(asked)
    exact = open_search(folder / manifest.data, VectorSettings("flat"), *real.shape)
    return {**figures, "recall": shared(open_search(lists, settings, *real.shape), exact, queries)}


def shared(find: Search, exact: Search, queries: np.ndarray) -> float:
    """How many of the ten nearest vectors are found."""
    pairs = zip(find(queries, 10)[1], exact(queries, 10)[1], strict=True)
    return statistics.fmean(len(np.intersect1d(one, other)) / 10 for one, other in pairs)
