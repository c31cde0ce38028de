import pytest

from keqa.retrievers import Passage, build_index, open_index
from keqa.retrievers.layout import META
from keqa.testbed.index import holds_encyclopedia, open_dense_encyclopedia, open_encyclopedia

pytestmark = pytest.mark.model

PASSAGES = [Passage("a", "Carmouth", "The mayor of Carmouth is Heidi Fenman."), Passage("b", "", "Rain fell.")]


def test_it_is_built_once_and_found_again(tmp_path):
    first = open_encyclopedia(PASSAGES, cache=tmp_path)
    (folder,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    created = (folder / "data" / META).stat().st_mtime_ns
    again = open_encyclopedia(PASSAGES, cache=tmp_path)
    assert (folder / "data" / META).stat().st_mtime_ns == created
    assert first.search("mayor")[0].passage == again.search("mayor")[0].passage == PASSAGES[0]


def test_other_passages_get_another_index(tmp_path):
    open_encyclopedia(PASSAGES, cache=tmp_path)
    other = open_encyclopedia(PASSAGES[:1], cache=tmp_path)
    assert other.manifest.passages == 1
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2


def test_a_broken_index_is_built_again(tmp_path):
    open_encyclopedia(PASSAGES, cache=tmp_path)
    (folder,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    (folder / "data" / META).write_text("{")
    assert open_encyclopedia(PASSAGES, cache=tmp_path).search("mayor")[0].passage.id == "a"


def test_a_cache_that_cannot_be_used_is_no_obstacle(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    assert open_encyclopedia(PASSAGES, cache=tmp_path / "file").search("mayor")[0].passage.id == "a"


def test_only_the_testbeds_own_passages_are_the_encyclopedia(tmp_path):
    build_index(PASSAGES, tmp_path / "other")
    assert not holds_encyclopedia(open_index(tmp_path / "other").manifest)
    assert holds_encyclopedia(open_encyclopedia(cache=tmp_path / "cache").manifest)


def test_the_dense_one_lies_beside_it_and_is_built_once(tmp_path):
    pytest.importorskip("sentence_transformers")
    open_encyclopedia(PASSAGES, cache=tmp_path)
    first = open_dense_encyclopedia(PASSAGES, cache=tmp_path)
    folders = sorted(path for path in tmp_path.iterdir() if path.is_dir())
    assert len(folders) == 2
    created = [(folder / "data" / META).stat().st_mtime_ns for folder in folders]
    again = open_dense_encyclopedia(PASSAGES, cache=tmp_path)
    assert [(folder / "data" / META).stat().st_mtime_ns for folder in folders] == created
    # No word of the question is in the passage.
    assert first.search("Who governs the town?")[0].passage == again.search("Who governs the town?")[0].passage
    assert first.search("precipitation")[0].passage == PASSAGES[1]
