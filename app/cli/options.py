"""The options of all commands: one declaration each of language models, method, questions and run.

A command takes a group as one argument, annotated with its class, and `with_groups` shows Typer each field of the class
as an option of its own; a group may be made of groups. A marker beside an option says how its value is written where
the command is kept.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import Field, asdict, dataclass, fields, is_dataclass
from functools import partial, wraps
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from keqa.errors import InputError

if TYPE_CHECKING:
    from keqa.lms import Roles
    from keqa.programs.program import Program

_model = partial(typer.Option, rich_help_panel="Language models")
_setting = partial(typer.Option, rich_help_panel="Method")
_data = partial(typer.Option, rich_help_panel="Questions")
_run = partial(typer.Option, rich_help_panel="Run")
_TINY = "keqa/tiny"
_ADDRESS = "<address>"
_invocation: ContextVar[str] = ContextVar("invocation", default="keqa")


@dataclass(frozen=True)
class Panel:
    """Beside an option, or the class of a group for all of its options: the panel of the help in which it stands."""

    title: str


@dataclass(frozen=True)
class Places:
    """Beside an option whose text names folders or files: the characters that stand between them, or before one."""

    between: str


Server = Places("")
"""Beside an option that is the address of a server."""


def server_of(option: str, panel: str = "Language models", **settings: Any) -> Any:
    """The option for the address of the server of a language model.

    Args:
        option: Names the language model.
        panel: The panel of the help that shows it.
        **settings: As for ``typer.Option``.
    """
    return typer.Option(help=f"Address of the server of {option}.", rich_help_panel=panel, **settings)


Index = Annotated[
    str | None,
    typer.Option(
        "--index",
        "-i",
        envvar="KEQA_INDEX",
        help="An index made by keqa index: its folder, or elasticsearch://host:9200/name; several with commas are "
        "ranked together. documents:FILE gives each question the document that keqa documents made for it. The "
        "testbed's encyclopedia by default.",
    ),
    Places(",@"),
]
Embedder = Annotated[
    str | None,
    typer.Option(
        help="The embedding model that the program was compiled with, where it is one of the hub or in a folder: it is "
        "opened only if you name it.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
InFlight = Annotated[int, _run(min=1, max=1000, help="Questions in work at once.")]
AllowOverlap = Annotated[
    bool,
    _run(
        "--allow-overlap",
        help="Ask questions that a compiled program learned from, too; every table marks its row.",
    ),
]
RetryFailed = Annotated[
    bool,
    _run(
        "--retry-failed",
        help="Ask the failed questions of an earlier run again, and those that a search or call failed for.",
    ),
]


@dataclass(frozen=True)
class ProgramOptions:
    """The one program that a command asks, and the index that it searches."""

    index: Index = None
    program: Annotated[
        Path | None,
        typer.Option(
            "--program",
            "-p",
            help="A compiled program, whose settings hold where no option is given; testbed is the one that ships.",
        ),
    ] = None
    embedder: Embedder = None
    no_cache: Annotated[
        bool,
        typer.Option(
            "--no-cache", help="Make every call again; by default DSPy's cache answers what was asked before."
        ),
    ] = False


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
            refuse_empty(_flag(model), values[model])
            refuse_empty(_flag(address), values[address])
            if values[address] is not None and values[model] is None:
                raise InputError(f"{_flag(address)} needs {_flag(model)}: the model that this server serves")

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
        return self.boundary_lm or "keqa/tiny"


@dataclass(frozen=True)
class KeqaOptions:
    """The settings of KEQA, of which other methods have some."""

    tries: Annotated[
        int | None,
        _setting(help="Closed-book samples of the answer to a quiz (N_c).", min=1, show_default="5"),
    ] = None
    threshold: Annotated[
        str | None,
        _setting(help="Share of equal samples from which a quiz is known: .8 or 4/5.", show_default="0.8"),
    ] = None
    temperature: Annotated[float | None, _setting(help="Temperature of the samples.", min=0.0, show_default="1.0")] = (
        None
    )
    top_k: Annotated[
        int | None,
        _setting(help="Passages retrieved for a quiz.", min=1, show_default="10, or the method's own"),
    ] = None
    no_decompose: Annotated[
        bool, _setting("--no-decompose", help="Take the question as its only quiz, for questions of one hop.")
    ] = False
    no_examine: Annotated[bool, _setting("--no-examine", help="Retrieve for every quiz.")] = False
    no_pick: Annotated[bool, _setting("--no-pick", help="Keep every passage retrieved.")] = False
    select: Annotated[
        bool,
        _setting(
            "--select",
            help="Put the sentences closest to triples that the question needs beside the passages (KS-LLM).",
        ),
    ] = False
    no_demonstrations: Annotated[
        bool,
        _setting(
            "--no-demonstrations",
            help="Show no fixed demonstrations: four a prompt, for any model but the one that ships, where none are "
            "learned.",
        ),
    ] = False

    listwise: Annotated[
        bool | None,
        _setting(
            "--listwise/--no-listwise",
            help="Judge the passages of a quiz in one call, and not each by itself.",
            show_default="as compiled, or off",
        ),
    ] = None
    summarize_single: Annotated[
        bool | None,
        _setting(
            "--summarize-single/--no-summarize-single",
            help="Summarize a question that is its own only quiz, too.",
            show_default="as compiled, or off",
        ),
    ] = None
    summarize_known: Annotated[
        bool | None,
        _setting(
            "--summarize-known/--no-summarize-known",
            help="Where a quiz cannot be asked, summarize the answered ones before the question is asked by itself.",
            show_default="as compiled, or off",
        ),
    ] = None
    prefer_reliable: Annotated[
        bool | None,
        _setting(
            "--prefer-reliable/--no-prefer-reliable",
            help="Leave out passages of sources that seldom helped, or as old as such, by the labels of the reference, "
            "where others were judged helpful as well.",
            show_default="as compiled, or off",
        ),
    ] = None

    def settings(self) -> dict[str, Any]:
        """The settings that were given, by the names that a method's constructor and `keqa.load` take.

        Raises:
            InputError: The threshold is no share. It stays as it was written, so that 4 of 5 reaches .8.
        """
        from keqa.programs.arguments import Threshold

        if self.threshold is not None:
            try:
                Threshold.read(self.threshold)
            except ValueError:
                raise InputError(
                    f"--threshold must be a share above 0 and at most 1, such as 0.8 or 4/5, not {self.threshold!r}"
                ) from None
        found = {name: getattr(self, name) for name in ("tries", "threshold", "temperature", "top_k")}
        switched = ("decompose", "examine", "pick", "demonstrations")
        found |= {name: False if getattr(self, f"no_{name}") else None for name in switched}
        tuned = ("listwise", "summarize_single", "summarize_known", "prefer_reliable")
        found |= {name: getattr(self, name) for name in tuned}
        found["select"] = self.select or None
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class MethodOptions(KeqaOptions):
    """What methods are made from: settings, passages and compiled programs."""

    index: Annotated[Index, Panel("Method")] = None
    retriever: Annotated[
        Literal["bm25", "dense", "hybrid"] | None,
        _setting(
            help="What searches the testbed's encyclopedia; of your own corpus, the engine that keqa index was given.",
            show_default="bm25",
        ),
    ] = None
    program: Annotated[
        list[Path] | None,
        _setting(
            "--program",
            "-p",
            help="A compiled program, for the method that it was compiled for; that of a KEQA also for what is made of "
            "it. Once for each method; testbed is the KEQA that ships.",
            show_default=False,
        ),
    ] = None
    embedder: Annotated[Embedder, Panel("Method")] = None


@dataclass(frozen=True)
class QuestionOptions:
    """What is asked."""

    testbed: Annotated[bool, _data("--testbed", help="The testbed's questions.")] = False
    questions: Annotated[
        str | None,
        _data(
            "--questions",
            "-q",
            help="Your own .jsonl or .csv, or a benchmark's name: nq, hotpotqa, strategyqa and so on.",
        ),
        Places(":"),
    ] = None
    data: Annotated[
        Path | None, _data("--data", help="Folder of the benchmark's files; the Hugging Face hub by default.")
    ] = None
    split: Annotated[str | None, _data(help="Which part of them.", show_default="test, or what papers report")] = None
    sample: Annotated[int | None, _data(help="Draw so many, by --seed.", min=1)] = None
    seed: Annotated[int, _data(help="Of the sample.")] = 0
    limit: Annotated[int | None, _data(help="The first so many.", min=1)] = None


@dataclass(frozen=True)
class RunOptions:
    """Where the answers go, and how many questions are in work."""

    out: Annotated[Path, _run("--out", "-o", help="Folder of the run files.")] = Path("runs")
    retry_failed: RetryFailed = False
    no_cache: Annotated[
        bool,
        _run(
            "--no-cache",
            help="Make every call again; by default runs in one folder share theirs.",
        ),
    ] = False
    in_flight: InFlight = 8
    stop_after_outages: Annotated[
        int,
        _run(
            min=0,
            help="Stop after so many questions in succession that failed for a reason that may pass; 0: never.",
        ),
    ] = 10
    allow_overlap: AllowOverlap = False


@dataclass(frozen=True)
class RiskOptions:
    """The share of wrong answers that a program may give."""

    risk: Annotated[
        float | None,
        _setting(
            help='Answer only so that this share of the answers is wrong at most, else say "I do not know"; 0.1 is one '
            "in ten. Needs --calibrated-on.",
            show_default=False,
        ),
    ] = None
    calibrated_on: Annotated[
        Path | None,
        _setting(
            help="The run file of this program over questions like yours, made by keqa evaluate without --risk.",
            show_default=False,
        ),
    ] = None
    delta: Annotated[float, _setting(help="The chance that --risk does not hold.")] = 0.1

    def check(self) -> None:
        """Refuse one option without the other.

        Raises:
            InputError: A risk is not calibrated, or there is none to calibrate.
        """
        if self.risk is not None and self.calibrated_on is None:
            raise InputError(
                "--risk needs --calibrated-on: the run file of this program over questions with known answers that it "
                "has not learned from, which keqa evaluate writes"
            )
        if self.risk is None and (self.calibrated_on is not None or self.delta != RiskOptions.delta):
            raise InputError("--calibrated-on and --delta need --risk: the share of the answers that may be wrong")

    def hold(self, program: Program) -> str:
        """Let a program hold the risk, where one is given.

        Returns:
            What is to be said before it is asked; empty where there is no risk.

        Raises:
            InputError: The run file is that of another program.
            UnheldRiskError: No threshold holds the risk.
        """
        if self.risk is None or self.calibrated_on is None:
            return ""
        from keqa.evaluation.risk import hold_risk

        return f"--risk {self.risk:g}: {hold_risk(program, self.calibrated_on, self.risk, delta=self.delta)}"


@dataclass(frozen=True)
class EvaluationOptions:
    """What ``keqa evaluate`` and ``keqa compare`` take: which questions, asked how, and where the answers go."""

    questions: QuestionOptions
    run: RunOptions
    method: MethodOptions
    models: LanguageModels
    risk: RiskOptions


def refuse_empty(flag: str, value: str | None) -> None:
    """Refuse an option that was given and holds nothing: its default would be taken for it in silence.

    Args:
        flag: The option.
        value: What it was given; None where it was not.

    Raises:
        InputError: It is empty.
    """
    if value is not None and not value.strip():
        raise InputError(f"{flag} is empty: give it a value, or leave it out")


def given(*groups: Any) -> dict[str, Any]:
    """The options of groups that are not what they are by default, by the names that they are written with."""
    found: dict[str, Any] = {}
    for group in groups:
        for field in fields(group):
            value = getattr(group, field.name)
            if is_dataclass(value):
                found |= given(value)
            elif value != field.default and value != []:
                found[_flag(field.name)] = value
    return found


def invocation() -> str:
    """The command that runs, without secrets and addresses; of a folder or file outside, only the last component."""
    return _invocation.get()


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command each field of its groups as an option; it is called with the groups.

    `invocation` gives the command as it was given from then on.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    parameters: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        group, *beside = get_args(hints[name]) or (hints[name],)
        if is_dataclass(group):
            groups[name] = group
            panel = next((mark.title for mark in beside if isinstance(mark, Panel)), None)
            parameters |= {option.name: option for option in _options(group, panel)}
        else:
            parameters[name] = parameter.replace(annotation=hints[name])

    @wraps(command)
    def spread(context: typer.Context, **values: Any) -> None:
        _drop_addresses_of_others(context, values)
        _invocation.set(_written(command.__name__.removesuffix("_command"), parameters, values))
        made = {name: _made(group, values) for name, group in groups.items()}
        command(**values, **made)

    own = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    return as_command(spread, [own, *parameters.values()])


def _drop_addresses_of_others(context: typer.Context, values: dict[str, Any]) -> None:
    """Leave out the address that a variable or file gives together with another language model than the one asked.

    It is the server of that one: what is sent there, keys included, is not meant for it.
    """
    for name in [name for name in values if name.endswith("api_base") and values[name] is not None]:
        model = f"{name[: -len('api_base')]}lm"
        source = getattr(context.get_parameter_source(name), "name", "")
        beside = {
            "ENVIRONMENT": os.environ.get("KEQA_LM") if model == "lm" else None,
            "DEFAULT_MAP": (context.default_map or {}).get(model),
        }.get(source)
        if beside is not None and beside != values.get(model):
            values[name] = None


def as_command(function: Callable[..., None], parameters: Iterable[inspect.Parameter]) -> Callable[..., None]:
    """Show Typer, which reads a function's signature, these parameters instead of its own."""
    shown = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    function.__dict__["__signature__"] = inspect.Signature(shown)
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return function


