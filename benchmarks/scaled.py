"""What is measured at scale: made passages, the embedded engine, the calls of Tantivy alone, and Elasticsearch.

Words follow Zipf's law, the most frequent ones are English function words, and a passage has about 100 words: what an
engine has to do for them is what it has to do for `psgs_w100.tsv`.
"""

from __future__ import annotations

import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from common import remove_indexes

from keqa.retrievers import Passage, build_index, open_index
from keqa.retrievers.elasticsearch import ElasticsearchRetriever, index_address, load_index
from keqa.retrievers.elasticsearch.client import connect, parse_address
from keqa.retrievers.engines import facts_of
from keqa.retrievers.local.index import make_document, make_schema
from keqa.retrievers.stopwords import ENGLISH
from keqa.retrievers.text import analyzer, settings_for

Figures = dict[str, Any]
VOCABULARY = 500_000
SHORTEST, LONGEST = 80, 120
_BATCH = 1000
_CONTENT, _FUNCTION = 5, 5
# What the embedded engine takes, so that the calls alone do the same work.
_HEAP, _THREADS = 512_000_000, 2


def vocabulary(size: int = VOCABULARY, seed: int = 0) -> list[str]:
    """Words from the most to the least frequent: the function words, then words made of syllables."""
    draw = random.Random(seed)
    words = dict.fromkeys(sorted(ENGLISH))
    while len(words) < size:
        syllables = (draw.choice("bcdfghjklmnprstvwz") + draw.choice("aeiou") for _ in range(draw.randint(2, 4)))
        words["".join(syllables) + draw.choice(("", "n", "r", "s", "t", "ing", "ed"))] = None
    return list(words)


def write_corpus(path: Path, passages: int, seed: int = 0, words: int = VOCABULARY) -> None:
    """Write passages one a line, with tabs between id, text and title; a file is there only when it is whole."""
    known = vocabulary(words, seed)
    # Mandelbrot's form of the law: without its constant, the first word alone would be a twelfth of all.
    bounds = np.cumsum(1 / (np.arange(len(known)) + 2.7))
    draw = np.random.default_rng(seed)
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w", encoding="utf-8") as stream:
        for start in range(0, passages, _BATCH):
            lengths = draw.integers(SHORTEST, LONGEST + 1, min(_BATCH, passages - start))
            titles = draw.integers(1, 4, len(lengths))
            drawn = iter(np.searchsorted(bounds, draw.random(int((lengths + titles).sum())) * bounds[-1]).tolist())
            for number, (length, title) in enumerate(zip(lengths, titles, strict=True), start=start):
                text = " ".join(known[place] for place in islice(drawn, int(length)))
                stream.write(f"{number}\t{text}\t{' '.join(known[place] for place in islice(drawn, int(title)))}\n")
    temporary.replace(path)


def read_made(path: Path) -> Iterator[Passage]:
    """The passages of such a file, as cheaply as they can be had: what is measured is not the reader."""
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            identifier, text, title = line.rstrip("\n").split("\t")
            yield Passage(identifier, title, text)


def questions(path: Path, count: int, seed: int = 1) -> tuple[list[str], list[str]]:
    """Queries of five content words, each five from one passage; and as many in natural language.

    The latter are ten words: the same five among five function words.
    """
    draw = random.Random(seed)
    function = sorted(ENGLISH)
    size = path.stat().st_size
    content: list[str] = []
    with path.open("rb") as stream:
        while len(content) < count:
            stream.seek(draw.randrange(size))
            stream.readline()
            line = stream.readline().decode()
            words = sorted({word for word in line.split("\t")[1].split() if word not in ENGLISH}) if line else []
            if len(words) >= _CONTENT:
                content.append(" ".join(draw.sample(words, _CONTENT)))
    natural = []
    for query in content:
        words = query.split() + draw.sample(function, _FUNCTION)
        draw.shuffle(words)
        natural.append(" ".join(words).capitalize() + "?")
    return content, natural


def make(path: Path, passages: int, words: int = VOCABULARY) -> Figures:
    """Write the corpus, and read it alone: the time that every build below spends on its source."""
    if not path.exists():
        write_corpus(path, passages, words=words)
    started = time.perf_counter()
    found = sum(1 for _ in read_made(path))
    assert found == passages, f"{path} holds {found} passages: remove it"
    return {"build_s": time.perf_counter() - started, "disk_mb": disk_mb(path)}


def build_embedded(corpus: Path, folder: Path) -> Figures:
    started = time.perf_counter()
    manifest = build_index(read_made(corpus), folder, language="en")
    return {"build_s": time.perf_counter() - started, "disk_mb": disk_mb(folder), "found": manifest.passages}


def build_raw(corpus: Path, folder: Path) -> Figures:
    """The calls of Tantivy alone: no cleaning, no check of ids, no hash, no manifest."""
    from tantivy import Index

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started = time.perf_counter()
    settings = settings_for("en")
    schema = make_schema()
    index = Index(schema, path=str(folder))
    writer = index.writer(_HEAP, _THREADS)
    for passage in read_made(corpus):
        writer.add_document(make_document(passage, schema, settings.language))
    writer.commit()
    writer.wait_merging_threads()
    seconds = time.perf_counter() - started
    index.reload()
    return {"build_s": seconds, "disk_mb": disk_mb(folder), "found": index.searcher().num_docs}


