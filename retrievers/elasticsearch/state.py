"""An index as it stands in its cluster: whether it can be searched, and what the cluster says about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from keqa.errors import RetrievalError
from keqa.retrievers.elasticsearch.address import Address
from keqa.retrievers.elasticsearch.client import server_errors
from keqa.retrievers.elasticsearch.lifecycle import Indexes
from keqa.retrievers.elasticsearch.mapping import check_analyzer
from keqa.retrievers.elasticsearch.records import manifest_of
from keqa.retrievers.elasticsearch.verification import count_passages
from keqa.retrievers.manifest import Manifest

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """What a cluster says about an index; None for what the credentials do not allow to ask.

    Attributes:
        version: Of the server.
        index: Name of the index behind the name that users give.
        passages: How many passages it holds.
        bytes: Disk space of all its copies.
        shards: How many parts it has.
        replicas: How many copies there are of each part, besides it.
        health: ``"green"``; ``"yellow"`` while copies are missing; ``"red"`` while parts of the index are.
    """

    version: str | None
    index: str
    passages: int
    bytes: int | None
    shards: int
    replicas: int
    health: str | None


def checked_manifest(client: Elasticsearch, address: Address) -> Manifest:
    """Return the manifest of the index that a name stands for, and make sure that it is true.

    Raises:
        RetrievalError: There is no finished index, or its manifest is not true of it.
    """
    indexes = Indexes(client, address)
    found = indexes.found(address.name)
    where = f"the index {address.name} at {address.cluster}"
    if not found:
        if indexes.unfinished():
            raise RetrievalError(
                f"{where} is not finished: its load is still running, or was interrupted. Run `keqa index` again to "
                "resume it"
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
            f"{where} is not complete: its manifest says {manifest.passages} passages, it holds {passages}. "
            "Load it again"
        )
    return manifest


def index_facts(client: Elasticsearch, address: Address, data: str) -> IndexFacts:
    """Ask a cluster about an index, as far as the credentials allow it.

    Raises:
        ConfigurationError: They do not even allow to see its settings.
        RetrievalError: The cluster did not answer.
    """
    passages = count_passages(client, address, data)
    with server_errors(address, f"the cluster could not be asked about the index {data}"):
        settings = client.indices.get_settings(index=data)[data]["settings"]["index"]
        # Who may search an index need not have the privilege monitor on it, nor on the cluster.
        free = client.options(ignore_status=403)
        stats = free.indices.stats(index=data, metric="store")
        health = free.cluster.health(index=data)
        about = free.info()
    return IndexFacts(
        version=about["version"]["number"] if "version" in about else None,
        index=data,
        passages=passages,
        bytes=int(stats["_all"]["total"]["store"]["size_in_bytes"]) if "_all" in stats else None,
        shards=int(settings["number_of_shards"]),
        replicas=int(settings["number_of_replicas"]),
        # A refusal has a status too, its number.
        health=health["status"] if "cluster_name" in health else None,
    )
