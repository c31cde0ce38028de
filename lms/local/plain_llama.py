"""The Llama that ships with KEQA, of any size, read without transformers, whose import takes longer than a question.

Only what is computed here exactly as there, to the last bit, is read here; what differs from the model that ships in
more than its weights and sizes is left to transformers. Either kind of model keeps what it has read in the layers of a
cache that are here.
"""

import importlib.resources
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from jinja2.sandbox import ImmutableSandboxedEnvironment
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional

_SHIPPED = Path(str(importlib.resources.files("keqa.testbed"))) / "model"
_SIZES = {"attention_bias", "hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers"}
_SIZES |= {"head_dim", "num_key_value_heads", "rms_norm_eps", "vocab_size"}
_WITHOUT_EFFECT = {"attention_dropout", "bos_token_id", "dtype", "eos_token_id", "initializer_range", "pad_token_id"}
_WITHOUT_EFFECT |= {"max_position_embeddings", "transformers_version", "use_cache", "is_local", "local_files_only"}
_FILES = ("model.safetensors", "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
_TEMPLATE = "chat_template.jinja"

Pair = tuple[torch.Tensor, torch.Tensor]
"""Keys and values, or the cosines and sines by which they are turned."""


def readable(folder: Path) -> bool:
    """Whether a folder holds a model that is computed here as transformers computes it."""
    try:
        return all((folder / name).is_file() for name in _FILES) and _kind(folder) == _kind(_SHIPPED)
    except (OSError, ValueError):
        # transformers says what is wrong with it.
        return False


def _kind(folder: Path) -> tuple[Any, ...]:
    """What decides how a model computes, but for its sizes."""
    config, tokenizer = _json(folder, "config.json"), _json(folder, "tokenizer_config.json")
    alike = config.get("num_key_value_heads") == config.get("num_attention_heads")
    fixed = ({key: one[key] for key in one.keys() - _SIZES - _WITHOUT_EFFECT} for one in (config, tokenizer))
    return alike, _SIZES & config.keys(), *fixed, (folder / _TEMPLATE).read_text(encoding="utf-8")


class PlainTokenizer:
    """What `keqa.lms.local.tokenizing.Texts` needs of a tokenizer, by the names that transformers has for it."""

    def __init__(self, folder: Path) -> None:
        self.backend_tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.backend_tokenizer.no_truncation()
        self.backend_tokenizer.no_padding()
        named = _json(folder, "tokenizer_config.json")
        self.added_tokens_decoder = self.backend_tokenizer.get_added_tokens_decoder()
        self.all_special_tokens = [named["eos_token"], named["pad_token"]]
        self.bos_token = None
        self.eos_token_id = self.backend_tokenizer.token_to_id(named["eos_token"])
        special = {token.content for token in self.added_tokens_decoder.values() if token.special}
        if missing := {*self.all_special_tokens} - special:
            raise ValueError(f"{min(missing)!r} is no special token of tokenizer.json")
        self.chat_template = (folder / _TEMPLATE).read_text(encoding="utf-8")
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        self._template = environment.from_string(self.chat_template)

    def apply_chat_template(
        self, messages: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        return str(self._template.render(messages=messages, add_generation_prompt=add_generation_prompt))

    def decode(self, tokens: list[int], *, skip_special_tokens: bool) -> str:
        return str(self.backend_tokenizer.decode(tokens, skip_special_tokens=skip_special_tokens))


class PlainLlama(nn.Module):
    """A Llama whose weights have the names that they have in its file."""

    generation_config: Any

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        words, blocks = _Embedding(config.vocab_size, config.hidden_size), range(config.num_hidden_layers)
        layers = nn.ModuleList(_Block(config) for _ in blocks)
        self.model = nn.ModuleDict({"embed_tokens": words, "layers": layers, "norm": _Norm(config)})
        self.lm_head = _Linear(config.hidden_size, config.vocab_size, bias=False)

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, position_ids: torch.Tensor, cache: Any, **_: Any
    ) -> SimpleNamespace:
        hidden = self.model["embed_tokens"](input_ids)
        turn = self._rotation(position_ids, hidden)
        layers: Any = self.model["layers"]
        for number, layer in enumerate(layers):
            hidden = layer(hidden, attention_mask, turn, cache, number)
        return SimpleNamespace(logits=self.lm_head(self.model["norm"](hidden)))

    def _rotation(self, positions: torch.Tensor, like: torch.Tensor) -> Pair:
        size, base = self.config.head_dim, self.config.rope_parameters["rope_theta"]
        # On the processor, as transformers computes them, wherever the model is.
        inverse = 1.0 / (base ** (torch.arange(0, size, 2, dtype=torch.float) / size))
        angles = positions[..., None].float() * inverse.to(like.device)
        angles = torch.cat((angles, angles), dim=-1)[:, None]
        return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


class _Linear(nn.Linear):
    def reset_parameters(self) -> None:
        """Draw nothing: to draw weights on the device without data would import torch's compiler."""


class _Embedding(nn.Embedding):
    def reset_parameters(self) -> None:
        """As a linear layer."""


class _Norm(nn.Module):
    """Scales by the root of the mean square."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.hidden_size))
        self._least = config.rms_norm_eps

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        wide = hidden.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self._least)
        return self.weight * wide.to(hidden.dtype)


class _Block(nn.Module):
    """Attention and a gated feed-forward network, each added to what it reads."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self._size = config.head_dim
        heads, bias = config.num_attention_heads * self._size, config.attention_bias
        reads = {name: _Linear(width, heads, bias=bias) for name in ("q_proj", "k_proj", "v_proj")}
        self.self_attn = nn.ModuleDict({**reads, "o_proj": _Linear(heads, width, bias=bias)})
        gates = {name: _Linear(width, inner, bias=False) for name in ("gate_proj", "up_proj")}
        self.mlp = nn.ModuleDict({**gates, "down_proj": _Linear(inner, width, bias=False)})
        self.input_layernorm = _Norm(config)
        self.post_attention_layernorm = _Norm(config)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor, turn: Pair, cache: Any, number: int) -> torch.Tensor:
        attention, mlp, read = self.self_attn, self.mlp, self.input_layernorm(hidden)
        queries, keys, values = (
            attention[name](read).unflatten(-1, (-1, self._size)).transpose(1, 2)
            for name in ("q_proj", "k_proj", "v_proj")
        )
        queries, keys = (one * turn[0] + _turned(one) * turn[1] for one in (queries, keys))
        keys, values = cache.update(keys, values, number)
        mixed = functional.scaled_dot_product_attention(queries, keys, values, mask, scale=self._size**-0.5)
        hidden = hidden + attention["o_proj"](mixed.transpose(1, 2).flatten(2))
        read = self.post_attention_layernorm(hidden)
        added: torch.Tensor = mlp["down_proj"](functional.silu(mlp["gate_proj"](read)) * mlp["up_proj"](read))
        return hidden + added


