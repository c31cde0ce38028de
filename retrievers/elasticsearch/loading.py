"""Loading an index: under a new name, verified, and only then published."""

from __future__ import annotations

import dataclasses
import random
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

from keqa.errors import InputError, RetrievalError
from keqa.retrievers.analysis import language_of
from keqa.retrievers.base import Notice, Passage, default_notice
from keqa.retrievers.dense.encoding import Encoder
from keqa.retrievers.elasticsearch.address import Address, parse_address
from keqa.retrievers.elasticsearch.client import blocked, connect, problem, server_errors, timeout
from keqa.retrievers.elasticsearch.lifecycle import Indexes, Load, taken_over
from keqa.retrievers.elasticsearch.mapping import (
    LANGUAGES,
    VECTOR,
    analyzer_settings,
    document,
    index_settings,
    key,
    passage_of,
)
from keqa.retrievers.elasticsearch.vectors import VectorManifest, chosen_encoder, encoded, plan_of, same_plan
from keqa.retrievers.files import Origin
from keqa.retrievers.intake import HEAD, Intake
from keqa.retrievers.manifest import Manifest

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

_HEAD = HEAD
_BATCH = 500
_BATCH_CHARACTERS = 2_000_000
# How many passages may have to be sent again after an interruption.
_NOTE_EVERY = 20_000
# Of so many bytes of text the price is reported, as how many there are is known at the end only.
_PRICED = 1_000_000
# So many passages are compared word for word with what was loaded.
_SAMPLE = 200
# A server refuses a request above a tenth of its memory.
_MOST_BYTES = 8_000_000
# What is rejected because the server is busy is sent again after 1, 2, 4 ... seconds, for about two minutes in all.
_RETRIES = 8
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
_BUSY = (429, 503)
# Longer than the server itself waits for a shard that is moving.
_TIMEOUT = 120

_Item = tuple[Passage, Origin | None]
"""A passage and the file that it comes from."""

_Mark = tuple[int, str]
"""How many passages there were, from the beginning of the corpus, and the hash over them."""


