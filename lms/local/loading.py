"""Loading a Hugging Face causal LM: where it lies, whether it can be used, and what ends its texts."""

import importlib.util
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from keqa.errors import ConfigurationError, MissingExtraError
from keqa.storage.terminal import without_bars

RECURRENT = ("linear", "mamba", "recurrent", "conv")
GIB = 2**30


def load_model(path: str) -> tuple[Any, Any]:
    """Load a causal language model."""
    # Torch's threads would otherwise spin while they wait: beside any other busy process that made small models ten
    # times slower. Read when torch is first imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        import torch

        from keqa.lms.local.plain_llama import load_plain, readable
    except ImportError as error:
        raise MissingExtraError("local", "A language model in this process") from error
    from keqa.lms.local.adapters import base_of, is_adapter, merge

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
        merge(model, adapter)
    return tokenizer, model


def load_for_training(path: str, dtype: Any = None) -> tuple[Any, Any]:
    """Load a causal language model of transformers, which can be trained."""
    folder, extra = _source(path)
    with _explained(path, extra, "finetune", f"Training {path}"):
        return _by_transformers(folder, path, dtype, extra)


@contextmanager
def _explained(path: str, extra: Mapping[str, str], wanted: str, what: str) -> Iterator[None]:
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

    with without_bars(), _without_the_bar_of_gguf() if extra else nullcontext():
        config = AutoConfig.from_pretrained(folder, **extra)
        _check_kind(path, config)
        tokenizer = AutoTokenizer.from_pretrained(folder, **extra)
        dtype = dtype or _dtype_on_cpu(config, quantized=bool(extra))
        # A .gguf file asked for in another precision than 32 bits earns a warning about kernels that are not used.
        read = torch.float32 if extra else dtype
        return tokenizer, AutoModelForCausalLM.from_pretrained(folder, dtype=read, **extra).to(dtype)


@contextmanager
def _without_the_bar_of_gguf() -> Iterator[None]:
    """Without the bar of a .gguf file, which is tqdm's own: the switch of transformers does not reach it."""
    from transformers import modeling_gguf_pytorch_utils as gguf

    own = gguf.tqdm
    gguf.tqdm = partial(own, disable=True)
    try:
        yield
    finally:
        gguf.tqdm = own


def _dtype_on_cpu(config: Any, quantized: bool) -> Any:
    """Half the precision where the weights were stored in no more, and the processor multiplies such faster.

    Faster by AVX-512's or AMX's instructions for it; without these it would be slower instead.
    """
    import torch

    stored = getattr(config.get_text_config(decoder=True), "dtype", None)
    fast: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    half = quantized or stored in (torch.bfloat16, torch.float16)
    return torch.bfloat16 if half and (fast.get("avx512_bf16") or fast.get("amx_bf16")) else torch.float32


def can_read_gguf() -> bool:
    """Whether all packages are there that transformers needs for a .gguf file; it names them only one by one."""
    return all(importlib.util.find_spec(name) for name in ("torch", "transformers", "gguf", "accelerate"))


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


def _check_kind(path: str, config: Any) -> None:
    kinds = getattr(config.get_text_config(decoder=True), "layer_types", None) or ()
    if any(word in kind for kind in kinds for word in RECURRENT):
        raise ConfigurationError(
            f"{path} keeps a recurrent state, which this process does not batch. Serve it with vLLM instead, "
            "and use hosted_vllm/… with its address."
        )


def free_memory(model: Any) -> int:
    """Bytes that texts being drawn may take: 1.5 GiB, or a third of what the model's accelerator has free."""
    import torch

    if next(model.parameters()).device.type == "cpu":
        return GIB * 3 // 2
    free, _ = torch.cuda.mem_get_info()
    return int(free) // 3


def stop_tokens(model: Any, tokenizer: Any) -> set[int]:
    """The tokens that end a text, by the model's configuration or its tokenizer's."""
    ends = [getattr(model.generation_config, "eos_token_id", None), model.config.eos_token_id, tokenizer.eos_token_id]
    tokens: set[int] = set()
    for end in ends:
        tokens.update(end if isinstance(end, list) else [] if end is None else [end])
    return tokens
