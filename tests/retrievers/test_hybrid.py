from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.errors import InputError, RetrievalError
from keqa.retrievers import Hit, HybridRetriever, Passage, build_index, open_index
from keqa.retrievers.hybrid import fused

RANKED = st.lists(st.permutations("abcdef").flatmap(lambda ids: st.integers(0, 6).map(lambda n: ids[:n])), max_size=4)


def listed(ids):
    return [Hit(Passage(one, "", one), 100.0 - rank) for rank, one in enumerate(ids)]


def ids(hits):
    return [hit.passage.id for hit in hits]


class Listing:
    """Finds the same passages for every query."""

    def __init__(self, found):
        self.found, self.asked = found, []

    def search(self, query, k=10):
        return self.search_many([query], k)[0]

    def search_many(self, queries, k=10):
        self.asked.append((k, len(queries)))
        return [listed(self.found)[:k] for _ in queries]


def test_what_one_retriever_is_sure_of_comes_before_what_both_know_faintly():
    sure, faint = listed("a12345"), [*listed("6789"), *listed("5")]
    assert ids(fused([sure, faint]))[:2] == ["a", "6"]
    assert ids(fused([sure, faint], 60))[0] == "5"


def test_where_scores_are_equal_the_first_retriever_counts_and_one_id_may_be_two_passages():
    assert ids(fused([listed("ab"), listed("ba")])) == ["a", "b"]
    assert ids(fused([listed("b"), listed("a")])) == ["b", "a"]
    assert len(fused([listed("a"), [Hit(Passage("a", "", "of another corpus"), 1.0)]])) == 2


@given(RANKED)
def test_every_passage_is_there_once_with_its_score(lists):
    hits = fused([listed(one) for one in lists])
    assert sorted(ids(hits)) == sorted(set("".join("".join(one) for one in lists)))
    for hit in hits:
        expected = sum(1 / (3 + one.index(hit.passage.id)) for one in lists if hit.passage.id in one)
        assert hit.score == pytest.approx(expected)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@given(RANKED)
def test_the_order_of_the_retrievers_changes_no_score(lists):
    scored = {
        frozenset((hit.passage.id, hit.score) for hit in fused([listed(one) for one in order]))
        for order in permutations(lists)
    }
    assert len(scored) == 1


def test_each_retriever_is_asked_deeper_than_what_is_shown_for_few_queries_at_a_time():
    left, right = Listing("abcdef"), Listing("fedcba")
    hybrid = HybridRetriever([left, right], depth=5)
    assert ids(hybrid.search("q", 2)) == ["b", "e"]
    assert [ids(hits) for hits in hybrid.search_many([str(n) for n in range(230)], 7)] == [[*"afbecd"]] * 230
    assert left.asked == right.asked == [(5, 1), (7, 100), (7, 100), (7, 30)]
    assert hybrid.manifest is None


def test_one_that_fails_fails_the_search_and_what_cannot_be_fused_is_refused():
    class Broken(Listing):
        def search_many(self, queries, k=10):
            raise RetrievalError("gone")

    with pytest.raises(RetrievalError, match="gone"):
        HybridRetriever([Listing("abc"), Broken("")]).search("q")
    two = [Listing("a"), Listing("b")]
    for message, refused in (
        ("two retrievers", lambda: HybridRetriever(two[:1])),
        ("depth at least 1", lambda: HybridRetriever(two, depth=0)),
        ("constant of a fusion is at least 0", lambda: HybridRetriever(two, constant=-1)),
        ("not 0", lambda: HybridRetriever(two).search("q", 0)),
    ):
        with pytest.raises(InputError, match=message):
            refused()


def test_the_manifest_names_the_parts(tmp_path, passages):
    first = build_index(passages, tmp_path / "one", name="one")
    build_index(passages, tmp_path / "two", name="two")
    build_index(passages[:3], tmp_path / "three", name="three")
    one, two, three = (open_index(tmp_path / name) for name in ("one", "two", "three"))
    same = HybridRetriever([one, two]).manifest
    assert (same.name, same.passages, same.source_hash) == ("one + two", 4, first.source_hash)
    assert [part.name for part in same.parts] == ["one", "two"]
    other = HybridRetriever([one, three]).manifest.source_hash
    assert other not in (first.source_hash, three.manifest.source_hash)
