"""Sentences nearest to constructed triples (KS-LLM, section 3, equations 2 and 3), or to a quiz or question itself.

The paper embeds triples and sentences with BERT, takes the triples together as one text (q = Bert(T)), and selects the
sentences at the smallest Euclidean distance. KEQA compares by one score a sentence, a `Similarity`; the method KS-LLM
by a `DistanceMeter`, which measures each triple by itself. Both select alike: see `nearest`.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, TypeAlias

import dspy
import numpy as np
from numpy.typing import NDArray

from keqa.errors import ConfigurationError
from keqa.metrics.answers import tokens
from keqa.programs.calls.ask import ask
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import NoCopy, in_thread, note
from keqa.programs.records import PassageVerdict
from keqa.programs.reference.embedding import Embedder, Remembering, open_embedder
from keqa.programs.sentences import sentences_of
from keqa.programs.stage import Stage
from keqa.retrievers.embedding import Pooling
from keqa.retrievers.splitting import stripped_sentences
from keqa.signatures.ks_llm import ConstructTriples

Similarity = Callable[[Sequence[str], Sequence[str]], Sequence[float]]
"""From triples and sentences to one score a sentence; higher is closer."""

Distance = Literal["euclidean", "cosine"]
"""How far two embeddings are from each other: by Euclid, as in the paper, or 1 minus their cosine."""

Distances: TypeAlias = NDArray[np.float64]
"""A row for each text that is looked for, a column for each sentence."""

_LEAST = 1e-12
_QUOTED = re.compile(r"\A(\*\*|[`\"'])(.*)\1\Z", re.DOTALL)


def lexical_similarity(triples: Sequence[str], candidates: Sequence[str]) -> list[float]:
    """Cosine of word counts, rare words among the candidates weighing more; it needs no model."""
    bags = [Counter(tokens(candidate)) for candidate in candidates]
    spread = Counter(word for bag in bags for word in bag)
    weight = {word: math.log((1 + len(bags)) / count) for word, count in spread.items()}
    wanted = Counter(tokens(" ".join(triples)))

    def norm(bag: Counter[str]) -> float:
        return math.sqrt(sum((count * weight.get(word, 0.0)) ** 2 for word, count in bag.items()))

    scores = []
    for bag in bags:
        dot = sum(count * wanted[word] * weight[word] ** 2 for word, count in bag.items())
        scores.append(dot / (norm(bag) * norm(wanted)) if dot else 0.0)
    return scores


class EmbeddingSimilarity:
    """Compares triples, or a quiz, with sentences by the inner product of their embeddings, in many threads at once.

    Of rows of length 1 the smallest distance is the greatest inner product: ‖k_i − q‖² = 2 − 2 k_i·q.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        # Quizzes of one question find the same passages, so their sentences come again.
        self._embedder = Remembering(_opened(name))

    def __call__(self, triples: Sequence[str], candidates: Sequence[str]) -> list[float]:
        wanted, *rows = self._embedder.embed([", ".join(triples), *candidates])
        return [float(row @ wanted) for row in rows]


def _opened(name: str) -> Embedder:
    try:
        return open_embedder(name)
    except ConfigurationError as error:
        raise ConfigurationError(f"similarity={name}: {error}") from error


def similarity_of(given: Similarity | str | None) -> Similarity:
    """What compares triples with sentences: a function, the vectors of an embedder by its name, or words where None."""
    return EmbeddingSimilarity(given) if isinstance(given, str) else given or lexical_similarity


