"""Builds and queries made passages on every engine, and says what 21,015,324 (the papers' Wikipedia) take in turn.

    python benchmarks/scale.py [--passages 1000000] [--queries 500] [--es-url http://localhost:9200] [--work FOLDER]

Words follow Zipf's law, the most frequent ones are English function words, and a passage has about 100 of them, so that
an engine has as much to do as for `psgs_w100.tsv`. Beside the embedded engine stand the calls of Tantivy alone, and
Elasticsearch where its address is given. Every step is a process of its own, whose peak of memory is reported. Exit
code 1: the embedded build took more than 1.5 times as long as the raw calls or 1,500 MB, or a query twice as long.
"""

import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import common
import numpy as np
from common import alone, remove_indexes, show, timed

from keqa.retrievers import Passage, build_index, open_index
from keqa.retrievers.elasticsearch.client import index_address
from keqa.retrievers.elasticsearch.retriever import ElasticsearchRetriever
from keqa.retrievers.elasticsearch.writing import load_index
from keqa.retrievers.engines import facts_of
from keqa.retrievers.local.index import make_document, make_schema
from keqa.retrievers.stopwords import ENGLISH
from keqa.retrievers.text import analyzer, settings_for

Figures = dict[str, Any]
WIKIPEDIA = 21_015_324
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


def questions(path: Path, count: int, seed: int = 1) -> dict[str, list[str]]:
    """Queries of five content words of one passage, and these among five function words, as in natural language."""
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
    return {"content words": content, "questions": natural}


def read_all(corpus: Path) -> Figures:
    seconds, found = timed(lambda: sum(1 for _ in read_made(corpus)))
    return {"found": found, "build_s": seconds}


def build_embedded(corpus: Path, folder: Path) -> Figures:
    seconds, manifest = timed(lambda: build_index(read_made(corpus), folder, language="en"))
    return {"build_s": seconds, "disk_mb": disk_mb(folder), "found": manifest.passages}


def build_raw(corpus: Path, folder: Path) -> Figures:
    """The calls of Tantivy alone: no cleaning, no check of ids, no hash, no manifest."""
    from tantivy import Index

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started = time.perf_counter()
    schema, language = make_schema(), settings_for("en").language
    index = Index(schema, path=str(folder))
    writer = index.writer(_HEAP, _THREADS)
    for passage in read_made(corpus):
        writer.add_document(make_document(passage, schema, language))
    writer.commit()
    writer.wait_merging_threads()
    seconds = time.perf_counter() - started
    index.reload()
    return {"build_s": seconds, "disk_mb": disk_mb(folder), "found": index.searcher().num_docs}


def raw_search(folder: Path) -> Callable[[str], list[Passage]]:
    """Searching by the calls of Tantivy alone: the same terms, ten hits, and their passages."""
    from tantivy import Index, Occur, Query

    settings, index, schema = settings_for("en"), Index.open(str(folder)), make_schema()
    words = analyzer(settings.language)

    def search(query: str) -> list[Passage]:
        clauses = []
        for term in words.analyze(query):
            clauses.append((Occur.Should, Query.term_query(schema, "text", term, "freq")))
            title = Query.term_query(schema, "title", term, "freq")
            clauses.append((Occur.Should, Query.boost_query(title, settings.title_weight)))
        searcher = index.searcher()
        found = searcher.search(Query.boolean_query(clauses), 10, count=False).hits
        documents = [searcher.doc(address) for _, address in found]
        return [Passage(*(str(one.get_first(name) or "") for name in ("doc_id", "title", "text"))) for one in documents]

    return search


def search_both(corpus: Path, embedded: Path, raw: Path, count: int) -> Figures:
    """Both over their own files, in turns. Function words are dropped by the embedded engine only."""
    ways = {"embedded": open_index(embedded).search, "raw": raw_search(raw)}
    found: Figures = {name: {} for name in ways}
    for kind, queries in questions(corpus, count).items():
        for name, times in latencies(ways, queries).items():
            found[name][kind] = times
    return found


def load_server(corpus: Path, url: str, name: str) -> Figures:
    """Load a server, from the beginning where an earlier load was interrupted: its time is that of the whole."""
    address = index_address(url, name)
    remove_indexes(address, f"{name}-*")
    seconds, manifest = timed(lambda: load_index(read_made(corpus), address, language="en"))
    # A key without the right to monitor does not learn the size.
    size = facts_of(address)[0]["bytes"]
    return {"build_s": seconds, "found": manifest.passages, "disk_mb": None if size is None else size / 1e6}


