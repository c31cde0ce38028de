"""BM25 at scale: the embedded engine, the calls of Tantivy alone, and Elasticsearch."""

from __future__ import annotations

import shutil
import time
from contextlib import closing
from pathlib import Path

from keqa.retrievers import Passage, build_index, open_index
from keqa.retrievers.local.index import make_document, make_schema
from keqa.retrievers.text import AnalyzerSettings, analyzer, settings_for
from scaling.corpus import VOCABULARY, questions, read_made, write_corpus
from scaling.steps import Figures, disk_mb, latencies, named

# What the embedded engine takes, so that the calls alone do the same work.
_HEAP, _THREADS = 512_000_000, 2


def make(path: Path, passages: int, words: int = VOCABULARY) -> Figures:
    """Write the corpus, and read it alone: the time that every build below spends on its source."""
    if not path.exists():
        write_corpus(path, passages, words=words)
    started = time.perf_counter()
    found = sum(1 for _ in read_made(path))
    assert found == passages, f"{path} holds {found} passages: remove it"
    return {"build_s": time.perf_counter() - started, "disk_mb": disk_mb(path)}


def build_embedded(corpus: Path, folder: Path) -> Figures:
    """Through the public API, to a published index."""
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

        self._settings: AnalyzerSettings = settings_for("en")
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
        ours, theirs = latencies([one.search, other.search], queries)
        figures |= named(kind, ours) | named(f"raw_{kind}", theirs)
    return figures


def load_server(corpus: Path, url: str, name: str) -> Figures:
    """Load a server, from the beginning where an earlier load was interrupted: its time is that of the whole."""
    from keqa.retrievers.elasticsearch import ElasticsearchRetriever, index_address, load_index
    from keqa.retrievers.elasticsearch.address import parse_address
    from keqa.retrievers.elasticsearch.client import connect

    address = index_address(url, name)
    with closing(connect(parse_address(address))) as client:
        for index, entry in client.indices.get(index=f"{name}-*").items():
            if name not in entry["aliases"]:
                client.indices.delete(index=index)
    started = time.perf_counter()
    manifest = load_index(read_made(corpus), address, language="en")
    seconds = time.perf_counter() - started
    retriever = ElasticsearchRetriever.open(address)
    # A key without the right to monitor does not learn the size.
    size = retriever.facts()["bytes"]
    figures: Figures = {"build_s": seconds, "found": manifest.passages}
    figures |= {} if size is None else {"disk_mb": size / 1e6}
    retriever.close()
    return {**figures, **server_memory(address)}


def server_memory(address: str) -> Figures:
    """The memory of the nodes of a cluster: their heaps as they are used, and all that their JVMs have reserved.

    The latter is the heap, the JVM's own memory and its buffers; files that the system keeps in memory are not in it.
    Nothing where the credentials do not allow to ask.
    """
    from keqa.retrievers.elasticsearch.address import parse_address
    from keqa.retrievers.elasticsearch.client import connect

    client = connect(parse_address(address))
    stats = client.options(ignore_status=403).nodes.stats(metric="jvm")
    client.close()
    nodes = [node["jvm"] for node in stats["nodes"].values()] if "nodes" in stats else []
    if not nodes:
        return {}
    heap = sum(node["mem"]["heap_used_in_bytes"] for node in nodes)
    reserved = sum(
        node["mem"]["heap_committed_in_bytes"]
        + node["mem"]["non_heap_committed_in_bytes"]
        + node["buffer_pools"]["direct"]["total_capacity_in_bytes"]
        for node in nodes
    )
    return {"heap_mb": heap / 1e6, "server_mb": reserved / 1e6}


def search_server(corpus: Path, url: str, name: str, count: int, embedded: Path) -> Figures:
    """A server, and where there is an embedded index of the same passages, how much of its answers it shares."""
    from keqa.retrievers.elasticsearch import ElasticsearchRetriever, index_address

    content, natural = questions(corpus, count)
    retriever = ElasticsearchRetriever.open(index_address(url, name))
    figures: Figures = {}
    for kind, queries in (("kw", content), ("nl", natural)):
        figures |= named(kind, latencies([retriever.search], queries)[0])
    started = time.perf_counter()
    together = retriever.search_many(natural)
    figures["many_per_s"] = len(natural) / (time.perf_counter() - started)
    if embedded.exists():
        pairs = zip(together, open_index(embedded).search_many(natural), strict=True)
        shared = [len({hit.passage.id for hit in one} & {hit.passage.id for hit in other}) for one, other in pairs]
        figures["overlap"] = sum(shared) / (10 * len(shared))
    retriever.close()
    return figures
