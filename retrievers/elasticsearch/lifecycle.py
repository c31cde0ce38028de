"""The states of an index in a cluster, recorded in the ``_meta`` of its mapping.

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

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from keqa.errors import InputError, KeqaError, RetrievalError
from keqa.retrievers.elasticsearch.address import Address
from keqa.retrievers.elasticsearch.client import server_errors
from keqa.retrievers.elasticsearch.credentials import timeout
from keqa.retrievers.elasticsearch.mapping import LOADING, field_mappings
from keqa.retrievers.elasticsearch.records import Load, described, is_finished, load_of, meta_of
from keqa.retrievers.layout import refuse_other_sources
from keqa.retrievers.manifest import Manifest

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

# Copies are made in the background all the same; this is how long publishing waits for them.
_WAIT_FOR_COPIES: Final = "60s"
_TIMEOUT: Final = 90


class Indexes:
    """The indexes of one name in a cluster."""

    def __init__(self, client: Elasticsearch, address: Address) -> None:
        """Look at the cluster through a client."""
        self._client = client
        self._address = address

    def found(self, pattern: str) -> dict[str, dict[str, Any]]:
        """Return the indexes behind a name, an alias or a pattern, with their settings, mappings and aliases."""
        from elasticsearch import NotFoundError

        with server_errors(self._address, f"the index {pattern} could not be looked up"):
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
            if data == name or not is_finished(state):
                raise InputError(
                    f"{name} at {self._address.cluster} is an index that KEQA did not make; it is left alone. "
                    "Choose another name"
                )
            earlier = meta_of(state).get("sources")
            if sources is not None and isinstance(earlier, list):
                refuse_other_sources(f"{name} at {self._address.cluster}", list(map(str, earlier)), sources)

    def unfinished(self) -> Load | None:
        """Return the load of this name that is under way or was interrupted."""
        loads = [load for state in self._own().values() if (load := load_of(state)) is not None]
        return max(loads, key=lambda load: load.started, default=None)

    def begin(self, load: Load, settings: dict[str, Any]) -> None:
        """Create the index of a load."""
        with server_errors(self._address, f"the index {load.data} could not be created"):
            self._client.indices.create(
                index=load.data,
                settings=settings,
                mappings={**field_mappings(), "_meta": described(load)},
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
        before = load_of(state) if state else None
        if before is None or before.owner != owner:
            raise taken_over(load.name)
        with server_errors(self._address, f"the state of the index {load.data} could not be written"):
            self._client.indices.put_mapping(index=load.data, meta=described(load, manifest))

    def reopen(self, load: Load) -> None:
        """Let an index be loaded again: publishing it, which was interrupted, may have closed it to writes."""
        with server_errors(self._address, f"the index {load.data} could not be made ready to be loaded"):
            self._client.indices.put_settings(index=load.data, settings={**LOADING, "blocks.write": None})

    def publish(self, load: Load, manifest: Manifest, replicas: int | None) -> bool | None:
        """Make a loaded and verified index the one that its name stands for.

        Args:
            load: The load, with everything that went into the index.
            manifest: Of the index.
            replicas: How many copies it is to have; one where there are two nodes or more by default.

        Returns:
            Whether all its copies are there already; None where the credentials do not allow to ask.

        Raises:
            RetrievalError: Another process has taken over, or the cluster failed. The load can be resumed.
        """
        self.note(load, owner=load.owner)
        copies: dict[str, Any] = {"auto_expand_replicas": "0-1"}
        if replicas is not None:
            copies = {"auto_expand_replicas": "false", "number_of_replicas": replicas}
        with server_errors(self._address, f"the index {load.data} could not be finished"):
            settings = {**copies, "refresh_interval": None, "blocks.write": True}
            self._client.indices.put_settings(index=load.data, settings=settings)
            # Where copies are not there in time, the answer is 408 and reports the state. To ask takes a privilege
            # on the cluster, which someone who may load an index need not have.
            patient = self._client.options(request_timeout=max(_TIMEOUT, timeout()), ignore_status=(403, 408))
            health = patient.cluster.health(index=load.data, wait_for_status="green", timeout=_WAIT_FOR_COPIES)
        # Another process may have taken over in the meantime.
        self.note(load, owner=load.owner, manifest=manifest)
        self._switch(load)
        return not health["timed_out"] if "timed_out" in health else None

    def _switch(self, load: Load) -> None:
        actions: list[dict[str, Any]] = [
            {"remove": {"index": data, "alias": load.name, "must_exist": True}} for data in self.found(load.name)
        ]
        actions += [
            {"add": {"index": load.data, "alias": load.name}},
            {"remove": {"index": load.data, "alias": load.alias}},
        ]
        try:
            with server_errors(self._address, f"the index {load.data} could not be published"):
                self._client.indices.update_aliases(actions=actions)
        except KeqaError:
            # The answer may have been lost; what the client then sends again fails, since all is done.
            if set(self.found(load.name)) != {load.data}:
                raise

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
        with server_errors(self._address, f"the index {data} could not be removed"):
            self._client.indices.delete(index=data, ignore_unavailable=True)

    def _own(self) -> dict[str, dict[str, Any]]:
        """The indexes that loads of this name made; a pattern alone would also find those of longer names."""
        name = self._address.name
        return {data: state for data, state in self.found(f"{name}-*").items() if meta_of(state).get("name") == name}


def taken_over(name: str) -> RetrievalError:
    """The error of a load that another process has taken over or removed."""
    return RetrievalError(f"another process has begun to load {name}: this load ends here, and only one can continue")
