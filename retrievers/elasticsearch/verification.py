"""Whether an index holds what went into it: all of it by number, and a random sample word for word."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from keqa.errors import RetrievalError
from keqa.retrievers.base import Passage
from keqa.retrievers.elasticsearch.address import Address
from keqa.retrievers.elasticsearch.bulk import stored_documents
from keqa.retrievers.elasticsearch.client import server_errors
from keqa.retrievers.elasticsearch.credentials import timeout
from keqa.retrievers.elasticsearch.mapping import document
from keqa.retrievers.manifest import Manifest

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

_SAMPLE = 200
# To make what was loaded visible may take minutes where there is much of it.
_TIMEOUT = 600


def count_passages(client: Elasticsearch, address: Address, data: str) -> int:
    """Return how many passages an index holds.

    Raises:
        RetrievalError: A part of it did not answer.
    """
    with server_errors(address, f"the index {data} could not be counted"):
        answer = client.count(index=data)
    _check_whole(answer["_shards"], address, data)
    return int(answer["count"])


def _check_whole(shards: dict[str, int], address: Address, data: str) -> None:
    if shards["failed"]:
        raise RetrievalError(
            f"{shards['failed']} of {shards['total']} parts of the index {data} did not answer: "
            f"look at the state of the cluster at {address.cluster}"
        )


class Sample:
    """A random sample of the passages that go by, each with the same chance."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.passages: list[Passage] = []
        self._seen = 0
        self._random = random.Random(0)

    def see(self, passage: Passage) -> None:
        """Take in the next passage."""
        self._seen += 1
        if len(self.passages) < _SAMPLE:
            self.passages.append(passage)
            return
        place = self._random.randrange(self._seen)
        if place < _SAMPLE:
            self.passages[place] = passage

    def difference(self, client: Elasticsearch, address: Address, manifest: Manifest) -> str:
        """Compare an index with what was seen.

        Returns:
            What is wrong with it; empty where nothing is.

        Raises:
            RetrievalError: It could not be read back.
        """
        data = manifest.data
        with server_errors(address, f"the index {data} could not be counted"):
            refreshed = client.options(request_timeout=max(_TIMEOUT, timeout())).indices.refresh(index=data)
        # What a part did not make visible would be missing in the count.
        _check_whole(refreshed["_shards"], address, data)
        found = count_passages(client, address, data)
        if found != manifest.passages:
            return f"{manifest.passages} passages went into it and {found} are in it"
        stored = stored_documents(client, address, data, self.passages)
        for passage, one in zip(self.passages, stored, strict=True):
            if one != document(passage):
                return f"passage {passage.id!r} is not in it as it was given"
        return ""
