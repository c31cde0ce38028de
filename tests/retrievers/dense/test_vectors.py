import json

import numpy as np
import pytest

from keqa.errors import RetrievalError
from keqa.retrievers.dense.vectors import VectorFile, VectorSettings, drop_unused, finish, open_search, settings_for


def rows(count, dimension=8, seed=0):
    made = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def written(data, vectors, settings):
    file = VectorFile(data, *vectors.shape)
    for start in range(0, len(vectors), 100):
        file.append(vectors[start : start + 100])
    finish(data, settings)
    drop_unused(data, settings)
    return open_search(data, settings, *vectors.shape)


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


def test_flat_is_exact_and_lies_in_a_plain_numpy_file(tmp_path):
    vectors = rows(250)
    search = written(tmp_path, vectors, VectorSettings("flat"))
    scores, found = search(vectors[:3], 5)
    expected = vectors[:3] @ vectors.T
    assert found.tolist() == np.argsort(-expected, axis=1)[:, :5].tolist()
    assert scores == pytest.approx(-np.sort(-expected, axis=1)[:, :5], abs=1e-5)
    assert np.array_equal(np.load(tmp_path / "vectors.npy", allow_pickle=False), vectors)
    assert [file.name for file in tmp_path.iterdir()] == ["vectors.npy"]


def test_lists_of_8_bits_find_nearly_the_same_in_a_quarter_of_the_space(tmp_path):
    vectors = rows(2000, 32)
    search = written(tmp_path, vectors, settings_for(2000, 1000))
    _, found = search(vectors[:100], 10)
    exact = np.argsort(-(vectors[:100] @ vectors.T), axis=1)[:, :10]
    shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), exact.tolist(), strict=True)])
    assert found[:, 0].tolist() == list(range(100))
    assert shared > 0.6
    assert [file.name for file in tmp_path.iterdir()] == ["index.faiss"]
    assert (tmp_path / "index.faiss").stat().st_size < vectors.nbytes / 2


def test_every_list_searched_is_every_vector(tmp_path):
    vectors = rows(500, 32)
    _, found = written(tmp_path, vectors, VectorSettings("ivf-sq8", 8, 8))(vectors[:50], 10)
    exact = np.argsort(-(vectors[:50] @ vectors.T), axis=1)[:, :10]
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), exact.tolist(), strict=True)]) > 0.95


def test_rows_after_the_last_note_are_written_again(tmp_path):
    vectors = rows(30)
    VectorFile(tmp_path, 30, 8).append(vectors[:10])
    # Killed in the middle of the second shard.
    with (tmp_path / "vectors.npy").open("ab") as stream:
        stream.write(b"\xff" * 77)
    again = VectorFile(tmp_path, 30, 8)
    assert again.done == 10
    again.append(vectors[10:20])
    again.append(vectors[20:])
    assert np.array_equal(np.load(tmp_path / "vectors.npy", allow_pickle=False), vectors)


def test_a_note_that_is_broken_begins_again(tmp_path):
    VectorFile(tmp_path, 30, 8).append(rows(10))
    (tmp_path / "encoded.json").write_text(json.dumps({"rows": 10})[:-3])
    assert VectorFile(tmp_path, 30, 8).done == 0


def test_what_is_not_whole_is_not_opened(tmp_path):
    flat = VectorSettings("flat")
    written(tmp_path, rows(20), flat)
    with pytest.raises(RetrievalError, match="says 21 vectors of length 8, it holds 20 of 8"):
        open_search(tmp_path, flat, 21, 8)
    whole = (tmp_path / "vectors.npy").read_bytes()
    (tmp_path / "vectors.npy").write_bytes(whole[:-1])
    with pytest.raises(RetrievalError, match="cannot be read"):
        open_search(tmp_path, flat, 20, 8)
    with pytest.raises(RetrievalError, match="cannot be read"):
        open_search(tmp_path, VectorSettings("ivf-sq8", 2, 2), 20, 8)
