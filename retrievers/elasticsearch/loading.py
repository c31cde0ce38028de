"""Loading an index: under a new name, verified, and only then published."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from keqa.errors import InputError, RetrievalError
from keqa.retrievers.analysis import detect_language, is_chinese, warning_of_chinese
from keqa.retrievers.base import Passage
from keqa.retrievers.elasticsearch.address import Address, parse_address
from keqa.retrievers.elasticsearch.bulk import Sender
from keqa.retrievers.elasticsearch.client import connect
from keqa.retrievers.elasticsearch.lifecycle import Indexes
from keqa.retrievers.elasticsearch.mapping import analyzer_settings, index_settings
from keqa.retrievers.elasticsearch.records import Load, data_name
from keqa.retrievers.elasticsearch.verification import Sample
from keqa.retrievers.intake import Intake, Notice
from keqa.retrievers.left_out import left_out_of
from keqa.retrievers.manifest import SCHEMA_VERSION, Manifest

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

_LOG = logging.getLogger("keqa.retrievers")
_HEAD = 1000
_BATCH = 500
_BATCH_CHARACTERS = 2_000_000
# How many passages may have to be sent again after an interruption.
_NOTE_EVERY = 20_000


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

    Returns:
        The manifest of the finished index. Where the passages are those of `read_corpus`, its ``left_out`` says what
        of the sources is not in it.

    Raises:
        InputError: There are no passages, one has no id, an argument cannot be used, or the name belongs to something
            that KEQA did not make, or to an index of other sources.
        ConfigurationError: Credentials, certificate or version do not fit.
        MissingExtraError: The client is not installed.
        RetrievalError: The cluster cannot be reached, refuses the passages, or another process loads the same index.
    """
    target = parse_address(address)
    _check(shards=shards, threads=threads, replicas=replicas, k1=k1, b=b)
    if language != "auto":
        analyzer_settings(language)
    stream = iter(passages)
    client = connect(target)
    try:
        head = list(itertools.islice(stream, _HEAD))
        if not head:
            raise InputError("there are no passages to index: the corpus is empty")
        analyzer = analyzer_settings(detect_language(head) if language == "auto" else language)
        plan = {"language": analyzer.language, "version": analyzer.version, "shards": shards, "k1": k1, "b": b}
        loading = _Loading(client, target, plan, notice or _LOG.warning, progress or (lambda count: None))
        loading.begin(head, resume, None if overwrite else sources)
        intake = loading.read(itertools.chain(head, stream), threads)
        manifest = Manifest(
            schema_version=SCHEMA_VERSION,
            name=target.name,
            analyzer=analyzer,
            passages=intake.count,
            renamed=intake.renamed,
            source_hash=intake.source_hash.hexdigest(),
            sources=tuple(sources),
            created=loading.load.started,
            data=loading.load.data,
            # The engine keeps no stamp of its commits; a finished index takes no further ones.
            commit=0,
            left_out=left_out_of(passages),
        )
        loading.publish(manifest, replicas)
        loading.report(intake)
    finally:
        client.close()
    return manifest


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
    ) -> None:
        self._client = client
        self._address = address
        self._indexes = Indexes(client, address)
        self._plan = plan
        self._report = report
        self._progress = progress
        self._sample = Sample()
        self._chinese = 0
        self._closed = False

    def begin(self, head: Sequence[Passage], resume: bool, sources: Sequence[str] | None) -> None:
        """Resume an interrupted load of the same passages, or begin one; None of sources replaces any index."""
        self._indexes.refuse_foreign(sources)
        first = Intake(head)
        for _ in first:
            pass
        owner, digest = uuid.uuid4().hex, first.source_hash.hexdigest()
        earlier = self._indexes.unfinished()
        if earlier and resume and (earlier.plan, earlier.head) == (self._plan, digest):
            self._report(
                f"an earlier load of {earlier.name}, begun {earlier.started}, was interrupted after about "
                f"{earlier.passages} passages: resuming from there"
            )
            self.load = dataclasses.replace(earlier, owner=owner)
            self._indexes.note(self.load, owner=earlier.owner)
            self._closed = True
            return
        if earlier:
            why = "its passages or settings are others" if resume else "as asked for"
            self._report(f"an earlier load of {earlier.name}, begun {earlier.started}, was interrupted: again ({why})")
        self._indexes.remove_others(None)
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        name = self._address.name
        self.load = Load(name, data_name(name), owner, started, self._plan, digest)
        plan = self._plan
        settings = index_settings(plan["language"], shards=plan["shards"], k1=plan["k1"], b=plan["b"])
        self._indexes.begin(self.load, settings)

    def read(self, passages: Iterable[Passage], threads: int) -> Intake:
        """Write every passage that is not there yet, and return what was counted and hashed on the way."""
        intake = Intake(passages)
        done = self.load.passages
        batch: list[Passage] = []
        size = 0
        with Sender(self._client, self._address, self.load, threads) as sender:
            for passage in intake:
                self._sample.see(passage)
                self._chinese += is_chinese(passage.text)
                if intake.count <= done:
                    if intake.count == done:
                        self._check_same(intake)
                    continue
                batch.append(passage)
                size += len(passage.title) + len(passage.text)
                if len(batch) == _BATCH or size >= _BATCH_CHARACTERS:
                    self._send(sender, batch, intake)
                    batch, size = [], 0
            if intake.count < done:
                self._check_same(intake)
            if batch:
                self._send(sender, batch, intake)
            sender.finish()
        self._progress(intake.count)
        return intake

    def _send(self, sender: Sender, batch: Sequence[Passage], intake: Intake) -> None:
        if self._closed:
            # Only where there is something to write: an index that is complete keeps the copies that it has.
            self._indexes.reopen(self.load)
            self._closed = False
        sender.send(batch, (intake.count, intake.source_hash.hexdigest()))
        count, digest = sender.arrived
        self._progress(count)
        if count - self.load.passages >= _NOTE_EVERY:
            self.load = dataclasses.replace(self.load, passages=count, source_hash=digest)
            self._indexes.note(self.load, owner=self.load.owner)

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
        if wrong := self._sample.difference(self._client, self._address, manifest):
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

    def report(self, intake: Intake) -> None:
        """Say what was odd about the passages."""
        intake.report(self._report)
        if warning := warning_of_chinese(self._chinese, intake.count, self._plan["language"]):
            self._report(warning)
