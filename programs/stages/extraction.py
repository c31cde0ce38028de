"""Key sentences in the place of whole passages (KEQA, section 4.2, the variant w SE)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from keqa.programs.records import PassageVerdict
from keqa.programs.stages.selection import Similarity, closest
from keqa.retrievers.base import Hit
from keqa.retrievers.splitting import stripped_sentences


def with_key_sentences(
    quiz: str, hits: Sequence[Hit], verdicts: Sequence[PassageVerdict], keep: int, similarity: Similarity
) -> tuple[list[Hit], list[PassageVerdict]]:
    """Cut the passages that were kept down to the sentences closest to the quiz, before it is answered from them.

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
        parts = stripped_sentences(hit.passage.text)
        if len(parts) <= keep:
            return hit
        short = " ".join(closest([quiz], parts, keep, similarity))
        return replace(hit, passage=replace(hit.passage, text=short))

    cut = [shortened(hit) if verdict.kept else hit for hit, verdict in zip(hits, verdicts, strict=True)]
    pairs = zip(cut, verdicts, strict=True)
    return cut, [verdict.model_copy(update={"text": hit.passage.text}) for hit, verdict in pairs]
