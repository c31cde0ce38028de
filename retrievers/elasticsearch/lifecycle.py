"""An index in a cluster: its states, recorded in the ``_meta`` of its mapping, and what the cluster says about it.

::

    wikipedia                      alias of the finished index: what users name
    wikipedia-3f2a91c04b7d         an index; ``_meta.keqa`` is its manifest or, until then, the record of its load
    wikipedia-3f2a91c04b7d-load    alias that the load writes through, until the index is published

The one step that publishes an index is the switch of the alias, so a loader killed at any moment leaves either the
index as it was or the new one, complete; until then, the next loader can resume. A load writes through an alias of its
own because Elasticsearch creates an index that is written to and not there: what is left of a load must not bring back
the index that another removed.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keqa.errors import InputError, KeqaError, RetrievalError
from keqa.retrievers.base import Passage
from keqa.retrievers.elasticsearch.address import Address
from keqa.retrievers.elasticsearch.client import problem, server_errors, timeout
from keqa.retrievers.elasticsearch.mapping import (
    DIGEST,
    FIELDS,
    FILE,
    FILE_FIELDS,
    LOADING,
    VECTOR,
    check_analyzer,
    field_mappings,
    key,
)
from keqa.retrievers.elasticsearch.vectors import VectorManifest, vector_field
from keqa.retrievers.files import FileEntry
from keqa.retrievers.layout import refuse_other_sources
from keqa.retrievers.manifest import FORMAT, Manifest

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

_META: Final = "keqa"
_LOAD: Final = "keqa-load"
# In the plan of a load that changes an index, and of no other.
_CHANGED: Final = "changed"
_PAGE: Final = 1000
# Each page of files goes through all passages again; a cluster gives 65,536 at most by default.
_FILES_PAGE: Final = 10_000
_MERGE_TIMEOUT: Final = 3600
# Copies are made in the background all the same; this is how long publishing waits for them.
_WAIT_FOR_COPIES: Final = "60s"
_TIMEOUT: Final = 90
# To make what was loaded visible may take minutes where there is much of it.
_REFRESH_TIMEOUT: Final = 600


@dataclass(frozen=True, slots=True)
class Load:
    """The record of a load that is not finished.

    Attributes:
        name: Name that the index will have.
        data: The index that is loaded.
        owner: Who loads it now; another process takes over by writing its own.
        started: When it was begun, in UTC.
        plan: Language and settings; a load resumes only with the same.
        head: Hash of the first passages, by which another corpus is recognized.
        passages: So many, from the beginning of the corpus, are in it for certain.
        source_hash: Hash of these.
    """

    name: str
    data: str
    owner: str
    started: str
    plan: dict[str, Any]
    head: str
    passages: int = 0
    source_hash: str = ""

    @classmethod
    def new(cls, name: str, **entries: Any) -> Load:
        """Return the record of a load that begins, into an index of a new name."""
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return cls(name, f"{name}-{uuid.uuid4().hex[:12]}", uuid.uuid4().hex, started, **entries)

    @classmethod
    def change(cls, manifest: Manifest) -> Load:
        """Return the record of a change of an index that begins, in an index of a new name."""
        return cls.new(manifest.name, plan={_CHANGED: manifest.data}, head=manifest.source_hash)

    @property
    def alias(self) -> str:
        """What the load writes through."""
        return f"{self.data}-load"


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


class Indexes:
    """The indexes of one name in a cluster."""

    def __init__(self, client: Elasticsearch, address: Address) -> None:
        """Look at the cluster through a client."""
        self._client = client
        self._address = address

    def _errors(self, what: str) -> AbstractContextManager[None]:
        return server_errors(self._address, what)

    def found(self, pattern: str) -> dict[str, dict[str, Any]]:
        """Return the indexes behind a name, an alias or a pattern, with their settings, mappings and aliases."""
        from elasticsearch import NotFoundError

        with self._errors(f"the index {pattern} could not be looked up"):
            try:
                return dict(self._client.indices.get(index=pattern))
            except NotFoundError:
                return {}

    def refuse_foreign(self, sources: Sequence[str] | None = None) -> None:
        """Make sure that the name is free, or an index that KEQA made.

        Args:
            sources: What it must have been made of, where an index of other sources is not to be replaced.

        Raises:
            InputError: Something else has the name.
        """
        name = self._address.name
        for data, state in self.found(name).items():
            if data == name or _meta_of(state).get("format") != FORMAT:
                raise InputError(
                    f"{name} at {self._address.cluster} is an index that KEQA did not make; it is left alone. "
                    "Choose another name"
                )
            earlier = _meta_of(state).get("sources")
            if sources is not None and isinstance(earlier, list):
                refuse_other_sources(f"{name} at {self._address.cluster}", list(map(str, earlier)), sources)

    def unfinished(self) -> Load | None:
        """Return the load of this name that is under way or was interrupted."""
        loads = [load for state in self._own().values() if (load := _load_of(state)) is not None]
        return max(loads, key=lambda load: load.started, default=None)

    def begin(self, load: Load, settings: dict[str, Any]) -> None:
        """Create the index of a load."""
        mappings = field_mappings()
        if encoder := load.plan.get("encoder"):
            mappings["properties"] |= vector_field(encoder)
        with self._errors(f"the index {load.data} could not be created"):
            self._client.indices.create(
                index=load.data,
                settings=settings,
                mappings={**mappings, "_meta": _described(load)},
                aliases={load.alias: {"is_write_index": True}},
            )

    def note(self, load: Load, *, owner: str, manifest: Manifest | None = None) -> None:
        """Write down how far a load is, or who resumes it.

        Args:
            load: The new record.
            owner: Who must own the load until now.
            manifest: Of the index, where it is complete.

        Raises:
            RetrievalError: Another process has taken over.
        """
        state = self.found(load.data).get(load.data)
        before = _load_of(state) if state else None
        if before is None or before.owner != owner:
            raise taken_over(load.name)
        with self._errors(f"the state of the index {load.data} could not be written"):
            self._client.indices.put_mapping(index=load.data, meta=_described(load, manifest))

    def reopen(self, load: Load) -> None:
        """Let an index be loaded again: publishing it, which was interrupted, may have closed it to writes."""
        with self._errors(f"the index {load.data} could not be made ready to be loaded"):
            self._client.indices.put_settings(index=load.data, settings={**LOADING, "blocks.write": None})

    def clone(self, data: str, load: Load, manifest: Manifest) -> None:
        """Make a copy of a finished index, to be changed; its files are shared and not copied.

        Each further request that alters what the cluster knows of an index takes as long as one that alters thousands
        of its passages, so there are as few as can be: what the index will say about itself is written beside the
        record of the change, which counts until the name stands for the index.

        Args:
            data: The index, which takes no writes.
            load: The record of the change.
            manifest: Of the index once it is changed.
        """
        with self._errors(f"the index {data} could not be cloned"):
            patient = self._client.options(request_timeout=max(_TIMEOUT, timeout()))
            settings = {f"index.{name}": value for name, value in LOADING.items()}
            answer = patient.indices.clone(
                index=data,
                target=load.data,
                settings={**settings, "index.blocks.write": None},
                aliases={load.alias: {"is_write_index": True}},
            )
            self._client.indices.put_mapping(index=load.data, meta=_described(load, manifest), properties=FILE_FIELDS)
            if not answer["shards_acknowledged"]:
                self._client.cluster.health(index=load.data, wait_for_status="yellow", timeout=_WAIT_FOR_COPIES)

    def merge(self, data: str) -> None:
        """Rewrite an index without what was deleted, which may take minutes."""
        with self._errors(f"the index {data} could not be merged"):
            patient = self._client.options(request_timeout=max(_MERGE_TIMEOUT, timeout()))
            patient.indices.forcemerge(index=data, max_num_segments=1)

    def replicas(self, data: str) -> int | None:
        """How many copies an index is to have, as `publish` takes it."""
        with self._errors(f"the settings of the index {data} could not be read"):
            settings = self._client.indices.get_settings(index=data)[data]["settings"]["index"]
        expanded = settings.get("auto_expand_replicas", "false") != "false"
        return None if expanded else int(settings["number_of_replicas"])

    def files(self, data: str, tops: Sequence[str] | None = None) -> dict[str, FileEntry] | None:
        """The files that the passages of an index come from, by their paths; None where it does not know them.

        Args:
            data: The index.
            tops: Only these files and folders are asked for; all by default.
        """
        query = None if tops is None or len(tops) > _PAGE else _at_or_below(tops)
        with self._errors(f"the files of the index {data} could not be listed"):
            if FILE not in self.found(data).get(data, {}).get("mappings", {}).get("properties", {}):
                return None
            found: dict[str, FileEntry] = {}
            names = [{name: {"terms": {"field": name}}} for name in (FILE, DIGEST)]
            composite: dict[str, Any] = {"size": _FILES_PAGE, "sources": names}
            while True:
                aggregations = {"files": {"composite": composite}}
                answer = self._client.search(index=data, size=0, query=query, aggs=aggregations)
                self._check_whole(answer["_shards"], data)
                buckets = answer["aggregations"]["files"]["buckets"]
                for bucket in buckets:
                    path, count = bucket["key"][FILE], bucket["doc_count"]
                    # A path twice is that of a file that was given twice.
                    before = found.get(path)
                    found[path] = FileEntry(bucket["key"][DIGEST], count + (before.passages if before else 0))
                if len(buckets) < _FILES_PAGE:
                    return found
                composite["after"] = answer["aggregations"]["files"]["after_key"]

    def ids(self, data: str, query: dict[str, Any]) -> list[str]:
        """The ids of all passages that a query finds, in the order of the index."""
        from elasticsearch.helpers import scan

        with self._errors(f"the index {data} could not be read"):
            # Most files have few passages, and a scan takes three requests.
            answer = self._client.search(index=data, query=query, size=_PAGE, source_includes=["doc_id"], sort=["_doc"])
            self._check_whole(answer["_shards"], data)
            hits = answer["hits"]["hits"]
            if len(hits) < _PAGE:
                return [str(hit["_source"]["doc_id"]) for hit in hits]
            hits = scan(self._client, index=data, query={"query": query, "_source": ["doc_id"]}, size=_PAGE)
            return [str(hit["_source"]["doc_id"]) for hit in hits]

    def stored(self, data: str, ids: Sequence[str], fields: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Some fields of the passages of some ids; what is not there is left out."""
        found = {}
        with self._errors(f"the index {data} could not be read"):
            for start in range(0, len(ids), _PAGE):
                keys = [key(one) for one in ids[start : start + _PAGE]]
                for one in self._client.mget(index=data, ids=keys, source_includes=list(fields))["docs"]:
                    if "error" in one:
                        raise RetrievalError(f"the index {data} could not be read: {problem(one, self._address)}")
                    if one["found"]:
                        found[str(one["_source"]["doc_id"])] = one["_source"]
        return found

    def publish(
        self,
        load: Load,
        manifest: Manifest,
        replicas: int | None,
        *,
        instead_of: str | None = None,
        removing: Sequence[str] = (),
    ) -> bool | None:
        """Make a loaded and verified index the one that its name stands for.

        Args:
            load: The load, with everything that went into the index.
            manifest: Of the index.
            replicas: How many copies it is to have; one where there are two nodes or more by default.
            instead_of: The index whose place it must take, where it was cloned from that one; its manifest stands in
                it already.
            removing: Indexes that go in the same step.

        Returns:
            Whether all its copies are there already; None where the credentials do not allow to ask.

        Raises:
            RetrievalError: Another process has taken over, or the cluster failed. The load can be resumed.
        """
        if instead_of is None:
            self.note(load, owner=load.owner)
        copies: dict[str, Any] = {"auto_expand_replicas": "0-1"}
        if replicas is not None:
            copies = {"auto_expand_replicas": "false", "number_of_replicas": replicas}
        with self._errors(f"the index {load.data} could not be finished"):
            settings = {**copies, "refresh_interval": None, "blocks.write": True}
            self._client.indices.put_settings(index=load.data, settings=settings)
            # Where copies are not there in time, the answer is 408 and reports the state. To ask takes a privilege
            # on the cluster, which someone who may load an index need not have.
            patient = self._client.options(request_timeout=max(_TIMEOUT, timeout()), ignore_status=(403, 408))
            health = patient.cluster.health(index=load.data, wait_for_status="green", timeout=_WAIT_FOR_COPIES)
        # Another process may have taken over in the meantime; one that changes the same index makes the switch fail.
        if instead_of is None:
            self.note(load, owner=load.owner, manifest=manifest)
        self._switch(load, instead_of, removing)
        return not health["timed_out"] if "timed_out" in health else None

    def _switch(self, load: Load, instead_of: str | None, removing: Sequence[str]) -> None:
        found = [instead_of] if instead_of else list(self.found(load.name))
        actions: list[dict[str, Any]] = [
            {"remove": {"index": data, "alias": load.name, "must_exist": True}} for data in found
        ]
        actions += [
            {"add": {"index": load.data, "alias": load.name}},
            {"remove": {"index": load.data, "alias": load.alias}},
            *({"remove_index": {"index": data}} for data in removing),
        ]
        try:
            with self._errors(f"the index {load.data} could not be published"):
                self._client.indices.update_aliases(actions=actions)
        except KeqaError:
            # The answer may have been lost; what the client then sends again fails, since all is done.
            if set(self.found(load.name)) != {load.data}:
                raise

    def earlier(self, keep: str) -> list[str]:
        """Find the states of the index before its last change, and remove what other changes did not finish.

        Args:
            keep: An index that stays. So do loads of other passages that are under way.
        """
        found = []
        for data, state in self._own().items():
            load = _load_of(state)
            ours = load is None or _CHANGED in load.plan
            if data != keep and ours and not set(state.get("aliases", {})) - {f"{data}-load"}:
                if state.get("aliases"):
                    self.remove(data)
                else:
                    found.append(data)
        return found

    def remove_others(self, keep: str | None) -> list[str]:
        """Remove what earlier loads of this name left, finished or not.

        Returns:
            What was left alone, because something else refers to it.
        """
        left = []
        for data, state in self._own().items():
            if data == keep:
                continue
            if set(state.get("aliases", {})) - {f"{data}-load"}:
                left.append(data)
            else:
                self.remove(data)
        return left

    def remove(self, data: str) -> None:
        """Remove one index."""
        with self._errors(f"the index {data} could not be removed"):
            self._client.indices.delete(index=data, ignore_unavailable=True)

    def manifest(self) -> Manifest:
        """Return the manifest of the index that the name stands for, and make sure that it is true.

        Raises:
            RetrievalError: There is no finished index, or its manifest is not true of it.
        """
        name, cluster = self._address.name, self._address.cluster
        found = self.found(name)
        where = f"the index {name} at {cluster}"
        if not found:
            if self.unfinished():
                raise RetrievalError(
                    f"{where} is not finished: its load is still running, or was interrupted. Run `keqa index` again "
                    "to resume it"
                )
            raise RetrievalError(
                f"there is no index {name} at {cluster}. Load one with `keqa index SOURCE --engine elasticsearch "
                f"--url {self._address.urls[0]} --name {name}`"
            )
        if len(found) > 1:
            raise RetrievalError(f"{where} is an alias of several indexes: {', '.join(sorted(found))}")
        ((data, state),) = found.items()
        manifest = _manifest_of(data, state, where)
        check_analyzer(manifest.analyzer, where)
        manifest.check_count(self.count(data), where, "Load it again")
        return manifest

    def facts(self, data: str) -> IndexFacts:
        """Ask the cluster about an index, as far as the credentials allow it.

        Raises:
            ConfigurationError: They do not even allow to see its settings.
            RetrievalError: The cluster did not answer.
        """
        passages = self.count(data)
        with self._errors(f"the cluster could not be asked about the index {data}"):
            settings = self._client.indices.get_settings(index=data)[data]["settings"]["index"]
            # Who may search an index need not have the privilege monitor on it, nor on the cluster.
            free = self._client.options(ignore_status=403)
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

    def count(self, data: str, *, refresh: bool = False, vectors: bool = False) -> int:
        """Return how many passages an index holds.

        Args:
            data: The index.
            refresh: Whether what was loaded is made visible first.
            vectors: Whether only those that have a vector are counted.

        Raises:
            RetrievalError: A part of it did not answer.
        """
        with self._errors(f"the index {data} could not be counted"):
            if refresh:
                patient = self._client.options(request_timeout=max(_REFRESH_TIMEOUT, timeout()))
                # What a part did not make visible would be missing in the count.
                self._check_whole(patient.indices.refresh(index=data)["_shards"], data)
            query = {"exists": {"field": VECTOR}} if vectors else None
            answer = self._client.count(index=data, query=query)
            self._check_whole(answer["_shards"], data)
        return int(answer["count"])

    def _check_whole(self, shards: dict[str, int], data: str) -> None:
        if shards["failed"]:
            raise RetrievalError(
                f"{shards['failed']} of {shards['total']} parts of the index {data} did not answer: "
                f"look at the state of the cluster at {self._address.cluster}"
            )

    def documents(self, data: str, passages: Sequence[Passage]) -> list[dict[str, Any] | None]:
        """Return what an index holds for each of some passages but its vector; None where it holds nothing.

        Raises:
            RetrievalError: Whether one of them is there is unknown.
        """
        failed = f"the index {data} could not be read back"
        with self._errors(failed):
            ids = [key(passage.id) for passage in passages]
            answer = self._client.mget(index=data, ids=ids, source_includes=[*FIELDS, FILE, DIGEST])
        for found in answer["docs"]:
            if "error" in found:
                raise RetrievalError(
                    f"{failed}: passage {found['_id']!r} ({problem(found, self._address)}). "
                    f"Look at the state of the cluster at {self._address.cluster}"
                )
        return [found.get("_source") for found in answer["docs"]]

    def _own(self) -> dict[str, dict[str, Any]]:
        """The indexes that loads of this name made; a pattern alone would also find those of longer names."""
        name = self._address.name
        return {data: state for data, state in self.found(f"{name}-*").items() if _meta_of(state).get("name") == name}


