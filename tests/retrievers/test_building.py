"""An index in a folder, of each engine that has one: built, searched meanwhile, built again, killed, damaged."""

import errno
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from keqa.errors import ConfigurationError, InputError, KeqaError, RetrievalError
from keqa.retrievers import Passage, TantivyRetriever, build_dense, build_index, open_index
from keqa.retrievers.engines import facts_of
from keqa.retrievers.local.build import exclusive, verify

pytestmark = pytest.mark.process
MODEL = "some/model"


@pytest.fixture(params=["embedded", "dense"])
def build(request, library, tmp_path):
    def build(passages, folder=tmp_path / "i", **options):
        if request.param == "embedded":
            return build_index(passages, folder, **options)
        return build_dense(passages, folder, model=MODEL, **options)

    return build


def words(count):
    return (Passage(str(number), "", f"word{number} here") for number in range(count))


def opened(folder):
    return open_index(folder, model=MODEL)


def ids(folder, query="here", k=10_000):
    return [hit.passage.id for hit in opened(folder).search(query, k)]


def test_progress_is_reported(library, tmp_path, monkeypatch):
    monkeypatch.setattr("keqa.retrievers.local.dense.SHARD", 10)
    seen = []
    build_index(words(2500), tmp_path / "i", progress=seen.append)
    assert seen == [1000, 2000, 2500]
    build_dense(words(50), tmp_path / "j", model=MODEL, progress=lambda *now: seen.append(now))
    assert seen[3:] == [(done, 50) for done in range(0, 60, 10)]


@pytest.mark.parametrize(
    ("passages", "message"),
    [([], "corpus is empty"), ([Passage(" ", "T", "x")], "has no id"), ([Passage("x" * 2000, "", "")], "2000 char")],
)
def test_what_cannot_be_indexed_leaves_nothing_behind(build, tmp_path, passages, message):
    with pytest.raises(InputError, match=message):
        build(passages)
    if not list((tmp_path / "i").glob("data/vectors-*")):
        assert not (tmp_path / "i").exists()
    with pytest.raises(ConfigurationError, match="absent/model"):
        build_dense(passages, tmp_path / "j", model="absent/model")
    assert not (tmp_path / "j").exists()


def test_a_failing_corpus_leaves_the_old_index_in_place(build, tmp_path, passages):
    build(passages)

    def failing():
        yield passages[0]
        raise InputError("line 2 is malformed")

    with pytest.raises(InputError, match="line 2"):
        build(failing())
    manifest = opened(tmp_path / "i").manifest
    assert (manifest.passages, manifest.name, manifest.created[-6:]) == (4, "i", "+00:00")
    assert facts_of(tmp_path / "i", verify=True)[0]["checksums"]["damaged"] == ()


def test_what_is_not_an_index_is_left_alone(build, tmp_path, passages):
    (tmp_path / "precious.txt").write_text("x")
    (tmp_path / "data").mkdir()
    for place, message in ((tmp_path, "not an index"), (tmp_path / "precious.txt", "is a file")):
        with pytest.raises(InputError, match=message):
            build(passages, place)
    (tmp_path / "precious.txt").rename(tmp_path / "data" / "precious.txt")
    with pytest.raises(InputError, match="not an index"):
        build(passages, tmp_path)
    assert (tmp_path / "data" / "precious.txt").read_text() == "x"


