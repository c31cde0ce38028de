"""Adapters: small changes to a model's weights (LoRA), in a folder of their own, merged where the model is loaded.

::

    adapter/
      adapter_config.json         how it was made, and of which model it is, as peft writes it
      adapter_model.safetensors   the changes
      training.json               what it was trained on and from which weights, where it was trained here

The format is peft's; reading it takes neither peft nor transformers, and a merged model is as fast as its base.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keqa.errors import ConfigurationError
from keqa.lms.local.weights import fingerprint, place_of

if TYPE_CHECKING:
    import torch

CONFIG, WEIGHTS, TRAINING = "adapter_config.json", "adapter_model.safetensors", "training.json"
_PREFIX, _A, _B = "base_model.model.", ".lora_A.weight", ".lora_B.weight"
# What peft would compute otherwise than it is done here, and the value with which it does not.
_PLAIN: dict[str, Any] = {
    "alpha_pattern": {},
    "bias": "none",
    "lora_bias": False,
    "modules_to_save": None,
    "target_parameters": None,
    "trainable_token_indices": None,
}


def is_adapter(folder: str | Path) -> bool:
    """Whether a folder holds an adapter and no whole model."""
    place = Path(folder).expanduser()
    return (place / CONFIG).is_file() and not (place / "config.json").exists()


def base_of(folder: str | Path) -> str:
    """Where the model is that an adapter changes."""
    place = Path(folder).expanduser()
    name = _object(place / CONFIG).get("base_model_name_or_path")
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"{place / CONFIG} does not say which model the adapter is of")
    base = place_of_model(name)
    if is_adapter(base):
        raise ConfigurationError(f"the adapter {place} is of an adapter, {base}; give it a whole model as its base")
    if (place / TRAINING).is_file():
        trained_from = _object(place / TRAINING).get("base_weights")
        if trained_from is not None and trained_from != fingerprint(base):
            raise ConfigurationError(
                f"the adapter {place} was trained from other weights of {name} than those here: train it again"
            )
    return base


def place_of_model(name: str) -> str:
    """Where the weights of a model in this process are, by its model string, folder or hub id."""
    provider, _, rest = name.partition("/")
    if provider == "transformers" or name in ("keqa/tiny", "local/smollm2"):
        return place_of(provider, rest)
    return name


def merge(model: Any, folder: str | Path) -> None:
    """Change the weights of a model as an adapter says."""
    import torch
    from safetensors.torch import load_file

    place = Path(folder).expanduser()
    config = _object(place / CONFIG)
    _check_plain(place, config)
    try:
        tensors = load_file(place / WEIGHTS)
    except Exception as error:
        # The library raises a type of its own for a damaged file.
        raise ConfigurationError(f"{place / WEIGHTS} cannot be read: {error}") from error
    weights = dict(model.named_parameters())
    names = {name.removesuffix(_A).removesuffix(_B) for name in tensors}
    if {*tensors} != {name + end for name in names for end in (_A, _B)}:
        raise ConfigurationError(
            f"{place / WEIGHTS} holds more than the two matrices of each layer: merge it with peft"
        )
    with torch.no_grad():
        for name in sorted(names):
            weight = weights.get(f"{name.removeprefix(_PREFIX)}.weight")
            change = _change(tensors[name + _A], tensors[name + _B], config)
            if weight is None or change is None or weight.shape != change.shape:
                raise ConfigurationError(f"the adapter {place} is of another model: {name[:100]!a} does not fit")
            weight += change.to(weight.device, weight.dtype)


def _change(first: torch.Tensor, second: torch.Tensor, config: dict[str, Any]) -> torch.Tensor | None:
    """What a layer's weights change by; None for matrices that do not go together."""
    if first.ndim != 2 or second.ndim != 2 or first.shape[0] != second.shape[1] or not first.shape[0]:
        return None
    rank = first.shape[0]
    scale = float(config["lora_alpha"]) / (rank**0.5 if config.get("use_rslora") else rank)
    change = scale * (second.float() @ first.float())
    return change.T if config.get("fan_in_fan_out") else change


def _check_plain(place: Path, config: dict[str, Any]) -> None:
    other = [name for name, value in _PLAIN.items() if (config.get(name) or value) != value]
    # Variants of LoRA, such as use_dora, but for the one that only scales otherwise.
    other += [name for name, value in config.items() if name.startswith("use_") and name != "use_rslora" and value]
    alpha = config.get("lora_alpha")
    if config.get("peft_type") != "LORA" or other or isinstance(alpha, bool) or not isinstance(alpha, int | float):
        kind = f"sets {', '.join(other)}" if other else f"is of the kind {str(config.get('peft_type'))[:40]!a}"
        raise ConfigurationError(f"the adapter {place} {kind}; plain LoRA is read: merge it into its model with peft")


def _object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ConfigurationError(f"{path} holds no object")
    return value
