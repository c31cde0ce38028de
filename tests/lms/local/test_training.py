import json
from pathlib import Path

import dspy
import pytest

from keqa.errors import ConfigurationError, InputError
from keqa.lms import build_lm
from keqa.lms.local.provider import InProcessLM, LocalTrainingJob
from keqa.lms.local.tokenizing import Texts, stop_tokens
from keqa.lms.local.training import SoftChoice, TrainingConversation, TrainingOptions, encode, fine_tune
from keqa.lms.local.weights import ADAPTER, CONFIG, TRAINING, base_of, is_adapter, load_model

pytest.importorskip("peft")
pytestmark = pytest.mark.model

OPTIONS = TrainingOptions(rank=4, epochs=30, batch=2, rate=0.01, device="cpu")


def conversations(count=4):
    return [
        TrainingConversation([{"role": "system", "content": "s"}, {"role": "user", "content": f"{n}?"}], f"yes {n}")
        for n in range(count)
    ]


def said(model, text):
    lm = build_lm(model, cache=False, max_tokens=20)
    return str(lm(dspy.lm15.Request(model=lm.model, messages=(dspy.lm15.Message.user(text),), system="s")).text)


@pytest.fixture(scope="module")
def trained(tiny_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "adapter"
    fine_tune(f"transformers/{tiny_folder}", conversations(), folder, OPTIONS)
    return folder


def test_an_adapter_is_small_and_says_what_it_learned(trained, tiny_folder):
    assert is_adapter(trained)
    assert sorted(file.name for file in trained.iterdir()) == sorted([CONFIG, ADAPTER, TRAINING])
    told = json.loads((trained / TRAINING).read_text())
    assert (told["base"], told["steps"], told["conversations"]) == (f"transformers/{tiny_folder}", 60, 4)
    assert base_of(trained) == str(tiny_folder)
    assert said(f"transformers/{trained}", "2?") == "yes 2"
    assert said(f"transformers/{tiny_folder}", "2?") != "yes 2"


def test_merged_weights_are_those_of_peft(trained, tiny_folder):
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    _, ours = load_model(str(trained))
    base = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32)
    theirs = PeftModel.from_pretrained(base, trained).merge_and_unload()
    for name, weight in theirs.named_parameters():
        assert torch.allclose(weight, ours.get_parameter(name).cpu(), atol=1e-5), name


def test_a_stopped_training_resumes_to_the_same_weights(tiny_folder, tmp_path, monkeypatch):
    from safetensors.torch import load_file

    options = OPTIONS.model_copy(update={"epochs": 3, "dropout": 0.1})
    steps: list[int] = []
    # As where it is killed when all but the note that ends it was written.
    with monkeypatch.context() as patched:
        patched.setattr("keqa.lms.local.training.atomic_write", None)
        with pytest.raises(TypeError):
            fine_tune(str(tiny_folder), conversations(), tmp_path / "whole", options)
    fine_tune(str(tiny_folder), conversations(), tmp_path / "whole", options)
    with pytest.raises(InputError, match="stopped after 2 of 6 steps; the same call"):
        fine_tune(
            str(tiny_folder),
            conversations(),
            tmp_path / "stopped",
            options,
            progress=lambda step, total, loss: steps.append(step),
            stopped=lambda: len(steps) == 2,
        )
    with pytest.raises(InputError, match="holds another training"):
        fine_tune(str(tiny_folder), conversations(3), tmp_path / "stopped", options)
    done = fine_tune(
        str(tiny_folder), conversations(), tmp_path / "stopped", options, progress=lambda step, *_: steps.append(step)
    )
    assert steps == [1, 2, 3, 4, 5, 6]
    whole, resumed = (load_file(tmp_path / name / ADAPTER) for name in ("whole", "stopped"))
    assert all(whole[name].equal(resumed[name]) for name in whole)
    assert fine_tune(str(tiny_folder), conversations(), tmp_path / "stopped", options) == done
    with pytest.raises(InputError, match="another model, data or options"):
        fine_tune(str(tiny_folder), conversations(3), tmp_path / "stopped", options)


def test_all_weights_make_a_whole_model(tiny_folder, tmp_path):
    options = OPTIONS.model_copy(update={"method": "full", "rate": 3e-3})
    done = fine_tune(str(tiny_folder), conversations(), tmp_path / "model", options)
    assert not is_adapter(done.folder)
    assert said(done.model, "3?") == "yes 3"


