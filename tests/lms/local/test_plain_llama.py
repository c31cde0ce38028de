"""The Llama that is read without transformers gives what transformers gives, to the last bit, or is not read."""

import importlib.resources
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from keqa.lms.local.decoder import cache_argument
from keqa.lms.local.plain_llama import Layers, PlainLlama, ReadLayer, load_plain, readable
from keqa.lms.local.tokenizing import Texts
from keqa.lms.local.weights import load_model

pytestmark = pytest.mark.model

SHIPPED = Path(str(importlib.resources.files("keqa.testbed"))) / "model"
MESSAGES = [
    {"role": "system", "content": "Answer.\n\n"},
    {"role": "user", "content": "[[ ## quiz ## ]]\nWho wrote the song “Ünïcode” — 歌？ <|im_end|>\n"},
]


@pytest.fixture(scope="module")
def by_transformers():
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(SHIPPED, dtype=torch.float32).eval()
    return AutoTokenizer.from_pretrained(SHIPPED), model


@pytest.fixture(scope="module")
def plain():
    return load_plain(SHIPPED, torch.float32)


def test_the_model_that_ships_is_read_so():
    assert readable(SHIPPED)
    assert isinstance(load_model(str(SHIPPED))[1], PlainLlama)


def test_logits_are_equal_to_the_last_bit(by_transformers, plain):
    from transformers.cache_utils import Cache, CacheLayerMixin

    CacheLayerMixin.register(ReadLayer)
    ids = torch.randint(0, 2639, (3, 40), generator=torch.Generator().manual_seed(0))
    inputs = {
        "input_ids": ids,
        "attention_mask": torch.ones(40, 40, dtype=torch.bool).tril()[None, None],
        "position_ids": torch.arange(40)[None].expand(3, -1),
    }
    count = plain[1].config.num_hidden_layers
    with torch.inference_mode():
        cache = {cache_argument(by_transformers[1]): Cache(layers=[ReadLayer(None) for _ in range(count)])}
        expected = by_transformers[1](**inputs, **cache)
        given = plain[1](**inputs, cache=Layers([ReadLayer(None) for _ in range(count)]))
    assert torch.equal(given.logits, expected.logits)


def test_prompts_and_texts_are_the_same(by_transformers, plain):
    theirs, own = by_transformers[0], plain[0]
    given = {"tokenize": False, "add_generation_prompt": True}
    text = own.apply_chat_template(MESSAGES, **given)
    assert text == theirs.apply_chat_template(MESSAGES, **given)
    ids = own.backend_tokenizer.encode(text, add_special_tokens=False).ids
    assert ids == theirs.encode(text, add_special_tokens=False)
    for skipped in (True, False):
        assert own.decode(ids, skip_special_tokens=skipped) == theirs.decode(ids, skip_special_tokens=skipped)
    assert (own.eos_token_id, own.bos_token) == (theirs.eos_token_id, theirs.bos_token)
    # What structures a prompt is taken out of messages alike.
    assert Texts(own)._control == Texts(theirs)._control


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("config.json", {"rope_parameters": {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0}}),
        ("config.json", {"num_key_value_heads": 2}),
        ("config.json", {"model_type": "mistral"}),
        ("config.json", {"quantization_config": {"bits": 4}}),
        ("config.json", {"sliding_window": 128}),
        ("config.json", []),
        ("tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer"}),
        ("tokenizer_config.json", {"clean_up_tokenization_spaces": True}),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": "theirs.Tokenizer"}}),
        ("chat_template.jinja", "{{ raise_exception('no') }}"),
        ("chat_template.jinja", "{{ messages | tojson }}"),
        ("chat_template.jinja", "{% generation %}{% endgeneration %}"),
        ("model.safetensors", None),
    ],
)
def test_what_may_be_computed_otherwise_is_left_to_transformers(tmp_path, file, changes):
    folder = tmp_path / "model"
    shutil.copytree(SHIPPED, folder)
    place = folder / file
    if changes is None:
        place.unlink()
    elif isinstance(changes, str):
        place.write_text(changes)
    else:
        place.write_text(json.dumps({**json.loads(place.read_text()), **changes} if changes else changes))
    assert not readable(folder)


@pytest.mark.process
def test_a_question_to_it_imports_neither_transformers_nor_a_compiler():
    code = (
        "import sys; from keqa.lms import build_lm; print(build_lm('keqa/tiny', cache=False)('Who?'));"
        "print({'transformers', 'torch._dynamo', 'litellm', 'datasets', 'pandas'} & {*sys.modules})"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300).stdout
    assert out.splitlines()[-1] == "set()"
