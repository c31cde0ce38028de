"""The retrievers over an index in Elasticsearch: by its text, and by its vectors."""

import dataclasses
import itertools
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from keqa.errors import InputError, KeqaError, RetrievalError
from keqa.retrievers.base import Hit, SharedRetriever, checked_k
from keqa.retrievers.elasticsearch import mapping
from keqa.retrievers.elasticsearch.client import connect, may_pass, parse_address, problem, server_errors
from keqa.retrievers.elasticsearch.generation import Generations
from keqa.retrievers.elasticsearch.mapping import VectorManifest
from keqa.retrievers.embedding import Encoder
from keqa.retrievers.manifest import Manifest
from keqa.retrievers.text import clean_text

# Queries of one request, and the hits that one request may bring.
_BATCH = 100
_BATCH_HITS = 20_000
# What fails in passing is asked for again after .1, .2, .4 ... seconds: a copy of a part of the index takes over within
# seconds after a node is lost, and on busy machines within a minute.
_PATIENCE = 90.0
_PAUSE, _LONGEST_PAUSE = 0.1, 3.0
_REPLACED = 3


class ElasticsearchRetriever(SharedRetriever):
    """BM25 over title and text of an index in Elasticsearch, as the paper's retriever (Section 4.1).

    Safe to use from many threads. When the index is replaced by a new load, searches continue in the new one, all
    queries of one call in the same; :attr:`manifest` says which it is.
    """

    def __init__(self, address: str, model: str | None = None) -> None:
        """Open a finished index, and with its vectors their model; see `keqa.retrievers.embedding.Encoder`."""
        self._address = parse_address(address)
        self._model, self._lock = self._address.model or model, threading.Lock()
        self._client = connect(self._address)
        self._generations = Generations(self._client, self._address)
        try:
            # What the index says about itself, and where its vectors are searched the model of questions.
            self._state: tuple[Manifest, Encoder | None] = self._opened()
        except BaseException:
            self.close()
            raise

    def _opened(self) -> tuple[Manifest, Encoder | None]:
        manifest = self._generations.manifest()
        # Of one with vectors, what it says about its text.
        return Manifest(**{one.name: getattr(manifest, one.name) for one in dataclasses.fields(Manifest)}), None

    @property
    def address(self) -> str:
        return str(self._address)

    @property
    def manifest(self) -> Manifest:
        """What the index that was searched last says about itself, as far as this retriever searches it."""
        return self._state[0]

    def reload(self) -> Manifest:
        with self._lock:
            self._state = self._opened()
        return self.manifest

    def search_many(self, queries: Sequence[str], k: int = 10) -> list[list[Hit]]:
        checked_k(k)
        for again in range(_REPLACED):
            manifest, encoder = self._state
            try:
                return self._search(manifest, encoder, queries, k)
            except RetrievalError:
                # While an index is being replaced, its shards close one by one and refuse in more than one way.
                with suppress(KeqaError):
                    self.reload()
                if self.manifest.data == manifest.data or again + 1 == _REPLACED:
                    raise
        raise AssertionError("the last search gives hits or fails")

    def _search(self, manifest: Manifest, encoder: Encoder | None, queries: Sequence[str], k: int) -> list[list[Hit]]:
        limit = min(k, manifest.passages)
        if limit > mapping.MOST_HITS:
            raise InputError(f"Elasticsearch finds {mapping.MOST_HITS} passages at most for a question, not {k}")
        if encoder is not None:
            texts = [text if any(map(str.isalnum, text)) else "" for text in map(clean_text, queries)]
            rows = iter(encoder.queries(asked) if (asked := [*filter(None, texts)]) else ())
            near = ((place, mapping.knn_body(next(rows), limit)) for place, text in enumerate(texts) if text)
            found = self._found(manifest.data, near, limit, encoder.settings.similarity)
            return [found.get(place, []) for place in range(len(queries))]
        found = {}
        for body in (mapping.query_body, mapping.mistyped_body):
            left = (place for place in range(len(queries)) if not found.get(place))
            bodies = ((place, body(queries[place], manifest.analyzer, limit)) for place in left)
            found |= self._found(manifest.data, bodies, limit)
        return [found.get(place, []) for place in range(len(queries))]

    def _found(
        self, data: str, bodies: Iterable[tuple[int, dict[str, Any] | None]], limit: int, similarity: str | None = None
    ) -> dict[int, list[Hit]]:
        """The hits of each request, in a few calls; None is a query that has nothing to search for."""
        found: dict[int, list[Hit]] = {}
        # Vectors are not sent back.
        wanted = {"_source": list(mapping.PASSAGE)}
        sent = ((place, body | wanted) for place, body in bodies if body is not None)
        while batch := dict(itertools.islice(sent, max(1, min(_BATCH, _BATCH_HITS // limit)))):
            for place, hits in self._answers(data, batch).items():
                scored = ((one["_source"], mapping.score_of(similarity, float(one["_score"]))) for one in hits)
                found[place] = [Hit(mapping.passage_of(source), score) for source, score in scored]
        return found

    def _answers(self, data: str, bodies: dict[int, dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
        """The hits of each request; those that fail in passing are sent again, the others are kept."""
        found: dict[int, list[dict[str, Any]]] = {}
        pause, end = _PAUSE, time.monotonic() + _PATIENCE
        while failure := self._ask(data, {place: body for place, body in bodies.items() if place not in found}, found):
            if time.monotonic() + pause > end:
                raise RetrievalError(f"{failure} (asked again for {_PATIENCE:.0f} seconds)") from failure.__cause__
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return found

    def _ask(
        self, data: str, bodies: dict[int, dict[str, Any]], found: dict[int, list[dict[str, Any]]]
    ) -> RetrievalError | None:
        """Add the hits of each request to those that were found; return what may pass where some of them failed."""
        header = {"index": data, "search_type": "dfs_query_then_fetch", "allow_partial_search_results": False}
        lines = [line for body in bodies.values() for line in (header, body)]
        failed, why = f"searching the index {self._address.name} failed", ""
        try:
            with server_errors(self._address, failed):
                answers = self._client.msearch(searches=lines)["responses"]
        except RetrievalError as error:
            if not may_pass(error):
                raise
            return error
        for place, answer in zip(bodies, answers, strict=True):
            status, text = answer.get("status", 200), problem(answer, self._address)
            if "error" not in answer and not answer["_shards"]["failed"] and not answer["timed_out"]:
                found[place] = answer["hits"]["hits"]
            elif "error" not in answer:
                shards = answer["_shards"]
                parts = f"{shards['failed']} of {shards['total']} parts of the index did not answer"
                why = parts if shards["failed"] else "the search was cut off because it took too long"
            # 404 is also the answer for a part of the index, or a search in it, that a node lost.
            elif "index_not_found" not in str(answer["error"]) and (status in (404, 429) or status >= 500):
                why = f"{status} ({text})"
            else:
                raise RetrievalError(f"{failed}: {status} ({text})")
        return RetrievalError(f"{failed}: {why}") if why else None

    def close(self) -> None:
        self._client.close()


class ElasticsearchDenseRetriever(ElasticsearchRetriever):
    """Passages by the cosine or inner product of their vectors with a question's, found by approximate kNN (HNSW)."""

    def _opened(self) -> tuple[VectorManifest, Encoder]:
        manifest = mapping.with_vectors(self._generations.manifest(), f"the index {self.address}")
        before, encoder = getattr(self, "_state", (manifest, None))
        # Another one is opened only where the index was loaded with another one.
        if encoder is None or (before.encoder, before.probe) != (manifest.encoder, manifest.probe):
            encoder = Encoder.recognised(manifest.encoder, manifest.probe, self.address, self._model)
        return manifest, encoder