def load_index(
    passages: Iterable[Passage],
    address: str,
    *,
    language: str = "auto",
    progress: Callable[[int], None] | None = None,
    notice: Notice | None = None,
    sources: Sequence[str] = (),
    shards: int = 1,
    replicas: int | None = None,
    k1: float = 1.2,
    b: float = 0.75,
    resume: bool = True,
    threads: int = 2,
    overwrite: bool = False,
    model: str | None = None,
    query_model: str | None = None,
    passage_prefix: str | None = None,
    query_prefix: str | None = None,
    separator: str | None = None,
    similarity: str | None = None,
) -> Manifest:
    """Load passages into an index in Elasticsearch, and publish it only when it is finished.

    An index of that name that is already there stays in place, and can be searched, until the new one is complete and
    verified: the number of its passages, and the whole content of a random sample of them. Then the name switches to
    the new one at once, and the old one is removed. A load that was interrupted, however it ended, resumes where it
    stood when it is called again with the same passages and settings. A finished index refuses further writes.

    Args:
        passages: The passages, read once and never held in memory; repeated ids are made unique by a suffix.
        address: Of the index; see :mod:`keqa.retrievers.elasticsearch`.
        language: ``"en"``, ``"zh"``, or ``"auto"`` to decide by the first passages.
        progress: Called with the number of passages so far, now and then and at the end.
        notice: Called with what the user should know, such as an interrupted earlier load; logged by default.
        sources: Where the passages come from, for the manifest.
        shards: How many parts the index has; one is right up to about 50 GB. Scores do not depend on it.
        replicas: How many copies of each part there are besides it; by default one where there are several nodes.
        k1: BM25's k1: how soon further occurrences of a word stop to count.
        b: BM25's b: how much a long text is held against it.
        resume: Whether to resume an interrupted load; otherwise it is removed.
        threads: How many requests may be on their way at a time.
        overwrite: Whether an index of other ``sources`` may be replaced; one of the same always is.
        model: An embedding model, whose vectors then stand beside the text and are searched as
            ``elasticsearch+dense://host:9200/name``; see `keqa.retrievers.build_dense`, as for all that follow.
        query_model: Likewise.
        passage_prefix: Likewise.
        query_prefix: Likewise.
        separator: Likewise.
        similarity: Likewise.

    Returns:
        The manifest of the finished index. Where the passages are those of `read_corpus`, its ``left_out`` says what
        of the sources is not in it.

    Raises:
        InputError: There are no passages, one has no id, an argument cannot be used, or the name belongs to something
            that KEQA did not make, or to an index of other sources.
        ConfigurationError: Credentials, certificate or version do not fit, or a model cannot be opened.
        MissingExtraError: The client, or a package that the model needs, is not installed.
        RetrievalError: The cluster cannot be reached, refuses the passages, or another process loads the same index.
    """
    target = parse_address(address)
    _check(shards=shards, threads=threads, replicas=replicas, k1=k1, b=b)
    # An unknown language is refused before anything is read or sent.
    language_of(language, (), LANGUAGES)
    options = {
        "query_model": query_model,
        "passage_prefix": passage_prefix,
        "query_prefix": query_prefix,
        "separator": separator,
        "similarity": similarity,
    }
    given = {name: value for name, value in options.items() if value is not None}
    if model is None and given:
        raise InputError(f"{' and '.join(given)} say how a model encodes: name the model as well")
    client = connect(target)
    try:
        encoder = None if model is None else chosen_encoder(model, **given)
        intake = Intake(passages, language, head=_HEAD, languages=LANGUAGES)
        analyzer = analyzer_settings(str(intake.language))
        plan = {
            "language": analyzer.language,
            "version": analyzer.version,
            "shards": shards,
            "k1": k1,
            "b": b,
            "files": 1,
        }
        if encoder is not None:
            plan |= plan_of(encoder)
        report = notice or default_notice
        loading = _Loading(client, target, plan, report, progress or (lambda count: None), encoder)
        loading.begin(intake.head, resume, None if overwrite else sources)
        if encoder is not None and (price := encoder.price(_PRICED)):
            report(f"{model} is asked for the vectors: for each {_PRICED:,} bytes of text {price}")
        loading.read(intake, threads)
        manifest = _manifest(
            encoder,
            name=target.name,
            analyzer=analyzer,
            created=loading.load.started,
            data=loading.load.data,
            **intake.entries(sources),
        )
        loading.publish(manifest, replicas)
        intake.report(report)
    finally:
        client.close()
    return manifest


def _manifest(encoder: Encoder | None, **entries: Any) -> Manifest:
    if encoder is None:
        return Manifest(**entries)
    return VectorManifest(encoder=encoder.settings, probe=tuple(encoder.query_probe().tolist()), **entries)


def _check(*, shards: int, threads: int, replicas: int | None, k1: float, b: float) -> None:
    if shards < 1 or threads < 1:
        raise InputError(f"an index needs at least one shard and one thread, not {shards} and {threads}")
    if replicas is not None and replicas < 0:
        raise InputError(f"an index cannot have {replicas} replicas")
    if k1 < 0 or not 0 <= b <= 1:
        raise InputError(f"BM25 needs a k1 of 0 or more and a b between 0 and 1, not {k1} and {b}")


