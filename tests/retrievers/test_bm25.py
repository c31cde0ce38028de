"""What the engines of BM25 have in common: the embedded one and Elasticsearch."""

import copy
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keqa.errors import InputError, RetrievalError
from keqa.retrievers import Passage, Retriever, build_index, open_index
from keqa.retrievers.elasticsearch import load_index
from keqa.retrievers.elasticsearch.address import parse_address
from keqa.retrievers.elasticsearch.client import connect

SERVER = pytest.param("elasticsearch", marks=[pytest.mark.server, pytest.mark.xdist_group("elasticsearch")])


@pytest.fixture(params=["embedded", SERVER])
def build(request, tmp_path):
    """Builds an index of an engine and opens it; `build.address` is where."""
    opened = []

    def build(passages, **options):
        maker = build_index if request.param == "embedded" else load_index
        maker(passages, build.address, **options)
        opened.append(open_index(build.address))
        return opened[-1]

    build.address = tmp_path / "i" if request.param == "embedded" else request.getfixturevalue("elasticsearch_address")
    yield build
    for retriever in opened:
        getattr(retriever, "close", lambda: None)()


@pytest.fixture
def retriever(build, passages):
    return build(passages)


def titles(hits):
    return [hit.passage.title for hit in hits]


def ids(hits):
    return [hit.passage.id for hit in hits]


def test_search_ranks_passages_and_returns_them_whole(retriever, passages):
    assert isinstance(retriever, Retriever)
    hits = retriever.search("Who designed the Difference Engine?", k=2)
    assert [hit.passage for hit in hits] == [passages[1], passages[0]]
    assert hits[0].score > hits[1].score > 0


def test_search_many_keeps_the_order_of_the_queries(retriever):
    found = retriever.search_many(["zebra", "The Who", "?", "quagga", "zebra"], k=1)
    assert [titles(hits) for hits in found] == [["Zebra"], ["The Who"], [], [], ["Zebra"]]
    assert retriever.search_many([]) == []


def test_nothing_to_search_for_finds_nothing(retriever):
    assert retriever.search("") == retriever.search("?! …") == []
    assert ids(retriever.search("zebra", k=10**12)) == ["p4"]
    with pytest.raises(InputError, match="not 0"):
        retriever.search("zebra", k=0)


def test_title_counts_half(build):
    words = ["alpha", "beta"]
    hits = build([Passage(a, a, b) for a, b in (words, words[::-1])]).search("alpha")
    assert ids(hits) == ["beta", "alpha"]
    assert hits[1].score == pytest.approx(hits[0].score / 2)


def test_equal_scores_are_ordered_by_id_at_every_k(build):
    retriever = build([Passage(f"{n:02}", "", "the same text") for n in reversed(range(20))])
    for k in (1, 7, 20, 50):
        assert ids(retriever.search("text", k)) == [f"{n:02}" for n in range(min(k, 20))]


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=())))
def test_any_question_is_searched(retriever, query):
    assert len(retriever.search(query)) <= 4


def test_huge_and_dirty_questions(retriever):
    assert titles(retriever.search("zebra \ud800\x00 " + "stripes ? OR (" * 10_000, 1)) == ["Zebra"]
    assert titles(retriever.search("zebra " + " ".join(f"w{n}" for n in range(20_000)), 1)) == ["Zebra"]
    assert titles(retriever.search('Who said "zebra…? title:x^2', 1)) == ["Zebra"]


def test_a_word_counts_once_however_often_it_is_asked(retriever):
    assert retriever.search("zebra zebra Zebras") == retriever.search("zebra")


def test_dirty_passages_are_cleaned(build):
    retriever = build([Passage("a\x00", None, "good \ud800text\x07")])
    assert retriever.search("good text")[0].passage == Passage("a", "", "good text")


def test_chinese_is_detected_kept_in_the_manifest_and_searchable_after_opening(build):
    texts = {"1": "北京是中国的首都。", "2": "斑马有黑白条纹。", "3": "iPhone 由苹果设计"}
    retriever = build([Passage(one, "北京" if one == "1" else "", text) for one, text in texts.items()])
    assert retriever.manifest.language == "zh"
    queries = ("中国的首都是哪里？", "什么动物有条纹", "谁设计了IPHONE")
    assert [ids(hits) for hits in retriever.search_many(queries, 1)] == [["1"], ["2"], ["3"]]


def test_chinese_in_an_english_index_is_found_and_reported(build):
    notices = []
    passages = [Passage("1", "", "English."), Passage("2", "", "北京是中国的首都。")]
    retriever = build(passages, language="en", notice=notices.append)
    assert notices == ["languages of the passages: English 1, Chinese 1"]
    assert retriever.manifest.languages == {"en": 1, "zh": 1}
    assert ids(retriever.search("中国的首都是哪里？")) == ["2"]


def test_many_threads_get_what_one_thread_gets(retriever):
    queries = ["analytical engine", "zebra", "rock band in London", "first program"] * 50
    expected = retriever.search_many(queries, 3)
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(lambda query: retriever.search(query, 3), queries)) == expected


def test_a_copied_program_shares_the_index(retriever):
    assert copy.deepcopy(retriever) is retriever


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("passages", 5, "its manifest says 5 passages, it holds 4"),
        ("passages", "4", "passages must be int"),
        ("schema_version", 0, "schema version 0"),
        ("unknown", 1, "incomplete or has unknown entries"),
        ("analyzer", {"version": 9, "language": "en", "tokenizer": "en_stem", "title_weight": 0.5}, "does not know"),
        ("analyzer", {}, "incomplete"),
    ],
)
def test_a_manifest_that_is_not_true_is_refused(build, retriever, altered, entry, value, message):
    if isinstance(build.address, str):
        meta = {**json.loads(retriever.manifest.to_json()), entry: value}
        client = connect(parse_address(build.address))
        client.indices.put_mapping(index=retriever.manifest.data, meta={"keqa": meta})
        client.close()
    else:
        altered(build.address, **{entry: value})
    with pytest.raises(RetrievalError, match=message):
        open_index(build.address)
