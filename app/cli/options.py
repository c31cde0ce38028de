"""The options that several commands have, each group declared once, and how what they name is opened and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from keqa.cli.console import status, warn
from keqa.cli.declare import SERVER, MisplacedOptionError, flag_of, option
from keqa.errors import ConfigurationError, InputError
from keqa.programs.arguments import Bounds, Threshold
from keqa.programs.declared import DeclaredKeqa, about

if TYPE_CHECKING:
    import dspy

    from keqa.lms import Roles
    from keqa.programs.program import Program
    from keqa.retrievers import Index, Retriever

_METHOD, _MODELS, _RUN = "Method", "Language models", "Run"
_TINY = "keqa/tiny"


def lm_option(help: str, *flags: str, **further: Any) -> Any:
    return option(help, *flags, place="/", **further)


def server_of(flag: str, **further: Any) -> Any:
    """The option for the address of the server of a language model, which another one names."""
    return option(f"Address of the server of {flag}.", place=SERVER, **further)


class ModelOptions:
    """Options that name language models, each with the server that it has."""

    @property
    def named_models(self) -> list[tuple[str, str | None, str | None]]:
        """What stands before ``lm`` and ``api_base`` in the names of options, the model and its address."""
        group: Any = self
        roles = [one.name.removesuffix("api_base") for one in fields(group) if one.name.endswith("api_base")]
        return [(role, getattr(self, f"{role}lm"), getattr(self, f"{role}api_base")) for role in roles]

    def check(self) -> None:
        """Refuse an address without its model, which would be ignored in silence."""
        for role, model, address in self.named_models:
            if address is not None and model is None:
                flag = flag_of(f"{role}api_base")
                raise MisplacedOptionError(
                    f"{flag} needs {flag_of(f'{role}lm')}: the model that this server serves", flag
                )


AS_JSON = option("Print the result as JSON and nothing else.", default=False)
INDEX = option(
    "An index made by keqa index: its folder, or elasticsearch://host:9200/name; several with commas are ranked "
    "together. documents:FILE gives each question the document that keqa documents made for it. The testbed's "
    "encyclopedia by default.",
    *("--index", "-i"),
    envvar="KEQA_INDEX",
    place=",@",
)
IN_FLIGHT = option("Questions in work at once.", default=8, min=1, max=1000, rich_help_panel=_RUN)
NO_TOKEN = option(
    "Ask for no token: on a machine that nobody else uses. Without it, and without a token of your own, the address "
    "that is printed has a new one.",
    default=False,
)
ALLOW_OVERLAP = option(
    "Ask questions that a compiled program learned from, too; every table marks its row.", default=False
)
RETRY_FAILED = option(
    "Ask the failed questions of an earlier run again, and those that a search or call failed for.", default=False
)
_EMBEDDER = option(
    "The embedding model that the program was compiled with, where it is one of the hub or in a folder: it is opened "
    "only if you name it.",
    place="@",
    shown=False,
)


@dataclass(frozen=True)
class LanguageModel(ModelOptions):
    """A language model, and its server where it has one."""

    panel = _MODELS

    lm: str | None = lm_option(
        "Any LiteLLM string (openai/…, anthropic/…, ollama_chat/…, hosted_vllm/…), transformers/FOLDER, "
        "vllm/FOLDER, local/smollm2, or keqa/tiny, which ships with KEQA and knows only the testbed.",
        "-m",
        envvar="KEQA_LM",
        shown=False,
    )
    api_base: str | None = server_of("--lm", envvar="KEQA_API_BASE")

    @property
    def name(self) -> str:
        """The model string; that of the model that ships where none was given."""
        return self.lm or _TINY

    def roles(self, *, cache: bool = True, **further: Any) -> Roles:
        """Build the language model of each role; see `keqa.lms.build_roles`, also for what may be given further."""
        from keqa.lms import build_roles

        return build_roles(**{**asdict(self), "lm": self.name}, cache=cache, **further)


@dataclass(frozen=True)
class LanguageModels(LanguageModel):
    """The language models of all roles: the options of `keqa.lms.build_roles`."""

    panel = _MODELS

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

    @property
    def by_role(self) -> dict[str, str]:
        """The model string of each role that every question asks."""
        own = self.name
        return {"task": own, "consistency": self.consistency_lm or own, "utility": self.utility_lm or own}

    def with_another(self, lm: str) -> LanguageModels:
        """With another language model for the task, whose server the environment names; named judges stay on theirs."""
        from keqa.lms import address_for

        def address(model: str | None, own: str | None) -> str | None:
            return model and address_for(model, own, self.name, self.api_base)

        consistency = address(self.consistency_lm, self.consistency_api_base)
        utility = address(self.utility_lm, self.utility_api_base)
        known = {self.consistency_lm: consistency, self.utility_lm: utility}
        judges = {"consistency_api_base": consistency, "utility_api_base": utility}
        return replace(self, lm=lm, api_base=known.get(lm), **judges)

    def check_listening(self) -> None:
        """Find a server at which nobody listens, before anything is loaded."""
        from keqa.lms import address_for
        from keqa.lms.preflight import check_listening

        check_listening(
            (model, address_for(model, at, self.name, self.api_base))
            for _, model, at in self.named_models
            if model is not None
        )


@dataclass(frozen=True)
class BoundaryLMOptions(ModelOptions):
    """The language model of a boundary model by itself."""

    panel = _MODELS

    boundary_lm: str | None = lm_option("What is trained, or asked; keqa/tiny by default.")
    boundary_api_base: str | None = server_of("--boundary-lm")

    @property
    def name(self) -> str:
        return self.boundary_lm or _TINY

    def build(self) -> dspy.BaseLM:
        from keqa.lms import build_lm

        return build_lm(self.name, api_base=self.boundary_api_base)


@dataclass(frozen=True)
class JudgeLMOptions(ModelOptions):
    """The language model that scores open Chinese answers, as KBM's does."""

    panel = _MODELS

    judge_lm: str | None = lm_option(
        "Decides which answers to open Chinese questions are right, as in KBM's paper; exact match does by default."
    )
    judge_api_base: str | None = server_of("--judge-lm")

    def build(self) -> dspy.BaseLM | None:
        from keqa.lms import build_lm

        return None if self.judge_lm is None else build_lm(self.judge_lm, api_base=self.judge_api_base)


