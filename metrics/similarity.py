"""How much sampled answers resemble each other, in their words or in the embeddings of these.

Lexical similarity, the mean over all pairs of samples, is an uncertainty measure of Fomicheva et al. (2020, section
3.2, with METEOR); with ROUGE-L it is a baseline of Kuhn et al. (2023, Semantic Uncertainty) and of LM-Polygraph
(Fadeeva et al., 2023). BERTScore is what the KEQA paper compares its judge of consistency with (Table 2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

from keqa.metrics.answers import f1, tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

SimilarityForm = Literal["rouge_l", "token_f1"]


def rouge_l(first: str, second: str, answer_type: str = "short", choices: Sequence[str] = ()) -> float:
    """F-measure of the longest common subsequence of words (ROUGE-L of Lin, 2004, with beta = 1).

    Words are those of `keqa.metrics.answers.tokens`, not stemmed: lower case, without articles and punctuation, each
    Chinese character a word.

    Args:
        first: An answer.
        second: Another; the order does not matter.
        answer_type: ``short``, ``yes/no`` or ``choice``.
        choices: The options of a choice.

    Returns:
        From 0 to 1; 0 where one of the two has no words.
    """
    left, right = tokens(first, answer_type, choices), tokens(second, answer_type, choices)
    common = _common(left, right)
    return 2 * common / (len(left) + len(right)) if common else 0.0


def token_f1(first: str, second: str, answer_type: str = "short", choices: Sequence[str] = ()) -> float:
    """F1 over words, whatever their order; as `keqa.metrics.answers.f1`."""
    return f1(first, [second], answer_type, choices)


def bert_score(first: NDArray[Any], second: NDArray[Any]) -> float:
    """F_BERT of Zhang et al. (2020, BERTScore, section 3): each token is matched with the most similar one.

    ::

        P = mean over the tokens of one of max x_i . y_j    R = the same for the other    F = 2 P R / (P + R)

    Neither weighted by how rare tokens are nor rescaled, both of which the authors leave to choice.

    Args:
        first: The embeddings of an answer's tokens, each a row of length 1.
        second: Those of another answer; the order does not matter.

    Returns:
        1 where all tokens have their like; 0 where one of the two has no tokens, or nothing in them is alike.
    """
    if not len(first) or not len(second):
        return 0.0
    alike = first @ second.T
    precision, recall = float(alike.max(axis=1).mean()), float(alike.max(axis=0).mean())
    # Cosines of unlike tokens may be below 0, and the mean of such a precision and recall would mean nothing.
    return 2 * precision * recall / (precision + recall) if min(precision, recall) > 0 else 0.0


SIMILARITIES: dict[SimilarityForm, Callable[[str, str, str, Sequence[str]], float]] = {
    "rouge_l": rouge_l,
    "token_f1": token_f1,
}
"""The forms by name."""


def lexical_similarity(
    answers: Sequence[str | None],
    form: SimilarityForm = "rouge_l",
    answer_type: str = "short",
    choices: Sequence[str] = (),
) -> float:
    """The mean similarity over all pairs of sampled answers.

    Args:
        answers: The samples; None for an abstention or a failure, which resembles nothing.
        form: One of `SIMILARITIES`.
        answer_type: ``short``, ``yes/no`` or ``choice``.
        choices: The options of a choice.

    Returns:
        From 0 to 1. A single sample has no pair: 1 for an answer, 0 for none.

    Raises:
        ValueError: There is no sample.
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
