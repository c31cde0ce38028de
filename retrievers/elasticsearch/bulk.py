"""Writing many passages with little memory, and knowing at any time which of them have arrived."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any

from keqa.errors import RetrievalError
from keqa.retrievers.base import Passage
from keqa.retrievers.elasticsearch.address import Address
from keqa.retrievers.elasticsearch.client import blocked, problem, server_errors
from keqa.retrievers.elasticsearch.credentials import timeout
from keqa.retrievers.elasticsearch.lifecycle import taken_over
from keqa.retrievers.elasticsearch.mapping import document, key
from keqa.retrievers.elasticsearch.records import Load

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

# A server refuses a request above a tenth of its memory.
_MOST_BYTES = 8_000_000
# What is rejected because the server is busy is sent again after 1, 2, 4 ... seconds, for about two minutes in all.
_RETRIES = 8
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
_BUSY = (429, 503)
# Longer than the server itself waits for a shard that is moving.
_TIMEOUT = 120


class Sender:
    """Writes passages in several threads, in an order that nobody can distinguish from the one given.

    Attributes:
        arrived: The mark of the last batch that has arrived together with everything before it.
    """

    def __init__(self, client: Elasticsearch, address: Address, load: Load, threads: int) -> None:
        """Set up.

        Args:
            client: Connected to the cluster.
            address: The index, for messages.
            load: The load that is written.
            threads: How many requests may be on their way at a time.
        """
        self.arrived: tuple[int, str] = (load.passages, load.source_hash)
        self._client = client.options(request_timeout=max(_TIMEOUT, timeout()))
        self._address = address
        self._load = load
        self._most = 2 * threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="keqa-load")
        self._waiting: deque[tuple[tuple[int, str], Future[None]]] = deque()

    def send(self, passages: Sequence[Passage], mark: tuple[int, str]) -> None:
        """Hand over a batch, and wait while too many are under way.

        Args:
            passages: The batch.
            mark: What :attr:`arrived` is once the batch has arrived.

        Raises:
            RetrievalError: This batch or an earlier one could not be written.
        """
        self._waiting.append((mark, self._pool.submit(self._write, passages)))
        while len(self._waiting) > self._most:
            self._settle()

    def finish(self) -> None:
        """Wait until everything has arrived."""
        while self._waiting:
            self._settle()

    def __enter__(self) -> Sender:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let what is on its way arrive, and begin nothing more."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _settle(self) -> None:
        mark, future = self._waiting.popleft()
        future.result()
        self.arrived = mark

    def _write(self, passages: Sequence[Passage]) -> None:
        there = self._bulk("create", passages)
        if there:
            # Sent before: by the client, which got no answer and tried again, or by a loader that was killed.
            self._bulk("index", self._differing(there))

    def _bulk(self, operation: str, passages: Sequence[Passage]) -> list[Passage]:
        """Write passages; return those that are there already, which only ``create`` minds."""
        from elasticsearch.helpers import streaming_bulk

        by_key = {key(passage.id): passage for passage in passages}
        actions = (
            {"_op_type": operation, "_index": self._load.alias, "_id": own, "_source": document(passage)}
            for own, passage in by_key.items()
        )
        there = []
        with server_errors(self._address, "the passages could not be written"):
            results = streaming_bulk(
                self._client,
                actions,
                chunk_size=max(1, len(passages)),
                max_chunk_bytes=_MOST_BYTES,
                max_retries=_RETRIES,
                initial_backoff=_FIRST_PAUSE,
                max_backoff=_LONGEST_PAUSE,
                retry_on_status=_BUSY,
                raise_on_error=False,
                yield_ok=False,
                require_alias=True,
            )
            for _, item in results:
                ((_, result),) = item.items()
                if result["status"] != 409:
                    raise self._refused(result)
                there.append(by_key[result["_id"]])
        return there

    def _refused(self, result: dict[str, Any]) -> RetrievalError:
        text = problem(result, self._address)
        kind = str(result.get("error"))
        if "cluster_block_exception" in kind:
            return blocked(self._load.name, text)
        if "index_not_found_exception" in kind:
            return taken_over(self._load.name)
        return RetrievalError(f"passage {result['_id']!r} could not be written: {result['status']} ({text})")

    def _differing(self, passages: Sequence[Passage]) -> list[Passage]:
        stored = stored_documents(self._client, self._address, self._load.data, passages)
        return [passage for passage, found in zip(passages, stored, strict=True) if found != document(passage)]


def stored_documents(
    client: Elasticsearch, address: Address, data: str, passages: Sequence[Passage]
) -> list[dict[str, Any] | None]:
    """Return what an index holds for each of some passages; None where it holds nothing.

    Raises:
        RetrievalError: Whether one of them was is unknown.
    """
    with server_errors(address, f"the index {data} could not be read back"):
        answer = client.mget(index=data, ids=[key(passage.id) for passage in passages])
    for found in answer["docs"]:
        if "error" in found:
            raise RetrievalError(
                f"the index {data} could not be read back: passage {found['_id']!r} ({problem(found, address)}). "
                f"Look at the state of the cluster at {address.cluster}"
            )
    return [found.get("_source") for found in answer["docs"]]
