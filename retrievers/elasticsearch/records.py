"""What the mapping of an index says about it: its manifest or, until it is finished, the record of its load."""

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
        plan: Language and settings; a load goes on only with the same.
        head: Hash of the first passages, by which another corpus is told.
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
    """Tell a finished index that KEQA made from anything else."""
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


def record_of(load: Load) -> dict[str, Any]:
    """Return a load as the mapping keeps it."""
    return {"format": _LOAD, **dataclasses.asdict(load)}


def meta_of(state: dict[str, Any]) -> dict[str, Any]:
    """Return what the mapping of an index keeps; nothing where KEQA did not make it."""
    meta = state.get("mappings", {}).get("_meta", {}).get(META)
    return meta if isinstance(meta, dict) else {}


def load_of(state: dict[str, Any]) -> Load | None:
    """Return the load that made an index as far as it is; None where it is finished, or not of this version."""
    values = dict(meta_of(state))
    if values.pop("format", None) != _LOAD:
        return None
    try:
        return Load(**values)
    except TypeError:
        return None
