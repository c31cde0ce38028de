"""An index in a cluster: its generations, and what each says about itself in the ``_meta`` of its mapping.

::

    wikipedia                        alias of the finished generation: what users name
    wikipedia-3f2a91c04b7d           a generation; of a load, named by a digest of its plan, so that resuming finds it
    wikipedia-3f2a91c04b7d-load      alias that a load writes through, until the generation is published
    wikipedia-3f2a91c04b7d-change    the same of a change, whose generation is a clone of the one that it changes

The one step that publishes a generation is the switch of the alias, so a process killed at any moment leaves either the
index as it was or the new one, complete. What is written goes through an alias of its own because Elasticsearch creates
an index that is written to and not there: a load must not bring back the generation that another process removed.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import itertools
import json
import os
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from keqa.errors import InputError, KeqaError, RetrievalError
from keqa.retrievers.elasticsearch.client import Address, blocked, problem, server_errors, timeout
from keqa.retrievers.elasticsearch.mapping import ANALYZERS, DIGEST, FILE, LOADING, VECTOR, VectorManifest, key
from keqa.retrievers.intake import refuse_other_sources
from keqa.retrievers.manifest import FORMAT, Manifest

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

LOAD: Final = "load"
CHANGE: Final = "change"
BATCH: Final = 500
"""So many passages go into a request at most."""

_UNFINISHED: Final = "keqa-load"
_PAGE: Final = 1000
# Each page of files goes through all passages again; a cluster gives 65,536 at most by default.
_FILES_PAGE: Final = 10_000
# A server refuses a request above a tenth of its memory.
_MOST_BYTES: Final = 8_000_000
# What is rejected because the server is busy is sent again after 1, 2, 4 ... 30 seconds, for about two minutes in all.
_RETRIES: Final = 8
_FIRST_PAUSE: Final = 1.0
# Copies are made in the background all the same; this is how long publishing waits for them.
_WAIT_FOR_COPIES: Final = "60s"
# Longer than the server itself waits for a shard that is moving; and what takes minutes where there is much of it.
_TIMEOUT: Final = 120
_LONG_TIMEOUT: Final = 3600


class Generations:
    """The generations of an index in a cluster, by their names; its state is what the cluster says of one."""

    def __init__(self, client: Elasticsearch, address: Address) -> None:
        self._client, self._address = client, address

    def errors(self, what: str) -> AbstractContextManager[None]:
        return server_errors(self._address, what)

    def _patient(self, seconds: float, **options: Any) -> Elasticsearch:
        return self._client.options(request_timeout=max(seconds, timeout()), **options)

    def found(self, pattern: str) -> dict[str, dict[str, Any]]:
        """The indexes behind a name, an alias or a pattern, with their settings, mappings and aliases."""
        from elasticsearch import NotFoundError

        with self.errors(f"the index {pattern} could not be looked up"):
            try:
                return dict(self._client.indices.get(index=pattern))
            except NotFoundError:
                return {}

    def _own(self) -> dict[str, dict[str, Any]]:
        """All generations; a pattern alone would also find those of longer names."""
        name = self._address.name
        return {data: state for data, state in self.found(f"{name}-*").items() if meta_of(state).get("name") == name}

    def of_plan(self, plan: Sequence[Any]) -> tuple[str, dict[str, Any], list[str]]:
        """The generation of a load, its state where that was interrupted, and when loads of other plans were begun."""
        own, published = self._own(), self.found(self._address.name)
        loads = {data: state for data, state in own.items() if _kind_of(data, state) == LOAD}
        before = [meta_of(state).get("created") for state in published.values()]
        texts = (json.dumps([*plan, before, number], sort_keys=True) for number in itertools.count())
        names = (f"{self._address.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}" for text in texts)
        data = next(name for name in names if name in loads or name not in own)
        others = [str(meta_of(state).get("created")) for other, state in loads.items() if other != data]
        return data, loads.get(data, {}), others

    def left_over(self, keep: str, *, loads: bool) -> tuple[list[str], list[str]]:
        """What goes when a generation is published, or a clone of it, and what stays as other aliases stand for it."""
        gone, stays = list[str](), list[str]()
        for data, state in self._own().items():
            aliases = set(state.get("aliases", {})) - {f"{data}-{kind}" for kind in (LOAD, CHANGE)}
            # A load takes the place of other loads under way, and of the index as it is published now.
            if data == keep or (_kind_of(data, state) == LOAD and not loads):
                continue
            is_free = not aliases or (loads and aliases == {self._address.name})
            (gone if is_free else stays).append(data)
        return gone, stays

    def refuse_foreign(self, sources: Sequence[str] | None) -> None:
        """Make sure that the name is free, or of an index of KEQA; of the same sources, where these are given."""
        name, where = self._address.name, f"{self._address.name} at {self._address.cluster}"
        for data, state in self.found(name).items():
            if data == name or meta_of(state).get("format") != FORMAT:
                raise InputError(f"{where} is an index that KEQA did not make; it is left alone. Choose another name")
            earlier = meta_of(state).get("sources")
            if sources is not None and isinstance(earlier, list):
                refuse_other_sources(where, list(map(str, earlier)), sources)

    def begin(self, data: str, body: dict[str, dict[str, Any]]) -> str:
        """Create the generation of a load; return when that was."""
        created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        meta = {"keqa": {"format": _UNFINISHED, "name": self._address.name, "created": created}}
        mappings, aliases = {**body["mappings"], "_meta": meta}, {f"{data}-{LOAD}": {"is_write_index": True}}
        with self.errors(f"the index {data} could not be created"):
            self._client.indices.create(index=data, settings=body["settings"], mappings=mappings, aliases=aliases)
        return created

    def reopen(self, data: str) -> None:
        """Let a generation be loaded again: publishing it, which was interrupted, may have closed it to writes."""
        with self.errors(f"the index {data} could not be made ready to be loaded"):
            self._client.indices.put_settings(index=data, settings={**LOADING, "blocks.write": None})

    def clone(self, before: str, data: str) -> None:
        """Make a copy of a generation, to be changed; its files are shared and not copied."""
        settings = {f"index.{name}": value for name, value in {**LOADING, "blocks.write": None}.items()}
        aliases = {f"{data}-{CHANGE}": {"is_write_index": True}}
        with self.errors(f"the index {before} could not be cloned"):
            clone = self._patient(_TIMEOUT).indices.clone
            if not clone(index=before, target=data, settings=settings, aliases=aliases)["shards_acknowledged"]:
                self._client.cluster.health(index=data, wait_for_status="yellow", timeout=_WAIT_FOR_COPIES)

    def write(self, alias: str, actions: Iterable[dict[str, Any]], *, passing: int) -> None:
        """Send documents, with the ids of passages; an answer with some status is no failure."""
        given = ({**action, "_index": alias, "_id": key(action["_id"])} for action in actions)
        # While two batches are sent, the next one is read.
        sent: deque[Future[None]] = deque()
        with ThreadPoolExecutor(2) as pool:
            while batch := list(itertools.islice(given, BATCH)):
                sent.append(pool.submit(self._send, batch, passing))
                if len(sent) > 2:
                    sent.popleft().result()
            for one in sent:
                one.result()

    def _send(self, actions: Sequence[dict[str, Any]], passing: int) -> None:
        """Send a batch, again where the server is busy."""
        from elasticsearch.helpers import streaming_bulk

        bounds: dict[str, Any] = {"chunk_size": BATCH, "max_chunk_bytes": _MOST_BYTES, "max_retries": _RETRIES}
        pauses: dict[str, Any] = {"initial_backoff": _FIRST_PAUSE, "max_backoff": 30, "retry_on_status": (429, 503)}
        how: dict[str, Any] = {"raise_on_error": False, "yield_ok": False, "require_alias": True}
        with self.errors("the passages could not be written"):
            for _, item in streaming_bulk(self._patient(_TIMEOUT), actions, **bounds, **pauses, **how):
                (result,) = item.values()
                text, kind, name = problem(result, self._address), str(result.get("error")), self._address.name
                if result["status"] == passing:
                    continue
                if "cluster_block_exception" in kind:
                    raise blocked(name, text)
                if "index_not_found_exception" in kind:
                    message = f"another process has begun to load {name}, or finished it: this one ends here"
                    raise RetrievalError(message)
                raise RetrievalError(f"passage {result['_id']!r} could not be written: {result['status']} ({text})")

    def verify(self, manifest: Manifest) -> None:
        """Make sure that a generation holds what went into it, before it is published; otherwise remove it."""
        found = vectors = self.count(manifest.data, refresh=True)
        if isinstance(manifest, VectorManifest):
            vectors = self.count(manifest.data, vectors=True)
        if not found == vectors == manifest.passages:
            self.remove(manifest.data)
            counted = f"{found} are in it" if found == vectors else f"{found} are in it and {vectors} vectors"
            raise RetrievalError(
                f"the index {manifest.name} did not pass its verification: {manifest.passages} passages went into it "
                f"and {counted}. It is not published, and what was written is removed; what was there before stays. "
                "Run the same again"
            )

    def merge(self, data: str) -> None:
        with self.errors(f"the index {data} could not be merged"):
            self._patient(_LONG_TIMEOUT).indices.forcemerge(index=data, max_num_segments=1)

    def settings(self, data: str) -> dict[str, Any]:
        with self.errors(f"the settings of the index {data} could not be read"):
            return dict(self._client.indices.get_settings(index=data)[data]["settings"]["index"])

    def publish(
        self, kind: str, manifest: Manifest, replicas: int | None, removing: Sequence[str], before: str | None = None
    ) -> bool | None:
        """Let the name stand for a verified generation; returns whether all copies are there, None if none may ask."""
        data, name = manifest.data, self._address.name
        copies: dict[str, Any] = {"auto_expand_replicas": "0-1"}
        if replicas is not None:
            copies = {"auto_expand_replicas": "false", "number_of_replicas": replicas}
        with self.errors(f"the index {data} could not be finished"):
            settings = {**copies, "refresh_interval": None, "blocks.write": True}
            self._client.indices.put_settings(index=data, settings=settings)
            # Where copies are not there in time, the answer is 408 and reports the state. To ask takes a privilege
            # on the cluster, which someone who may load an index need not have.
            asked = self._patient(_TIMEOUT, ignore_status=(403, 408)).cluster.health
            health = asked(index=data, wait_for_status="green", timeout=_WAIT_FOR_COPIES)
            self._client.indices.put_mapping(index=data, meta={"keqa": json.loads(manifest.to_json())})
        published = [before] if before else [one for one in self.found(name) if one not in removing]
        over = [*((one, name) for one in published), (data, f"{data}-{kind}")]
        actions: list[dict[str, Any]] = [
            {"add": {"index": data, "alias": name}},
            *({"remove": {"index": one, "alias": alias, "must_exist": True}} for one, alias in over),
            *({"remove_index": {"index": one}} for one in removing),
        ]
        try:
            with self.errors(f"the index {data} could not be published"):
                self._client.indices.update_aliases(actions=actions)
        except KeqaError:
            # The answer may have been lost; what the client then sends again fails, since all is done.
            if set(self.found(name)) != {data}:
                raise
        return not health["timed_out"] if "timed_out" in health else None

    def remove(self, data: str) -> None:
        with self.errors(f"the index {data} could not be removed"):
            self._client.indices.delete(index=data, ignore_unavailable=True)

    def manifest(self) -> Manifest:
        """The manifest of the generation that the name stands for, which is made sure to be true."""
        name, cluster = self._address.name, self._address.cluster
        found, where = self.found(name), f"the index {name} at {cluster}"
        if not found and any(_kind_of(data, state) == LOAD for data, state in self._own().items()):
            unfinished = "is not finished: its load is still running, or was interrupted"
            raise RetrievalError(f"{where} {unfinished}. Run `keqa index` again to resume it")
        if not found:
            raise RetrievalError(
                f"there is no index {name} at {cluster}. Load one with `keqa index SOURCE --engine elasticsearch "
                f"--url {self._address.urls[0]} --name {name}`"
            )
        if len(found) > 1:
            raise RetrievalError(f"{where} is an alias of several indexes: {', '.join(sorted(found))}")
        ((data, state),) = found.items()
        meta = meta_of(state)
        if meta.get("format") != FORMAT:
            raise RetrievalError(f"{where} was not made by KEQA: its mapping holds no manifest")
        kind = VectorManifest if "encoder" in meta else Manifest
        # An index that was restored has another name than when it was built.
        manifest = dataclasses.replace(kind.from_json(json.dumps(meta), f"the mapping of {where}"), data=data)
        if manifest.analyzer not in ANALYZERS.values():
            raise RetrievalError(
                f"{where} was built with analyzer settings that this version does not know ({manifest.analyzer}). Load "
                "it again, or use the version that built it"
            )
        manifest.check_count(self.count(data), where, "Load it again")
        return manifest

    def facts(self, data: str) -> dict[str, Any]:
        """What the cluster says about a generation; None for what the credentials do not allow to ask."""
        passages, settings = self.count(data), self.settings(data)
        with self.errors(f"the cluster could not be asked about the index {data}"):
            # Who may search an index need not have the privilege monitor on it, nor on the cluster.
            free = self._client.options(ignore_status=403)
            stats = free.indices.stats(index=data, metric="store")
            health, about = free.cluster.health(index=data), free.info()
        return {
            "version": about["version"]["number"] if "version" in about else None,
            "index": data,
            "passages": passages,
            "bytes": int(stats["_all"]["total"]["store"]["size_in_bytes"]) if "_all" in stats else None,
            "shards": int(settings["number_of_shards"]),
            "replicas": int(settings["number_of_replicas"]),
            # A refusal has a status too, its number.
            "health": health["status"] if "cluster_name" in health else None,
        }

    def count(self, data: str, *, refresh: bool = False, vectors: bool = False) -> int:
        """How many passages a generation holds, once what was written is visible; or only those with a vector."""
        with self.errors(f"the index {data} could not be counted"):
            if refresh:
                # What a part did not make visible would be missing in the count.
                self._whole(self._patient(_LONG_TIMEOUT).indices.refresh(index=data), data)
            query = {"exists": {"field": VECTOR}} if vectors else None
            return int(self._whole(self._client.count(index=data, query=query), data)["count"])

    def search(self, data: str, **request: Any) -> Any:
        with self.errors(f"the index {data} could not be read"):
            return self._whole(self._client.search(index=data, **request), data)

    def _whole(self, answer: Any, data: str) -> Any:
        if failed := answer["_shards"]["failed"]:
            raise RetrievalError(
                f"{failed} of {answer['_shards']['total']} parts of the index {data} did not answer: "
                f"look at the state of the cluster at {self._address.cluster}"
            )
        return answer

    def files(self, data: str, tops: Sequence[str] | None = None) -> dict[str, tuple[str, int]]:
        """The files that passages come from, by path with digest and number of passages; all, or those below some."""
        query = None
        if tops is not None and len(tops) <= _PAGE:
            below = [{"prefix": {FILE: top.rstrip(os.sep) + os.sep}} for top in tops]
            query = {"bool": {"filter": [{"bool": {"should": [{"terms": {FILE: list(tops)}}, *below]}}]}}
        names = [{name: {"terms": {"field": name}}} for name in (FILE, DIGEST)]
        composite: dict[str, Any] = {"size": _FILES_PAGE, "sources": names}
        found: dict[str, tuple[str, int]] = {}
        while True:
            answer = self.search(data, size=0, query=query, aggs={"files": {"composite": composite}})["aggregations"]
            for bucket in answer["files"]["buckets"]:
                path, count = bucket["key"][FILE], bucket["doc_count"]
                # A path twice is that of a file that was given twice.
                found[path] = bucket["key"][DIGEST], count + (found[path][1] if path in found else 0)
            if len(answer["files"]["buckets"]) < _FILES_PAGE:
                return found
            composite["after"] = answer["files"]["after_key"]

    def ids(self, data: str, query: dict[str, Any]) -> list[str]:
        from elasticsearch.helpers import scan

        # Most files have few passages, and a scan takes three requests.
        hits = self.search(data, query=query, size=_PAGE, source_includes=["doc_id"], sort=["_doc"])["hits"]["hits"]
        with self.errors(f"the index {data} could not be read"):
            if len(hits) == _PAGE:
                hits = scan(self._client, index=data, query={"query": query, "_source": ["doc_id"]}, size=_PAGE)
            return [str(hit["_source"]["doc_id"]) for hit in hits]

    def stored(self, data: str, ids: Sequence[str], fields: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Some fields of the passages of some ids; what is not there is left out."""
        found = {}
        with self.errors(f"the index {data} could not be read"):
            for start in range(0, len(ids), _PAGE):
                keys = [key(one) for one in ids[start : start + _PAGE]]
                for one in self._client.mget(index=data, ids=keys, source_includes=list(fields))["docs"]:
                    if "error" in one:
                        raise RetrievalError(f"the index {data} could not be read: {problem(one, self._address)}")
                    if one["found"]:
                        found[str(one["_source"]["doc_id"])] = one["_source"]
        return found


def meta_of(state: dict[str, Any]) -> dict[str, Any]:
    """What the mapping of an index keeps; nothing where KEQA did not make it."""
    meta = state.get("mappings", {}).get("_meta", {}).get("keqa")
    return meta if isinstance(meta, dict) else {}


def _kind_of(data: str, state: dict[str, Any]) -> str | None:
    """What is writing a generation, or was interrupted; None where it is finished."""
    return next((kind for kind in (LOAD, CHANGE) if f"{data}-{kind}" in state.get("aliases", {})), None)
