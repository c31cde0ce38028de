"""Loading a Hugging Face causal LM: where it lies, whether it can be used, and an adapter merged into it."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from keqa.errors import ConfigurationError, MissingExtraError
from keqa.lms.local.weights import ADAPTER, CONFIG, base_of, can_read_gguf, is_adapter, read_object
from keqa.storage.redaction import without_bars

_RECURRENT = ("linear", "mamba", "recurrent", "conv")
_PREFIX, _A, _B = "base_model.model.", ".lora_A.weight", ".lora_B.weight"
# What peft would compute otherwise than it is done here, where it is set.
_BEYOND_PLAIN = ("alpha_pattern", "lora_bias", "modules_to_save", "target_parameters", "trainable_token_indices")


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
            # A .gguf file's bar is tqdm's own, which the switch of transformers does not reach.
            from transformers import modeling_gguf_pytorch_utils as gguf

            stack.callback(setattr, gguf, "tqdm", gguf.tqdm)
            gguf.tqdm = partial(gguf.tqdm, disable=True)
        config = AutoConfig.from_pretrained(folder, **extra)
        text = config.get_text_config(decoder=True)
        if any(word in kind for kind in getattr(text, "layer_types", None) or () for word in _RECURRENT):
            raise ConfigurationError(
                f"{path} keeps a recurrent state, which this process does not batch. Serve it with vLLM instead, "
                "and use hosted_vllm/… with its address."
            )
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
    other = [name for name in config if name.startswith("use_") and name != "use_rslora"]
    other = [name for name in (*_BEYOND_PLAIN, *other) if config.get(name)]
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
        raise ConfigurationError(
            f"{place / ADAPTER} holds more than the two matrices of each layer: merge it with peft"
        )
    with torch.no_grad():
        for name in sorted(names):
            first, second, weight = (
                tensors[name + _A],
                tensors[name + _B],
                weights.get(f"{name.removeprefix(_PREFIX)}.weight"),
            )
            fits = first.ndim == second.ndim == 2 and first.shape[0] == second.shape[1] > 0
            change: Any = second.float() @ first.float() if fits else None
            change = change.T if fits and config.get("fan_in_fan_out") else change
            if weight is None or change is None or weight.shape != change.shape:
                raise ConfigurationError(f"the adapter {place} is of another model: {name[:100]!a} does not fit")
            scale = float(alpha) / (first.shape[0] ** 0.5 if config.get("use_rslora") else first.shape[0])
            weight += (scale * change).to(weight.device, weight.dtype)