def _options(group: Any, panel: str | None) -> Iterator[inspect.Parameter]:
    """The options of a group, and of the groups that it is made of."""
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        if is_dataclass(hints[field.name]):
            yield from _options(hints[field.name], panel)
        else:
            yield _option(field, hints[field.name], panel)


def _made(group: Any, values: dict[str, Any]) -> Any:
    """A group with the values of its options, which are taken out of all values."""
    hints = get_type_hints(group)
    return group(
        **{
            field.name: _made(hints[field.name], values) if is_dataclass(hints[field.name]) else values.pop(field.name)
            for field in fields(group)
        }
    )


def _option(field: Field[Any], hint: Any, panel: str | None) -> inspect.Parameter:
    kind, *beside = get_args(hint)
    panel = panel or next((mark.title for mark in beside if isinstance(mark, Panel)), None)
    if panel is not None:
        beside = [_moved(one, panel) if isinstance(one, OptionInfo) else one for one in beside]
    made: Any = Annotated[(kind, *beside)]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=made)


def _moved(option: OptionInfo, panel: str) -> OptionInfo:
    copied = OptionInfo(**vars(option))
    copied.rich_help_panel = panel
    return copied


def _flag(name: str) -> str:
    return "--json" if name == "as_json" else f"--{name.replace('_', '-')}"


