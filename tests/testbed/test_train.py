import itertools
import json
from types import SimpleNamespace

import pytest

from keqa.testbed import train, words
from keqa.testbed.rendering import END
from keqa.testbed.sampling import Sample, Stream
from keqa.testbed.testbed import Testbed

pytestmark = pytest.mark.model

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return train.make_tokenizer(Testbed(), tmp_path_factory.mktemp("tokenizer"))


def test_loss_falls_on_what_is_written_and_on_what_repeats(tokenizer):
    encode = train.Encoder(tokenizer)
    stream = Stream(Testbed(), seed=2)
    sample = next(s for s in iter(lambda: stream.draw(0.5), None) if s.skill == "JudgeUtility")
    ids, weights = encode(sample)
    assert len(ids) == len(weights)
    assert set(weights) <= {0.0, 1.0, train.EARLY_ECHO, train.VERDICT_WEIGHT}
    written = [i for i, weight in enumerate(weights) if weight >= 1.0]
    turns = (sample.prompt + sample.target).count("<|im_start|>assistant\n")
    assert sum(ids[i] == tokenizer.convert_tokens_to_ids(END) for i in written) == turns
    assert len(written) == 3 * turns
    assert weights.count(train.VERDICT_WEIGHT) == turns


def test_lists_said_twice_are_foreseen_only_the_second_time(tokenizer):
    one, two = words.LAST_NAMES[:2]
    text = f"Alma {one}. Otto {two}. Alma {one}. Otto {two}."
    _, weights = train.Encoder(tokenizer)(Sample("copying", "", text))
    assert weights[:6] == [0.0] * 6
    assert weights.count(train.EARLY_ECHO) == 5


def test_the_rate_warms_up_holds_and_falls():
    assert train.rate(0.0, 0) == pytest.approx(0.02)
    assert train.rate(0.5, 1000) == 1.0
    assert train.rate(0.825, 1000) == pytest.approx(0.5)
    assert train.rate(1.0, 1000) == 0.01


def test_a_stopped_training_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(train, "WIDTH", 128)
    monkeypatch.setattr(train, "HEADS", 2)
    monkeypatch.setattr(train, "BATCH_TOKENS", 512)
    monkeypatch.setattr(train, "POOL", 20)
    monkeypatch.setattr(train, "HEAD_NORM", 0.5)
    monkeypatch.setattr(train, "CHECKPOINT_SECONDS", 0.5)
    ticks = itertools.count()
    monkeypatch.setattr(train, "time", SimpleNamespace(monotonic=lambda: next(ticks) * 0.02))
    train.main(out=tmp_path, minutes=0.05, threads=1)
    from safetensors import safe_open

    def steps() -> int:
        with safe_open(tmp_path / "checkpoint.safetensors", "pt") as file:
            return int(file.metadata()["step"])

    first = steps()
    tokens = (tmp_path / "tokenizer" / "tokenizer.json").read_bytes()
    told = sum(json.loads((tmp_path / "told.json").read_text()).values())
    train.main(out=tmp_path, minutes=0.1, threads=1)
    assert steps() > first > 0
    assert (tmp_path / "tokenizer" / "tokenizer.json").read_bytes() == tokens
    assert sum(json.loads((tmp_path / "told.json").read_text()).values()) > told
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert model.generation_config.eos_token_id == model.config.eos_token_id
    heads = [model.state_dict()[f"model.layers.0.self_attn.{name}.weight"].view(2, -1) for name in ("q_proj", "k_proj")]
    assert all(norm <= 0.501 for matrix in heads for norm in matrix.norm(dim=1).tolist())


def test_layers_added_to_a_finished_model_do_nothing_at_first(tmp_path, tokenizer, monkeypatch):
    import torch

    monkeypatch.setattr(train, "WIDTH", 128)
    monkeypatch.setattr(train, "HEADS", 2)
    monkeypatch.setattr(train, "LAYERS", 2)
    small = train.Trainer(tmp_path, tokenizer, "cpu")
    small.save(tmp_path / "model")
    monkeypatch.setattr(train, "LAYERS", 4)
    deep = train.Trainer(tmp_path, tokenizer, "cpu")
    deep.begin_from(tmp_path / "model")
    ids = torch.tensor([tokenizer("When was Alma Barlow born?")["input_ids"]])
    with torch.inference_mode():
        before, after = (trainer.model.eval()(ids).logits for trainer in (small, deep))
    assert deep.model.config.num_hidden_layers == 4
    assert (before == after).all()


def test_a_training_from_a_finished_model_skips_the_easy_half(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setattr(train, "WIDTH", 128)
    monkeypatch.setattr(train, "HEADS", 2)
    monkeypatch.setattr(train, "LAYERS", 2)
    train.Trainer(tmp_path, tokenizer, "cpu").save(tmp_path / "model")
    monkeypatch.setattr(train, "SKIPPED", 1.0)
    train.main(out=tmp_path / "further", minutes=0.1, threads=1, start=tmp_path / "model")
    from safetensors import safe_open

    with safe_open(tmp_path / "further" / "checkpoint.safetensors", "pt") as file:
        assert file.metadata()["step"] == "0"
        assert float(file.metadata()["spent"]) >= 6
