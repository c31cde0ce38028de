"""How well what a text cites carries it: citation recall and precision (ALCE, Gao et al., 2023, section 3), and lists.

Whether passages entail a sentence is for a judge to say, who is passed in: an NLI model in ALCE, a language model or
the words of passages here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from keqa.metrics.answers import same_answer

Entails = Callable[[Sequence[str], str], bool]
"""Whether passages together carry a sentence."""


class Cited(NamedTuple):
    """A sentence without its citations, and the passages that it cites."""

    sentence: str
    passages: Sequence[str]


@dataclass(frozen=True)
class CitationQuality:
    """Shares from 0 to 1: of the sentences those that their citations carry, of the citations those that are needed."""

    recall: float
    precision: float


def citation_quality(text: Sequence[Cited], entails: Entails) -> CitationQuality:
    """ALCE's citation recall and precision; nothing written is worth nothing.

    A sentence is recalled where the passages it cites carry it together. A citation of such a sentence is precise
    unless its passage does not carry the sentence, and the others do without it; any other citation is not.
    """
    recalled, precise, citations = 0, 0, 0
    for sentence, passages in text:
        carried = bool(passages) and entails(passages, sentence)
        recalled += carried
        citations += len(passages)
        if carried:
            for place, passage in enumerate(passages):
                others = [*passages[:place], *passages[place + 1 :]]
                precise += entails([passage], sentence) or not (others and entails(others, sentence))
    return CitationQuality(recalled / len(text) if text else 0.0, precise / citations if citations else 0.0)


def list_quality(items: Sequence[str], members: Sequence[str]) -> tuple[float, float]:
    found = [member for member in members if any(same_answer(member, item) for item in items)]
    right = [item for item in items if any(same_answer(item, member) for member in members)]
    return len(found) / len(members) if members else float(not items), len(right) / len(items) if items else 0.0