def _check_embedder(options: Any) -> None:
    """Refuse an embedding model without the program that was compiled with it."""
    if options.embedder is not None and not options.program:
        why = "--embedder needs --program: the compiled program whose embedding model it is"
        raise MisplacedOptionError(why, "--embedder")


@dataclass(frozen=True)
class ProgramOptions:
    """The one program that a command asks, and the index that it searches."""

    index: str | None = INDEX
    program: Path | None = option(
        "A compiled program, whose settings hold where no option is given; testbed is the one that ships.", "-p"
    )
    embedder: str | None = _EMBEDDER
    max_tokens: int | None = option(
        "Tokens that a reply may have.", shown="1024, 4096 once one was cut off; 256 for a model in this process", min=1
    )
    no_cache: bool = option(
        "Make every call again; by default DSPy's cache answers what was asked before.", default=False
    )
    check = _check_embedder


def _of_settings() -> list[tuple[str, Any, Any]]:
    """The options that settings of KEQA are said to have where they are declared."""
    made: list[tuple[str, Any, Any]] = []
    for name, (hint, one) in about(DeclaredKeqa).items():
        of, *marks = get_args(hint) or (hint,)
        kind, flag, shown = one.kind or of, name.replace("_", "-"), one.shown or True
        if not one.option:
            continue
        if one.tuned:
            made.append((name, bool | None, option(one.option, f"--{flag}/--no-{flag}", shown=shown)))
        elif kind is bool:
            switch = f"no_{name}" if getattr(DeclaredKeqa, name) else name
            made.append((switch, bool, option(one.option, default=False)))
        else:
            limits: Mapping[str, Any] = next((mark.limits for mark in marks if isinstance(mark, Bounds)), {})
            least = kind(limits["ge"]) if "ge" in limits else None
            made.append((name, kind | None, option(one.option, shown=shown, min=least)))
    return made


