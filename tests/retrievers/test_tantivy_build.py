import subprocess
import sys
import textwrap

import pytest

from keqa.errors import InputError, RetrievalError
from keqa.retrievers import Passage, add_passages, build_index, delete_passages, open_index

MANY = 3000


def ids(index, query="word"):
    return [hit.passage.id for hit in open_index(index).search(query, 10_000)]


def test_counts_progress_and_manifest(tmp_path):
    seen = []
    many = (Passage(str(n), "", "word") for n in range(2500))
    manifest = build_index(many, tmp_path / "a" / "name", progress=seen.append, sources=["x.tsv"])
    assert seen == [1000, 2000, 2500]
    assert (manifest.passages, manifest.name, manifest.sources, manifest.language) == (2500, "name", ("x.tsv",), "en")
    assert open_index(tmp_path / "a" / "name").manifest == manifest
    assert sorted(entry.name[:5] for entry in (tmp_path / "a" / "name").iterdir()) == ["data-", "lock", "manif"]


def test_the_hash_differs_between_corpora(tmp_path, passages):
    one = build_index(passages, tmp_path / "1")
    again = build_index(passages, tmp_path / "2")
    other = build_index(passages[:3], tmp_path / "3")
    assert one.source_hash == again.source_hash != other.source_hash


def test_repeated_ids_get_a_suffix(tmp_path):
    given = [Passage("7", "", "word"), Passage("7", "", "word"), Passage("7~2", "", "word"), Passage("7", "", "word")]
    notices = []
    manifest = build_index(given, tmp_path / "i", notice=notices.append)
    assert (manifest.passages, manifest.renamed) == (4, 3)
    assert ids(tmp_path / "i") == ["7", "7~2", "7~2~2", "7~3"]


@pytest.mark.parametrize(
    ("passages", "message"),
    [([], "corpus is empty"), ([Passage(" ", "T", "x")], "has no id"), ([Passage("x" * 2000, "", "")], "2000 char")],
)
def test_what_cannot_be_indexed_leaves_nothing_behind(tmp_path, passages, message):
    with pytest.raises(InputError, match=message):
        build_index(passages, tmp_path / "i")
    assert not (tmp_path / "i").exists()


def test_a_failing_corpus_leaves_the_old_index_in_place(tmp_path, passages):
    build_index(passages, tmp_path / "i")
    before = sorted(entry.name for entry in (tmp_path / "i").iterdir())

    def failing():
        yield passages[0]
        raise InputError("line 2 is malformed")

    with pytest.raises(InputError, match="line 2"):
        build_index(failing(), tmp_path / "i")
    assert sorted(entry.name for entry in (tmp_path / "i").iterdir()) == before
    assert open_index(tmp_path / "i").manifest.passages == 4


def test_what_is_not_an_index_is_left_alone(tmp_path, passages):
    (tmp_path / "precious.txt").write_text("x")
    with pytest.raises(InputError, match="not an index"):
        build_index(passages, tmp_path)
    with pytest.raises(InputError, match="is a file"):
        build_index(passages, tmp_path / "precious.txt")
    (tmp_path / "manifest.json").write_text('{"format": "web app"}')
    with pytest.raises(InputError, match="not an index"):
        build_index(passages, tmp_path)
    assert (tmp_path / "precious.txt").read_text() == "x"


def test_an_empty_folder_is_used_and_a_damaged_index_replaced(tmp_path, passages):
    assert build_index(passages, tmp_path).passages == 4
    (data,) = tmp_path.glob("data-*")
    (data / "meta.json").unlink()
    with pytest.raises(RetrievalError):
        open_index(tmp_path)
    build_index(passages, tmp_path)
    assert open_index(tmp_path).manifest.passages == 4


def test_only_one_process_changes_an_index(tmp_path, passages):
    def nested():
        yield passages[0]
        with pytest.raises(RetrievalError, match="another process"):
            build_index(passages, tmp_path / "i")

    assert build_index(nested(), tmp_path / "i").passages == 1


@pytest.fixture
def run_killed(killed):
    """Runs a script in another process until it kills itself."""
    names = "add_passages, build_index, delete_passages, tantivy_build"
    return lambda body: killed(f"from keqa.retrievers import {names}", body)


@pytest.mark.slow
def test_a_killed_first_build_is_never_opened_and_the_next_run_says_so(tmp_path, run_killed):
    index = tmp_path / "i"
    run_killed(f"build_index(words({MANY}, 2500), {str(index)!r})")
    with pytest.raises(RetrievalError, match="not finished"):
        open_index(index)
    notices = []
    manifest = build_index((Passage(str(n), "", "word") for n in range(MANY)), index, notice=notices.append)
    assert len(notices) == 1
    assert "was interrupted" in notices[0]
    assert manifest.passages == MANY == len(ids(index))
    assert len(list(index.glob("data-*"))) == 1
    build_index([Passage("1", "", "word")], index, notice=notices.append)
    assert len(notices) == 1