class _Loading:
    """One run of loading."""

    load: Load

    def __init__(
        self,
        client: Elasticsearch,
        address: Address,
        plan: dict[str, Any],
        report: Notice,
        progress: Callable[[int], None],
        encoder: Encoder | None = None,
    ) -> None:
        self._writing = client.options(request_timeout=max(_TIMEOUT, timeout()))
        self._address = address
        self._indexes = Indexes(client, address)
        self._plan = plan
        self._report = report
        self._progress = progress
        self._sample = _Sample()
        self._encoder = encoder
        self._closed = self._resumed = False

    def begin(self, head: Sequence[Passage], resume: bool, sources: Sequence[str] | None) -> None:
        """Resume an interrupted load of the same passages, or begin one; None of sources replaces any index."""
        self._indexes.refuse_foreign(sources)
        first = Intake(head)
        for _ in first:
            pass
        owner, digest = uuid.uuid4().hex, first.source_hash.hexdigest()
        earlier = self._indexes.unfinished()
        if earlier and resume and same_plan(self._plan, earlier.plan) and earlier.head == digest:
            self._report(
                f"an earlier load of {earlier.name}, begun {earlier.started}, was interrupted after about "
                f"{earlier.passages} passages: resuming from there"
            )
            self.load = dataclasses.replace(earlier, owner=owner)
            self._indexes.note(self.load, owner=earlier.owner)
            self._closed = self._resumed = True
            return
        if earlier:
            why = "its passages or settings are others" if resume else "as asked for"
            self._report(f"an earlier load of {earlier.name}, begun {earlier.started}, was interrupted: again ({why})")
        self._indexes.remove_others(None)
        plan = self._plan
        self.load = Load.new(self._address.name, plan=plan, head=digest)
        settings = index_settings(plan["language"], shards=plan["shards"], k1=plan["k1"], b=plan["b"])
        self._indexes.begin(self.load, settings)

    def read(self, intake: Intake, threads: int) -> None:
        """Write every passage that is not there yet; the intake counts and hashes them on the way."""
        with closing(self._sent(self._batches(intake), threads)) as marks:
            for count, digest in marks:
                self._progress(count)
                if count - self.load.passages >= _NOTE_EVERY:
                    self.load = dataclasses.replace(self.load, passages=count, source_hash=digest)
                    self._indexes.note(self.load, owner=self.load.owner)
        self._progress(intake.count)

    def _batches(self, intake: Intake) -> Iterator[tuple[_Mark, list[_Item]]]:
        """The passages that are not there yet, in batches, each with its mark."""
        done = self.load.passages
        batch: list[_Item] = []
        size = 0
        for passage in intake:
            self._sample.see(passage)
            if intake.count <= done:
                if intake.count == done:
                    self._check_same(intake)
                continue
            batch.append((passage, intake.origin))
            size += len(passage.title) + len(passage.text)
            if len(batch) == _BATCH or size >= _BATCH_CHARACTERS:
                yield (intake.count, intake.source_hash.hexdigest()), batch
                batch, size = [], 0
        if intake.count < done:
            self._check_same(intake)
        if batch:
            yield (intake.count, intake.source_hash.hexdigest()), batch

    def _sent(self, batches: Iterable[tuple[_Mark, list[_Item]]], threads: int) -> Generator[_Mark]:
        """Write batches in several threads, which are read no faster than they are written.

        After each comes the mark of the last one that has arrived together with everything before it. Where one could
        not be written, what is on its way arrives, and nothing more is begun.
        """
        waiting: deque[tuple[_Mark, Future[None]]] = deque()
        arrived: _Mark = (self.load.passages, self.load.source_hash)
        pool = ThreadPoolExecutor(threads, thread_name_prefix="keqa-load")
        try:
            for mark, batch in batches:
                if self._closed:
                    # Only where there is something to write: an index that is complete keeps the copies that it has.
                    self._indexes.reopen(self.load)
                    self._closed = False
                waiting.append((mark, pool.submit(self._write, batch)))
                while len(waiting) > 2 * threads:
                    arrived = _settled(waiting)
                yield arrived
            while waiting:
                _settled(waiting)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _write(self, items: Sequence[_Item]) -> None:
        if self._encoder is not None:
            self._write_encoded(items, self._encoder)
            return
        there = self._bulk("create", items)
        if there:
            # Sent before: by the client, which got no answer and tried again, or by a loader that was killed.
            stored = self._indexes.documents(self.load.data, [passage for passage, _ in there])
            self._bulk("index", [one for one, found in zip(there, stored, strict=True) if found != document(*one)])

    def _write_encoded(self, items: Sequence[_Item], encoder: Encoder) -> None:
        """Write passages with their vectors; those that an interrupted load wrote are not encoded again."""
        if self._resumed:
            stored = self._indexes.documents(self.load.data, [passage for passage, _ in items])
            items = [one for one, found in zip(items, stored, strict=True) if found != document(*one)]
        if items:
            self._bulk("index", items, encoded(encoder, [passage for passage, _ in items]))

    def _bulk(
        self, operation: str, items: Sequence[_Item], vectors: Sequence[list[float]] | None = None
    ) -> list[_Item]:
        """Write passages; return those that are there already, which only ``create`` minds."""
        by_key = {key(item[0].id): item for item in items}
        sources: list[dict[str, Any]] = [{**document(*item)} for item in items]
        if vectors is not None:
            sources = [{**source, VECTOR: vector} for source, vector in zip(sources, vectors, strict=True)]
        actions = (
            {"_op_type": operation, "_index": self.load.alias, "_id": own, "_source": source}
            for own, source in zip(by_key, sources, strict=True)
        )
        there = []
        for result in written(self._writing, self._address, actions, len(items)):
            if result["status"] != 409:
                raise refused(self.load.name, result, self._address)
            there.append(by_key[result["_id"]])
        return there

    def _check_same(self, intake: Intake) -> None:
        """Make sure that the passages that were not sent again are those that are there."""
        if intake.source_hash.hexdigest() != self.load.source_hash:
            self._indexes.remove(self.load.data)
            raise InputError(
                f"the passages have changed since the load of {self.load.name} was interrupted; what was loaded is "
                "removed. Run the same again to load them from the beginning"
            )

    def publish(self, manifest: Manifest, replicas: int | None) -> None:
        """Verify what was loaded, and let the name stand for it."""
        if wrong := self._sample.difference(self._indexes, manifest) or self._without_vectors(manifest):
            self._indexes.remove(manifest.data)
            raise RetrievalError(
                f"the index {self.load.name} did not pass its verification: {wrong}. It is not published, and what was "
                "loaded is removed. Run the same again to load it from the beginning"
            )
        # From here on, whoever resumes has nothing to send again.
        self.load = dataclasses.replace(self.load, passages=manifest.passages, source_hash=manifest.source_hash)
        copied = self._indexes.publish(self.load, manifest, replicas)
        if copied is None:
            self._report(
                f"whether all copies of {manifest.name} are there yet is not known: the credentials lack the privilege "
                "monitor on the cluster"
            )
        elif not copied:
            self._report(f"not all copies of {manifest.name} are there yet: the cluster keeps making them, if it can")
        for data in self._indexes.remove_others(manifest.data):
            self._report(f"the earlier index {data} stays, since another alias stands for it")

    def _without_vectors(self, manifest: Manifest) -> str:
        """How many passages have a vector, where not all have that should; empty otherwise."""
        if self._encoder is None:
            return ""
        found = self._indexes.count(manifest.data, vectors=True)
        return "" if found == manifest.passages else f"{manifest.passages} passages are in it and {found} vectors"


