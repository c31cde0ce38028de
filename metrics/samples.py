"""What a set of sampled answers has in common: how certain it is, and how much its members resemble each other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

from keqa.metrics.answers import f1, normalize, tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

CertaintyForm = Literal["by_types", "plain", "by_samples"]
SimilarityForm = Literal["rouge_l", "token_f1"]


def entropy(sizes: Sequence[int]) -> float:
    """Entropy, in nats, of the shares of groups."""
    if not sizes or min(sizes) < 1:
        raise ValueError("certainty needs at least one group, and at least one member in each")
    total = sum(sizes)
    return sum(-size / total * math.log(size / total) for size in sizes)


def _normalised(sizes: Sequence[int], count: int) -> float:
    # Rounding must not take even groups below 0.
    return max(0.0, 1.0 - entropy(sizes) / math.log(count)) if len(sizes) > 1 else 1.0 - entropy(sizes)


CERTAINTIES: dict[CertaintyForm, Callable[[Sequence[int]], float]] = {
    "by_types": lambda sizes: _normalised(sizes, len(sizes)),
    "plain": lambda sizes: 1.0 - entropy(sizes),
    "by_samples": lambda sizes: _normalised(sizes, sum(sizes)),
}
"""The three forms by name, of the sizes of the groups into which samples fall: exact answer types (KBM, section 2.2) or
clusters of one meaning (KEQA, Algorithm 1). H is the entropy of their shares; each is 1 for one group.

``by_types`` is 1 - H / log k over k groups, KBM in its final version, which forgets how often each group came up: two
groups of 15 and fifteen groups of 2 both have 0. ``plain`` is 1 - H, KBM in its first version, and below 0 for more
than e even groups. ``by_samples`` is 1 - H / log N over N samples, 0 where all samples differ, as code around KBM.
"""


def answer_type_sizes(answers: Sequence[str], answer_type: str = "short", choices: Sequence[str] = ()) -> list[int]:
    """Sizes of the groups of answers that are equal after normalisation, in order of first appearance."""
    return list(Counter(normalize(answer, answer_type, choices) for answer in answers).values())


def rouge_l(first: str, second: str, answer_type: str = "short", choices: Sequence[str] = ()) -> float:
    """F-measure of the longest common subsequence of words (ROUGE-L of Lin, 2004, with beta = 1).

    Words are those of `keqa.metrics.answers.tokens`, not stemmed: lower case, without articles and punctuation, each
    Chinese character a word. 0 where one of the two has none.
    """
    left, right = tokens(first, answer_type, choices), tokens(second, answer_type, choices)
    common = _common(left, right)
    return 2 * common / (len(left) + len(right)) if common else 0.0


def bert_score(first: NDArray[Any], second: NDArray[Any]) -> float:
    """F_BERT of Zhang et al. (2020, BERTScore, section 3): each token is matched with the most similar one.

    Neither weighted by how rare tokens are nor rescaled, both of which the authors leave to choice. Rows are embeddings
    of tokens, of length 1; 0 where one of the two has none, or nothing in them is alike.
    """
    if not len(first) or not len(second):
        return 0.0
    alike = first @ second.T
    precision, recall = float(alike.max(axis=1).mean()), float(alike.max(axis=0).mean())
    # Cosines of unlike tokens may be below 0, and the mean of such a precision and recall would mean nothing.
    return 2 * precision * recall / (precision + recall) if min(precision, recall) > 0 else 0.0


SIMILARITIES: dict[SimilarityForm, Callable[[str, str, str, Sequence[str]], float]] = {
    "rouge_l": rouge_l,
    "token_f1": lambda first, second, answer_type, choices: f1(first, [second], answer_type, choices),
}
"""The forms by name."""


def lexical_similarity(
    answers: Sequence[str | None],
    form: SimilarityForm = "rouge_l",
    answer_type: str = "short",
    choices: Sequence[str] = (),
) -> float:
    """The mean similarity over pairs of samples; None resembles nothing, and a single answer has 1.

    An uncertainty measure of Fomicheva et al. (2020, section 3.2); with ROUGE-L a baseline of Kuhn et al. (2023).
    """
    if not answers:
        raise ValueError("lexical similarity needs at least one sample")
    if len(answers) == 1:
        return float(answers[0] is not None)
    similarity = SIMILARITIES[form]
    pairs = list(combinations(answers, 2))
    alike = [similarity(a, b, answer_type, choices) for a, b in pairs if a is not None and b is not None]
    return sum(alike) / len(pairs)


def _common(left: Sequence[str], right: Sequence[str]) -> int:
    """Length of the longest common subsequence, for all places of one text at once (Hyyrö, 2004, in bits)."""
    places: dict[str, int] = {}
    for place, word in enumerate(right):
        places[word] = places.get(word, 0) | 1 << place
    every = (1 << len(right)) - 1
    unmatched = every
    for word in left:
        matched = unmatched & places.get(word, 0)
        unmatched = (unmatched + matched | unmatched - matched) & every
    return len(right) - unmatched.bit_count()
