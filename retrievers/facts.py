"""What an index is: its manifest, how many passages it holds and how much room it takes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from keqa.retrievers.manifest import DENSE
from keqa.retrievers.opening import engine_of, folder_and_model, is_remote, parts_of

__all__ = ["facts_of"]

# They are about the files, and are told otherwise.
_OF_FILES = ("schema_version", "data", "commit")


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
    return [_remote(part) if is_remote(part) else _folder(folder_and_model(part)[0]) for part in parts_of(address)]


def _folder(folder: Path) -> dict[str, Any]:
    engine = engine_of(folder)
    if engine == DENSE:
        from keqa.retrievers.dense.index import inspected

        manifest: Any = inspected(folder)
    else:
        from keqa.retrievers.tantivy_index import TantivyRetriever

        manifest = TantivyRetriever.open(folder).manifest
    used = sum(file.stat().st_size for file in (folder / manifest.data).rglob("*") if file.is_file())
    return {"address": str(folder), "engine": engine, **_entries(manifest), "bytes": used}


def _remote(address: str) -> dict[str, Any]:
    from keqa.retrievers.elasticsearch import ElasticsearchRetriever

    retriever = ElasticsearchRetriever.open(address)
    try:
        facts = dataclasses.asdict(retriever.facts())
        return {"address": address, "engine": "elasticsearch", **_entries(retriever.manifest), **facts}
    finally:
        retriever.close()


def _entries(manifest: Any) -> dict[str, Any]:
    entries = dataclasses.asdict(manifest)
    if not manifest.left_out:
        del entries["left_out"]
    return {name: value for name, value in entries.items() if name not in _OF_FILES}
