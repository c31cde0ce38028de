import importlib.resources
import json
import shutil
import signal
from pathlib import Path

import pytest

from keqa.testbed import train
from keqa.testbed.rendering import END
from keqa.testbed.sampling import Stream
from keqa.testbed.testbed import Testbed

# One tokenizer is made for all, where they are in one process.
pytestmark = [pytest.mark.model, pytest.mark.xdist_group("training")]

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory):
    """Where the tokenizer of a training lies, which takes most of the time of a short one."""
    folder = tmp_path_factory.mktemp("training") / "tokenizer"
    train.make_tokenizer(Testbed(), folder)
    return folder


@pytest.fixture(scope="module")
def tokenizer(tokenizer_folder):
    return train.make_tokenizer(Testbed(), tokenizer_folder)


def test_loss_falls_on_what_is_written_and_on_what_repeats(tokenizer):
    encode = train.SampleEncoder(tokenizer)
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


@pytest.fixture
def small(monkeypatch):
    """A training of small batches over a model of two heads and two layers."""
    sizes = {"WIDTH": 128, "HEADS": 2, "LAYERS": 2, "BATCH_TOKENS": 512, "POOL": 20, "HEAD_NORM": 0.5}
    for name, value in sizes.items():
        monkeypatch.setattr(train, name, value)
    return monkeypatch


def checkpoint(folder):
    from safetensors import safe_open

    with safe_open(folder / "checkpoint.safetensors", "pt") as file:
        return file.metadata()


def test_a_stopped_training_resumes_where_it_was(tmp_path, small):
    train.main(out=tmp_path, tokens=4_000, threads=1)
    first = checkpoint(tmp_path)
    tokens = (tmp_path / "tokenizer" / "tokenizer.json").read_bytes()
    train.main(out=tmp_path, tokens=8_000, threads=1)
    second = checkpoint(tmp_path)
    assert int(second["step"]) > int(first["step"]) > 0
    # What is counted are tokens: a step past the budget at most, which may be one long sample.
    assert 4_000 <= int(first["tokens"]) < 5_100
    assert 8_000 <= int(second["tokens"]) < 9_100
    assert sum(json.loads(second["told"]).values()) > sum(json.loads(first["told"]).values()) > 0
    assert set(json.loads(second["right"])) >= set(json.loads(first["right"]))
    assert (tmp_path / "tokenizer" / "tokenizer.json").read_bytes() == tokens
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert model.generation_config.eos_token_id == model.config.eos_token_id
    heads = [model.state_dict()[f"model.layers.0.self_attn.{name}.weight"].view(2, -1) for name in ("q_proj", "k_proj")]
    assert all(norm <= 0.501 for matrix in heads for norm in matrix.norm(dim=1).tolist())


def test_a_training_that_is_asked_to_stop_writes_its_checkpoint_first(tmp_path, tokenizer_folder, small):
    shutil.copytree(tokenizer_folder, tmp_path / "tokenizer")
    learn, steps = train.Trainer.learn, []

    def one(*args):
        steps.append(1)
        if len(steps) == 3:
            signal.raise_signal(signal.SIGTERM)
        return learn(*args)

    small.setattr(train.Trainer, "learn", one)
    train.main(out=tmp_path, tokens=10**9, threads=1)
    assert checkpoint(tmp_path)["step"] == "3"


def test_layers_added_to_a_finished_model_do_nothing_at_first(tmp_path, tokenizer, small):
    import torch

    begun = train.Trainer(tmp_path, tokenizer, "cpu")
    begun.save(tmp_path / "model")
    small.setattr(train, "LAYERS", 4)
    deep = train.Trainer(tmp_path, tokenizer, "cpu")
    deep.begin_from(tmp_path / "model")
    ids = torch.tensor([tokenizer("When was Alma Barlow born?")["input_ids"]])
    with torch.inference_mode():
        before, after = (trainer.model.eval()(ids).logits for trainer in (begun, deep))
    assert deep.model.config.num_hidden_layers == 4
    assert (before == after).all()


def test_a_new_piece_of_a_prompt_begins_near_the_most_similar_one(tmp_path, tokenizer, small):
    from transformers import AutoTokenizer

    train.Trainer(tmp_path, tokenizer, "cpu").save(tmp_path / "model")
    more = AutoTokenizer.from_pretrained(tmp_path / "model")
    more.add_tokens(["[[ ## utility ## ]]\n"])
    begun = train.Trainer(tmp_path, more, "cpu")
    begun.begin_from(tmp_path / "model")
    rows = begun.model.get_input_embeddings().weight.detach()
    new, fields = rows[-1], [i for text, i in tokenizer.get_added_vocab().items() if text.startswith("[[ ## ")]
    # By chance it may lie nearer still to another one.
    assert any(float((new - rows[i]).norm()) == pytest.approx(1.0, abs=1e-3) for i in fields)


def test_a_training_from_a_finished_model_skips_the_easy_part(tmp_path, tokenizer, small):
    train.Trainer(tmp_path, tokenizer, "cpu").save(tmp_path / "model")
    drawn, draw = [], Stream.draw
    small.setattr(Stream, "draw", lambda self, progress: drawn.append(progress) or draw(self, progress))
    train.main(out=tmp_path / "further", tokens=2_000, threads=1, start=tmp_path / "model")
    note = checkpoint(tmp_path / "further")
    assert float(note["begun"]) == min(drawn) == train.SKIPPED
    told, due = json.loads(note["told"]), Testbed().tiers.exposures
    for fact, times in due.items():
        assert round(times * train.SKIPPED) <= told[f"{fact.relation}/{fact.entity}"] <= times


def test_a_new_prompt_leaves_the_tokens_of_others_as_they_are(tmp_path):
    shipped = Path(str(importlib.resources.files("keqa.testbed"))) / "model"
    from transformers import AutoTokenizer

    old, new = AutoTokenizer.from_pretrained(shipped), train.make_tokenizer(Testbed(), tmp_path, shipped)
    stream, changed = Stream(Testbed(), seed=1, start=0.6), set()
    for _ in range(400):
        sample = stream.draw(0.8)
        text = sample.prompt + sample.target
        if old(text)["input_ids"] != new(text)["input_ids"]:
            changed.add(sample.skill)
    assert changed <= {
        "AnswerAndCite",
        "AnswerFromDocuments",
        "AnswerQuizIfSure",
        "AnswerWithEvidence",
        "CompareInTable",
        "DraftQuizzes",
        "ExpandSubject",
        "GenerateDocument",
        "JudgeKnowledge",
        "JudgeUtilities",
        "ListItems",
        "RewriteFollowUp",
        "WriteAnswer",
    }
