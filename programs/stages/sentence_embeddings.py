"""The distance of sentences from triples by their embeddings (KS-LLM, section 3.2, equations 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence

from keqa.errors import ConfigurationError
from keqa.programs.reference.embedding import Remembering, open_embedder

__all__ = ["EmbeddingSimilarity"]


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
