"""What an index is: its manifest, how many passages it holds and how much room it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keqa.retrievers.opening import engine_and_address, parts_of

__all__ = ["facts_of"]


def facts_of(address: Path | str) -> list[dict[str, Any]]:
    """Tell what an index is, of a hybrid each part. No embedding model is opened.

    Args:
        address: See `keqa.retrievers.open_index`.

    Returns:
        For each part its address, engine, entries of the manifest, and ``bytes``; of an index in Elasticsearch also
        the server's version, shards, replicas and health. The passages were counted.

    Raises:
        InputError: The address cannot be one.
        RetrievalError: There is no index, or it is not what its manifest says.
        ConfigurationError: A server refuses the credentials.
        MissingExtraError: A package is missing.
    """
    return [_facts(part) for part in parts_of(address)]


def _facts(part: str) -> dict[str, Any]:
    engine, place, _ = engine_and_address(part)
    return {"address": place, "engine": engine.name, **engine.facts(place)}