def test_what_cannot_be_trained_is_refused(tiny_folder, trained, tmp_path):
    with pytest.raises(InputError, match="nothing to train on"):
        fine_tune(str(tiny_folder), [], tmp_path / "a")
    with pytest.raises(ConfigurationError, match="is an adapter; train its base"):
        fine_tune(str(trained), conversations(), tmp_path / "a")
    with pytest.raises(InputError, match="more than 5 tokens"):
        fine_tune(str(tiny_folder), conversations(), tmp_path / "a", OPTIONS.model_copy(update={"longest": 5}))
    with pytest.raises(ConfigurationError, match="device cud cannot be used: Expected one of cpu"):
        fine_tune(str(tiny_folder), conversations(), tmp_path / "a", OPTIONS.model_copy(update={"device": "cud"}))
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="holds other files"):
        fine_tune(str(tiny_folder), conversations(), tmp_path / "taken")
    mistyped = ({"rate": "1e-5x"}, {"seed": "a"}, {"checkpoint_seconds": "soon"})
    for wrong in ({"epochs": 0}, {"method": "some"}, {"rate": 2.0}, {"warmup": 1.0}, {"epoch": 1}, *mistyped):
        with pytest.raises(ConfigurationError):
            TrainingOptions.of(wrong)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"use_dora": True}, "sets use_dora"),
        ({"modules_to_save": ["lm_head"]}, "sets modules_to_save"),
        ({"peft_type": "IA3"}, "plain LoRA is read"),
        ({"base_model_name_or_path": None}, "does not say which model"),
        ({"base_model_name_or_path": "/no/where"}, "There is no model folder"),
        ({"lora_alpha": "8"}, "plain LoRA is read"),
    ],
)
def test_adapters_of_other_kinds_are_refused(trained, tmp_path, change, message):
    config = json.loads((trained / CONFIG).read_text())
    (tmp_path / CONFIG).write_text(json.dumps({**config, **change}))
    (tmp_path / ADAPTER).write_bytes((trained / ADAPTER).read_bytes())
    with pytest.raises(ConfigurationError, match=message):
        load_model(str(tmp_path))


def test_an_adapter_of_another_model_is_refused(trained, tmp_path):
    from fixtures.tiny_model import save_tiny_model

    other = save_tiny_model(tmp_path / "other", kind="llama", hidden_size=32)
    for file in (CONFIG, ADAPTER, TRAINING):
        (tmp_path / file).write_bytes((trained / file).read_bytes())
    config = json.loads((trained / CONFIG).read_text())
    (tmp_path / CONFIG).write_text(json.dumps({**config, "base_model_name_or_path": str(other)}))
    with pytest.raises(ConfigurationError, match="trained from other weights"):
        load_model(str(tmp_path))
    (tmp_path / TRAINING).unlink()
    with pytest.raises(ConfigurationError, match="is of another model"):
        load_model(str(tmp_path))
    (tmp_path / ADAPTER).write_bytes(b"no tensors")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_model(str(tmp_path))


def test_a_reply_begins_after_the_prompt_and_ends_with_what_ends_texts(tiny_folder):
    tokenizer, model = load_model(str(tiny_folder))
    texts, stops = Texts(tokenizer), stop_tokens(model, tokenizer)
    one = TrainingConversation(
        [{"role": "user", "content": "q"}], 'a "True" b', [SoftChoice(3, {"True": 0.3, "False": 0.7})]
    )
    found = encode(texts, stops, one)
    assert texts.decode(found.tokens[: found.start]) == "<user>q\n<assistant>"
    assert found.tokens[-1] in stops
    assert texts.decode(found.tokens[found.start :]).startswith('a "True" b')
    true, false = texts.tokens("T")[0], texts.tokens("F")[0]
    assert found.soft == {3: {true: 0.3, false: 0.7}}
    assert found.tokens[found.start + 3] == true


def test_dspy_fine_tunes_a_local_language_model(tiny_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("DSPY_FINETUNEDIR", str(tmp_path))
    lm = build_lm(f"transformers/{tiny_folder}", cache=False, max_tokens=7)
    data = [{"messages": [*one.messages, {"role": "assistant", "content": one.reply}]} for one in conversations()]
    kwargs = {"epochs": 1, "rank": 2, "device": "cpu"}
    job = lm.finetune(train_data=data, train_data_format="chat", train_kwargs=kwargs)
    tuned = job.result(timeout=120)
    assert isinstance(job, LocalTrainingJob)
    assert isinstance(tuned, InProcessLM)
    assert job.status()["state"] == "finished"
    assert job.status()["step"] == 1
    assert (tuned.kwargs["max_tokens"], tuned.cache) == (7, False)
    assert tuned.engine is not lm.engine
    assert Path(tuned.engine.path).parent == tmp_path
    assert lm.copy(temperature=1.0).engine is lm.engine
    wrong = lm.finetune(train_data=data, train_data_format="chat", train_kwargs={"epoch": 1}).result(timeout=60)
    assert "there is no option 'epoch' of training" in str(wrong)