@pytest.mark.parametrize("name", ["meta.json", "manifest-*.json", "*.store", "*.term", "*.idx"])
def test_a_damaged_index_finds_nothing_silently_and_is_replaced(build, tmp_path, passages, name):
    (tmp_path / "i").mkdir()
    build(passages)
    for victim in (tmp_path / "i" / "data").glob(name):
        # Not cut off in place: this process may still have it mapped.
        half = tmp_path / "half"
        half.write_bytes(victim.read_bytes()[: victim.stat().st_size // 2])
        half.replace(victim)
    with pytest.raises(RetrievalError):
        opened(tmp_path / "i").search("zebra")
    for victim in (tmp_path / "i" / "data").glob(name):
        victim.unlink()
    with pytest.raises(RetrievalError):
        opened(tmp_path / "i").search("zebra")
    build(passages)
    assert ids(tmp_path / "i", "zebra", 1) == ["p4"]


def test_only_one_process_changes_an_index(build, tmp_path, passages):
    def nested():
        yield passages[0]
        with pytest.raises(RetrievalError, match="another process"):
            build(passages)

    assert build(nested()).passages == 1
    with exclusive(tmp_path / "i"), pytest.raises(RetrievalError, match="another process"):
        build(passages)


def test_searching_while_another_thread_rebuilds_and_a_retriever_keeps_its_state_until_it_reloads(
    build, tmp_path, passages
):
    build(passages)
    with ThreadPoolExecutor(1) as pool:
        building = pool.submit(lambda: [build(passages) for _ in range(5)])
        while not building.done():
            assert ids(tmp_path / "i", "zebra", 1) == ["p4"]
        building.result()
    retriever = opened(tmp_path / "i")
    build([Passage("n", "New", "quagga")])
    newer = retriever.fresh()
    assert [hit.passage.id for hit in retriever.search("zebra", 1)] == ["p4"]
    assert retriever.manifest.passages == 4
    assert retriever.reload().passages == newer.manifest.passages == 1
    assert [hit.passage.title for hit in retriever.search("quagga")] == ["New"]


def test_a_state_that_another_process_replaces_while_it_is_looked_at_is_no_error(tmp_path, passages, monkeypatch):
    build_index(passages, tmp_path / "i")
    gone, stat = [FileNotFoundError()], os.stat

    def replaced(path, *given, **named):
        if gone and "manifest-" in str(path):
            raise gone.pop()
        return stat(path, *given, **named)

    monkeypatch.setattr(os, "stat", replaced)
    assert ids(tmp_path / "i", "zebra", 1) == ["p4"]
    assert not gone


def test_engines_take_each_others_place_and_one_folder_serves_words_and_vectors(library, tmp_path, passages):
    for _ in range(2):
        build_index(passages, tmp_path / "i")
        assert type(opened(tmp_path / "i")).__name__ == "TantivyRetriever"
        build_dense(passages, tmp_path / "i", model=MODEL)
        assert type(opened(tmp_path / "i")).__name__ == "DenseRetriever"
    build_index(passages, tmp_path / "j")
    words = [TantivyRetriever(tmp_path / name).search("analytical engine") for name in "ij"]
    assert words[0] == words[1]
    both = open_index(f"{tmp_path / 'i'},bm25:{tmp_path / 'i'}", model=MODEL)
    assert [type(one).__name__ for one in both.retrievers] == ["DenseRetriever", "TantivyRetriever"]


@pytest.mark.slow
def test_a_killed_first_build_is_never_opened_and_the_next_run_says_so(tmp_path, killed):
    index = tmp_path / "i"
    killed(f"from keqa.retrievers import build_index\nbuild_index(words(3000, 2500), {str(index)!r})")
    with pytest.raises(RetrievalError, match="not finished"):
        open_index(index)
    notices = []
    assert build_index(words(3000), index, notice=notices.append).passages == 3000 == len(ids(index))
    assert ["was interrupted" in one for one in notices] == [True]
    killed(f"from keqa.retrievers import build_index\nbuild_index(words(3000, 2500), {str(index)!r})")
    assert open_index(index).manifest.passages == 3000
    assert build_index([Passage("1", "", "here")], index).passages == 1
    assert ids(index) == ["1"]


FIFTY = [Passage(str(n), f"Title {n}", f"word{n} of {n % 7}") for n in range(50)]
CODE = """
import sys
from keqa.retrievers import Passage, build_dense
from keqa.retrievers.local import dense
dense.SHARD = 10
given = [Passage(str(n), f"Title {n}", f"word{n} of {n % 7}") for n in range(50)]
build_dense(given, sys.argv[1], model="some/model", flat_limit=int(sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("flat_limit", [100, 10])
@pytest.mark.parametrize("killed_after", [5, 6])
def test_encoding_that_is_killed_goes_on_and_ends_in_the_same(
    library, tmp_path, other_process, monkeypatch, killed_after, flat_limit
):
    monkeypatch.setattr("keqa.retrievers.local.dense.SHARD", 10)
    # The first two calls find out the length of vectors, the third identifies the model; then each shard is one.
    done = other_process(CODE, killed_after, tmp_path / "i", flat_limit)
    assert done.returncode < 0, done.stderr
    with pytest.raises(RetrievalError, match="not finished"):
        opened(tmp_path / "i")
    library.CALLS.clear()
    reported, progress = [], []
    options = {"model": MODEL, "flat_limit": flat_limit, "notice": reported.append}
    build_dense(FIFTY, tmp_path / "i", **options, progress=lambda *now: progress.append(now))
    assert progress[0] == ((killed_after - 3) * 10, 50)
    assert ["resuming it" in one for one in reported] == [True]
    encoded = [text for _, _, texts in library.CALLS[3:-1] for text in texts]
    assert sorted(encoded) == sorted(f"{p.title}: {p.text}" for p in FIFTY[(killed_after - 3) * 10 :])
    build_dense(FIFTY, tmp_path / "whole", **options)
    found = [opened(tmp_path / name).search_many(["word3 of 3", "title"], 20) for name in ("i", "whole")]
    assert found[0] == found[1]
    names = [{path.suffix for path in (tmp_path / name / "data").glob("vectors-*")} for name in ("i", "whole")]
    assert names[0] == names[1] == {".json", ".keys", ".rows"} | ({".faiss"} if flat_limit == 10 else set())
    assert len(list((tmp_path / "i" / "data").glob("vectors-*.keys"))) == 1


@pytest.mark.parametrize("change", ["passages", "settings", "model"])
def test_only_vectors_of_the_same_model_and_settings_are_used(
    library, monkeypatch, tmp_path, other_process, change, passages
):
    other_process(CODE, 5, tmp_path / "i", 100)
    if change == "model":
        # A folder may hold another model by now.
        begin = library.SentenceTransformer.__init__
        monkeypatch.setattr(library.SentenceTransformer, "__init__", lambda self, name: begin(self, f"{name}-2"))
    progress = []
    options = {"passage_prefix": "p: "} if change == "settings" else {}
    given = passages if change == "passages" else FIFTY
    build_dense(given, tmp_path / "i", model=MODEL, **options, progress=lambda done, of: progress.append(done))
    assert progress[0] == 0
    assert len(list((tmp_path / "i" / "data").glob("vectors-*.keys"))) == 1


@pytest.mark.parametrize(("owner", "write"), [(os, "fsync"), (Path, "mkdir")])
def test_a_full_disk_is_reported_whatever_finds_it_full(build, tmp_path, monkeypatch, owner, write):
    failures, real = [], getattr(owner, write)

    def filling(*args, **settings):
        nonlocal left
        left -= 1
        if left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args, **settings)

    monkeypatch.setattr(owner, write, filling)
    for after in itertools.count(1):
        left = after
        try:
            build(words(50))
        except KeqaError as error:
            failures.append(str(error))
        if left > 0:
            break
    assert ["No space left on device" in failure for failure in failures] == [True] * (after - 1)
    assert opened(tmp_path / "i").manifest.passages == 50


@pytest.mark.slow
def test_an_engine_that_cannot_write_says_what_may_help(tmp_path):
    index = tmp_path / "i"
    script = f"""
        import resource
        from keqa.errors import RetrievalError
        from keqa.retrievers import Passage, build_index
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
        try:
            build_index([Passage(str(n), "", f"word{{n}} " * 50) for n in range(20_000)], {str(index)!r})
        except RetrievalError as error:
            assert "free space and run the same again" in str(error), error
        else:
            raise AssertionError("it was written")
        """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not index.exists()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="there are no such rights here")
def test_an_index_is_searched_where_nothing_can_be_written(passages):
    script = """
import os, sys
from keqa.retrievers import build_index, open_index
from keqa.retrievers.engines import facts_of

def used(index):
    facts_of(index, verify=True)
    return open_index(index).search("zebra")[0].passage.id

used(sys.argv[1])  # Everything is imported, which another user may not be allowed to.
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
print(used(sys.argv[2]))
"""
    with tempfile.TemporaryDirectory() as folder:
        index, own = Path(folder, "index"), Path(folder, "own")
        build_index(passages, index)
        build_index(passages, own)
        for entry in (Path(folder), index, *index.rglob("*")):
            # As chmod -R a+rX, and for its owner as on such a disk.
            entry.chmod(0o555 if entry.is_dir() else 0o444)
        command = [sys.executable, "-c", script, own, index]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        for entry in (Path(folder), index, *index.rglob("*")):
            entry.chmod(0o700)
        assert found.stdout == "p4\n", found.stderr


def test_it_stays_open_when_the_links_to_it_are_gone(tmp_path, passages, monkeypatch):
    build_index(passages, tmp_path / "i")
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **more: mode != os.W_OK and real(path, mode, **more))
    found = open_index(tmp_path / "i")
    assert [found.search(query)[0].passage.id for query in ("zebra", "band", "zebra")] == ["p4", "p3", "p4"]
    assert found.reload().passages == 4


def test_a_file_that_is_cut_off_ends_no_process_and_a_search_by_words_imports_no_numpy(tmp_path, passages):
    build_index(passages, tmp_path / "i")
    stores = sorted((tmp_path / "i" / "data").glob("*.store"))
    script = """
import os, sys, time
from keqa.errors import RetrievalError
from keqa.retrievers import open_index
found = open_index(sys.argv[1])
print(found.search("zebra")[0].passage.id, "numpy" in sys.modules)
time.sleep(1)  # The engine reads its files once more on a thread of its own, right after it has opened them.
[os.truncate(one, 0) for one in sys.argv[2:]]
try:
    found.search("zebra")
except RetrievalError as error:
    print(error)
"""
    command = [sys.executable, "-c", script, tmp_path / "i", *stores]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.stdout.startswith("p4 False\n"), (found.returncode, found.stderr)
    assert found.stdout.endswith(".store was cut off while it was in use: build the index again\n")


def test_any_byte_of_any_file_counts(build, tmp_path, passages):
    build(passages, sources=["docs"])
    data = tmp_path / "i" / "data"
    names = [one.name for one in data.iterdir() if not one.name.startswith(".") and one.name != "checksums.json"]
    said = facts_of(tmp_path / "i", verify=True)[0]["checksums"]
    assert said == {"files": len(names), "damaged": (), "unknown": ()}
    # Nothing has mapped a copy into memory.
    copy = shutil.copytree(tmp_path / "i", tmp_path / "copy")
    for path in (copy / "data" / name for name in names):
        whole = path.read_bytes()
        for place in {0, len(whole) // 2, len(whole) - 1} if whole else ():
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
            assert verify(copy)["damaged"] == (path.name,)
        path.write_bytes(whole)
    (copy / "data" / "checksums.json").unlink()
    assert len(verify(copy)["unknown"]) == len(names)
