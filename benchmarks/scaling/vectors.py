"""Dense retrieval at scale: FAISS over made vectors, and real encodings."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from keqa.retrievers import build_dense, open_index, read_corpus
from keqa.retrievers.embedding import Encoder
from keqa.retrievers.local.dense import open_files
from keqa.retrievers.local.vectors import Found, VectorStore, append, begin, remove_others, settings_for
from keqa.retrievers.manifest import FLAT, VectorSettings
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
    settings, name, done, seconds = _settings(vectors, flat), begin(folder, {}), 0, 0.0
    for block in _made(seed=1):
        some = block[: vectors - done]
        started = time.perf_counter()
        append(folder, name, range(done, done + len(some)), some)
        seconds += time.perf_counter() - started
        done += len(some)
        if done == vectors:
            break
    started = time.perf_counter()
    if not flat:
        _opened(folder, VectorSettings(FLAT)).kept(lambda key: True, settings)
        remove_others(folder, {next(folder.glob("*.faiss")).stem})
    return {"build_s": seconds + time.perf_counter() - started, "disk_mb": disk_mb(folder), "kind": settings.kind}


def _opened(folder: Path, settings: VectorSettings, listed: int = 0) -> VectorStore:
    """The only vectors in a folder."""
    return VectorStore(folder, next(folder.glob("vectors-*.keys")).stem, DIMENSION, settings, listed, 0)


def search(folder: Path, vectors: int, count: int, flat: Path | None) -> Figures:
    """Search made vectors; where the flat ones are given, count how many of their ten nearest are found."""
    queries = next(_made(seed=2))[:count]
    settings = _settings(vectors, flat is None)
    find = _opened(folder, settings, 0 if flat is None else vectors).search
    figures = named(
        "kw", latencies([lambda number: find(queries[int(number)][None], 10)], [*map(str, range(count))])[0]
    )
    if flat is not None:
        exact = _opened(flat, VectorSettings(FLAT)).search
        figures["recall"] = shared(find, exact, queries)
    return figures


def _settings(vectors: int, flat: bool) -> VectorSettings:
    # From the first vector on lists, so that a small trial measures the same thing.
    return VectorSettings("flat") if flat else settings_for(vectors, 0)


def encode(data: Path, folder: Path, passages: int, threads: int) -> Figures:
    """Encode real passages; an interrupted build resumes, and reports the speed of what it did itself."""
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
    exact = open_files(folder)[1]
    settings = _settings(len(exact), False)
    queries = Encoder.choose(retriever.manifest.encoder.model).queries(asked)
    lists = folder.with_name(f"{folder.name}-lists")
    shutil.rmtree(lists, ignore_errors=True)
    lists.mkdir()
    append(lists, name := begin(lists, {}), exact.keys, exact.rows)
    found = VectorStore(lists, name, exact.rows.shape[1], VectorSettings(FLAT), 0, 0).kept(lambda key: True, settings)
    return {**figures, "recall": shared(found.search, exact.search, queries)}


def shared(find: Callable[..., Found], exact: Callable[..., Found], queries: np.ndarray) -> float:
    """How many of the ten nearest vectors are found."""
    pairs = zip(find(queries, 10)[1], exact(queries, 10)[1], strict=True)
    return statistics.fmean(len(np.intersect1d(one, other)) / 10 for one, other in pairs)
