"""Models that several tests share, and no key of the machine."""

import os

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    """No key, address or proxy of the machine reaches a test."""
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_API_BASE", "_BASE_URL"))]:
        monkeypatch.delenv(name)
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """A random Qwen2 with a chat template."""
    from fixtures.tiny_model import save_tiny_model

    return save_tiny_model(tmp_path_factory.mktemp("models") / "tiny-random")


@pytest.fixture
def engine(tiny_folder):
    """An engine of its own over the tiny model, with fresh counters."""
    from keqa.lms.local.engine import TransformersEngine

    made = TransformersEngine(str(tiny_folder))
    yield made
    made.close()
