"""Whether an answer is right, where equality of short strings is not the question."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from keqa.metrics.answers import exact_match, f1, is_abstention, same_answer, tokens
from keqa.metrics.hotpotqa import is_verdict

_ALIKE = 0.85


def agrees(text: str, golds: Sequence[str], answer_type: str = "short", choices: Sequence[str] = ()) -> bool:
    """Whether an answer says what a gold answer says, in whatever form.

    A surname for the full name and a year for the date agree, since all their words are among those of the gold answer;
    two people with one first name do not. A yes or no, and a choice, agree where they are equal.
    """
    if answer_type != "short":
        return exact_match(text, golds, answer_type, choices)
    given = Counter(tokens(text))
    for gold in golds:
        words = Counter(tokens(gold))
        if given and words and (given <= words or words <= given):
            polar = {"yes", "no"} & {*given, *words}
            if not polar or same_answer(text, gold):
                return True
    return f1(text, golds) >= _ALIKE


def consistency_label(
    first: str, second: str, golds: Sequence[str], answer_type: str = "short", choices: Sequence[str] = ()
) -> bool | None:
    """What gold answers say of Sim(q, a_i, a_j, D_s) (KEQA, section 3.3): whether two answers to a quiz mean the same.

    They are the same where both are right, and different where one is. The paper takes the labels of another language
    model, which are of two wrong answers as well. None where both are wrong, which says nothing, and where no judge
    would be asked: the answers are equal after normalisation, or one of them says that it does not know.
    """
    if same_answer(first, second, answer_type, choices) or any(is_abstention(one, choices) for one in (first, second)):
        return None
    right = agrees(first, golds, answer_type, choices) + agrees(second, golds, answer_type, choices)
    return None if right == 0 else right == 2


def contains_answer(
    prediction: str | None, golds: Sequence[str], answer_type: str = "short", choices: Sequence[str] = ()
) -> bool:
    """Whether a prediction has a gold answer as whole words in one piece; else than short: exact match."""
    exact = exact_match(prediction, golds, answer_type, choices)
    if answer_type != "short" or prediction is None:
        return exact
    words = tokens(prediction)
    return any(in_one_piece(tokens(gold), words) for gold in golds)


def in_one_piece(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Whether some words, of which there is one at least, stand among others in their order and in one piece."""
    ends = range(len(part), len(whole) + 1)
    return bool(part) and any(whole[end - len(part) : end] == part for end in ends)


def mastery(
    answers: Sequence[str | None], golds: Sequence[str], answer_type: str = "short", choices: Sequence[str] = ()
) -> Fraction:
    """The share of sampled answers that are right (KBM, section 2.2), exactly; failures and abstentions are not."""
    if not answers:
        raise ValueError("mastery needs at least one sample")
    attempts = [None if answer is None or is_abstention(answer, choices) else answer for answer in answers]
    return Fraction(sum(exact_match(answer, golds, answer_type, choices) for answer in attempts), len(attempts))


def holds_answer(texts: Sequence[str], golds: Sequence[str], answer_type: str = "short") -> bool | None:
    """Whether one of the selected texts contains a gold answer; None for yes, no and choices, which none has to."""
    if answer_type != "short" or is_verdict(golds):
        return None
    return any(contains_answer(text, golds) for text in texts)
