"""What the mapping of an index says about it: its manifest, and the record of its load until it is published."""

from __future__ import annotations

import dataclasses
import json
import uuid
from dataclasses import dataclass
from typing import Any, Final

from keqa.errors import RetrievalError
from keqa.retrievers.manifest import Manifest

META: Final = "keqa"

_LOAD: Final = "keqa-load"
_INDEX: Final = "keqa-index"


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

    @property
    def alias(self) -> str:
        """What the load writes through."""
        return f"{self.data}-load"


def data_name(name: str) -> str:
    """Return a new name for the index behind a name."""
    return f"{name}-{uuid.uuid4().hex[:12]}"


def is_finished(state: dict[str, Any]) -> bool:
    """Distinguish a finished index that KEQA made from anything else."""
    return meta_of(state).get("format") == _INDEX


def manifest_of(data: str, state: dict[str, Any], where: str) -> Manifest:
    """Return the manifest of a finished index.

    Args:
        data: The index.
        state: What :meth:`Indexes.found` gives for it.
        where: What to call it in messages.

    Raises:
        RetrievalError: The index is not finished, was not made by KEQA, or this version cannot read it.
    """
    meta = meta_of(state)
    if meta.get("format") == _LOAD:
        raise RetrievalError(f"{where} is not finished: its load is still running, or was interrupted")
    if meta.get("format") != _INDEX:
        raise RetrievalError(f"{where} was not made by KEQA: its mapping holds no manifest")
    # An index that was cloned or restored has another name than when it was built.
    return dataclasses.replace(Manifest.from_json(json.dumps(meta), f"the mapping of {where}"), data=data)


def described(load: Load, manifest: Manifest | None = None) -> dict[str, Any]:
    """Return the ``_meta`` of an index that is loaded.

    Args:
        load: How far its load is.
        manifest: Of an index that is complete. The load stays beside it, to be resumed where the index is not
            published after all.
    """
    record = {"format": _LOAD, **dataclasses.asdict(load)}
    return {META: record} if manifest is None else {META: json.loads(manifest.to_json()), _LOAD: record}


def meta_of(state: dict[str, Any], entry: str = META) -> dict[str, Any]:
    """Return what the mapping of an index keeps; nothing where KEQA did not make it."""
    meta = state.get("mappings", {}).get("_meta", {}).get(entry)
    return meta if isinstance(meta, dict) else {}


def load_of(state: dict[str, Any]) -> Load | None:
    """Return the load of an index as far as it is; None where it is published, or not of this version."""
    record = meta_of(state) if meta_of(state).get("format") == _LOAD else meta_of(state, _LOAD)
    try:
        load = Load(**{name: value for name, value in record.items() if name != "format"})
    except TypeError:
        return None
    # What the load writes through goes in the one step that publishes the index.
    return load if load.alias in state.get("aliases", {}) else None
