"""Vectors by their keys, and the file of FAISS, which is checked before FAISS reads it."""

import struct

import numpy as np
import pytest
from fixtures.drawing import at_most
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keqa.errors import RetrievalError
from keqa.retrievers.local.vectors import VectorStore, append, begin, check_file, settings_for
from keqa.retrievers.manifest import VectorSettings

ROWS, DIMENSION, LISTS = 50, 8, 4
FLAT, SETTINGS = VectorSettings("flat"), VectorSettings("ivf-sq8", LISTS, 4)


def rows(count, dimension=DIMENSION, seed=0):
    made = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def stored(data, vectors, found=FLAT):
    """A store of vectors whose keys are their places, ten times as large."""
    name = begin(data, {})
    for start in range(0, len(vectors), 100):
        append(data, name, range(10 * start, 10 * min(start + 100, len(vectors)), 10), vectors[start : start + 100])
    store = VectorStore(data, name, vectors.shape[1], FLAT, 0, len(vectors))
    return store if found == FLAT else store.kept(lambda key: True, found)


@pytest.mark.parametrize(
    ("count", "limit", "expected"),
    [
        (100_000, 100_000, VectorSettings("flat")),
        (100_001, 100_000, VectorSettings("ivf-sq8", 256, 32)),
        (1_000_000, 100_000, VectorSettings("ivf-sq8", 1024, 128)),
        (21_015_324, 100_000, VectorSettings("ivf-sq8", 4096, 512)),
        (4, 0, VectorSettings("ivf-sq8", 2, 2)),
        (1, 0, VectorSettings("ivf-sq8", 1, 1)),
    ],
)
def test_what_suits_how_many(count, limit, expected):
    assert settings_for(count, limit) == expected


def test_flat_is_exact_and_lists_of_8_bits_find_nearly_the_same_in_a_quarter_of_the_space(tmp_path):
    vectors = rows(2000, 32)
    scores, found = stored(tmp_path, vectors).search(vectors[:3], 5)
    every = vectors[:100] @ vectors.T
    exact = 10 * np.argsort(-every, axis=1)[:, :10]
    assert found.tolist() == exact[:3, :5].tolist()
    assert scores == pytest.approx(-np.sort(-every[:3], axis=1)[:, :5], abs=1e-5)
    for kind, least in ((settings_for(2000, 1000), 0.6), (VectorSettings("ivf-sq8", 8, 8), 0.95)):
        store = stored(tmp_path, vectors, kind)
        _, found = store.search(vectors[:100], 10)
        assert found[:, 0].tolist() == list(range(0, 1000, 10))
        shared = [len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), exact.tolist(), strict=True)]
        assert np.mean(shared) > least
        assert (tmp_path / f"{store.name}.faiss").stat().st_size < vectors.nbytes / 2


@pytest.mark.parametrize("found", [FLAT, SETTINGS])
def test_what_is_added_is_found_and_what_is_not_wanted_goes(tmp_path, found):
    vectors = rows(60)
    store = stored(tmp_path, vectors[:50], found)
    append(tmp_path, store.name, range(500, 600, 10), vectors[50:])
    for _ in range(2):
        more = VectorStore(tmp_path, store.name, DIMENSION, found, store.listed, 0)
        assert [keys[0] for keys in more.search(vectors[40:60], 3)[1].tolist()] == list(range(400, 600, 10))
        store = more.kept(lambda key: key >= 300, found)
        assert len(store) == 30
        vectors[:30] = 0


def test_what_a_killed_process_had_half_written_is_written_over(tmp_path):
    vectors = rows(30)
    name = begin(tmp_path, {})
    append(tmp_path, name, range(10), vectors[:10])
    for suffix in (".rows", ".keys"):
        with (tmp_path / f"{name}{suffix}").open("ab") as stream:
            stream.write(b"\xff" * 7)
    assert VectorStore(tmp_path, name, DIMENSION, FLAT, 0, 0).keys.tolist() == list(range(10))
    append(tmp_path, name, range(10, 30), vectors[10:])
    store = VectorStore(tmp_path, name, DIMENSION, FLAT, 0, 30)
    assert (store.keys.tolist(), np.array_equal(store.rows, vectors)) == (list(range(30)), True)
    with pytest.raises(RetrievalError, match="says 31 vectors of length 8, it holds 30"):
        VectorStore(tmp_path, name, DIMENSION, FLAT, 0, 31)


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return folder / f"{stored(folder, rows(ROWS), SETTINGS).name}.faiss"


@pytest.mark.parametrize(("count", "lists"), [(50, 4), (50, 1), (3, 2), (100, 50)])
def test_what_is_written_is_opened_whatever_its_size(tmp_path, count, lists):
    # One row in most lists, none in others: the table of their sizes is then another.
    vectors = np.repeat(np.eye(DIMENSION, dtype="<f4")[:3], count, axis=0)[:count]
    store = stored(tmp_path, vectors, VectorSettings("ivf-sq8", lists, lists))
    check_file(tmp_path / f"{store.name}.faiss", count, DIMENSION, lists)


def refused(folder, content, message="cannot be read"):
    for suffix in (".rows", ".keys"):
        (folder / f"v{suffix}").touch()
    (folder / "v.faiss").write_bytes(content)
    with pytest.raises(RetrievalError, match=message):
        VectorStore(folder, "v", DIMENSION, SETTINGS, ROWS, 0)


def test_files_of_other_kinds_lengths_and_tables_are_refused_before_faiss_reads_them(tmp_path, listed, monkeypatch):
    import faiss

    whole = listed.read_bytes()
    monkeypatch.setattr(faiss, "read_index", lambda *_: pytest.fail("FAISS read it"))
    refused(tmp_path, b"IxPT" + whole[4:], "the kind")
    for end in range(0, len(whole), 7):
        refused(tmp_path, whole[:end])
    refused(tmp_path, whole + b"\x00", "bytes of lists")
    # Lists in another file, which this kind names.
    refused(tmp_path, whole.replace(b"ilar", b"ilod"), "the lists")
    refused(tmp_path, whole.replace(b"IxFI", b"IHNf"), "the kind of centroids")
    refused(tmp_path, whole.replace(struct.pack("<q", ROWS), struct.pack("<q", 2**50), 1), "the shape")
    at = whole.index(b"full") + 12
    for entry in (2**62, 2**20, 51):
        refused(tmp_path, whole[:at] + struct.pack("<Q", entry) + whole[at + 8 :], "vectors in lists")
    (tmp_path / "v.faiss").unlink()
    (tmp_path / "v.faiss").symlink_to("/dev/zero")
    with pytest.raises(RetrievalError, match="symbolic link"):
        VectorStore(tmp_path, "v", DIMENSION, SETTINGS, ROWS, 0)


@pytest.mark.slow
@settings(max_examples=at_most(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 400), bytes_=st.binary(min_size=1, max_size=8))
def test_a_changed_head_is_refused_or_harmless(tmp_path, listed, at, bytes_):
    whole = listed.read_bytes()
    for suffix in (".rows", ".keys"):
        (tmp_path / f"v{suffix}").touch()
    (tmp_path / "v.faiss").write_bytes(whole[:at] + bytes_ + whole[at + len(bytes_) :])
    try:
        store = VectorStore(tmp_path, "v", DIMENSION, SETTINGS, ROWS, 0)
    except RetrievalError:
        return
    scores, keys = store.search(np.ones((1, DIMENSION), np.float32), 5)
    assert scores.shape == keys.shape == (1, 5)
