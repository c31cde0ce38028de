"""In which precision a model of this process is held."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from keqa.lms.local.adapters import place_of_model
from keqa.lms.local.loading import _dtype_on_cpu, load_for_training

pytestmark = pytest.mark.model


@pytest.fixture
def torch():
    """Imported by a test, since importing it takes as long as a hundred tests."""
    return pytest.importorskip("torch")


def config(stored):
    return SimpleNamespace(get_text_config=lambda decoder: SimpleNamespace(dtype=stored))


@pytest.mark.parametrize(
    ("stored", "quantized", "capabilities", "dtype"),
    [
        ("bfloat16", False, {"avx512_bf16": True}, "bfloat16"),
        ("float16", False, {"avx512_bf16": False, "amx_bf16": True}, "bfloat16"),
        ("float32", True, {"avx512_bf16": True}, "bfloat16"),
        ("float32", False, {"avx512_bf16": True}, "float32"),
        (None, False, {"avx512_bf16": True}, "float32"),
        ("bfloat16", False, {"avx2": True}, "float32"),
        ("bfloat16", False, {}, "float32"),
    ],
)
def test_half_the_precision_where_nothing_is_lost_and_it_is_faster(
    torch, monkeypatch, stored, quantized, capabilities, dtype
):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert _dtype_on_cpu(config(stored and getattr(torch, stored)), quantized) is getattr(torch, dtype)


def test_weights_stored_in_half_the_precision_are_held_so(torch, tmp_path, monkeypatch):
    if torch.cuda.is_available():
        pytest.skip("an accelerator has a precision of its own")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)
    tokenizer, model = load_for_training(place_of_model("keqa/tiny"))
    assert model.dtype is torch.float32
    model.to(torch.bfloat16).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    _, again = load_for_training(str(tmp_path))
    assert again.dtype is torch.bfloat16
    _, whole = load_for_training(str(tmp_path), torch.float32)
    assert whole.dtype is torch.float32
