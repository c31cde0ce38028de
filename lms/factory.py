"""Language models from model strings, checked before any work starts.

=============================  =========================================================================
``keqa/tiny``                  the model that ships with the package; it knows the testbed only
``local/smollm2``              SmolLM2-135M-Instruct from a Python package; real and weak
``transformers/<folder>``      any causal LM of transformers, one fine-tuned here (an adapter, or a whole model), or a
                               folder with a .gguf file, in this process
``transformers/<hub id>``      the same, from the hub or its cache
``vllm/<folder or hub id>``    a whole model run by vLLM in this process, for many questions at once
anything else                  LiteLLM: ``openai/…``, ``anthropic/…``, ``ollama_chat/…``, ``hosted_vllm/…``
=============================  =========================================================================
"""

import math
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy
from dspy.clients import DISK_CACHE_DIR

from keqa.errors import ConfigurationError
from keqa.lms.local.weights import FREE, place_of
from keqa.lms.served import EXAMPLES, provider_of, served
from keqa.storage.files import private_folder

IN_PROCESS = ("keqa", "local", *FREE)


@dataclass(frozen=True)
class Roles:
    """The LM of each role; two roles with the same model string and settings share one object.

    Attributes:
        task: Decomposes, answers quizzes, answers from knowledge, summarizes.
        consistency: Judges whether two answers mean the same (D_s in the KEQA paper).
        utility: Judges whether a passage helps (D_u in the KEQA paper).
        boundary: Judges what is known, for boundary models that ask a language model; where None that of the task, or
            the one that was fine-tuned for it.
    """

    task: dspy.LM
    consistency: dspy.LM
    utility: dspy.LM
    boundary: dspy.LM | None = None

    @property
    def every(self) -> list[dspy.LM]:
        """The LMs of all roles that have one."""
        return [one for one in (self.task, self.consistency, self.utility, self.boundary) if one is not None]


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
        max_tokens: For calls that do not say; by default 256 in this process, 1024 elsewhere, and
            4096 once a reply was cut off.
        timeout: Seconds for one attempt until its reply is whole, however slowly it comes; for LiteLLM strings only.
        num_retries: Attempts after the first, for errors that may pass. A server that asks to wait (Retry-After) is
            given what it asks for, up to `keqa.lms.faults.LONGEST_WAIT` seconds; beyond them the call fails at once.
        cache: Whether DSPy may answer from its cache.
        **kwargs: Passed on to the LM with each call, but for a `seed` where samples are drawn: each has one of its own.

    Returns:
        An LM that is ready to be called; one in this process has its weights loaded.

    Raises:
        ConfigurationError: The string names nothing usable, a key is missing, or a number cannot be what it is for.
        MissingExtraError: A package is missing.
    """
    if not isinstance(model, str):
        raise ConfigurationError(f"a language model is named by a text, such as {EXAMPLES}; not {model!r:.80}")
    model = model.strip()
    provider, _ = _parts(model)
    _check_number("temperature", temperature, float, 0)
    _check_number("max_tokens", max_tokens, int, 1)
    _check_number("num_retries", num_retries, int, 0)
    _check_number("timeout", timeout, float, 0, open_below=True)
    common: dict[str, Any] = {"temperature": temperature, "num_retries": num_retries, "cache": cache}
    if cache:
        _begin_private_cache()
    if provider not in IN_PROCESS:
        settings = {**common, "max_tokens": max_tokens, "timeout": timeout, **kwargs}
        return served(model, api_base=api_base, api_key=api_key, **settings)
    if api_base:
        raise ConfigurationError(f"{model} runs in this process and takes no api_base")
    from keqa.lms.local.provider import build_in_process

    return build_in_process(model, max_tokens=max_tokens, **{**common, **kwargs})


def _begin_private_cache() -> None:
    """Make the folder of DSPy's cache for its owner alone, before DSPy makes it for all: replies quote questions."""
    # DSPy makes its cache when it is first read; one that was configured lies elsewhere, or nowhere.
    if "cache" not in vars(dspy):
        # Where it cannot be made, DSPy says so, and keeps calls in memory.
        with suppress(OSError):
            private_folder(Path(DISK_CACHE_DIR))