@pytest.mark.slow
def test_a_killed_rebuild_leaves_the_old_index(tmp_path, passages, run_killed):
    index = tmp_path / "i"
    build_index(passages, index)
    run_killed(f"build_index(words({MANY}, 2500), {str(index)!r})")
    assert open_index(index).manifest.passages == 4
    notices = []
    build_index(passages[:2], index, notice=notices.append)
    assert "was interrupted" in notices[0]
    assert open_index(index).manifest.passages == 2
    assert len(list(index.glob("data-*"))) == 1


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


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before", "after"])
def test_killed_around_publishing(tmp_path, passages, point, run_killed):
    index = tmp_path / "i"
    build_index(passages, index)
    run_killed(
        f"""
        write = tantivy_build.write_atomically
        def dying(path, text):
            if path.name != "manifest.json":
                return write(path, text)
            if {point!r} == "after":
                write(path, text)
            die()
        tantivy_build.write_atomically = dying
        build_index(words(10), {str(index)!r})
        """
    )
    assert open_index(index).manifest.passages == (4 if point == "before" else 10)
    notices = []
    build_index(passages, index, notice=notices.append)
    assert len(notices) == (1 if point == "before" else 0)
    assert open_index(index).manifest.passages == 4


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before the commit", "after the commit"])
@pytest.mark.parametrize("change", ["add", "delete", "replace"])
def test_killed_while_changing(tmp_path, passages, point, change, run_killed):
    index = tmp_path / "i"
    build_index(passages, index)
    run_killed(
        f"""
        commit = tantivy_build._commit
        def dying(writer):
            if {point!r} == "after the commit":
                commit(writer)
            die()
        tantivy_build._commit = dying
        if {change!r} == "add":
            add_passages({str(index)!r}, [Passage("new", "", "quagga")])
        elif {change!r} == "delete":
            delete_passages({str(index)!r}, ["p4"])
        else:
            add_passages({str(index)!r}, [Passage("p4", "", "quagga")], replace=True)
        """
    )
    done = point == "after the commit"
    retriever = open_index(index)
    assert retriever.manifest.passages == 4 + (done and {"add": 1, "delete": -1, "replace": 0}[change])
    assert bool(retriever.search("quagga")) == (done and change != "delete")
    assert bool(retriever.search("zebra")) == (not done or change == "add")
    assert add_passages(index, [Passage("later", "", "okapi")]).passages == retriever.manifest.passages + 1
    assert [hit.passage.id for hit in open_index(index).search("okapi")] == ["later"]
    assert not (index / "manifest.next.json").exists()


def test_adding_replacing_and_deleting(tmp_path, passages):
    index = tmp_path / "i"
    first = build_index(passages, index)
    added = add_passages(index, [Passage("d.txt#1", "", "okapi one"), Passage("d.txt#2", "", "okapi two")])
    assert added.passages == 6
    assert added.source_hash != first.source_hash
    assert ids(index, "okapi") == ["d.txt#1", "d.txt#2"]
    with pytest.raises(InputError, match="'p1' is in the index already"):
        add_passages(index, [Passage("new", "", "x"), Passage("p1", "", "y")])
    with pytest.raises(InputError, match="given twice"):
        add_passages(index, [Passage("new", "", "x"), Passage("new", "", "y")])
    assert add_passages(index, [Passage("p1", "", "replaced")], replace=True).passages == 6
    assert ids(index, "replaced") == ["p1"]
    assert delete_passages(index, ["d.txt"]).passages == 4
    assert ids(index, "okapi") == []
    with pytest.raises(InputError, match=r"no passage or document 'd\.txt'"):
        delete_passages(index, ["p1", "d.txt"])
    with pytest.raises(InputError, match="nothing would be left"):
        delete_passages(index, ["p1", "p2", "p3", "p4"])
    assert delete_passages(index, ["p1", "p1"]).passages == 3
    assert open_index(index).manifest == delete_passages(index, [])


def test_only_a_finished_index_is_changed(tmp_path):
    with pytest.raises(RetrievalError, match="no index"):
        add_passages(tmp_path / "missing", [Passage("a", "", "b")])
    with pytest.raises(RetrievalError, match="not an index"):
        delete_passages(tmp_path, ["a"])


def test_a_failure_while_adding_changes_nothing_and_frees_the_index(tmp_path, passages, monkeypatch):
    index = tmp_path / "i"
    build_index(passages, index)

    def failing(writer):
        raise ValueError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("keqa.retrievers.tantivy_build._commit", failing)
        with pytest.raises(RetrievalError, match="disk full"):
            add_passages(index, [Passage("new", "", "okapi")])
    assert open_index(index).manifest.passages == 4
    assert add_passages(index, [Passage("new", "", "okapi")]).passages == 5
