"""Loading an index, and changing one that is there: a generation of its own, which is verified, and then published.

A change is made to a clone, which shares the files of the index that it was made from; the state before stays until the
next change, so that who searches it is not disturbed.
"""

import dataclasses
import itertools
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from keqa.errors import ConfigurationError, InputError
from keqa.retrievers.base import Notice, Origin, Passage, default_notice
from keqa.retrievers.elasticsearch import mapping
from keqa.retrievers.elasticsearch.client import Address, connect, parse_address
from keqa.retrievers.elasticsearch.generation import BATCH, CHANGE, LOAD, Generations, meta_of
from keqa.retrievers.elasticsearch.mapping import ANALYZERS, DIGEST, FILE, PASSAGE, VECTOR, VectorManifest
from keqa.retrievers.embedding import Encoder, same_weights
from keqa.retrievers.intake import PassageIntake
from keqa.retrievers.manifest import Manifest, PlannedChange, manifest_after
from keqa.retrievers.text import language_of

# Of so many bytes of text the price is reported, as how many there are is known at the end only.
_PRICED = 1_000_000
# What a passage that is there already is answered with, by a request whose first answer got lost; and one that is not
# there and is to be deleted.
_THERE = 409
_ABSENT = 404


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
    overwrite: bool = False,
    model: str | None = None,
    **options: str | None,
) -> Manifest:
    """Load passages into an index in Elasticsearch, and publish it only when it is finished and verified.

    A load that was interrupted resumes when it is called again with the same passages and settings. The arguments are
    those of `keqa.build_index`; the number of parts (one is right up to about 50 GB) and of copies (one by default on
    several nodes); and, with a model, those of `keqa.build_dense` that are about it.
    """
    target, report = parse_address(address), notice or default_notice
    if shards < 1:
        raise InputError(f"an index needs at least one shard, not {shards}")
    if replicas is not None and replicas < 0:
        raise InputError(f"an index cannot have {replicas} replicas")
    # An unknown language is refused before anything is read or sent.
    language_of(language, (), ANALYZERS)
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if model is None and given:
        raise InputError(f"{' and '.join(given)} say how a model encodes: name the model as well")
    with connect(target) as client:
        encoder = None if model is None else Encoder.choose(model, **given)
        if encoder is not None and encoder.settings.dimension > mapping.LONGEST_VECTOR:
            raise InputError(
                f"the vectors of {model} have {encoder.settings.dimension} dimensions, and Elasticsearch takes "
                f"{mapping.LONGEST_VECTOR} at most: name another model"
            )
        intake = PassageIntake(passages, language, ANALYZERS)
        generations = Generations(client, target)
        generations.refuse_foreign(None if overwrite else sources)
        data, created, resumed = _begun(generations, target.name, intake, encoder, shards, report)
        if encoder is not None and (price := encoder.price(_PRICED)):
            report(f"{model} is asked for the vectors: for each {_PRICED:,} bytes of text {price}")
        actions = _passages(generations, intake, encoder, data if resumed else None, progress)
        generations.write(f"{data}-{LOAD}", actions, passing=_THERE)
        fixed: dict[str, Any] = {"name": target.name, "created": created, "data": data}
        fixed |= {"analyzer": ANALYZERS[intake.language], **intake.entries(sources)}
        if encoder is not None:
            fixed |= {"encoder": encoder.settings, "probe": tuple(encoder.query_probe().tolist())}
        manifest = Manifest(**fixed) if encoder is None else VectorManifest(**fixed)
        generations.verify(manifest)
        removing, stays = generations.left_over(data, loads=True)
        copied = generations.publish(LOAD, manifest, replicas, removing)
        if copied is None:
            report(
                f"whether all copies of {manifest.name} are there yet is not known: the credentials lack the privilege "
                "monitor on the cluster"
            )
        elif not copied:
            report(f"not all copies of {manifest.name} are there yet: the cluster keeps making them, if it can")
        for earlier in stays:
            report(f"the earlier index {earlier} stays, since another alias stands for it")
        intake.report(report)
    return manifest


def _begun(
    generations: Generations, name: str, intake: PassageIntake, encoder: Encoder | None, shards: int, report: Notice
) -> tuple[str, str, bool]:
    """The generation of a load, when it was begun, and whether that was by an interrupted one of the same passages."""
    first = PassageIntake(intake.head)
    deque(first, maxlen=0)
    settings = encoder.settings if encoder else None
    plan = [dataclasses.asdict(ANALYZERS[intake.language]), shards, first.source_hash.hexdigest()]
    data, state, others = generations.of_plan([*plan, dataclasses.asdict(settings)] if settings else plan)
    for begun in others:
        report(
            f"an earlier load of {name}, begun {begun}, was interrupted: again (its passages or settings are others)"
        )
    if state:
        written = generations.count(data, refresh=True)
        if encoder is None or _gives_the_same(encoder, generations, data):
            begun = str(meta_of(state).get("created"))
            report(
                f"an earlier load of {name}, begun {begun}, was interrupted after about {written} passages: "
                "resuming from there"
            )
            generations.reopen(data)
            return data, begun, True
        generations.remove(data)
    return data, generations.begin(data, mapping.index_body(intake.language, shards, settings)), False


def _passages(
    generations: Generations,
    intake: PassageIntake,
    encoder: Encoder | None,
    resumed: str | None,
    progress: Callable[[int], None] | None,
) -> Iterator[dict[str, Any]]:
    """What a load writes; the intake counts and hashes all passages on the way."""
    given = ((passage, mapping.document(passage, intake.origin)) for passage in intake)
    while batch := list(itertools.islice(given, BATCH)):
        if progress is not None:
            progress(intake.count)
        there: dict[str, dict[str, Any]] = {}
        if resumed is not None:
            there = generations.stored(resumed, [passage.id for passage, _ in batch], [*PASSAGE, FILE, DIGEST])
        # What an interrupted load wrote is neither sent nor encoded again, unless it is another by now.
        missing = [(passage, source) for passage, source in batch if there.get(passage.id) != source]
        vectors = encoded(encoder, [passage for passage, _ in missing])
        for (passage, source), vector in zip(missing, vectors, strict=True):
            operation = "index" if passage.id in there else "create"
            yield {"_op_type": operation, "_id": passage.id, "_source": source | vector}


