"""Builds and queries made passages on every engine, and says what the 21,015,324 of the papers' Wikipedia would take.

    python benchmarks/scale.py [--passages 1000000] [--queries 500] [--es-url http://localhost:9200] [--work FOLDER]

The passages are those of ``living.py`` with function words among the others, so that each has about 100 words. Beside
the embedded engine stand the calls of Tantivy alone, and Elasticsearch where its address is given. Every build is a
process of its own, whose peak of memory is reported. Exit code 1: the embedded build took more than 1.5 times as long
as the raw calls or 1,500 MB, or a query twice as long.
"""

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import numpy as np
from common import alone, options, remove_indexes, show, timed
from living import World, build
from tantivy import Index, Occur, Query

from keqa.retrievers import Hit, open_index, read_corpus
from keqa.retrievers.engines import facts_of
from keqa.retrievers.local.index import make_document, make_schema, stored_passage
from keqa.retrievers.text import analyzer, settings_for

WIKIPEDIA = 21_015_324
EMBEDDED, RAW = "embedded", "raw Tantivy calls"
# What the embedded engine takes, so that the calls alone do the same work.
HEAP, THREADS = 512_000_000, 2


def build_raw(folder: Path, name: str, sources: list[str], url: str | None) -> str:
    """The calls of Tantivy alone: no cleaning, no check of ids, no hash, no manifest."""
    (folder / name).mkdir()
    schema = make_schema()
    writer = Index(schema, path=str(folder / name)).writer(HEAP, THREADS)
    for passage in read_corpus(sources, notice=lambda text: None):
        writer.add_document(make_document(passage, schema, "en"))
    writer.commit()
    writer.wait_merging_threads()
    return str(folder / name)


def raw_search(folder: str) -> Any:
    """Searching by the calls of Tantivy alone: the same terms, ten hits, and their passages."""
    index, schema, weight, words = Index.open(folder), make_schema(), settings_for("en").title_weight, analyzer("en")

    def search(query: str) -> list[Hit]:
        clauses = []
        for term in words.analyze(query):
            text, title = (Query.term_query(schema, field, term, "freq") for field in ("text", "title"))
            clauses += [(Occur.Should, text), (Occur.Should, Query.boost_query(title, weight))]
        searcher = index.searcher()
        found = searcher.search(Query.boolean_query(clauses), 10, count=False).hits
        return [Hit(stored_passage(searcher.doc(address)), score) for score, address in found]

    return SimpleNamespace(search=search, search_many=lambda queries, k: [search(query) for query in queries])


def timed_build(engine: str, folder: Path, sources: list[str], url: str | None) -> dict[str, Any]:
    making = build_raw if engine == RAW else partial(build, engine)
    seconds, address = timed(lambda: making(folder, f"index-{engine}", sources, url))
    size = (
        sum(one.stat().st_size for one in Path(address).rglob("*")) if engine == RAW else facts_of(address)[0]["bytes"]
    )
    # A key without the right to monitor a cluster does not learn the size.
    return {"address": address, "seconds": seconds, "disk": size and size / 1e6}


def latencies(ways: dict[str, Any], queries: Sequence[str]) -> dict[str, Any]:
    """Median and 95th percentile in milliseconds, of all ways in turns, so that other work meets them alike."""
    names, times = list(ways), defaultdict(list)
    # A first round, which finds nothing in memory, does not count.
    warm_up = max(10, len(queries) // 10)
    for turn, query in enumerate([*queries[:warm_up], *queries]):
        for place in range(len(names)):
            name = names[(place + turn) % len(names)]
            times[name].append(1000 * timed(partial(ways[name].search, query))[0])
    return {name: np.percentile(some[warm_up:], (50, 95)) for name, some in times.items()}


def main(arguments: list[str] | None = None) -> int:
    given = options(__doc__, given=arguments, passages=1_000_000, queries=500, es_url=str, work=Path)
    with tempfile.TemporaryDirectory(dir=given.work) as temporary:
        return measure(Path(temporary), given)


def measure(folder: Path, given: Any) -> int:
    world = World(folder / "files", given.passages, natural=True)
    engines = [EMBEDDED, RAW, *(["elasticsearch"] if given.es_url else [])]
    built = {one: alone(timed_build, one, folder, world.sources, given.es_url) for one in engines}
    ways = {name: (raw_search if name == RAW else open_index)(of["address"]) for name, of in built.items()}
    asked = {"content words": world.questions(given.queries), "questions": world.questions(given.queries, 5)}
    took = {kind: latencies(ways, queries) for kind, queries in asked.items()}
    together = {name: timed(partial(way.search_many, asked["questions"], 10)) for name, way in ways.items()}
    best = {name: [{hit.passage.id for hit in hits} for hits in found] for name, (_, found) in together.items()}
    rows = []
    for times, name in product((1.0, WIKIPEDIA / given.passages), engines):
        of, row = built[name], {"engine": name, "passages": round(given.passages * times)}
        row |= {"build, s": of["seconds"] * times, "disk, MB": of["disk"] and of["disk"] * times}
        row |= {"peak, MB": of["peak_mb"] if times == 1 else None}
        for kind, seconds in took.items():
            row |= dict(zip((f"{kind} p50, ms", f"{kind} p95"), seconds[name] * times, strict=True))
        shared = fmean(len(ours & theirs) / 10 for ours, theirs in zip(best[name], best[EMBEDDED], strict=True))
        rows.append(row | {"questions/s together": given.queries / together[name][0] / times, "same ten": shared})
    if given.es_url:
        remove_indexes(built["elasticsearch"]["address"], f"keqa-living-{folder.name}-*")
    show(rows, digits=2)
    ours, raw = (built[name] for name in (EMBEDDED, RAW))
    query = float(np.divide(*(took["content words"][name][0] for name in (EMBEDDED, RAW))))
    ratios = {"build": ours["seconds"] / raw["seconds"], "CPU of the build": ours["cpu_s"] / raw["cpu_s"]}
    ratios["query of content words"] = query
    print("times what the raw calls take: " + ", ".join(f"{what} {ratio:.2f}" for what, ratio in ratios.items()))
    return int(ratios["build"] > 1.5 or query > 2 or ours["peak_mb"] > 1500)


if __name__ == "__main__":
    raise SystemExit(main())
