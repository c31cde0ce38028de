"""Key sentences in the place of whole passages (KEQA, section 4.2, the variant w SE)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from keqa.programs.records import PassageVerdict
from keqa.programs.stages.selection import Similarity, closest
from keqa.retrievers.base import Hit
from keqa.retrievers.splitting import stripped_sentences


@dataclass(frozen=True)
class KeySentences:
    """Cuts the passages that were kept down to the sentences closest to the quiz, before it is answered from them.

    The judge of utility reads whole passages, as without it, so that the variant differs in what is answered from
    alone.

    Attributes:
        keep: How many sentences of each to keep.
        similarity: Compares the quiz with sentences.
    """

    keep: int
    similarity: Similarity

    def cut(
        self, quiz: str, hits: Sequence[Hit], verdicts: Sequence[PassageVerdict]
    ) -> tuple[list[Hit], list[PassageVerdict]]:
        """Cut what was kept.

        Args:
            quiz: Resolved text.
            hits: The passages, best first.
            verdicts: What became of each, in their order.

        Returns:
            Both again; a passage that was left out, or has no more sentences, is the same.
        """
        found = [
            (self._shortened(quiz, hit) if verdict.kept else hit, verdict)
            for hit, verdict in zip(hits, verdicts, strict=True)
        ]
        return (
            [hit for hit, _ in found],
            [verdict.model_copy(update={"text": hit.passage.text}) for hit, verdict in found],
        )

    def _shortened(self, quiz: str, hit: Hit) -> Hit:
        parts = stripped_sentences(hit.passage.text)
        if len(parts) <= self.keep:
            return hit
        short = " ".join(closest([quiz], parts, self.keep, self.similarity))
        return replace(hit, passage=replace(hit.passage, text=short))
