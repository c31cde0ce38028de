import copy
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keqa.errors import InputError, RetrievalError
from keqa.retrievers import Passage, Retriever, TantivyRetriever, build_index, open_index, read_corpus


@pytest.fixture
def index(tmp_path, passages):
    build_index(passages, tmp_path / "index")
    return tmp_path / "index"


def titles(hits):
    return [hit.passage.title for hit in hits]


def test_search_ranks_passages_and_returns_them_whole(index, passages):
    retriever = open_index(index)
    assert isinstance(retriever, Retriever)
    hits = retriever.search("Who designed the Difference Engine?", k=2)
    assert [hit.passage for hit in hits] == [passages[1], passages[0]]
    assert hits[0].score > hits[1].score > 0


def test_search_many_keeps_the_order_of_the_queries(index):
    found = open_index(index).search_many(["zebra", "The Who", "quagga"], k=1)
    assert [titles(hits) for hits in found] == [["Zebra"], ["The Who"], []]


def test_nothing_to_search_for_finds_nothing(index):
    retriever = open_index(index)
    assert retriever.search("") == retriever.search("?! …") == []
    assert retriever.search("zebra", k=10**12)[0].passage.id == "p4"
    with pytest.raises(InputError, match="not 0"):
        retriever.search("zebra", k=0)


def test_title_counts_half(tmp_path):
    words = ["alpha", "beta"]
    build_index([Passage(a, a, b) for a, b in (words, words[::-1])], tmp_path / "i")
    hits = open_index(tmp_path / "i").search("alpha")
    assert [hit.passage.id for hit in hits] == ["beta", "alpha"]
    assert hits[1].score == pytest.approx(hits[0].score / 2)


def test_equal_scores_are_ordered_by_id_at_every_k(tmp_path):
    build_index([Passage(f"{n:02}", "", "the same text") for n in reversed(range(20))], tmp_path / "i")
    retriever = open_index(tmp_path / "i")
    for k in (1, 7, 20, 50):
        assert [hit.passage.id for hit in retriever.search("text", k)] == [f"{n:02}" for n in range(min(k, 20))]


def test_equal_scores_below_better_ones_are_ordered_by_id_at_every_k(tmp_path):
    better = [Passage(f"b{n}", "", "text " * (2 + n)) for n in range(3)]
    build_index([Passage(f"{n:02}", "", "text and more") for n in reversed(range(9))] + better, tmp_path / "i")
    retriever = open_index(tmp_path / "i")
    whole = [hit.passage.id for hit in retriever.search("text", 12)]
    assert whole == ["b2", "b1", "b0", *(f"{n:02}" for n in range(9))]
    for k in range(1, 14):
        assert [hit.passage.id for hit in retriever.search("text", k)] == whole[:k]


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(st.characters(exclude_categories=())))
def test_any_question_is_searched(index, query):
    assert len(open_index(index).search(query)) <= 4


def test_huge_and_dirty_questions(index):
    retriever = open_index(index)
    assert titles(retriever.search("zebra \ud800\x00 " + "stripes ? OR (" * 10_000, 1)) == ["Zebra"]
    assert titles(retriever.search('Who said "zebra…? title:x^2', 1)) == ["Zebra"]


def test_dirty_passages_are_cleaned(tmp_path):
    build_index([Passage("a\x00", None, "good \ud800text\x07")], tmp_path / "i")
    assert open_index(tmp_path / "i").search("good text")[0].passage == Passage("a", "", "good text")


def test_chinese_is_detected_kept_in_the_manifest_and_searchable_after_opening(tmp_path):
    build_index(
        [
            Passage("1", "北京", "北京是中国的首都。"),
            Passage("2", "", "斑马有黑白条纹。"),
            Passage("3", "", "iPhone 由苹果设计"),
        ],
        tmp_path / "i",
    )
    retriever = TantivyRetriever.open(tmp_path / "i")
    assert retriever.manifest.language == "zh"
    assert [
        retriever.search(query, 1)[0].passage.id for query in ("中国的首都是哪里？", "什么动物有条纹", "谁设计了IPHONE")
    ] == [
        "1",
        "2",
        "3",
    ]


def test_chinese_in_an_english_index_is_told(tmp_path):
    notices = []
    passages = [Passage("1", "", "English."), Passage("2", "", "北京是中国的首都。")]
    build_index(passages, tmp_path / "i", language="en", notice=notices.append)
    assert notices == [
        "1 of 2 passages are in Chinese, in an index for English: build it with language zh, which serves both"
    ]