def _turned(states: torch.Tensor) -> torch.Tensor:
    first, second = states.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


class _CacheLayer:
    """What transformers asks of a layer of a cache: its ``CacheLayerMixin``, without the time its import takes."""

    is_compileable = False
    is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing to set up."""

    def get_max_length(self) -> int:
        return -1

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0

    def get_seq_length(self) -> int:
        raise NotImplementedError


class ReadLayer(_CacheLayer):
    """One layer while prompts are read: a shared beginning, the same for all rows, before what is read now."""

    keys: torch.Tensor | None = None
    values: torch.Tensor | None = None

    def __init__(self, beginning: Pair | None) -> None:
        self.beginning = beginning

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Pair:
        if self.beginning is not None:
            rows = key_states.shape[0]
            keys, values = self.beginning
            key_states = torch.cat([keys.expand(rows, *keys.shape), key_states], dim=2)
            value_states = torch.cat([values.expand(rows, *values.shape), value_states], dim=2)
        self.keys, self.values = key_states, value_states
        return key_states, value_states

    def get_seq_length(self) -> int:
        if self.keys is not None:
            return int(self.keys.shape[2])
        return 0 if self.beginning is None else int(self.beginning[0].shape[1])


class RowsLayer(_CacheLayer):
    """One layer while texts are drawn: a buffer (rows, heads, slots, size), written in place where `place` says."""

    def __init__(self, place: SimpleNamespace, keys: torch.Tensor, values: torch.Tensor) -> None:
        self.place, self.keys, self.values = place, keys, values

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Pair:
        place, count = self.place, key_states.shape[0]
        self.keys[place.rows, :, place.slots] = key_states[:, :, 0]
        self.values[place.rows, :, place.slots] = value_states[:, :, 0]
        return self.keys[:count, :, : place.length], self.values[:count, :, : place.length]

    def get_seq_length(self) -> int:
        return int(self.place.length) - 1


class Layers:
    """The layers of a cache, for a model that is not one of transformers, whose ``Cache`` is for its own."""

    def __init__(self, layers: Sequence[ReadLayer] | Sequence[RowsLayer]) -> None:
        self.layers = layers

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int) -> Pair:
        return self.layers[layer].update(keys, values)


def load_plain(folder: Path, dtype: torch.dtype) -> tuple[PlainTokenizer, PlainLlama]:
    """Read tokenizer and model of a folder that is `readable`."""
    config = SimpleNamespace(**_json(folder, "config.json"))
    config.get_text_config = lambda decoder=True: config
    with torch.device("meta"):
        model = PlainLlama(config)
    try:
        weights = {name: value.to(dtype) for name, value in load_file(folder / "model.safetensors").items()}
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
        model.load_state_dict(weights, assign=True)
        tokenizer = PlainTokenizer(folder)
    except OSError:
        raise
    except Exception as error:
        # Both libraries raise types of their own.
        raise ValueError(str(error)) from error
    model.generation_config = SimpleNamespace(**_json(folder, "generation_config.json"))
    return tokenizer, model


def _json(folder: Path, name: str) -> dict[str, Any]:
    value = json.loads((folder / name).read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"{folder / name} holds no object")
    return value
