"""In which precision a model of this process is held."""

from __future__ import annotations

import pytest

from keqa.lms.local.weights import load_for_training, place_of_model

pytestmark = pytest.mark.model


@pytest.fixture
def torch():
    """Imported by a test, since importing it takes as long as a hundred tests."""
    return pytest.importorskip("torch")


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
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True}, raising=False)
    assert load_for_training(str(tmp_path))[1].dtype is torch.float32, "this processor multiplies halves more slowly"
    _, whole = load_for_training(str(tmp_path), torch.float32)
    assert whole.dtype is torch.float32
