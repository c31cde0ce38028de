import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from servers import elasticsearch

from keqa.retrievers import Passage
from keqa.retrievers.elasticsearch.client import connect, index_address, parse_address
from keqa.retrievers.elasticsearch.retriever import ElasticsearchRetriever
from keqa.retrievers.elasticsearch.writing import load_index
from keqa.retrievers.engines import facts_of

QUESTIONS = 800

# Nodes that start, or search, on a machine that has no time for them take many times as long.
pytestmark = [pytest.mark.timeout(3000), pytest.mark.server, pytest.mark.xdist_group("elasticsearch")]


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Nodes of a test's own, which it may kill."""
    if reason := elasticsearch.why_missing():
        pytest.skip(reason)
    if os.environ.get("ES_URL"):
        pytest.skip("the nodes of a user's own cluster are not killed")
    # How soon nodes answer is the machine's: nothing here may hang on it.
    monkeypatch.setenv("ELASTICSEARCH_TIMEOUT", "120")
    started = elasticsearch.Cluster(tmp_path / "cluster", 3)
    yield started
    started.stop()


def made(count, seed):
    """Texts of words that are as unlike in frequency as those of a language."""
    rng = random.Random(seed)
    return [" ".join(f"w{int(rng.paretovariate(0.6)) % 5000}" for _ in range(12)) for _ in range(count)]


def test_no_question_is_lost_when_a_node_is(cluster):
    address = index_address(",".join(cluster.urls), "wiki")
    load_index([Passage(str(n), f"t{n}", text) for n, text in enumerate(made(3000, 0))], address)
    opened = ElasticsearchRetriever(address)
    with connect(parse_address(address)) as client:
        # Every copy is where it stays.
        asked = client.options(request_timeout=330).cluster.health
        assert not asked(wait_for_status="green", wait_for_no_relocating_shards=True, timeout="300s")["timed_out"]
        rows = client.cat.shards(index=opened.manifest.data, format="json")
    (victim,) = (int(row["node"].removeprefix("node-")) - 1 for row in rows if row["prirep"] == "p")
    (facts,) = facts_of(address)
    assert (facts["replicas"], facts["health"]) == (1, "green")
    questions = made(QUESTIONS, 1)
    expected = opened.search_many(questions, 5)
    assert sum(map(len, expected)) > 4 * QUESTIONS
    reached = threading.Semaphore(0)

    def ask(question):
        hits = opened.search(question, 5)
        reached.release()
        return hits

    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(ask, questions)
        for _ in range(QUESTIONS // 4):
            reached.acquire()
        cluster.kill(victim)
        assert list(answers) == expected
    # Many questions in one request, with the node gone.
    assert opened.search_many(questions, 5) == expected
    opened.close()
