import json
import threading
from pathlib import Path

import pytest

from keqa.errors import RetrievalError
from keqa.retrievers import Passage, build_index, open_index, read_corpus


@pytest.fixture
def index(tmp_path, passages):
    build_index(passages, tmp_path / "index")
    return tmp_path / "index"


def titles(hits):
    return [hit.passage.title for hit in hits]


def test_equal_scores_below_better_ones_are_ordered_by_id_at_every_k(tmp_path):
    better = [Passage(f"b{n}", "", "text " * (2 + n)) for n in range(3)]
    build_index([Passage(f"{n:02}", "", "text and more") for n in reversed(range(9))] + better, tmp_path / "i")
    retriever = open_index(tmp_path / "i")
    whole = [hit.passage.id for hit in retriever.search("text", 12)]
    assert whole == ["b2", "b1", "b0", *(f"{n:02}" for n in range(9))]
    for k in range(1, 14):
        assert [hit.passage.id for hit in retriever.search("text", k)] == whole[:k]


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
        ("format", "other", "is not the manifest of an index"),
        ("data", "../elsewhere", "must name a folder inside"),
        ("data", "data-gone", "is broken"),
        ("commit", 1, "changed by something"),
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


@pytest.mark.slow
def test_the_shared_corpora_are_found_and_counted(tmp_path, shared_data):
    corpus = Path(shared_data, "2wikimultihopqa", "2wikimultihopqa_corpus.json")
    manifest = build_index(read_corpus([corpus]), tmp_path / "i", sources=[corpus.name])
    assert (manifest.passages, manifest.language, manifest.renamed) == (14_427, "en", 0)
    assert manifest.sources == ("2wikimultihopqa_corpus.json",)
    found = titles(open_index(tmp_path / "i").search("Who is the wife of Lothair II of Lotharingia?", 5))
    assert "Teutberga" in found


@pytest.mark.slow
def test_the_shared_chinese_corpus(tmp_path, shared_data):
    manifest = build_index(read_corpus([shared_data / "zh_corpus.json"]), tmp_path / "i")
    assert (manifest.passages, manifest.language) == (5_298, "zh")
    hits = open_index(tmp_path / "i").search("日本最高的山峰是什么？", 5)
    assert any("富士山" in hit.passage.text for hit in hits)


@pytest.mark.slow
def test_the_shared_dpr_files_are_indexed_together(tmp_path, shared_data):
    sources = [shared_data / "nq" / "psgs_w100.tsv", shared_data / "triviaqa" / "psgs_w100.tsv"]
    notices = []
    manifest = build_index(read_corpus(sources), tmp_path / "i", notice=notices.append)
    assert (manifest.passages, manifest.renamed) == (5_463 + 2_708, 2_708)
    assert notices[0] == "2708 passages had an id that was taken and got a suffix such as ~2"