def check_model(model: str) -> None:
    """Refuse a model string that `build_lm` would refuse whatever key and address it were given."""
    model = model.strip()
    provider, name = _parts(model)
    if provider in IN_PROCESS:
        place_of(provider, name)
    else:
        provider_of(model, None)


def address_for(model: str | dspy.LM, own: str | None, lm: str | dspy.LM, api_base: str | None) -> str | None:
    """The address of a role's LM: its own, or else that of the task's LM where both are of one provider."""
    if own or model == lm:
        return own or api_base
    same = isinstance(model, str) and isinstance(lm, str) and model.split("/")[0] == lm.split("/")[0]
    return api_base if same else None


def build_roles(
    lm: str | dspy.LM,
    consistency_lm: str | dspy.LM | None = None,
    utility_lm: str | dspy.LM | None = None,
    boundary_lm: str | dspy.LM | None = None,
    *,
    api_base: str | None = None,
    consistency_api_base: str | None = None,
    utility_api_base: str | None = None,
    boundary_api_base: str | None = None,
    **kwargs: Any,
) -> Roles:
    """The LMs of all roles.

    Args:
        lm: For the task, and for the roles without one of their own.
        consistency_lm: For judging whether answers mean the same.
        utility_lm: For judging whether passages help.
        boundary_lm: For boundary models that ask a language model; see `Roles`.
        api_base: Address for `lm`; also for a role's own LM of the same provider that has no address of its own.
        consistency_api_base: Address for the consistency LM.
        utility_api_base: Address for the utility LM.
        boundary_api_base: Address for the boundary LM.
        **kwargs: As for `build_lm`, for all of them.

    Returns:
        The LMs; the same string and address give the same object.

    Raises:
        ConfigurationError: As for `build_lm`, or what is given is no language model.
    """
    if strange := [name for name in kwargs if name.endswith(("_lm", "_api_base"))]:
        raise ConfigurationError(
            f"there is no role {strange[0]}; there are lm, consistency_lm, utility_lm and boundary_lm"
        )
    built: dict[tuple[str, str | None], dspy.LM] = {}

    def make(model: str | dspy.LM, base: str | None) -> dspy.LM:
        if not isinstance(model, str):
            if not callable(model):
                raise ConfigurationError(f"{model!r:.80} is no language model. Give a dspy.LM, or one of: {EXAMPLES}")
            return model
        if (model, base) not in built:
            built[model, base] = build_lm(model, api_base=base, **kwargs)
        return built[model, base]

    judge = lm if consistency_lm is None else consistency_lm
    picker = lm if utility_lm is None else utility_lm
    own = ((judge, consistency_api_base), (picker, utility_api_base), (boundary_lm, boundary_api_base))
    given = (None if one is None else make(one, address_for(one, base, lm, api_base)) for one, base in own)
    return Roles(make(lm, api_base), *given)


def _check_number(name: str, value: Any, kind: type, least: int, open_below: bool = False) -> None:
    """Refuse what is no number of the kind, or is below the least (or equal to it, where that is left out)."""
    if value is None and name != "num_retries":
        return
    numbers = int if kind is int else (int, float)
    plain = isinstance(value, numbers) and not isinstance(value, bool)
    if not plain or not math.isfinite(value) or value < least or (open_below and value == least):
        wanted = "a whole number" if kind is int else "a number"
        bound = f"above {least}" if open_below else f"of {least} or more"
        raise ConfigurationError(f"{name}={value!r:.40} does not fit: give {wanted} {bound}")


def _parts(model: str) -> tuple[str, str]:
    provider, _, name = model.partition("/")
    if not model or (provider in IN_PROCESS and not name):
        raise ConfigurationError(f"{model or 'An empty string'!s} is not a model. Examples: {EXAMPLES}")
    return provider, name