class Raw:
    """Searching by the calls of Tantivy alone: the same terms, ten hits, and their passages."""

    def __init__(self, folder: Path) -> None:
        from tantivy import Index

        self._settings = settings_for("en")
        self._index = Index.open(str(folder))
        self._analyzer = analyzer(self._settings.language)
        self._schema = make_schema()

    def search(self, query: str, k: int = 10) -> list[Passage]:
        """The passages in Tantivy's own order."""
        from tantivy import Occur, Query

        clauses = []
        for term in self._analyzer.analyze(query):
            clauses.append((Occur.Should, Query.term_query(self._schema, "text", term, "freq")))
            title = Query.term_query(self._schema, "title", term, "freq")
            clauses.append((Occur.Should, Query.boost_query(title, self._settings.title_weight)))
        searcher = self._index.searcher()
        found = searcher.search(Query.boolean_query(clauses), k, count=False).hits
        documents = [searcher.doc(address) for _, address in found]
        return [Passage(*(str(one.get_first(name) or "") for name in ("doc_id", "title", "text"))) for one in documents]


def search_both(corpus: Path, embedded: Path, raw: Path, count: int) -> Figures:
    """Both over their own files, in turns. Function words are dropped by the embedded engine only."""
    content, natural = questions(corpus, count)
    one, other = open_index(embedded), Raw(raw)
    figures: Figures = {}
    for kind, queries in (("kw", content), ("nl", natural)):
        figures |= latencies({kind: one.search, f"raw_{kind}": other.search}, queries)
    return figures


def load_server(corpus: Path, url: str, name: str) -> Figures:
    """Load a server, from the beginning where an earlier load was interrupted: its time is that of the whole."""
    address = index_address(url, name)
    remove_indexes(address, f"{name}-*", keep=name)
    started = time.perf_counter()
    manifest = load_index(read_made(corpus), address, language="en")
    seconds = time.perf_counter() - started
    # A key without the right to monitor does not learn the size.
    size = facts_of(address)[0]["bytes"]
    figures: Figures = {"build_s": seconds, "found": manifest.passages}
    figures |= {} if size is None else {"disk_mb": size / 1e6}
    return {**figures, **server_memory(address)}


def server_memory(address: str) -> Figures:
    """The memory of the nodes of a cluster: their heaps as they are used, and all that their JVMs have reserved.

    The latter is the heap, the JVM's own memory and its buffers; files that the system keeps in memory are not in it.
    Nothing where the credentials do not allow to ask.
    """
    with connect(parse_address(address)) as client:
        stats = client.options(ignore_status=403).nodes.stats(metric="jvm")
    nodes = [node["jvm"] for node in stats["nodes"].values()] if "nodes" in stats else []
    if not nodes:
        return {}
    reserved = sum(node["buffer_pools"]["direct"]["total_capacity_in_bytes"] for node in nodes)
    reserved += sum(node["mem"][f"{kind}_committed_in_bytes"] for node in nodes for kind in ("heap", "non_heap"))
    heap = sum(node["mem"]["heap_used_in_bytes"] for node in nodes)
    return {"heap_mb": heap / 1e6, "server_mb": reserved / 1e6}


def search_server(corpus: Path, url: str, name: str, count: int, embedded: Path) -> Figures:
    """A server, and where there is an embedded index of the same passages, how much of its answers it shares."""
    content, natural = questions(corpus, count)
    retriever = ElasticsearchRetriever.open(index_address(url, name))
    figures: Figures = {}
    for kind, queries in (("kw", content), ("nl", natural)):
        figures |= latencies({kind: retriever.search}, queries)
    started = time.perf_counter()
    together = retriever.search_many(natural)
    figures["many_per_s"] = len(natural) / (time.perf_counter() - started)
    if embedded.exists():
        pairs = zip(together, open_index(embedded).search_many(natural), strict=True)
        shared = [len({hit.passage.id for hit in one} & {hit.passage.id for hit in other}) for one, other in pairs]
        figures["overlap"] = sum(shared) / (10 * len(shared))
    retriever.close()
    return figures


def disk_mb(path: Path) -> float:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / 1e6


def latencies(ways: Mapping[str, Callable[[str], object]], queries: Sequence[str]) -> Figures:
    """Median and 95th percentile in milliseconds, of several ways to search by what they are called.

    Each query is searched for in all ways, one after the other and in turns, so that other work on the machine meets
    all of them alike; a first round, which finds nothing in memory, does not count.
    """
    for query in queries[: max(10, len(queries) // 10)]:
        for search in ways.values():
            search(query)
    times: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for turn, query in enumerate(queries):
        for place in range(len(names)):
            name = names[(place + turn) % len(names)]
            started = time.perf_counter()
            ways[name](query)
            times[name].append(1000 * (time.perf_counter() - started))
    figures = {f"{name}_p50": statistics.median(one) for name, one in times.items()}
    return figures | {f"{name}_p95": statistics.quantiles(one, n=20)[-1] for name, one in times.items()}
