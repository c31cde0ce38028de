"""Evidence sentences: those of a document that are nearest to triples or a question (KS-LLM, equations 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keqa.errors import ConfigurationError
from keqa.programs.reference.embedding import Remembering, open_embedder
from keqa.programs.stages.selection import lexical_similarity
from keqa.retrievers.base import Passage
from keqa.retrievers.embedding import Pooling
from keqa.retrievers.splitting import stripped_sentences

Distance = Literal["euclidean", "cosine"]
"""How far two embeddings are from each other: by Euclid, as in the paper, or 1 minus their cosine."""

Distances: TypeAlias = NDArray[np.float64]
"""A row for each text that is looked for, a column for each sentence."""

_LEAST = 1e-12


@dataclass(frozen=True)
class Sentence:
    """A sentence of an evidence document, without the title of its page.

    Attributes:
        text: The sentence.
        passage_id: The passage that it is from.
    """

    text: str
    passage_id: str


@dataclass(frozen=True)
class Nearest:
    """A sentence that was selected.

    Attributes:
        position: Its place among the sentences.
        wanted: Place of the triple, or question, that it is nearest to.
        distance: From that.
    """

    position: int
    wanted: int
    distance: float


class DistanceMeter:
    """Measures how far sentences are from triples or a question. Safe to call from many threads at once.

    Embeddings are taken as the model pools them, and are not scaled to length 1: where all rows have one length, Euclid
    and cosine order sentences alike, and the choice between them is none. Without a model, rows are counts of words,
    rare ones weighing more, and of length 1.
    """

    def __init__(
        self, embedder: str | None = None, distance: Distance = "euclidean", pooling: Pooling | None = None
    ) -> None:
        """Set up.

        Args:
            embedder: Name of an embedding model, such as ``local/minilm``, or the folder of one, a plain BERT included;
                see `keqa.programs.reference.embedding.open_embedder`. By words where None.
            distance: ``euclidean`` or ``cosine``.
            pooling: ``cls`` or ``mean`` of a model's tokens; as the model itself says where None.

        Raises:
            ConfigurationError: There is no such model, or it has no tokens to pool.
            MissingExtraError: A package is missing that the model needs.
        """
        self.distance: Distance = distance
        self._embedder: Remembering | None = None
        if embedder is None:
            if pooling is not None:
                raise ConfigurationError(f"pooling={pooling} is of an embedding model: name one with similarity=MODEL")
            return
        try:
            model = open_embedder(embedder)
        except ConfigurationError as error:
            raise ConfigurationError(f"similarity={embedder}: {error}") from error
        raw = getattr(model, "embed_raw", None)
        if pooling is not None and raw is None:
            raise ConfigurationError(f"similarity={embedder} has no tokens to pool: leave pooling={pooling} out")
        # Methods and questions that are compared select from the same sentences.
        unscaled: Any = None if raw is None else SimpleNamespace(name=embedder, embed=partial(raw, pooling=pooling))
        self._embedder = Remembering(unscaled or model)

    def measure(self, wanted: Sequence[str], candidates: Sequence[str], distance: Distance | None = None) -> Distances:
        """The distance of every sentence from every text that is looked for.

        Args:
            wanted: Triples, or a question.
            candidates: Sentences.
            distance: Another one than that of the meter; the embeddings that both need are made once.
        """
        distance = distance or self.distance
        if self._embedder is None:
            cosines = np.array([lexical_similarity([one], candidates) for one in wanted], np.float64)
            return 1 - cosines if distance == "cosine" else np.sqrt(np.maximum(0, 2 - 2 * cosines))
        rows = self._embedder.embed([*wanted, *candidates]).astype(np.float64)
        return distances(rows[: len(wanted)], rows[len(wanted) :], distance)


def distances(wanted: NDArray[np.float64], candidates: NDArray[np.float64], distance: Distance) -> Distances:
    """The distance of every row of one array from every row of another, by the rows as they are."""
    products = wanted @ candidates.T
    first, second = (np.linalg.norm(rows, axis=1) for rows in (wanted, candidates))
    if distance == "cosine":
        cosine: Distances = 1 - products / np.maximum(np.outer(first, second), _LEAST)
        return cosine
    euclid: Distances = np.sqrt(np.maximum(0, first[:, None] ** 2 + second[None] ** 2 - 2 * products))
    return euclid


def sentences_of(passages: Sequence[Passage]) -> list[Sentence]:
    """The sentences of a document, or of the passages that stand for one, each once.

    A title is not a part of its first sentence, and an abbreviation ("St. Louis", "J. K. Rowling") ends none.
    """
    found: dict[str, Sentence] = {}
    for passage in passages:
        for sentence in stripped_sentences(passage.text):
            found.setdefault(sentence, Sentence(sentence, passage.id))
    return list(found.values())


def nearest(measured: Distances, keep: int, subjects: Sequence[str] | None = None) -> list[Nearest]:
    """Select the sentences at the least distance, in the order of the text (equation 3).

    A sentence is as far as the nearest triple of a subject is. Where triples are about several subjects, these choose
    in turn, so that a question on two people does not find sentences on one of them only.

    Args:
        measured: What `DistanceMeter.measure` gave.
        keep: How many to select, the paper's k.
        subjects: What each triple is about; one subject for all where None.
    """
    if not measured.size:
        return []
    places: dict[str, list[int]] = {}
    for place in range(len(measured)):
        places.setdefault("" if subjects is None else subjects[place], []).append(place)
    queues = []
    for rows in places.values():
        of_subject = measured[rows]
        closest = of_subject.argmin(axis=0)
        queue = [
            Nearest(position, rows[closest[position]], float(of_subject[closest[position], position]))
            for position in range(measured.shape[1])
        ]
        queues.append(sorted(queue, key=lambda one: one.distance))
    queues.sort(key=lambda queue: queue[0].distance)
    chosen: dict[int, Nearest] = {}
    while len(chosen) < min(keep, measured.shape[1]):
        for queue in queues:
            if len(chosen) < keep and (left := next((one for one in queue if one.position not in chosen), None)):
                chosen[left.position] = left
    return [chosen[position] for position in sorted(chosen)]


def subject_of(triple: str) -> str:
    """What a triple is about, whatever its letter case: what stands before the first bar."""
    return " ".join(triple.partition("|")[0].casefold().split())


def as_text(triple: str) -> str:
    """A triple as it is embedded: subject, relation and object without the bars between them."""
    return " ".join(triple.replace("|", " ").split())