class DistanceMeter:
    """Measures how far sentences are from triples or a question, in many threads at once.

    Embeddings are taken as the model pools them, not scaled to length 1, by which Euclid and cosine would order alike.
    Without a model, rows are counts of words, rare ones weighing more, and of length 1.
    """

    def __init__(
        self, embedder: str | None = None, distance: Distance = "euclidean", pooling: Pooling | None = None
    ) -> None:
        """Set up with the name or folder of an embedding model, a plain BERT included, that pools as it says itself."""
        self.distance: Distance = distance
        self._embedder: Remembering | None = None
        if embedder is None:
            if pooling is not None:
                raise ConfigurationError(f"pooling={pooling} is of an embedding model: name one with similarity=MODEL")
            return
        model = _opened(embedder)
        raw = getattr(model, "embed_raw", None)
        if pooling is not None and raw is None:
            raise ConfigurationError(f"similarity={embedder} has no tokens to pool: leave pooling={pooling} out")
        # Methods and questions that are compared select from the same sentences.
        unscaled: Any = None if raw is None else SimpleNamespace(name=embedder, embed=partial(raw, pooling=pooling))
        self._embedder = Remembering(unscaled or model)

    def measure(self, wanted: Sequence[str], candidates: Sequence[str]) -> Distances:
        if self._embedder is None:
            cosines = np.array([lexical_similarity([one], candidates) for one in wanted], np.float64)
            return 1 - cosines if self.distance == "cosine" else np.sqrt(np.maximum(0, 2 - 2 * cosines))
        rows = self._embedder.embed([*wanted, *candidates]).astype(np.float64)
        first, second = rows[: len(wanted)], rows[len(wanted) :]
        products = first @ second.T
        lengths = [np.linalg.norm(one, axis=1) for one in (first, second)]
        if self.distance == "cosine":
            cosine: Distances = 1 - products / np.maximum(np.outer(*lengths), _LEAST)
            return cosine
        euclid: Distances = np.sqrt(np.maximum(0, lengths[0][:, None] ** 2 + lengths[1][None] ** 2 - 2 * products))
        return euclid


@dataclass(frozen=True)
class Nearest:
    """A selected sentence, by its position, and how far it is from the nearest of what was wanted, by place."""

    position: int
    wanted: int
    distance: float


def nearest(measured: Distances, keep: int, subjects: Sequence[str] | None = None) -> list[Nearest]:
    """The `keep` sentences (the paper's k) at the least distance, in the order of the text (equation 3).

    Several `subjects` choose in turn, so that a question on two people does not find sentences on one of them only.
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


def closest(wanted: Sequence[str], candidates: Sequence[str], keep: int, similarity: Similarity) -> list[str]:
    scores = np.array([similarity(wanted, candidates)], np.float64)
    return [candidates[one.position] for one in nearest(-scores, keep)]


def with_key_sentences(
    quiz: str, verdicts: Sequence[PassageVerdict], keep: int, similarity: Similarity
) -> list[PassageVerdict]:
    """Cut the passages that were kept down to the sentences closest to the quiz (KEQA, section 4.2, w SE)."""

    def shortened(text: str) -> str:
        parts = sentences_of(text)
        return text if len(parts) <= keep else " ".join(closest([quiz], parts, keep, similarity))

    return [one.model_copy(update={"text": shortened(one.text)}) if one.kept else one for one in verdicts]


def triples_of(prediction: dspy.Prediction) -> list[str]:
    """The triples of a reply, each once, with bars between their parts, however these were parted."""
    found = (_with_bars(str(triple).strip()) for triple in prediction.triples or ())
    return list(dict.fromkeys(triple for triple in found if any(char.isalnum() for char in triple)))


def _with_bars(triple: str) -> str:
    enclosed = triple[:1] + triple[-1:] in ("()", "<>", "[]", "``")
    marks = ("|", ";", "->", "→", *([","] if enclosed else []))
    parted = ((triple[1:-1] if enclosed else triple).split(mark) for mark in marks)
    parts = next((parts for parts in parted if len(parts) == 3), None)
    return triple if parts is None else " | ".join(_QUOTED.sub(r"\2", part.strip()) for part in parts)


class Selection(Stage):
    """Constructs triples for a quiz and selects the sentences closest to them, 2 in the paper."""

    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"construct": ConstructTriples}
    follows = ("evidence_sentences", "similarity")

    _similarity: NoCopy[Similarity] = NoCopy(lexical_similarity)

    @property
    def similarity(self) -> Similarity:
        return self._similarity.value

    @similarity.setter
    def similarity(self, given: Similarity | str | None) -> None:
        self._similarity = NoCopy(similarity_of(given))

    async def run(
        self, question: str, passages: Sequence[str], number: int | None = None
    ) -> tuple[list[str], list[str]]:
        """Triples, and sentences in the order of the text; both empty where no triple could be constructed."""
        try:
            prediction = await ask(self.construct, "select", number, question=question)
        except CallError as error:
            if not passages:
                raise
            note("select", error.cause, error.message, "answered from whole passages", number)
            return [], []
        triples = triples_of(prediction)
        candidates = list(dict.fromkeys(sentence for passage in passages for sentence in stripped_sentences(passage)))
        if not triples or not candidates:
            return triples, []
        keep, similarity = self.evidence_sentences, self.similarity
        # An embedding model takes its time, in which other questions' calls shall not wait.
        return triples, await in_thread(lambda: closest(triples, candidates, keep, similarity))
