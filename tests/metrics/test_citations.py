"""Citation recall and precision as in ALCE, by a judge that finds a sentence where all its words are."""

import pytest

from keqa.metrics.citations import Cited, citation_quality, list_quality


def entails(passages, sentence):
    return set(sentence.split()) <= set(" ".join(passages).split())


@pytest.mark.parametrize(
    ("text", "recall", "precision"),
    [
        ([], 0.0, 0.0),
        ([("a b", ["a b"])], 1.0, 1.0),
        ([("a b", [])], 0.0, 0.0),
        # Neither is enough alone, and both are needed.
        ([("a b", ["a", "b"])], 1.0, 1.0),
        # The second carries nothing, and the first does without it.
        ([("a b", ["a b", "c"])], 1.0, 0.5),
        # Either would do: both carry it by themselves.
        ([("a b", ["a b", "b a"])], 1.0, 1.0),
        # Citations of a sentence that is not carried are none that are right.
        ([("a b", ["a", "c"]), ("c", ["c"])], 0.5, 1 / 3),
    ],
)
def test_recall_and_precision(text, recall, precision):
    found = citation_quality([Cited(*one) for one in text], entails)
    assert (found.recall, found.precision) == (recall, pytest.approx(precision))


@pytest.mark.parametrize(
    ("items", "members", "expected"),
    [
        (["Ann Lee", "the Bo"], ["Bo", "Cleo", "ann lee"], (2 / 3, 1.0)),
        (["Ann", "Dan"], ["Ann"], (1.0, 0.5)),
        ([], ["Ann"], (0.0, 0.0)),
        ([], [], (1.0, 0.0)),
    ],
)
def test_lists(items, members, expected):
    assert list_quality(items, members) == expected
