"""What a light boundary model sees of a quiz and its draws, as numbers: the same in training and in use.

Draws are compared by their exact answers after normalisation, as in KBM, and not by a judge: so that collecting labels
asks none, and a model sees the same wherever it is used.
"""

from __future__ import annotations

import math
import re

from keqa.metrics.answers import tokens
from keqa.metrics.samples import CERTAINTIES, CertaintyForm, answer_type_sizes, lexical_similarity
from keqa.programs.boundary.model import Reads, Signals

_WORD = re.compile(r"\w+(?:['’.-]\w+)*")
_NAMES = re.compile(r"(?:<name>\s+)+<name>")
# Keeps the logarithm of a draw without probability finite.
_LEAST = 1e-3


def masked(quiz: str) -> str:
    """A quiz without what distinguishes it from others of its kind: each name is ``<name>``, each number ``<number>``.

    A name is what begins with a capital letter and is not the first word; several in succession are one.
    """

    def mask(match: re.Match[str]) -> str:
        word = match[0]
        if word[0].isdigit():
            return "<number>"
        return "<name>" if word[0].isupper() and match.start() > 0 else word.lower()

    return _NAMES.sub("<name>", _WORD.sub(mask, quiz.strip()))


def signal_values(reads: Reads, signals: Signals, probabilities: bool) -> dict[str, float]:
    """The signals of draws by name."""
    if reads == "quiz":
        return {}
    if reads == "draft":
        return _of_draft(signals.draft, probabilities)
    return _of_draws(signals, probabilities)


def consistency(signals: Signals) -> float:
    """The share of the most frequent answer in all draws: T_c over exact answers."""
    return max(_sizes(signals), default=0) / max(len(signals.answers), 1)


def certainty(signals: Signals, form: CertaintyForm = "by_samples") -> float:
    """The certainty over exact answers, an abstention agreeing with nothing; in `by_samples` from 0 to 1."""
    sizes = _sizes(signals)
    groups = sizes + [1] * (len(signals.answers) - sum(sizes))
    return CERTAINTIES[form](groups) if groups else 0.0


def _of_draft(draft: Signals, probabilities: bool) -> dict[str, float]:
    answer = draft.answers[0] if draft.answers else None
    found = {"abstained": float(answer is None), "length": math.log1p(len(tokens(answer or "")))}
    if probabilities:
        found |= _likelihoods(draft)
        found["log first token"] = math.log(found["first token"] + _LEAST)
    return found


def _of_draws(signals: Signals, probabilities: bool) -> dict[str, float]:
    count = max(len(signals.answers), 1)
    found = {
        "consistency": consistency(signals),
        "certainty by types": certainty(signals, "by_types"),
        "certainty by samples": certainty(signals, "by_samples"),
        "lexical similarity": lexical_similarity(
            signals.answers or (None,), "rouge_l", signals.answer_type, signals.choices
        ),
        "abstained": sum(answer is None for answer in signals.answers) / count,
    }
    if probabilities:
        found |= _likelihoods(signals)
    return found


def _likelihoods(signals: Signals) -> dict[str, float]:
    """The mean probability of the answers and of their first tokens; what is no answer counts as 0."""
    whole = first = 0.0
    for place, answer in enumerate(signals.answers):
        if answer is None:
            continue
        probability = signals.probabilities[place] or 0.0
        known = signals.first_tokens[place] if place < len(signals.first_tokens) else None
        whole += probability
        first += probability if known is None else known
    count = max(len(signals.answers), 1)
    whole, first = whole / count, first / count
    return {"probability": whole, "log probability": math.log(whole + _LEAST), "first token": first}


def _sizes(signals: Signals) -> list[int]:
    said = [answer for answer in signals.answers if answer is not None]
    return answer_type_sizes(said, signals.answer_type, signals.choices)
