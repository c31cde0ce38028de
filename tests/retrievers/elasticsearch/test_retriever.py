import pytest

from keqa.retrievers import Passage, build_index, open_index
from keqa.retrievers.elasticsearch.mapping import key
from keqa.retrievers.elasticsearch.retriever import ElasticsearchRetriever
from keqa.retrievers.elasticsearch.writing import load_index


def ids(hits):
    return [hit.passage.id for hit in hits]


def test_scores_and_their_order_do_not_depend_on_the_number_of_shards(address, passages):
    given = [*passages, *(Passage(f"{n:02}", "", "the same text") for n in reversed(range(20)))]
    load_index(given, f"{address}-1")
    load_index(given, f"{address}-3", shards=3)
    queries = ["analytical engine", "zebra", "rock band in London", "the first program"]
    one, three = (ElasticsearchRetriever(f"{address}-{n}") for n in (1, 3))
    assert one.search_many(queries) == three.search_many(queries)
    for k in (1, 7, 20, 50):
        assert ids(three.search("text", k)) == [f"{n:02}" for n in range(min(k, 20))]


def test_a_key_is_the_id_unless_it_is_too_long():
    assert (key("wiki#1"), key("é" * 256), len(key("é" * 257))) == ("wiki#1", "é" * 256, 71)
    assert key("é" * 257) != key("é" * 258)


def test_scores_are_those_of_the_embedded_index_where_the_terms_are(address, tmp_path, passages):
    build_index(passages, tmp_path / "i")
    load_index(passages, address)
    queries = ["zebra stripes", "analytical engine", "The Who"]
    embedded, loaded = open_index(tmp_path / "i"), ElasticsearchRetriever(address)
    for ours, theirs in zip(embedded.search_many(queries), loaded.search_many(queries), strict=True):
        assert ids(ours) == ids(theirs) != []
        # Lucene leaves out the constant factor k1 + 1.
        ratios = [one.score / other.score for one, other in zip(ours, theirs, strict=True)]
        assert ratios == pytest.approx([ratios[0]] * len(ratios), rel=1e-3)


def test_function_words_within_chinese_words_are_searched_for(address):
    texts = (
        "旅行的目的地是上海。",
        "人们了解海洋的历史。",
        "The 猫 of them all 喜欢吃鱼。",
        "Of the 狗 的 , all of them.",
    )
    given = [Passage(own, "猫" if own == "c" else "", text) for own, text in zip("abcd", texts, strict=True)]
    load_index(given, address, language="zh")
    queries = ["了解", "目的", "目的地", "了解目的地", "The 猫 的"]
    found = [sorted(ids(hits)) for hits in ElasticsearchRetriever(address).search_many(queries)]
    assert found == [["b"], ["a"], ["a"], ["a", "b"], ["c"]]