def _written(command: str, parameters: Mapping[str, inspect.Parameter], values: Mapping[str, Any]) -> str:
    """A command as it may be kept."""
    arguments: list[str] = []
    options: list[str] = []
    for name, parameter in parameters.items():
        _, *beside = get_args(parameter.annotation) or (None,)
        place = next((mark for mark in beside if isinstance(mark, Places)), None)
        value = values[name]
        if value is None or value == parameter.default or value == []:
            continue
        texts = [_shareable(one, place) for one in (value if isinstance(value, list) else [value])]
        if any(isinstance(mark, ArgumentInfo) for mark in beside):
            arguments += texts
        elif value is True:
            options.append(_flag(name))
        else:
            options += [part for text in texts for part in (_flag(name), text)]
    return shlex.join(["keqa", command, *arguments, *options])


def _shareable(value: Any, place: Places | None) -> str:
    from keqa.storage.redaction import without_secrets

    if isinstance(value, Path):
        return value.name or str(value)
    if place is Server:
        return _ADDRESS
    text = str(without_secrets(str(value)))
    if place is None:
        return text
    if place.between == "/":
        # The name of a model may hold the same: only what follows the provider can be a path.
        provider, slash, rest = text.partition("/")
        return provider + slash + _last(rest)
    return "".join(map(_last, re.split(f"([{place.between}])", text)))


def _last(text: str) -> str:
    """An absolute path by its last component alone; whatever else as it is."""
    if text.startswith("documents:"):
        return "documents:" + _last(text.removeprefix("documents:"))
    path = PureWindowsPath(text)
    return path.name if path.root or text.startswith("~") else text
