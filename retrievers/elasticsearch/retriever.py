"""The retriever over an index in Elasticsearch."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keqa.errors import InputError, RetrievalError
from keqa.retrievers.base import Hit, Retriever, checked_k
from keqa.retrievers.elasticsearch.address import Address, parse_address
from keqa.retrievers.elasticsearch.client import connect, problem, server_errors
from keqa.retrievers.elasticsearch.lifecycle import Indexes, manifest_of
from keqa.retrievers.elasticsearch.loading import count_passages
from keqa.retrievers.elasticsearch.mapping import MOST_HITS, check_analyzer, passage_of, query_body
from keqa.retrievers.manifest import Manifest

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

# Queries of one request, and the hits that one request may bring.
_BATCH = 100
_BATCH_HITS = 20_000
# An answer that lacks a part of the index is asked for again after .1, .2, .4 ... seconds: a copy of that part takes
# over within seconds after a node is lost.
_ATTEMPTS = 8
_PAUSE = 0.1
_REPLACED = 3


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """What a cluster says about an index.

    Attributes:
        version: Of the server.
        index: Name of the index behind the name that users give.
        passages: How many passages it holds.
        bytes: Disk space of all its copies.
        shards: How many parts it has.
        replicas: How many copies there are of each part, besides it.
        health: ``"green"``; ``"yellow"`` while copies are missing; ``"red"`` while parts of the index are.
    """

    version: str
    index: str
    passages: int
    bytes: int
    shards: int
    replicas: int
    health: str


class ElasticsearchRetriever(Retriever):
    """BM25 over title and text of an index in Elasticsearch, as the paper's retriever (Section 4.1).

    Safe to use from many threads. When the index is replaced by a new load, searches go on in the new one, all queries
    of one call in the same; :attr:`manifest` tells which it is.
    """

    def __init__(self, address: Address, client: Elasticsearch, manifest: Manifest) -> None:
        """Take over a connection; use :meth:`open`."""
        self._address = address
        self._client = client
        self._manifest = manifest
        self._lock = threading.Lock()

    @classmethod
    def open(cls, address: str) -> ElasticsearchRetriever:
        """Open a finished index.

        Args:
            address: ``elasticsearch://host:9200/name``; see :mod:`keqa.retrievers.elasticsearch`.

        Raises:
            InputError: The address is none, or holds credentials.
            ConfigurationError: Credentials, certificate or version do not fit.
            MissingExtraError: The client is not installed.
            RetrievalError: The cluster cannot be reached, or there is no finished index, or its manifest is not true.
        """
        target = parse_address(address)
        client = connect(target)
        try:
            return cls(target, client, _checked(client, target))
        except BaseException:
            client.close()
            raise

    @property
    def address(self) -> str:
        """Where the index is."""
        return str(self._address)

    @property
    def manifest(self) -> Manifest:
        """What the index that was searched last says about itself."""
        return self._manifest

    def reload(self) -> Manifest:
        """See the index that the name stands for now."""
        with self._lock:
            self._manifest = _checked(self._client, self._address)
        return self._manifest

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """Return at most ``k`` passages, best first; equal scores are ordered by id.

        Args:
            query: Any text; nothing in it is an operator.
            k: How many passages.

        Raises:
            InputError: ``k`` is less than 1, or more than Elasticsearch gives.
            ConfigurationError: The credentials are not accepted any more.
            RetrievalError: The search failed, or parts of the index did not answer.
        """
        return self.search_many([query], k)[0]

    def search_many(self, queries: Sequence[str], k: int = 10) -> list[list[Hit]]:
        """Return the hits of each query, many queries in one request."""
        checked_k(k)
        for _ in range(_REPLACED):
            manifest = self._manifest
            try:
                return self._search(manifest, queries, k)
            except _ReplacedError:
                if self.reload().data == manifest.data:
                    break
        raise RetrievalError(f"the index {self._address.name} at {self._address.cluster} is gone, or always replaced")

    def _search(self, manifest: Manifest, queries: Sequence[str], k: int) -> list[list[Hit]]:
        limit = min(k, manifest.passages)
        if limit > MOST_HITS:
            raise InputError(f"Elasticsearch finds {MOST_HITS} passages at most for a question, not {k}")
        found: list[list[Hit]] = [[] for _ in queries]
        bodies = (query_body(query, manifest.analyzer, limit) for query in queries)
        asked = ((position, body) for position, body in enumerate(bodies) if body is not None)
        size = max(1, min(_BATCH, _BATCH_HITS // limit))
        while batch := dict(itertools.islice(asked, size)):
            for position, hits in self._answers(manifest.data, batch).items():
                found[position] = [Hit(passage_of(hit["_source"]), float(hit["_score"])) for hit in hits]
        return found

    def _answers(self, data: str, bodies: dict[int, dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
        """The hits of each request; those that fail in passing are sent again, the others are kept."""
        header = {"index": data, "search_type": "dfs_query_then_fetch", "allow_partial_search_results": False}
        found: dict[int, list[dict[str, Any]]] = {}
        waiting, why = dict(bodies), ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_PAUSE * 2 ** (attempt - 1))
            with server_errors(self._address, f"searching the index {self._address.name} failed"):
                lines = [line for body in waiting.values() for line in (header, body)]
                answers = self._client.msearch(searches=lines)["responses"]
            for position, answer in zip(list(waiting), answers, strict=True):
                failure = self._failure(answer)
                if failure:
                    why = failure
                else:
                    found[position] = answer["hits"]["hits"]
                    del waiting[position]
            if not waiting:
                return found
        raise RetrievalError(f"searching the index {self._address.name} failed {_ATTEMPTS} times: {why}")

    def _failure(self, answer: dict[str, Any]) -> str:
        """Why an answer does not count, for now; empty where it is complete.

        Raises:
            _ReplacedError: The index is gone.
            RetrievalError: Asking again cannot help.
        """
        status, text = answer.get("status", 200), problem(answer)
        if status == 404:
            raise _ReplacedError
        if "error" in answer:
            if status != 429 and status < 500:
                raise RetrievalError(f"searching the index {self._address.name} failed: {status} ({text})")
            return f"{status} ({text})"
        if failed := answer["_shards"]["failed"]:
            return f"{failed} of {answer['_shards']['total']} parts of the index did not answer"
        return "the search was cut off because it took too long" if answer["timed_out"] else ""

    def facts(self) -> IndexFacts:
        """Ask the cluster about the index."""
        data = self._manifest.data
        passages = count_passages(self._client, self._address, data)
        with server_errors(self._address, f"the cluster could not be asked about the index {data}"):
            stats = self._client.indices.stats(index=data, metric="store")
            health = self._client.cluster.health(index=data)
            settings = self._client.indices.get_settings(index=data)[data]["settings"]["index"]
            version = self._client.info()["version"]["number"]
        return IndexFacts(
            version=str(version),
            index=data,
            passages=passages,
            bytes=int(stats["_all"]["total"]["store"]["size_in_bytes"]),
            shards=int(settings["number_of_shards"]),
            replicas=int(settings["number_of_replicas"]),
            health=str(health["status"]),
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __deepcopy__(self, memo: dict[int, object]) -> ElasticsearchRetriever:
        """Return itself: copies of a program share the connections."""
        return self


class _ReplacedError(Exception):
    """The index that was searched is not there any more."""


def _checked(client: Elasticsearch, address: Address) -> Manifest:
    """Return the manifest of the index that a name stands for, and make sure that it is true."""
    indexes = Indexes(client, address)
    found = indexes.found(address.name)
    where = f"the index {address.name} at {address.cluster}"
    if not found:
        if indexes.unfinished():
            raise RetrievalError(
                f"{where} is not finished: its load is still running, or was interrupted. Run `keqa index` again to "
                "go on with it"
            )
        raise RetrievalError(
            f"there is no index {address.name} at {address.cluster}. Load one with `keqa index SOURCE --engine "
            f"elasticsearch --url {address.urls[0]} --name {address.name}`"
        )
    if len(found) > 1:
        raise RetrievalError(f"{where} is an alias of several indexes: {', '.join(sorted(found))}")
    ((data, state),) = found.items()
    manifest = manifest_of(data, state, where)
    check_analyzer(manifest.analyzer, where)
    passages = count_passages(client, address, data)
    if passages != manifest.passages:
        raise RetrievalError(
            f"{where} is not complete: its manifest tells of {manifest.passages} passages, it holds {passages}. "
            "Load it again"
        )
    return manifest
