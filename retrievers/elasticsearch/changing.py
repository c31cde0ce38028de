"""Changing an index in Elasticsearch: a clone of it is changed, verified, and takes its place.

A clone shares the files of the index that it was made from, so that it takes no longer for a large one. The state
before stays until the next change: who searches it is not disturbed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from keqa.errors import ConfigurationError, RetrievalError
from keqa.retrievers.base import Passage
from keqa.retrievers.changes import Change, manifest_after
from keqa.retrievers.dense.encoding import Encoder
from keqa.retrievers.elasticsearch.address import Address, address_and_model, dense_address, is_dense
from keqa.retrievers.elasticsearch.client import connect, server_errors
from keqa.retrievers.elasticsearch.lifecycle import Indexes, Load
from keqa.retrievers.elasticsearch.loading import refused, written
from keqa.retrievers.elasticsearch.mapping import FIELDS, FILE, VECTOR, document, key, passage_of
from keqa.retrievers.elasticsearch.vectors import VectorManifest, check_same, encoded, with_vectors
from keqa.retrievers.files import FileChange, FileEntry, Origin
from keqa.retrievers.manifest import Manifest

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

_BATCH = 500
# So many of the passages that were written are read back.
_READ_BACK = 1000


class _ElasticsearchChanger:
    """An index in Elasticsearch that is open to be changed; see `keqa.retrievers.changes.Changer`."""

    def __init__(self, client: Elasticsearch, address: Address, manifest: Manifest, model: str | None = None) -> None:
        """Use `changing`."""
        self._model = model
        self._client, self._address = client, address
        self._indexes = Indexes(client, address)
        self._manifest = manifest
        # Which ids are there: nothing is written to a finished index, so that none needs to be asked for twice.
        self._known: dict[str, bool] = {}

    @property
    def manifest(self) -> Manifest:
        return self._manifest

    def files(self, tops: Sequence[str] | None = None) -> dict[str, FileEntry] | None:
        return self._indexes.files(self._manifest.data, tops)

    def ids_of(self, path: str) -> list[str]:
        return self._indexes.ids(self._manifest.data, {"term": {FILE: path}})

    def holders(self, ids: Iterable[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for passage_id, source in self._indexes.stored(self._manifest.data, list(ids), ["doc_id", FILE]).items():
            if FILE in source:
                found.setdefault(source[FILE], []).append(passage_id)
        return found

    def held(self, ids: Sequence[str]) -> set[str]:
        unknown = [one for one in dict.fromkeys(ids) if one not in self._known]
        found = self._indexes.stored(self._manifest.data, unknown, ["doc_id"])
        self._known |= {one: one in found for one in unknown}
        return {one for one in ids if self._known[one]}

    def stored(self, ids: Sequence[str]) -> dict[str, Passage]:
        found = self._indexes.stored(self._manifest.data, ids, FIELDS)
        self._known |= {one: one in found for one in ids}
        return {one: passage_of(source) for one, source in found.items()}

    def pieces(self, document: str) -> list[str]:
        return self._indexes.ids(self._manifest.data, {"prefix": {"doc_id": f"{document}#"}}) if document else []

    def apply(self, change: Change) -> Manifest:
        """Change a clone of the index, make sure that it is as it should be, and let the name stand for it."""
        before, indexes = self._manifest, self._indexes
        replaced = self.held([passage.id for passage in change.new])
        # First, as a model that is another one is refused before anything is done.
        encoder = self._encoder() if change.new and isinstance(before, VectorManifest) else None
        replicas, load = indexes.replicas(before.data), Load.change(before)
        deleted = before.deleted + len(replaced) + len(change.gone)
        leaving = self.stored([*change.gone, *replaced]).values()
        after = manifest_after(before, change, replaced, leaving, data=load.data, deleted=deleted)
        earlier = indexes.earlier(before.data)
        indexes.clone(before.data, load, after)
        for result in written(self._client, self._address, _actions(load, change, encoder), _BATCH):
            if result["status"] != 404:
                raise refused(load.name, result, self._address)
        self._verify(after, change)
        if after.is_worn:
            indexes.merge(load.data)
            after = dataclasses.replace(after, deleted=0)
            indexes.note(load, owner=load.owner, manifest=after)
        indexes.publish(load, after, replicas, instead_of=before.data, removing=earlier)
        self._manifest, self._known = after, {}
        return after

    def _verify(self, after: Manifest, change: Change) -> None:
        found = self._indexes.count(after.data, refresh=True)
        some = change.new[:_READ_BACK]
        stored = self._indexes.stored(after.data, [passage.id for passage in some], FIELDS)
        same = all(passage_of(stored[one.id]) == one for one in some if one.id in stored)
        is_dense = isinstance(after, VectorManifest)
        vectors = self._indexes.count(after.data, vectors=True) if is_dense else after.passages
        if (found, vectors, same) != (after.passages, after.passages, True):
            self._indexes.remove(after.data)
            counted = f"{found} are" + (f", {vectors} of them with a vector" if is_dense else "")
            raise RetrievalError(
                f"the changed index {after.name} did not pass its verification: {after.passages} passages should be in "
                f"it and {counted}. The index stays as it was"
            )

    def _encoder(self) -> Encoder:
        """The model of the passages, which gives the vectors that the index has."""
        manifest, where = self._manifest, dense_address(self._address)
        encoder = Encoder.open_for_passages(with_vectors(manifest, where).encoder, where, self._model)
        with server_errors(self._address, f"the index {manifest.data} could not be read"):
            hits = self._client.search(index=manifest.data, size=1)["hits"]["hits"]
        for source in (hit["_source"] for hit in hits):
            check_same(encoder, passage_of(source), source.get(VECTOR, ()), f"the index {where}")
        return encoder


def _actions(load: Load, change: Change, encoder: Encoder | None) -> Iterator[dict[str, Any]]:
    """What is written, as the client takes it; passages that stay keep their vectors."""
    origins = {
        one: Origin(path, file.digest)
        for path, file in change.files.items()
        if isinstance(file, FileChange)
        for one in file.ids
    }
    for passage_id in change.gone:
        yield {"_op_type": "delete", "_index": load.alias, "_id": key(passage_id)}
    # What stays as it is has the digest of its file beside it, which is another.
    for passage in change.kept:
        source = document(passage, origins.get(passage.id))
        yield {"_op_type": "update", "_index": load.alias, "_id": key(passage.id), "doc": source}
    for start in range(0, len(change.new), _BATCH):
        some = change.new[start : start + _BATCH]
        vectors = None if encoder is None else encoded(encoder, some)
        for place, passage in enumerate(some):
            whole: dict[str, Any] = {**document(passage, origins.get(passage.id))}
            if vectors is not None:
                whole[VECTOR] = vectors[place]
            yield {"_op_type": "index", "_index": load.alias, "_id": key(passage.id), "_source": whole}


@contextmanager
def changing(address: str, model: str | None = None) -> Iterator[_ElasticsearchChanger]:
    """Open an index to change it. Of two that change it at once, the first to end does; the other one fails.

    Args:
        address: ``elasticsearch://host:9200/name``; of one with vectors ``elasticsearch+dense://host:9200/name@model``,
            so that it is changed once where both are joined in an address.
        model: The model of its passages, where the address does not name it.

    Raises:
        InputError: The address is none, or holds credentials.
        ConfigurationError: Credentials, certificate or version do not fit, or it has vectors and the address is that
            of its text, or the other way round.
        MissingExtraError: The client is not installed.
        RetrievalError: The cluster cannot be reached, or there is no finished index.
    """
    target, named = address_and_model(address)
    client = connect(target)
    try:
        manifest, dense = Indexes(client, target).manifest(), dense_address(target)
        if is_dense(address):
            with_vectors(manifest, f"the index {dense}")
        elif isinstance(manifest, VectorManifest):
            raise ConfigurationError(
                f"the index {target} has vectors, which change with its text: change it as {dense}, or as "
                f"{dense}@MODEL where MODEL, which made them, does not come as a package"
            )
        yield _ElasticsearchChanger(client, target, manifest, named or model)
    finally:
        client.close()