def setting_of(name: str) -> str:
    """The setting of KEQA that an option is for; ``no_pick`` is for ``pick``."""
    return name.removeprefix("no_")


_Settings: Any = make_dataclass("_Settings", _of_settings(), namespace={"panel": _METHOD}, frozen=True)


@dataclass(frozen=True)
class KeqaOptions(_Settings):
    """The settings of KEQA, of which other methods have some."""

    def settings(self) -> dict[str, Any]:
        """The settings that were given, by the names that a method's constructor and `keqa.load` take.

        The threshold stays as it was written, so that 4 of 5 reaches .8.
        """
        if self.threshold is not None:
            try:
                Threshold.read(self.threshold)
            except ValueError:
                raise InputError(
                    f"--threshold must be a share above 0 and at most 1, such as 0.8 or 4/5, not {self.threshold!r}"
                ) from None
        found: dict[str, Any] = {}
        for one in fields(KeqaOptions):
            value, setting = getattr(self, one.name), setting_of(one.name)
            if value != one.default:
                found[setting] = value if setting == one.name else False
        return found


@dataclass(frozen=True)
class MethodOptions(KeqaOptions):
    """What methods are made from: settings, passages and compiled programs."""

    panel = _METHOD

    index: str | None = INDEX
    retriever: Literal["bm25", "dense", "hybrid"] | None = option(
        "What searches the testbed's encyclopedia; of your own corpus, the engine that keqa index was given.",
        shown="bm25",
    )
    program: list[Path] | None = option(
        "A compiled program, for the method that it was compiled for; that of a KEQA also for its variants. "
        "Once for each method; testbed is the KEQA that ships.",
        "-p",
        shown=False,
    )
    embedder: str | None = _EMBEDDER
    check = _check_embedder


@dataclass(frozen=True)
class RiskOptions:
    """The share of wrong answers that a program may give."""

    panel = _METHOD

    risk: float | None = option(
        'Answer only so that this share of the answers is wrong at most, else say "I do not know"; 0.1 is one in ten. '
        "Needs --calibrated-on."
    )
    calibrated_on: Path | None = option(
        "The run file of this program over questions like yours, made by keqa evaluate without --risk."
    )
    delta: float = option("The chance that --risk does not hold.", default=0.1)

    def check(self) -> None:
        if self.risk is not None and self.calibrated_on is None:
            raise MisplacedOptionError(
                "--risk needs --calibrated-on: the run file of this program over questions with known answers that it "
                "has not learned from, which keqa evaluate writes",
                "--risk",
            )
        if self.risk is None and (self.calibrated_on is not None or self.delta != RiskOptions.delta):
            why = "--calibrated-on and --delta need --risk: the share of the answers that may be wrong"
            raise MisplacedOptionError(why, "--calibrated-on", "--delta")

    def hold(self, program: Program) -> str:
        """Let a program hold the risk, where one is given; what is to be said before it is asked."""
        if self.risk is None or self.calibrated_on is None:
            return ""
        from keqa.evaluation.risk import hold_risk

        return f"--risk {self.risk:g}: {hold_risk(program, self.calibrated_on, self.risk, delta=self.delta)}"


@dataclass(frozen=True)
class QuestionOptions:
    """What is asked."""

    panel = "Questions"

    testbed: bool = option("The testbed's questions.", default=False)
    questions: str | None = option(
        "Your own .jsonl, .json or .csv, or a benchmark's name: nq, hotpotqa, strategyqa and so on.", "-q", place=":"
    )
    data: Path | None = option("Folder of the benchmark's files; the Hugging Face hub by default.")
    split: str | None = option("Which part of them.", shown="test, or what papers report; of boundary collect, train")
    sample: int | None = option("Draw so many, by --seed.", min=1)
    seed: int = option("Of the sample.", default=0)
    limit: int | None = option("The first so many.", min=1)


