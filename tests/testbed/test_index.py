import shutil

import pytest

from keqa.retrievers import Passage, build_index, open_index
from keqa.testbed.index import holds_encyclopedia, open_dense_encyclopedia, open_encyclopedia

pytestmark = pytest.mark.model

PASSAGES = [Passage("a", "Carmouth", "The mayor of Carmouth is Heidi Fenman."), Passage("b", "", "Rain fell.")]


def built_again(*arguments, **options):
    pytest.fail("it was there already")


def test_it_is_built_once_and_other_passages_get_another(tmp_path, monkeypatch):
    first = open_encyclopedia(PASSAGES, cache=tmp_path)
    assert open_encyclopedia(PASSAGES[:1], cache=tmp_path).manifest.passages == 1
    monkeypatch.setattr("keqa.retrievers.build_index", built_again)
    again = open_encyclopedia(PASSAGES, cache=tmp_path)
    assert first.search("mayor")[0].passage == again.search("mayor")[0].passage == PASSAGES[0]


def test_a_broken_index_is_built_again_and_a_cache_that_cannot_be_used_is_no_obstacle(tmp_path):
    open_encyclopedia(PASSAGES, cache=tmp_path)
    (folder,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    shutil.rmtree(folder)
    folder.mkdir()
    assert open_encyclopedia(PASSAGES, cache=tmp_path).search("mayor")[0].passage.id == "a"
    (tmp_path / "file").write_text("not a folder")
    assert open_encyclopedia(PASSAGES, cache=tmp_path / "file").search("mayor")[0].passage.id == "a"


def test_only_the_testbeds_own_passages_are_the_encyclopedia(tmp_path):
    build_index(PASSAGES, tmp_path / "other")
    assert not holds_encyclopedia(open_index(tmp_path / "other").manifest)
    assert holds_encyclopedia(open_encyclopedia(cache=tmp_path / "cache").manifest)


def test_the_dense_one_lies_beside_it_and_is_built_once(tmp_path, monkeypatch):
    pytest.importorskip("sentence_transformers")
    open_encyclopedia(PASSAGES, cache=tmp_path)
    open_dense_encyclopedia(PASSAGES, cache=tmp_path)
    monkeypatch.setattr("keqa.retrievers.build_dense", built_again)
    # No word of the question is in the passage.
    assert open_dense_encyclopedia(PASSAGES, cache=tmp_path).search("precipitation")[0].passage == PASSAGES[1]