def encoded(encoder: Encoder | None, passages: Sequence[Passage]) -> list[dict[str, Any]]:
    """The vectors of some passages, each as an entry of a document; without an encoder, nothing for each."""
    if encoder is None or not passages:
        return [{} for _ in passages]
    return [{VECTOR: mapping.as_sent(row)} for row in encoder.passages(passages)]


def _gives_the_same(encoder: Encoder, generations: Generations, data: str) -> bool:
    """Whether an encoder gives the vector that a passage of a generation has."""
    for hit in generations.search(data, size=1)["hits"]["hits"]:
        row = encoder.passages([mapping.passage_of(hit["_source"])])[0]
        # As another machine, or its graphics card, rounds otherwise.
        return same_weights(row.tolist(), hit["_source"].get(VECTOR), hosted=True)
    return True


class _ElasticsearchChanger:
    """An index in Elasticsearch that is open to be changed; see `keqa.retrievers.manifest.Changer`."""

    def __init__(self, generations: Generations, address: Address, manifest: Manifest, model: str | None) -> None:
        self._generations, self._address, self._model = generations, address, model
        self.manifest = manifest
        # Which ids are there: nothing is written to a finished index, so that none needs to be asked for twice.
        self._known: dict[str, bool] = {}

    def files(self, tops: Sequence[str] | None = None) -> dict[str, str]:
        return {path: digest for path, (digest, _) in self._generations.files(self.manifest.data, tops).items()}

    def ids_of(self, path: str) -> list[str]:
        return self._generations.ids(self.manifest.data, {"term": {FILE: path}})

    def pieces(self, document: str) -> list[str]:
        return self._generations.ids(self.manifest.data, {"prefix": {"doc_id": f"{document}#"}}) if document else []

    def held(self, ids: Sequence[str]) -> set[str]:
        self.stored([one for one in dict.fromkeys(ids) if one not in self._known], ["doc_id"])
        return {one for one in ids if self._known[one]}

    def stored(self, ids: Sequence[str], fields: Sequence[str] = PASSAGE) -> dict[str, Passage]:
        found = self._generations.stored(self.manifest.data, ids, fields)
        self._known |= {one: one in found for one in ids}
        return {one: mapping.passage_of(source) for one, source in found.items()}

    def apply(self, change: PlannedChange) -> Manifest:
        """Change a clone of the index, make sure that it is as it should be, and let the name stand for it."""
        before, generations = self.manifest, self._generations
        # First, as a model that is another one is refused before anything is done.
        encoder = None
        if change.new and isinstance(before, VectorManifest):
            is_same = partial(_gives_the_same, generations=generations, data=before.data)
            encoder = Encoder.for_more(before.encoder, str(self._address), self._model, is_same)
        # Nothing of a change is resumed, so that no other one ever writes to the same clone.
        data = f"{before.name}-{uuid.uuid4().hex[:12]}"
        after = manifest_after(before, change, data=data)
        settings, (earlier, _) = generations.settings(before.data), generations.left_over(before.data, loads=False)
        is_expanded = settings.get("auto_expand_replicas", "false") != "false"
        generations.clone(before.data, data)
        generations.write(f"{data}-{CHANGE}", _changes(change, encoder), passing=_ABSENT)
        generations.verify(after)
        if after.is_worn:
            generations.merge(data)
            after = dataclasses.replace(after, deleted=0)
        replicas = None if is_expanded else int(settings["number_of_replicas"])
        generations.publish(CHANGE, after, replicas, earlier, before.data)
        self.manifest, self._known = after, {}
        return after


def _changes(change: PlannedChange, encoder: Encoder | None) -> Iterator[dict[str, Any]]:
    origins = {one: Origin(path, file.digest) for path, file in change.files.items() if file for one in file.ids}
    # A passage that another takes the place of is written over: batches may arrive in another order.
    replaced = {passage.id for passage in change.new}
    yield from ({"_op_type": "delete", "_id": one} for one in change.gone if one not in replaced)
    # What stays as it is has the digest of its file beside it, which is another.
    for passage in change.kept:
        yield {"_op_type": "update", "_id": passage.id, "doc": mapping.document(passage, origins.get(passage.id))}
    for start in range(0, len(change.new), BATCH):
        some = change.new[start : start + BATCH]
        for passage, vector in zip(some, encoded(encoder, some), strict=True):
            source = mapping.document(passage, origins.get(passage.id)) | vector
            yield {"_op_type": "index", "_id": passage.id, "_source": source}


@contextmanager
def changing(address: str, model: str | None = None) -> Iterator[_ElasticsearchChanger]:
    """Open an index to change it, one with vectors by their address; of two changes at once the second to end fails."""
    target = parse_address(address)
    with connect(target) as client:
        generations = Generations(client, target)
        manifest, dense = generations.manifest(), dataclasses.replace(target, dense=True)
        if target.dense:
            mapping.with_vectors(manifest, f"the index {dense}")
        elif isinstance(manifest, VectorManifest):
            raise ConfigurationError(
                f"the index {target} has vectors, which change with its text: change it as {dense}, or as "
                f"{dense}@MODEL where MODEL, which made them, does not come as a package"
            )
        yield _ElasticsearchChanger(generations, target, manifest, target.model or model)
