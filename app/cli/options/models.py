"""The language models that a command asks, and their servers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from keqa.cli.options.groups import MisplacedOptionError, Places, Server, flag_of, option, refuse_empty

if TYPE_CHECKING:
    import dspy

    from keqa.lms import Roles

_TINY = "keqa/tiny"


def lm_option(help: str, *flags: str, **further: Any) -> Any:
    """The option for a language model."""
    return option(help, *flags, place=Places("/"), **further)


def server_of(flag: str, **further: Any) -> Any:
    """The option for the address of the server of a language model, which another one names."""
    return option(f"Address of the server of {flag}.", place=Server, **further)


@dataclass(frozen=True)
class LanguageModel:
    """A language model, and its server where it has one."""

    panel = "Language models"

    lm: str | None = lm_option(
        "Any LiteLLM string (openai/…, anthropic/…, ollama_chat/…, hosted_vllm/…), transformers/FOLDER, "
        "local/smollm2, or keqa/tiny, which ships with KEQA and knows only the testbed.",
        "-m",
        envvar="KEQA_LM",
        shown=False,
    )
    api_base: str | None = server_of("--lm", envvar="KEQA_API_BASE")

    @property
    def name(self) -> str:
        """The model string; that of the model that ships where none was given."""
        return self.lm or _TINY

    def check(self) -> None:
        """Refuse an address without its model, which would be ignored in silence, and what is empty."""
        values = asdict(self)
        for model in [name for name in values if name.endswith("lm")]:
            address = f"{model[:-2]}api_base"
            refuse_empty(flag_of(model), values[model])
            refuse_empty(flag_of(address), values[address])
            if values[address] is not None and values[model] is None:
                why = f"{flag_of(address)} needs {flag_of(model)}: the model that this server serves"
                raise MisplacedOptionError(why, flag_of(address))

    def roles(self, *, cache: bool = True, **further: Any) -> Roles:
        """Build the language model of each role; see `keqa.lms.build_roles`, also for what may be given further."""
        from keqa.lms import build_roles

        return build_roles(**{**asdict(self), "lm": self.name}, cache=cache, **further)


@dataclass(frozen=True)
class LanguageModels(LanguageModel):
    """The language models of all roles: the options of `keqa.lms.build_roles`."""

    panel = "Language models"

    consistency_lm: str | None = lm_option(
        "Judges whether two answers mean the same (D_s, and SlimPLM's and KBM's proxy); --lm by default."
    )
    consistency_api_base: str | None = server_of("--consistency-lm")
    utility_lm: str | None = lm_option("Judges whether a passage helps (D_u); --lm by default.")
    utility_api_base: str | None = server_of("--utility-lm")
    boundary_lm: str | None = lm_option(
        "Asked by a prompted or fine-tuned boundary model; --lm, or the one that was trained, by default."
    )
    boundary_api_base: str | None = server_of("--boundary-lm")

    def check_listening(self) -> None:
        """Find a server at which nobody listens, before anything is loaded."""
        from keqa.lms import address_for
        from keqa.lms.preflight import check_listening

        values = asdict(self)
        named = [(values[name], values[f"{name[:-2]}api_base"]) for name in values if name.endswith("lm")]
        check_listening(
            (model, address_for(model, at, self.name, self.api_base)) for model, at in named if model is not None
        )


@dataclass(frozen=True)
class BoundaryLMOptions:
    """The language model of a boundary model by itself."""

    panel = "Language models"

    boundary_lm: str | None = lm_option("What is trained, or asked; keqa/tiny by default.")
    boundary_api_base: str | None = server_of("--boundary-lm")

    @property
    def name(self) -> str:
        """Its model string."""
        return self.boundary_lm or _TINY

    def build(self) -> dspy.BaseLM:
        """The language model."""
        from keqa.lms import build_lm

        return build_lm(self.name, api_base=self.boundary_api_base)