def search_server(corpus: Path, url: str, name: str, count: int, embedded: Path) -> Figures:
    """A server, and how much of its answers it shares with the embedded engine."""
    retriever = ElasticsearchRetriever(index_address(url, name))
    asked = questions(corpus, count)
    found: Figures = {kind: latencies({"": retriever.search}, queries)[""] for kind, queries in asked.items()}
    seconds, together = timed(lambda: retriever.search_many(asked["questions"]))
    found["many_per_s"] = count / seconds
    pairs = zip(together, open_index(embedded).search_many(asked["questions"]), strict=True)
    shared = [len({hit.passage.id for hit in one} & {hit.passage.id for hit in other}) for one, other in pairs]
    retriever.close()
    return {**found, "overlap": sum(shared) / (10 * count)}


def disk_mb(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def latencies(ways: Mapping[str, Callable[[str], object]], queries: Sequence[str]) -> dict[str, tuple[float, float]]:
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
            times[name].append(1000 * timed(partial(ways[name], query))[0])
    return {name: (statistics.median(one), statistics.quantiles(one, n=20)[-1]) for name, one in times.items()}


def row(name: str, passages: int, figures: Figures) -> dict[str, Any]:
    """The line of an engine; of one in proportion, memory stays empty, which the writer's heap bounds."""
    build = figures["build_s"]
    line = {"engine": name, "passages": passages, "build, s": build, "passages/s": round(passages / build)}
    line |= {"disk, MB": figures["disk_mb"], "peak, MB": figures["peak_mb"]}
    for kind in ("content words", "questions"):
        line |= {f"{kind} p50, ms": figures[kind][0], f"{kind} p95": figures[kind][1]}
    return line


def grown(figures: Figures, times: float) -> Figures:
    """What it would come to with so many times the passages."""
    found = {name: tuple(one * times for one in figures[name]) for name in ("content words", "questions")}
    disk = figures["disk_mb"]
    return {**found, "build_s": figures["build_s"] * times, "disk_mb": disk and disk * times, "peak_mb": None}


def main(arguments: list[str] | None = None) -> int:
    known = {"passages": 1_000_000, "queries": 500, "es_url": str, "work": Path("runs/scale")}
    given = common.options(__doc__, given=arguments, **known)
    count, work, name = given.passages, given.work, f"keqa-scale-{given.passages}"
    work.mkdir(parents=True, exist_ok=True)
    corpus, ours, theirs = (work / f"{kind}-{count}" for kind in ("made", "embedded", "raw"))
    if not corpus.exists():
        write_corpus(corpus, count)
    read, built, bare = alone(read_all, corpus), alone(build_embedded, corpus, ours), alone(build_raw, corpus, theirs)
    searched = alone(search_both, corpus, ours, theirs, given.queries)
    engines = {"embedded": {**searched["embedded"], **built}, "raw Tantivy calls": {**searched["raw"], **bare}}
    if given.es_url:
        loaded = alone(load_server, corpus, given.es_url, name)
        asked = alone(search_server, corpus, given.es_url, name, given.queries, ours)
        engines["Elasticsearch"] = {**asked, **loaded}
    assert all(figures["found"] == count for figures in (read, *engines.values()))
    rows = [row(engine, count, figures) for engine, figures in engines.items()]
    times = WIKIPEDIA / count
    show([*rows, *(row(f"{one}, in proportion", WIKIPEDIA, grown(of, times)) for one, of in engines.items())], digits=2)
    if given.es_url:
        print(
            f"Elasticsearch answers {asked['many_per_s']:,.0f} questions a second together, {asked['overlap']:.3f} of"
        )
        print(f"the ten best as the embedded engine; the index {name} stays on the server")
    print(f"of each build, {read['build_s']:.1f} s are the reading of the made passages")
    ratios = {"build": built["build_s"] / bare["build_s"], "CPU of the build": built["cpu_s"] / bare["cpu_s"]}
    ratios["query of content words"] = searched["embedded"]["content words"][0] / searched["raw"]["content words"][0]
    print("times what the raw calls take: " + ", ".join(f"{what} {ratio:.2f}" for what, ratio in ratios.items()))
    return int(ratios["build"] > 1.5 or ratios["query of content words"] > 2 or built["peak_mb"] > 1500)


if __name__ == "__main__":
    raise SystemExit(main())
