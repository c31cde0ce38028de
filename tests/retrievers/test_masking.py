import pytest

from keqa.retrievers.base import Hit, Passage
from keqa.retrievers.masking import MaskingRetriever


class Found:
    def __init__(self, *texts):
        self.texts = texts

    def search_many(self, queries, k=10):
        hits = [Hit(Passage(f"p{place}", "Ann Lee", text), 1.0) for place, text in enumerate(self.texts[:k])]
        return [hits for _ in queries]


@pytest.mark.parametrize(
    ("golds", "text", "masked"),
    [
        (["Ann", "Ann Lee"], "ann lee, Ann and Annika", "MASK, MASK and Annika"),
        (["奥斯陆"], "首都是奥斯陆市", "首都是MASK市"),
        (["15"], "年假15天，共2015人", "年假MASK天，共2015人"),
        (["Beyoncé", "Bey"], "Beyoncé, or Bey, beyond", "MASK, or MASK, beyond"),
        (["C++ (2)"], "In C++ (2).", "In MASK."),
        ([""], "Ann", "Ann"),
        ([], "Ann", "Ann"),
    ],
)
def test_answers_are_masked_as_whole_words(golds, text, masked):
    (hit,) = MaskingRetriever(Found(text), lambda query: golds).search("Who?")
    assert hit.passage.text == masked


def test_titles_are_masked_too_and_ids_stay():
    hits = MaskingRetriever(Found("a", "b"), lambda query: ["Ann Lee"]).search("Who?", 1)
    assert [(hit.passage.id, hit.passage.title, hit.score) for hit in hits] == [("p0", "MASK", 1.0)]
