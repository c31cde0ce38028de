"""The language models that a command asks, and their servers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keqa.cli.options.groups import MisplacedOptionError, Places, Server, flag_of, refuse_empty

if TYPE_CHECKING:
    import dspy

    from keqa.lms import Roles

_model = partial(typer.Option, rich_help_panel="Language models")
_TINY = "keqa/tiny"


def server_of(option: str, panel: str = "Language models", **settings: Any) -> Any:
    """The option for the address of the server of a language model.

    Args:
        option: Names the language model.
        panel: The panel of the help that shows it.
        **settings: As for ``typer.Option``.
    """
    return typer.Option(help=f"Address of the server of {option}.", rich_help_panel=panel, **settings)


@dataclass(frozen=True)
class LanguageModel:
    """A language model, and its server where it has one."""

    lm: Annotated[
        str | None,
        _model(
            "--lm",
            "-m",
            envvar="KEQA_LM",
            help="Any LiteLLM string (openai/…, anthropic/…, ollama_chat/…, hosted_vllm/…), transformers/FOLDER, "
            "local/smollm2, or keqa/tiny, which ships with KEQA and knows only the testbed.",
            show_default=False,
        ),
        Places("/"),
    ] = None
    api_base: Annotated[str | None, server_of("--lm", envvar="KEQA_API_BASE"), Server] = None

    @property
    def name(self) -> str:
        """The model string; that of the model that ships where none was given."""
        return self.lm or _TINY

    def check(self) -> None:
        """Refuse an address without its model, which would be ignored in silence, and what is empty.

        Raises:
            InputError: There is one, or one of them is empty, as a variable that is not set is.
        """
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

    consistency_lm: Annotated[
        str | None,
        _model(help="Judges whether two answers mean the same (D_s, and SlimPLM's and KBM's proxy); --lm by default."),
        Places("/"),
    ] = None
    consistency_api_base: Annotated[str | None, server_of("--consistency-lm"), Server] = None
    utility_lm: Annotated[
        str | None, _model(help="Judges whether a passage helps (D_u); --lm by default."), Places("/")
    ] = None
    utility_api_base: Annotated[str | None, server_of("--utility-lm"), Server] = None
    boundary_lm: Annotated[
        str | None,
        _model(help="Asked by a prompted or fine-tuned boundary model; --lm, or the one that was trained, by default."),
        Places("/"),
    ] = None
    boundary_api_base: Annotated[str | None, server_of("--boundary-lm"), Server] = None

    def check_listening(self) -> None:
        """Find a server at which nobody listens, before anything is loaded.

        Raises:
            ConfigurationError: There is one.
        """
        from keqa.lms import address_for
        from keqa.lms.preflight import check_listening

        own = (
            (self.lm, self.api_base),
            (self.consistency_lm, self.consistency_api_base),
            (self.utility_lm, self.utility_api_base),
            (self.boundary_lm, self.boundary_api_base),
        )
        named = [(model, address) for model, address in own if model is not None]
        check_listening((model, address_for(model, at, self.name, self.api_base)) for model, at in named)


@dataclass(frozen=True)
class BoundaryLMOptions:
    """The language model of a boundary model by itself."""

    boundary_lm: Annotated[
        str | None,
        _model(help="What is trained, or asked; keqa/tiny by default.", show_default=False),
        Places("/"),
    ] = None
    boundary_api_base: Annotated[str | None, server_of("--boundary-lm"), Server] = None

    @property
    def name(self) -> str:
        """Its model string."""
        return self.boundary_lm or _TINY

    def build(self) -> dspy.BaseLM:
        """The language model."""
        from keqa.lms import build_lm

        return build_lm(self.name, api_base=self.boundary_api_base)
