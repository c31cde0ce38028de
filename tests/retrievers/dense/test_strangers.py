"""A dense index that someone else made."""

import json
import os

import numpy as np
import pytest

from keqa.errors import ConfigurationError, RetrievalError
from keqa.retrievers import build_dense, build_index, open_index
from keqa.retrievers.embedding import open_model
from keqa.retrievers.engines import facts_of


@pytest.fixture
def index(library, tmp_path, passages):
    build_dense(passages, tmp_path / "i", model="some/model")
    library.CALLS.clear()
    return tmp_path / "i"


@pytest.fixture
def data(index):
    return index / "data"


def opened(index):
    return open_index(index, model="some/model")


@pytest.fixture
def vectors(data):
    """The files of vectors by their suffixes."""
    return lambda suffix: next(data.glob(f"vectors-*{suffix}"))


@pytest.mark.parametrize("model", ["sentence-transformers/of-a-stranger", "/srv/elsewhere", "./inside"])
def test_a_model_is_opened_only_where_the_user_names_it(index, altered, library, monkeypatch, model):
    altered(index, encoder={"model": model, "query_model": model})
    monkeypatch.setattr(library.SentenceTransformer, "__init__", lambda *_: pytest.fail("a model was opened"))
    with pytest.raises(ConfigurationError) as caught:
        open_index(index)
    assert f"{index}@{model}" in str(caught.value)
    assert f"model={model!r}" in str(caught.value)
    # What the index is is reported all the same.
    assert facts_of(f"{index}@{model}")[0]["passages"] == 4


def test_a_model_is_named_in_the_call_or_in_the_address(index, tmp_path, passages):
    build_index(passages, tmp_path / "bm25")
    for retriever in (
        open_index(index, model="some/model"),
        open_index(f"{index}@some/model"),
        open_index(f"{tmp_path / 'bm25'},{index}@some/model"),
        open_index(f"{tmp_path / 'bm25'},{index}", model="some/model"),
    ):
        assert retriever.search("zebra stripes", 1)[0].passage.id == "p4"
    assert open_index(f"{index}@some/model").reload().passages == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder": {"dimension": 10**12}}, "dimension must be from 1 to"),
        ({"encoder": {"dimension": True}}, "encoder.dimension must be int"),
        ({"encoder": {"similarity": "euclid"}}, "encoder.similarity must be cosine or dot"),
        ({"encoder": {"separator": "x" * 5000}}, "encoder.separator has 5,000 characters"),
        ({"encoder": {"trust_remote_code": True}}, "unknown encoder.trust_remote_code"),
        ({"vectors": {"kind": "hnsw"}}, "vectors.kind must be"),
        ({"vectors": {"kind": "ivf-sq8", "lists": 2**40, "nprobe": 1}}, "vectors.lists and nprobe"),
        ({"vectors": {"nprobe": -1}}, "vectors.nprobe must be a number from 0 on"),
        ({"passages": -4}, "passages must be a number from 0 on"),
        ({"passages": 10**30}, "passages must be a number from 0 on"),
        ({"left_out": [1]}, "left_out must be an object"),
        ({"data": "../elsewhere"}, "must name something inside"),
        ({"data": ""}, "must name the files"),
        ({"language": "xx"}, "unknown language"),
        ({"probe": [1.0]}, "probe must be 16 numbers"),
        ({"passages": 5}, "not complete"),
        ({"rows": 5}, "not complete"),
        ({"engine": "embedded"}, "unknown entries"),
    ],
)
def test_entries_out_of_range_are_refused_by_name(index, altered, change, message):
    altered(index, **change)
    with pytest.raises(RetrievalError, match=message):
        opened(index)


@pytest.mark.parametrize("suffix", [".rows", ".keys"])
@pytest.mark.parametrize("kind", ["cut", "gone", "link", "pipe", "folder"])
def test_files_of_vectors_are_whole_and_regular(index, vectors, tmp_path, suffix, kind):
    path = vectors(suffix)
    content = path.read_bytes()
    path.rename(tmp_path / "elsewhere")
    if kind == "cut":
        path.write_bytes(content[:-8])
    elif kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif kind != "gone":
        os.mkfifo(path) if kind == "pipe" else path.mkdir()
    with pytest.raises(RetrievalError, match=r"is not complete|cannot be read|no regular file"):
        opened(index)


def test_vectors_that_are_not_numbers_are_reported(index, vectors):
    rows = np.full(vectors(".rows").stat().st_size // 4, np.nan, "<f4")
    vectors(".rows").write_bytes(rows.tobytes())
    with pytest.raises(RetrievalError, match="are damaged"):
        opened(index).search("zebra")


def test_vectors_of_no_passage_are_passed_over(index, vectors):
    keys = np.frombuffer(vectors(".keys").read_bytes(), "<i8").copy()
    keys[:2] = 5, -1
    vectors(".keys").write_bytes(keys.tobytes())
    assert sorted(hit.passage.id for hit in opened(index).search("zebra", 10)) == ["p3", "p4"]


@pytest.mark.parametrize("note", ["[1]", "[" * 100_000, "5", '{"settings": 5, "probe": "x"}'])
def test_a_note_of_another_build_that_is_no_note_is_passed_over(index, vectors, note, passages):
    vectors(".json").write_text(note)
    build_dense(passages, index, model="some/model")
    assert opened(index).manifest.passages == 4


@pytest.mark.parametrize("kind", ["evil.Evil", "os.Evil"])
def test_a_folder_whose_modules_name_a_class_runs_no_code(tmp_path, kind):
    pytest.importorskip("sentence_transformers")
    folder = tmp_path / "model"
    folder.mkdir()
    modules = [{"idx": 0, "name": "0", "path": "", "type": kind}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "config_sentence_transformers.json").write_text("{}")
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: pass\n")
    with pytest.raises(ConfigurationError, match="not part of Sentence Transformers"):
        open_model(str(folder))
    assert not (tmp_path / "ran").exists()