def taken_over(name: str) -> RetrievalError:
    """The error of a load that another process has taken over or removed."""
    return RetrievalError(f"another process has begun to load {name}: this load ends here, and only one can continue")


def _at_or_below(tops: Sequence[str]) -> dict[str, Any]:
    """The query for passages of files that are some paths, or in folders that they name."""
    below = [{"prefix": {FILE: top.rstrip(os.sep) + os.sep}} for top in tops]
    return {"bool": {"filter": [{"bool": {"should": [{"terms": {FILE: list(tops)}}, *below]}}]}}


def _manifest_of(data: str, state: dict[str, Any], where: str) -> Manifest:
    """Return the manifest of a finished index, from what `Indexes.found` gives for it."""
    meta = _meta_of(state)
    if meta.get("format") == _LOAD:
        raise RetrievalError(f"{where} is not finished: its load is still running, or was interrupted")
    if meta.get("format") != FORMAT:
        raise RetrievalError(f"{where} was not made by KEQA: its mapping holds no manifest")
    kind = VectorManifest if "encoder" in meta else Manifest
    # An index that was cloned or restored has another name than when it was built.
    return dataclasses.replace(kind.from_json(json.dumps(meta), f"the mapping of {where}"), data=data)


def _described(load: Load, manifest: Manifest | None = None) -> dict[str, Any]:
    """Return the ``_meta`` of an index that is loaded.

    Beside the manifest of one that is complete the load stays, to be resumed where it is not published after all.
    """
    record = {"format": _LOAD, **dataclasses.asdict(load)}
    return {_META: record} if manifest is None else {_META: json.loads(manifest.to_json()), _LOAD: record}


def _meta_of(state: dict[str, Any], entry: str = _META) -> dict[str, Any]:
    """Return what the mapping of an index keeps; nothing where KEQA did not make it."""
    meta = state.get("mappings", {}).get("_meta", {}).get(entry)
    return meta if isinstance(meta, dict) else {}


def _load_of(state: dict[str, Any]) -> Load | None:
    """Return the load of an index as far as it is; None where it is published, or not of this version."""
    record = _meta_of(state) if _meta_of(state).get("format") == _LOAD else _meta_of(state, _LOAD)
    try:
        load = Load(**{name: value for name, value in record.items() if name != "format"})
    except TypeError:
        return None
    # What the load writes through goes in the one step that publishes the index.
    return load if load.alias in state.get("aliases", {}) else None
