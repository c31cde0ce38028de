import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from keqa.errors import ConfigurationError, InputError, RetrievalError, StorageError
from keqa.retrievers import CachingRetriever, HybridRetriever, Passage, Retriever, build_index, open_index
from keqa.retrievers.caching import KeptHits


class Counted(Retriever):
    """Counts what reaches the index."""

    def __init__(self, index):
        self.index, self.asked, self.broken, self.during = index, [], False, lambda: None
        self.numbers = []

    @property
    def manifest(self):
        return self.index.manifest

    def search(self, query, k=10):
        return self.search_many([query], k)[0]

    def search_many(self, queries, k=10):
        if self.broken:
            raise RetrievalError("gone")
        self.asked += queries
        self.numbers.append(k)
        found = self.index.search_many(queries, k)
        self.during()
        return found


@pytest.fixture
def index(tmp_path, passages):
    build_index(passages, tmp_path / "index")
    return Counted(open_index(tmp_path / "index"))


@pytest.fixture
def cache(index, tmp_path):
    with CachingRetriever(index, tmp_path / "runs" / "retrievals.sqlite") as opened:
        yield opened


def test_a_query_is_searched_for_once_and_found_the_same_and_a_failure_is_not_kept(cache, index):
    assert isinstance(cache, Retriever)
    assert cache.own_documents is True
    index.broken = True
    with pytest.raises(RetrievalError, match="gone"):
        cache.search("zebra stripes", 2)
    index.broken = False
    first, again = cache.search("zebra stripes", 2), cache.search("zebra stripes", 2)
    assert first == again == index.index.search("zebra stripes", 2)
    assert index.asked == ["zebra stripes"]
    assert [isinstance(found, KeptHits) for found in (first, again)] == [False, True]
    assert again.seconds > 0


def test_each_query_that_is_missing_is_searched_for_once_and_every_letter_and_number_counts(cache, index):
    for query, k in (("zebra", 1), ("zebra", 2), ("Zebra", 1), ("zebra \ud800", 1)):
        assert cache.search(query, k) == cache.search(query, k)
    queries = ["rock", "zebra", "nothing of the kind", "rock"]
    assert cache.search_many(queries, 2) == index.index.search_many(queries, 2)
    # That nothing was found is kept as well.
    assert (cache.search_many([]), cache.search("nothing of the kind", 2)) == ([], [])
    assert index.asked == ["zebra", "zebra", "Zebra", "zebra \ud800", "rock", "nothing of the kind"]
    assert index.numbers == [1, 2, 1, 1, 2]


def test_an_index_that_is_built_again_is_searched_again_and_what_is_found_meanwhile_is_not_kept(
    cache, index, tmp_path, passages
):
    def rebuilt(given):
        build_index(given, tmp_path / "index")
        index.index.reload()

    assert cache.search("zebra")[0].passage == passages[3]
    rebuilt([*passages[:3], Passage("p4", "Zebra", "Another text on the zebra.")])
    assert cache.search("zebra")[0].passage.text == "Another text on the zebra."
    rebuilt(passages)
    assert cache.search("zebra")[0].passage == passages[3]
    index.during = lambda: rebuilt(passages[:3])
    assert len(cache.search("zebra stripes")) == 1
    index.during = lambda: None
    assert cache.search("zebra stripes") == []


def test_two_indexes_share_a_file(cache, index, tmp_path, passages):
    build_index(passages[:2], tmp_path / "other")
    other = open_index(tmp_path / "other")
    cache.search("zebra")
    with CachingRetriever(other, tmp_path / "runs" / "retrievals.sqlite") as second:
        assert second.search("zebra") == []
    hybrid = HybridRetriever([index, Counted(other)])
    with CachingRetriever(hybrid, tmp_path / "runs" / "retrievals.sqlite") as third:
        first, again = third.search("zebra"), third.search("zebra")
        assert first == again == hybrid.search("zebra")
        assert [isinstance(found, KeptHits) for found in (first, again)] == [False, True]
    # As an index that is searched by its words, and by its vectors.
    otherwise = HybridRetriever([index, type("Otherwise", (Counted,), {})(other)])
    with CachingRetriever(otherwise, tmp_path / "runs" / "retrievals.sqlite") as fourth:
        found = fourth.search("zebra")
        assert (found, isinstance(found, KeptHits)) == (hybrid.search("zebra"), False)


@pytest.mark.slow
@pytest.mark.process
def test_threads_and_processes_share_a_file(cache, index, tmp_path):
    code = """
import sys
from keqa.retrievers import CachingRetriever, open_index
from keqa.retrievers.caching import KeptHits
with CachingRetriever(open_index(sys.argv[1]), sys.argv[2]) as cache:
    found = [cache.search(f"zebra {number % 20}") for number in range(400)]
print(sum(not isinstance(hits, KeptHits) for hits in found))
"""
    command = [sys.executable, "-c", code, tmp_path / "index", tmp_path / "new" / "retrievals.sqlite"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in running:
        out, error = process.communicate()
        assert (error, process.returncode, int(out) <= 20) == ("", 0, True)

    def wrong(_):
        return [n for n in range(40) if cache.search(f"rock {n % 5}") != index.index.search(f"rock {n % 5}")]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(wrong, range(4))) == [[]] * 4


def test_what_cannot_be_a_cache_is_refused(index, tmp_path):
    class Nameless:
        def search(self, query, k=10):
            return []

    with pytest.raises(ConfigurationError, match=r"a Nameless has no manifest .*, or ask with --no-cache"):
        CachingRetriever(Nameless(), tmp_path / "retrievals.sqlite")
    with CachingRetriever(index, tmp_path / "retrievals.sqlite") as cache, pytest.raises(InputError, match="not 0"):
        cache.search("zebra", 0)


def test_a_file_that_cannot_be_written_is_no_failed_search(cache):
    cache._file._file.execute("PRAGMA query_only = 1")
    with pytest.raises(StorageError, match="cannot be written"):
        cache.search("zebra")