def test_many_threads_get_what_one_thread_gets(index):
    retriever = open_index(index)
    queries = ["analytical engine", "zebra", "rock band in London", "first program"] * 50
    expected = retriever.search_many(queries, 3)
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(lambda query: retriever.search(query, 3), queries)) == expected


def test_searching_while_another_thread_rebuilds(index, passages):
    failures = []
    stop = threading.Event()

    def search():
        while not stop.is_set():
            try:
                assert titles(open_index(index).search("zebra", 1)) == ["Zebra"]
            except BaseException as error:
                failures.append(error)
                return

    thread = threading.Thread(target=search)
    thread.start()
    for _ in range(5):
        build_index(passages, index)
    stop.set()
    thread.join()
    assert failures == []


def test_an_open_retriever_keeps_its_state_until_it_reloads(index, passages):
    retriever = open_index(index)
    build_index([Passage("n", "New", "quagga")], index)
    assert titles(retriever.search("zebra")) == ["Zebra"]
    assert retriever.search("quagga") == []
    assert retriever.reload().passages == 1
    assert titles(retriever.search("quagga")) == ["New"]


def test_a_copied_program_shares_the_index(index):
    retriever = open_index(index)
    assert copy.deepcopy(retriever) is retriever


def test_what_is_no_index_is_not_opened(tmp_path):
    with pytest.raises(RetrievalError, match="there is no index at"):
        open_index(tmp_path / "missing")
    with pytest.raises(RetrievalError, match="is not an index"):
        open_index(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(RetrievalError, match="is not an index"):
        open_index(tmp_path / "file")


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("passages", 5, "its manifest says 5 passages, it holds 4"),
        ("passages", "4", "passages must be int"),
        ("schema_version", 2, "schema version 2"),
        ("format", "other", "is not the manifest of an index"),
        ("data", "../elsewhere", "must name a folder inside"),
        ("data", "data-gone", "is broken"),
        ("commit", 1, "changed by something"),
        ("unknown", 1, "incomplete or has unknown entries"),
        ("analyzer", {"version": 9, "language": "en", "tokenizer": "en_stem", "title_weight": 0.5}, "does not know"),
        ("analyzer", {}, "incomplete"),
    ],
)
def test_a_manifest_that_is_not_true_is_refused(index, entry, value, message):
    path = index / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), entry: value}))
    with pytest.raises(RetrievalError, match=message):
        open_index(index)


def test_a_damaged_index_is_refused(index):
    (index / "manifest.json").write_bytes(b"\xff{")
    with pytest.raises(RetrievalError, match="cannot be read"):
        open_index(index)


@pytest.mark.parametrize("pattern", ["*.store", "*.term", "*.idx", "meta.json"])
def test_a_truncated_index_never_finds_nothing_silently(index, pattern):
    (data,) = index.glob("data-*")
    for victim in data.glob(pattern):
        victim.write_bytes(victim.read_bytes()[: victim.stat().st_size // 2])
    with pytest.raises(RetrievalError):
        open_index(index).search("zebra")


def test_the_shared_corpora_are_found_and_counted(tmp_path, shared_data):
    corpus = Path(shared_data, "2wikimultihopqa", "2wikimultihopqa_corpus.json")
    manifest = build_index(read_corpus([corpus]), tmp_path / "i", sources=[corpus.name])
    assert (manifest.passages, manifest.language, manifest.renamed) == (14_427, "en", 0)
    assert manifest.sources == ("2wikimultihopqa_corpus.json",)
    found = titles(open_index(tmp_path / "i").search("Who is the wife of Lothair II of Lotharingia?", 5))
    assert "Teutberga" in found


def test_the_shared_chinese_corpus(tmp_path, shared_data):
    manifest = build_index(read_corpus([shared_data / "zh_corpus.json"]), tmp_path / "i")
    assert (manifest.passages, manifest.language) == (5_298, "zh")
    hits = open_index(tmp_path / "i").search("日本最高的山峰是什么？", 5)
    assert any("富士山" in hit.passage.text for hit in hits)


def test_the_shared_dpr_files_are_indexed_together(tmp_path, shared_data):
    sources = [shared_data / "nq" / "psgs_w100.tsv", shared_data / "triviaqa" / "psgs_w100.tsv"]
    notices = []
    manifest = build_index(read_corpus(sources), tmp_path / "i", notice=notices.append)
    assert (manifest.passages, manifest.renamed) == (5_463 + 2_708, 2_708)
    assert notices == ["2708 passages had an id that was taken and got a suffix such as ~2"]
