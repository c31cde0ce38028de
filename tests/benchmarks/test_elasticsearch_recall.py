import elasticsearch_recall
import pytest
from recall import Benchmark, Case

from keqa.retrievers import Passage

PASSAGES = [Passage(str(n), f"Paper {n}", f"It is about subject{n}.") for n in range(4)]
CASE = Case(Benchmark("made", "", (), "title"), PASSAGES, ["subject1", "subject3"], [{"Paper 1"}, {"Paper 3"}], 0)


def test_a_shorter_case_keeps_the_gold_of_its_questions():
    short = elasticsearch_recall.shortened(CASE, 2, 1)
    assert (short.questions, short.gold, len(short.passages)) == (["subject1"], [{"Paper 1"}], 2)
    assert "Paper 1" in [one.title for one in short.passages]


@pytest.mark.parametrize(("hybrid", "gap"), [(0.6, -0.1), (0.8, 0.0)])
def test_the_worse_of_the_two_counts(hybrid, gap):
    embedded = {"bm25": 0.9, "dense": 0.5, "hybrid": 0.7}
    found = elasticsearch_recall.compared(embedded, {"bm25": 0.0, "dense": 0.5, "hybrid": hybrid})
    assert found == pytest.approx(gap)
