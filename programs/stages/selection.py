"""Sentences of passages: those closest to constructed triples (KS-LLM, sections 3.1 and 3.2), or to the quiz itself."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from keqa.errors import ConfigurationError
from keqa.metrics.answers import tokens
from keqa.programs.calls.ask import ask
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import CallLimiter, NoCopy, in_thread, note
from keqa.programs.predictor import Predictor
from keqa.programs.records import PassageVerdict
from keqa.programs.reference.embedding import Remembering, open_embedder
from keqa.programs.stages.stage import Stage
from keqa.programs.supporting import sentences_of
from keqa.retrievers.base import Hit
from keqa.retrievers.splitting import stripped_sentences
from keqa.signatures import ConstructTriples

Similarity = Callable[[Sequence[str], Sequence[str]], Sequence[float]]
"""From triples and sentences to one score a sentence; higher is closer."""


def lexical_similarity(triples: Sequence[str], candidates: Sequence[str]) -> list[float]:
    """Cosine of word counts, rare words among the candidates weighing more.

    KS-LLM measures the distance of BERT embeddings; this needs no model. `EmbeddingSimilarity` measures as the paper
    does.
    """
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
    """Compares triples, or a quiz, with sentences by the inner product of their embeddings.

    The paper takes the sentences at the smallest Euclidean distance from the triples, which are embedded together as
    one text (q = Bert(T)). Embedders give rows of length 1, for which ‖k_i − q‖² = 2 − 2 k_i·q: the smallest distance
    is the greatest inner product, which is the cosine. Safe to call from many threads at once.

    Attributes:
        name: Of the embedder; see `keqa.programs.reference.embedding.open_embedder`.
    """

    def __init__(self, name: str) -> None:
        """Open the embedder.

        Args:
            name: Such as ``local/minilm`` or ``hashing``.

        Raises:
            ConfigurationError: There is no such model.
            MissingExtraError: A package is missing that the model needs.
        """
        self.name = name
        try:
            # Quizzes of one question find the same passages, so their sentences come again.
            self._embedder = Remembering(open_embedder(name))
        except ConfigurationError as error:
            raise ConfigurationError(f"similarity={name}: {error}") from error

    def __call__(self, triples: Sequence[str], candidates: Sequence[str]) -> list[float]:
        """One score a sentence, all embedded in one batch; higher is closer."""
        wanted, *rows = self._embedder.embed([", ".join(triples), *candidates])
        return [float(row @ wanted) for row in rows]


def similarity_of(given: Similarity | str | None) -> Similarity:
    """What compares triples with sentences.

    Args:
        given: A function; the name of an embedder for `keqa.programs.reference.embedding.open_embedder`, whose
            vectors are compared; or None for words.

    Raises:
        ConfigurationError: There is no such embedder.
        MissingExtraError: A package is missing that it needs.
    """
    return EmbeddingSimilarity(given) if isinstance(given, str) else given or lexical_similarity


def closest(wanted: Sequence[str], candidates: Sequence[str], keep: int, similarity: Similarity) -> list[str]:
    """The sentences closest to what is wanted, in the order of the text (KS-LLM, equation 3).

    Args:
        wanted: Triples, or a quiz.
        candidates: Sentences.
        keep: How many to select, the paper's k.
        similarity: Compares them.
    """
    scores = similarity(wanted, candidates)
    chosen = sorted(range(len(candidates)), key=lambda position: -scores[position])[:keep]
    return [candidates[position] for position in sorted(chosen)]


def with_key_sentences(
    quiz: str, hits: Sequence[Hit], verdicts: Sequence[PassageVerdict], keep: int, similarity: Similarity
) -> tuple[list[Hit], list[PassageVerdict]]:
    """Cut the passages that were kept down to the sentences closest to the quiz (KEQA, section 4.2, the variant w SE).

    The judge of utility reads whole passages, as without it, so that the variant differs in what is answered from
    alone.

    Args:
        quiz: Resolved text.
        hits: The passages, best first.
        verdicts: What became of each, in their order.
        keep: How many sentences of each to keep.
        similarity: Compares the quiz with sentences.

    Returns:
        Both again; a passage that was left out, or has no more sentences, is the same.
    """

    def shortened(hit: Hit) -> Hit:
        parts = sentences_of(hit.passage.text)
        if len(parts) <= keep:
            return hit
        short = " ".join(closest([quiz], parts, keep, similarity))
        return replace(hit, passage=replace(hit.passage, text=short))

    cut = [shortened(hit) if verdict.kept else hit for hit, verdict in zip(hits, verdicts, strict=True)]
    pairs = zip(cut, verdicts, strict=True)
    return cut, [verdict.model_copy(update={"text": hit.passage.text}) for hit, verdict in pairs]


class Selection(Stage):
    """Constructs triples for a quiz and selects the sentences closest to them."""

    roles: ClassVar[Mapping[str, str]] = {"construct": "task"}
    follows = ("evidence_sentences", "similarity")

    def __init__(
        self, evidence_sentences: int = 2, similarity: Similarity | str | None = None, bound: CallLimiter | None = None
    ) -> None:
        """Set up.

        Args:
            evidence_sentences: How many sentences to select; 2 in the paper.
            similarity: Compares triples with sentences; see `similarity_of`.
            bound: How many calls may be in flight.
        """
        super().__init__(bound)
        self.construct = Predictor(ConstructTriples)
        self.evidence_sentences = evidence_sentences
        self.similarity = similarity

    @property
    def similarity(self) -> Similarity:
        """Compares triples with sentences; assigned as `similarity_of` takes it."""
        return self._similarity.value

    @similarity.setter
    def similarity(self, given: Similarity | str | None) -> None:
        self._similarity: NoCopy[Similarity] = NoCopy(similarity_of(given))

    async def run(
        self, question: str, passages: Sequence[str], number: int | None = None
    ) -> tuple[list[str], list[str]]:
        """Select evidence.

        Args:
            question: Quiz or question, resolved.
            passages: As the language model reads them.
            number: The quiz's number, for degradations.

        Returns:
            Triples, and sentences in the order of the text; both empty where no triple could be constructed.

        Raises:
            CallError: No triple could be constructed, and there are no passages to read instead.
        """
        try:
            prediction = await ask(self.construct, "select", number, question=question)
        except CallError as error:
            if not passages:
                raise
            note("select", error.cause, error.message, "answered from whole passages", number)
            return [], []
        triples = [str(triple) for triple in prediction.triples or []]
        return triples, await self.evidence(triples, passages)

    async def evidence(self, wanted: Sequence[str], passages: Sequence[str]) -> list[str]:
        """The sentences of the passages that are closest to triples, or to a question.

        Args:
            wanted: What they are to be close to.
            passages: As the language model reads them.
        """
        candidates = list(dict.fromkeys(sentence for passage in passages for sentence in stripped_sentences(passage)))
        if not wanted or not candidates:
            return []
        # An embedding model takes its time, in which other questions' calls shall not wait.
        return await in_thread(lambda: closest(wanted, candidates, self.evidence_sentences, self.similarity))