def written(client: Elasticsearch, address: Address, actions: Iterable[dict[str, Any]], size: int) -> Iterator[Any]:
    """Send documents, again where the server is busy.

    Args:
        client: The client.
        address: Of the index.
        actions: As the client's helpers take them; each names the alias of a load.
        size: How many go into one request at most.

    Yields:
        The answers for those that were not written.

    Raises:
        RetrievalError: The cluster cannot be reached, or refuses all of it.
    """
    from elasticsearch.helpers import streaming_bulk

    with server_errors(address, "the passages could not be written"):
        results = streaming_bulk(
            client,
            actions,
            chunk_size=max(1, size),
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
            yield from item.values()


def refused(name: str, result: dict[str, Any], address: Address) -> RetrievalError:
    """The error of a passage that the server does not take.

    Args:
        name: Of the index.
        result: The server's answer.
        address: Of the index.
    """
    text = problem(result, address)
    kind = str(result.get("error"))
    if "cluster_block_exception" in kind:
        return blocked(name, text)
    if "index_not_found_exception" in kind:
        return taken_over(name)
    return RetrievalError(f"passage {result['_id']!r} could not be written: {result['status']} ({text})")


def _settled(waiting: deque[tuple[_Mark, Future[None]]]) -> _Mark:
    """Wait for the batch that was begun first, and return its mark."""
    mark, future = waiting.popleft()
    future.result()
    return mark


class _Sample:
    """A random sample of the passages that go by, each with the same chance."""

    def __init__(self) -> None:
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

    def difference(self, indexes: Indexes, manifest: Manifest) -> str:
        """What is wrong with an index beside what was seen: all of it by number, the sample word for word."""
        found = indexes.count(manifest.data, refresh=True)
        if found != manifest.passages:
            return f"{manifest.passages} passages went into it and {found} are in it"
        stored = indexes.documents(manifest.data, self.passages)
        for passage, one in zip(self.passages, stored, strict=True):
            if one is None or passage_of(one) != passage:
                return f"passage {passage.id!r} is not in it as it was given"
        return ""
