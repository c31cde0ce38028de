import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keqa.errors import RetrievalError
from keqa.retrievers.dense.faiss_file import check_file
from keqa.retrievers.dense.vectors import VectorFile, VectorSettings, finish, open_search

ROWS, DIMENSION, LISTS = 50, 8, 4
SETTINGS = VectorSettings("ivf-sq8", LISTS, 4)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    VectorFile(folder, ROWS, DIMENSION).append(np.random.default_rng(0).normal(size=(ROWS, DIMENSION)).astype("<f4"))
    finish(folder, SETTINGS)
    return folder


@pytest.fixture(scope="module")
def whole(data):
    return (data / "index.faiss").read_bytes()


@pytest.mark.parametrize(("rows", "lists"), [(50, 4), (50, 1), (3, 2), (100, 50)])
def test_what_is_written_is_opened_whatever_its_size(tmp_path, rows, lists):
    # One row in most lists, none in others: the table of their sizes is then another.
    vectors = np.repeat(np.eye(DIMENSION, dtype="<f4")[:3], rows, axis=0)[:rows]
    VectorFile(tmp_path, rows, DIMENSION).append(vectors)
    finish(tmp_path, VectorSettings("ivf-sq8", lists, lists))
    check_file(tmp_path / "index.faiss", rows, DIMENSION, lists)


def refused(path, content, message="cannot be read"):
    path.write_bytes(content)
    with pytest.raises(RetrievalError, match=message):
        open_search(path.parent, SETTINGS, ROWS, DIMENSION)


def test_every_shorter_or_longer_file_is_refused(tmp_path, whole):
    for end in range(0, len(whole), 7):
        refused(tmp_path / "index.faiss", whole[:end])
    refused(tmp_path / "index.faiss", whole + b"\x00", "bytes of lists")


def test_other_kinds_of_index_are_refused_before_faiss_reads_them(tmp_path, whole, monkeypatch):
    import faiss

    monkeypatch.setattr(faiss, "read_index", lambda *_: pytest.fail("FAISS read it"))
    refused(tmp_path / "index.faiss", b"IxPT" + whole[4:], "the kind")
    # Lists in another file, which this kind names.
    refused(tmp_path / "index.faiss", whole.replace(b"ilar", b"ilod"), "the lists")
    refused(tmp_path / "index.faiss", whole.replace(b"IxFI", b"IHNf"), "the kind of centroids")
    refused(tmp_path / "index.faiss", whole.replace(struct.pack("<q", ROWS), struct.pack("<q", 2**50), 1), "the shape")
    (tmp_path / "index.faiss").unlink()
    (tmp_path / "index.faiss").symlink_to("/dev/zero")
    with pytest.raises(RetrievalError, match="symbolic link"):
        open_search(tmp_path, SETTINGS, ROWS, DIMENSION)


@pytest.mark.parametrize("entry", [2**62, 2**20, 51])
def test_a_table_of_lists_that_is_not_true_is_refused(tmp_path, whole, entry):
    at = whole.index(b"full") + 12
    refused(tmp_path / "index.faiss", whole[:at] + struct.pack("<Q", entry) + whole[at + 8 :], "vectors in lists")


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 400), bytes_=st.binary(min_size=1, max_size=8))
def test_a_changed_head_is_refused_or_harmless(tmp_path, whole, at, bytes_):
    path = tmp_path / "index.faiss"
    path.write_bytes(whole[:at] + bytes_ + whole[at + len(bytes_) :])
    try:
        search = open_search(tmp_path, SETTINGS, ROWS, DIMENSION)
    except RetrievalError:
        return
    scores, rows = search(np.ones((1, DIMENSION), np.float32), 5)
    assert scores.shape == rows.shape == (1, 5)
