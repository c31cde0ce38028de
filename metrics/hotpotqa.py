"""EM and F1 as HotpotQA's official script computes them (Yang et al., 2018), for HotpotQA and 2WikiMultihopQA.

`keqa.metrics.answers` distinguishes more: signs, decimals, names that are articles. What is compared with published
figures has to be scored as they were.
"""

import re
import string
from collections.abc import Sequence

from keqa.metrics.answers import overlap

_ARTICLE = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(text: str) -> str:
    """Lower case, without ASCII punctuation and articles, with single spaces."""
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str | None, golds: Sequence[str]) -> float:
    """1 where a prediction equals a gold answer or alias after normalisation, else 0, as for a failed question."""
    return 0.0 if prediction is None else float(normalize(prediction) in map(normalize, golds))


def f1(prediction: str | None, golds: Sequence[str]) -> float:
    if prediction is None:
        return 0.0
    words = normalize(prediction).split()
    return max((overlap(words, normalize(gold).split()) for gold in golds), default=0.0)


def is_verdict(golds: Sequence[str]) -> bool:
    """Whether all gold answers are yes or no."""
    return all(normalize(gold) in ("yes", "no") for gold in golds)
