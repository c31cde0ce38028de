from fractions import Fraction

import pytest

from keqa.metrics.accuracy import holds_answer
from keqa.metrics.retrieval import share_selected


@pytest.mark.parametrize(
    ("texts", "golds", "answer_type", "held"),
    [
        (["He played.", "He ended with the Boston Braves."], ["Boston Braves"], "short", True),
        (["He played.", "He ended with the Boston Braves."], ["The Braves", "boston braves"], "short", True),
        # In one piece, of one text.
        (["He came from Boston.", "Braves won."], ["Boston Braves"], "short", False),
        (["Bostonian."], ["Boston"], "short", False),
        ([], ["Boston"], "short", False),
        (["yes"], ["yes"], "short", None),
        (["yes"], ["yes"], "yes/no", None),
        (["Boston"], ["Boston"], "choice", None),
    ],
)
def test_whether_what_was_selected_holds_the_answer(texts, golds, answer_type, held):
    assert holds_answer(texts, golds, answer_type) is held


def test_the_share_of_what_is_needed():
    assert share_selected([1, 4], [4, 7]) == Fraction(1, 2)
    assert share_selected([1, 4, 7], {4, 7}) == 1
    assert share_selected([1], []) is None