@dataclass(frozen=True)
class RunOptions:
    """Where the answers go, and how many questions are in work."""

    panel = _RUN

    out: Path = option("Folder of the run files.", "-o", default=Path("runs"))
    retry_failed: bool = RETRY_FAILED
    no_cache: bool = option("Make every call again; by default runs in one folder share theirs.", default=False)
    in_flight: int = IN_FLIGHT
    stop_after_outages: int = option(
        "Stop after so many questions in succession that failed for a reason that may pass; 0: never.",
        min=0,
        default=10,
    )
    allow_overlap: bool = ALLOW_OVERLAP


@dataclass(frozen=True)
class EvaluationOptions:
    """Which questions are asked, how, and where the answers go."""

    questions: QuestionOptions
    run: RunOptions
    method: MethodOptions
    models: LanguageModels
    risk: RiskOptions


def open_retriever(index: str | None, lm: str | None, engine: str | None = None, *, benchmark: bool = False) -> Index:
    """Open an index, or the testbed's encyclopedia where none is given; a ``benchmark`` is asked as papers do."""
    from keqa.retrievers.engines import open_index
    from keqa.testbed.index import as_benchmark, holds_encyclopedia, open_dense_encyclopedia, open_encyclopedia

    if index is None and engine == "dense":
        return open_dense_encyclopedia()
    if index is None and engine == "hybrid":
        from keqa.retrievers import HybridRetriever

        return HybridRetriever([open_encyclopedia(), open_dense_encyclopedia()])
    if index is None:
        return open_encyclopedia()
    retriever = open_index(index)
    # An index of another package may say nothing about itself.
    if holds_encyclopedia(getattr(retriever, "manifest", None)):
        return as_benchmark(retriever)
    if lm is None:
        raise ConfigurationError(_needs_lm(index))
    return as_benchmark(retriever) if benchmark else retriever


@dataclass(frozen=True)
class AskedOptions:
    """One program that is asked: what it is made from, and the language models that it asks."""

    program: ProgramOptions
    models: LanguageModels
    method: KeqaOptions
    risk: RiskOptions

    def open(
        self, make: Callable[[Retriever, Roles], Program] | None = None, *, watch: bool = False, **calling: Any
    ) -> tuple[Program, Retriever, Roles]:
        """Open it, and make sure that it can be asked; ``make`` makes another program than KEQA.

        With ``watch``, others may change the index meanwhile; see `keqa.retrievers.watching`.
        """
        from keqa.retrievers.watching import WatchedRetriever

        program, models, settings = self.program, self.models, self.method.settings()
        with status().status("opening…"):
            models.check_listening()
            retriever: Retriever = open_retriever(program.index, models.lm)
            if watch and program.index is not None:
                retriever = WatchedRetriever(program.index, retriever)
            roles = models.roles(cache=not program.no_cache, max_tokens=program.max_tokens, **calling)
            from keqa.lms import check_reachable
            from keqa.programs.keqa import KEQA
            from keqa.programs.saving import learned_of_another, load

            if make is not None:
                asked = make(retriever, roles)
            elif program.program is None:
                asked = KEQA(retriever, lms=roles, **settings)
                asked.change(**asked.as_asked)
            else:
                asked = load(program.program, retriever, roles, embedder=program.embedder, **settings)
            refuse_idle(settings, asked)
            promise = self.risk.hold(asked)
            check_reachable(roles.every)
        for said in filter(None, (promise, learned_of_another(asked))):
            warn(said)
        return asked, retriever, roles


def refuse_idle(settings: Mapping[str, Any], program: Program) -> None:
    """Refuse a chooser that nobody would ask."""
    if settings.get("chooser") is not None and getattr(program, "settle", "cascade") != "cascade":
        raise MisplacedOptionError("--chooser needs --settle cascade: no other way to settle asks it", "--chooser")


def _needs_lm(index: str) -> str:
    from keqa.lms.discover import suggestions

    found = "\n".join(f"  {suggestion.flag}\n      {suggestion.why}" for suggestion in suggestions())
    return (
        "the language model that ships with KEQA knows only the testbed, a fictional encyclopedia, and can neither "
        f"read nor judge the passages of {index}. Say with --lm which one to use. On this machine, for instance:\n"
        f"{found}"
    )
