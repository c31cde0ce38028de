"""A dense index that someone else made."""

import json
import os

import numpy as np
import pytest

from keqa.errors import ConfigurationError, RetrievalError
from keqa.retrievers import DenseManifest, build_dense, build_index, open_index
from keqa.retrievers.dense.models import open_model
from keqa.retrievers.dense.passages import write_passages
from keqa.retrievers.engines import facts_of, folder_and_model


@pytest.fixture
def index(library, tmp_path, passages):
    build_dense(passages, tmp_path / "i", model="some/model")
    library.CALLS.clear()
    return tmp_path / "i"


@pytest.fixture
def data(index):
    return index / DenseManifest.read(index).data


def opened(index):
    return open_index(index, model="some/model")


def changed(index, **change):
    path = index / "manifest.json"
    values = json.loads(path.read_text())
    for name, value in change.items():
        if isinstance(value, dict):
            values[name].update(value)
        else:
            values[name] = value
    path.write_text(json.dumps(values))


@pytest.mark.parametrize("model", ["sentence-transformers/of-a-stranger", "/srv/elsewhere", "./inside"])
def test_a_model_is_opened_only_where_the_user_names_it(index, library, monkeypatch, model):
    changed(index, encoder={"model": model, "query_model": model})
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


def test_another_model_than_the_indexs_is_found_out(index):
    with pytest.raises(RetrievalError, match="'other/model' is not the one"):
        open_index(index, model="other/model")


def test_folders_with_an_at_sign(tmp_path, monkeypatch):
    (tmp_path / "a@b").mkdir()
    monkeypatch.chdir(tmp_path)
    assert [str(one) for one in folder_and_model("a@b")] == ["a@b", "None"]
    assert [str(one) for one in folder_and_model("a@b@org/model")] == ["a@b", "org/model"]
    assert [str(one) for one in folder_and_model("none@org/model")] == ["none@org/model", "None"]


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
        ({"left_out": {"names": 5}}, "incomplete or has unknown|must be"),
    ],
)
def test_entries_out_of_range_are_refused_by_name(index, change, message):
    if "left_out" in change:
        changed(index, left_out=[1])
    else:
        changed(index, **change)
    with pytest.raises(RetrievalError, match=message):
        opened(index)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((4, 16), np.float64),
        np.zeros((4, 16), ">f4"),
        np.asfortranarray(np.zeros((4, 16), np.float32)),
        np.zeros((4, 16), [("a", "<f4")]),
        np.zeros(64, np.float32),
        np.zeros((5, 16), np.float32),
    ],
)
def test_vectors_of_another_form_are_refused(index, data, array):
    np.save(data / "vectors.npy", array)
    with pytest.raises(RetrievalError, match=r"the vectors in|it holds"):
        opened(index)


@pytest.mark.parametrize("name", ["vectors.npy", "offsets.npy", "probe.npy"])
@pytest.mark.parametrize("kind", ["objects", "archive", "bomb", "header"])
def test_an_array_file_is_one_array_of_the_size_that_it_has(index, data, name, kind):
    path = data / name
    if kind == "objects":
        np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    elif kind == "archive":
        with path.open("wb") as stream:
            np.savez(stream, np.zeros((4, 16), np.float32))
    elif kind == "bomb":
        with path.open("wb") as stream:
            header = {"descr": "<f4", "fortran_order": False, "shape": (10**13, 16)}
            np.lib.format.write_array_header_1_0(stream, header)
    else:
        path.write_bytes(b"\x93NUMPY\x01\x00\xf6\xff" + b"(" * 65526)
    with pytest.raises(RetrievalError):
        opened(index)


def test_vectors_that_are_not_numbers_are_reported(index, data):
    vectors = np.load(data / "vectors.npy")
    vectors[:] = np.inf
    np.save(data / "vectors.npy", vectors)
    with pytest.raises(RetrievalError, match="are damaged"):
        opened(index).search("zebra")


def test_rows_beyond_the_passages_are_damage_and_no_index_error(library, tmp_path, passages):
    build_dense(passages, tmp_path / "i", model="some/model", flat_limit=0)
    path = tmp_path / "i" / DenseManifest.read(tmp_path / "i").data / "index.faiss"
    content = path.read_bytes()
    path.write_bytes(content[:-8] + (10**6).to_bytes(8, "little"))
    with pytest.raises(RetrievalError, match=r"are damaged: they lead beyond its passages.*Build it again"):
        opened(tmp_path / "i").search("zebra", 10)


@pytest.mark.parametrize(
    "line",
    [b"5", b'{"a": 1, "b": 2, "c": 3}', b'["a", "b"]', b'["a", "b", 3]', b"[" * 100_000, b'["a", "b", "c"', b"\xff"],
)
def test_a_passage_of_another_form_is_damage(index, data, line, passages):
    write_passages(data, passages)
    offsets = np.load(data / "offsets.npy")
    whole = (data / "passages.jsonl").read_bytes()
    (data / "passages.jsonl").write_bytes(whole[: offsets[3]] + line + b"\n")
    offsets[4] = offsets[3] + len(line) + 1
    np.save(data / "offsets.npy", offsets)
    with pytest.raises(RetrievalError, match="passage 3 of the index is damaged"):
        opened(index).search("zebra")


@pytest.mark.parametrize("offsets", [[0, 10, 5, 2**63, "end"], [2**64 - 1, 0, 0, 0, "end"]])
def test_offsets_that_lead_elsewhere_are_damage(index, data, offsets):
    end = (data / "passages.jsonl").stat().st_size
    np.save(data / "offsets.npy", np.array([end if one == "end" else one for one in offsets], np.uint64))
    with pytest.raises(RetrievalError, match="is damaged"):
        opened(index).search("zebra")


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_only_regular_files_are_opened(index, data, tmp_path, kind):
    path = data / "vectors.npy"
    path.rename(tmp_path / "elsewhere")
    if kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        os.mkfifo(path) if kind == "pipe" else path.mkdir()
    with pytest.raises(RetrievalError, match=r"'vectors\.npy', which is no regular file"):
        opened(index)


def test_the_note_of_a_build_leads_nowhere_else(library, tmp_path, passages):
    (tmp_path / "mine").mkdir()
    (tmp_path / "i").mkdir()
    note = {"format": "keqa-build", "data": "../mine", "started": "x", "source_hash": "y", "settings": {}, "probe": []}
    for content in (json.dumps(note), json.dumps([1]), "[" * 100_000, '{"format": "keqa-build"}'):
        (tmp_path / "i" / "building.json").write_text(content)
        (tmp_path / "i" / "manifest.json").write_text('{"format": "keqa-index"}')
        build_dense(passages, tmp_path / "i", model="some/model")
        assert list((tmp_path / "mine").iterdir()) == []
        assert opened(tmp_path / "i").manifest.passages == 4


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
