"""HotpotQA's scores, against its official script written anew, rule by rule."""

from __future__ import annotations

import re
import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.metrics.hotpotqa import exact_match, f1, is_verdict

WORDS = ["yes", "No", "noanswer", "the", "A", "an", "Ann", "Lee", "1982", "-5", "3.5", "U.S.", "Up,", "\u2019s", ""]
TEXTS = st.text() | st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)


def official(prediction: str, gold: str) -> tuple[float, float]:
    """EM and F1 of one pair."""

    def normalized(text: str) -> str:
        kept = "".join(letter for letter in text.lower() if letter not in string.punctuation)
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())

    one, other = normalized(prediction), normalized(gold)
    em = float(one == other)
    if one != other and {one, other} & {"yes", "no", "noanswer"}:
        return em, 0.0
    same = sum((Counter(one.split()) & Counter(other.split())).values())
    if same == 0:
        return em, 0.0
    precision, recall = same / len(one.split()), same / len(other.split())
    return em, 2 * precision * recall / (precision + recall)


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_gold_answers_are_scored_as_by_the_official_script_and_the_best_counts(prediction, golds):
    scores = [official(prediction, gold) for gold in golds]
    assert exact_match(prediction, golds) == max(em for em, _ in scores)
    assert f1(prediction, golds) == pytest.approx(max(overlap for _, overlap in scores))


@pytest.mark.parametrize(
    ("prediction", "gold", "em", "overlap"),
    [
        ("Yes, both are American directors.", "yes", 0.0, 0.0),
        ("yes.", "yes", 1.0, 1.0),
        ("no", "yes", 0.0, 0.0),
        ("The Animorphs", "Animorphs", 1.0, 1.0),
        ("Ann Lee", "Ann", 0.0, 2 / 3),
        ("-5", "5", 1.0, 1.0),
        (None, "5", 0.0, 0.0),
    ],
)
def test_scores(prediction, gold, em, overlap):
    assert exact_match(prediction, [gold]) == em
    assert f1(prediction, [gold]) == pytest.approx(overlap)


def test_a_verdict():
    assert is_verdict(["Yes"])
    assert not is_verdict(["yes", "Ann"])
