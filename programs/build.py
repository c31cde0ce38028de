"""Making a method from its specification, the compiled program that serves it, and the parts that all methods share."""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from keqa.errors import ConfigurationError, InputError
from keqa.programs.calls.predictor import NOTHING, LearnedQuestions, demonstration_digest, demos_of
from keqa.programs.gates import Gate, Golds, VoteGate
from keqa.programs.program import Program
from keqa.programs.reference.utility_reference import UtilityReference, Variant
from keqa.programs.registry import Method, Spec, check_arguments, load_class, made, takes
from keqa.programs.saving import about, load
from keqa.programs.shared_draws import SharedDraws
from keqa.programs.stage import RoleLMs
from keqa.retrievers import Retriever
from keqa.retrievers.masking import MaskingRetriever
from keqa.signatures.baselines import ReasonFromMemory

_ONE_LANGUAGE = {"rowen": {"language": None}}
_PROMPTS = "reason"
"""The argument by which methods have other prompts."""

Folders: TypeAlias = Path | Sequence[Path] | None
"""A folder that ``keqa compile`` wrote, several of them, or none."""


@dataclass(frozen=True)
class Parts:
    """What methods are made from.

    `settings` are arguments of every method that has them, `own` those of one, by its name; `lms` are those of
    `dspy.settings` where None. Gates share `draws`, and the oracle has `golds`. Each program that is made is given to
    `prepare`, with its specification, before it is asked.
    """

    retriever: Retriever | None
    lms: RoleLMs | None
    settings: Mapping[str, Any] = field(default_factory=dict)
    program: Folders = None
    draws: SharedDraws | None = None
    golds: Golds | None = None
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    embedder: str | None = None
    prepare: Callable[[Spec, Program], object] | None = None


def own_of(lm: str | None) -> Mapping[str, Mapping[str, Any]]:
    """By a method's name, arguments that it is given for a language model: the one that ships speaks English only."""
    return _ONE_LANGUAGE if lm in (None, "keqa/tiny") else {}


def merged(*own: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    """Arguments for single methods from several sources, of which a later one prevails, argument by argument."""
    names = dict.fromkeys(name for one in own for name in one)
    return {name: {key: value for one in own for key, value in one.get(name, {}).items()} for name in names}


def make(spec: Spec, parts: Parts) -> Program:
    """Make a method ready to be asked; see `Parts.prepare`."""
    method, arguments, draws = spec.method, given(spec, parts), None
    if method.gate is not None and not method.gate.shares_draws:
        arguments["gate"] = _gate_of(spec, method.gate, parts)
    elif method.gate is not None and (draws := parts.draws) is None:
        raise ConfigurationError(f"{method.name} needs draws that the gates share")
    program: Any = _ungated(spec, parts, arguments)
    if method.learned is not None:
        program.answer.demos, program.learned = _learned(method, parts, program)
    if method.variant is not None:
        program.picking.reference = _showing(method.variant, program.picking.reference, method.name)
    if method.gate is not None and draws is not None:
        own = method.gate is VoteGate and not spec.arguments and type(program.examination.gate) is VoteGate
        program = draws.sharing(program, None if own else _gate_of(spec, method.gate, parts))
    if parts.prepare is not None:
        parts.prepare(spec, program)
    ready: Program = program
    return ready


def given(spec: Spec, parts: Parts) -> dict[str, Any]:
    """The arguments that a method is made with, its own defaults left out."""
    check_arguments(spec)
    known = takes(spec.method)
    own = {} if spec.method.gate is not None else dict(spec.arguments)
    settings = {**parts.own.get(spec.method.name, {}), **parts.settings}
    return {name: value for name, value in settings.items() if name in known} | own | dict(spec.method.fixed)


def _ungated(spec: Spec, parts: Parts, arguments: dict[str, Any]) -> Program:
    method = spec.method
    folder = None if method.learned is not None else program_of(method, parts.program)
    retriever = _masked(parts) if method.masked else parts.retriever
    if folder is None:
        program: Program = made(load_class(method.target), retriever, parts.lms, arguments)
        return program
    if _PROMPTS not in {**parts.settings, **spec.arguments}:
        # Which prompts it has was settled when it was compiled, whatever the data set.
        arguments.pop(_PROMPTS, None)
    return load(folder, retriever, parts.lms, method=_compiled_as(method), embedder=parts.embedder, **arguments)


def _masked(parts: Parts) -> Retriever | None:
    golds = parts.golds
    if golds is None:
        raise ConfigurationError("passages are masked by the gold answers of the questions: give Parts(golds=…)")

    def answers(question: str) -> Sequence[str]:
        return (golds.get(question) if isinstance(golds, Mapping) else golds(question)) or ()

    return None if parts.retriever is None else MaskingRetriever(parts.retriever, answers)


def _showing(variant: Variant, reference: Any, name: str) -> UtilityReference:
    if not isinstance(reference, UtilityReference):
        raise ConfigurationError(
            f"{name} changes what the utility reference shows, and the program has none: give --program, a folder that "
            "keqa compile wrote"
        )
    shown = copy.deepcopy(reference)
    # What is drawn from all of R is not made up of so many of each label.
    shown.variant, shown.least = variant, 0 if variant == "random" else reference.least
    return shown


def _gate_of(spec: Spec, cls: type[Any], parts: Parts) -> Gate:
    arguments, name = dict(spec.arguments), spec.method.name
    if cls.needs == "golds":
        if parts.golds is None:
            raise ConfigurationError(f"{name} needs the gold answers of the quizzes")
        arguments["golds"] = parts.golds
    for argument, parameter in inspect.signature(cls).parameters.items():
        if parameter.default is parameter.empty and argument not in arguments:
            raise ConfigurationError(f"{name} needs its {argument}: {name}:{argument}=…")
    gate: Gate = cls(**arguments)
    return gate


def _learned(method: Method, parts: Parts, program: Program) -> tuple[list[dict[str, Any]], LearnedQuestions]:
    """Demonstrations of reasoning: those that a compiled program concludes with, and their origin; else fixed ones."""
    folder, demos = program_of(method, parts.program), []
    if folder is not None:
        compiled = load(folder, parts.retriever, method="keqa", embedder=parts.embedder)
        taught = dict(compiled.named_predictors())[str(method.learned)]
        demos = taught.demos
    if not demos and demos_of(program.answer):
        return [], NOTHING
    if not demos:
        raise ConfigurationError(
            f"{method.name} takes its demonstrations from a compiled KEQA where there are no fixed ones, as there are "
            "none for the language model that ships, nor with --no-demonstrations: give --program, a folder that keqa "
            f"compile wrote{f'; {folder} holds none' if folder else ''}"
        )
    shown = [complete(ReasonFromMemory, {**demo, "reasoning": demo["explanation"]}) for demo in demos]
    origins = {
        demonstration_digest(new, ReasonFromMemory): compiled.learned.demonstrations.get(
            demonstration_digest(old, taught.signature), ()
        )
        for old, new in zip(demos, shown, strict=True)
    }
    return shown, replace(compiled.learned, demonstrations=origins)


def program_of(method: Method, folders: Folders) -> Path | None:
    """The folder of the compiled program that serves a method; None where the method is used as it is.

    A program serves the method that it was compiled for. That of a KEQA serves what is made of KEQA as well: ablations,
    gates, and reasoning with its demonstrations. A single one has to be this method's, or a KEQA's.
    """
    found, wanted = _by_method(folders), _compiled_as(method)
    if isinstance(folders, Path) and not found.keys() & {wanted, "keqa"}:
        raise InputError(
            f"{folders} holds a compiled {next(iter(found))}, not {wanted}: give a program that keqa compile --method "
            f"{wanted} wrote"
        )
    return found.get(wanted)


def served_by(method: Method, folders: Folders) -> str:
    """The method that the program was compiled for that serves a method; empty where none does."""
    return "" if program_of(method, folders) is None else _compiled_as(method)


def check_programs(specs: Sequence[Spec], folders: Folders) -> None:
    wanted = {_compiled_as(spec.method) for spec in specs}
    for name, folder in _by_method(folders).items():
        if name not in wanted:
            names = ", ".join(dict.fromkeys(spec.method.name for spec in specs))
            raise InputError(f"{folder} holds a compiled {name}, which means nothing to {names}: leave it out")


def _by_method(folders: Folders) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in [folders] if isinstance(folders, Path) else folders or ():
        name = about(folder)["method"]
        if name in found:
            raise InputError(f"{found[name]} and {folder} both hold a compiled {name}: give one of them")
        found[name] = folder
    return found


def _compiled_as(method: Method) -> str:
    return method.name if method.kind == "baseline" and method.learned is None else "keqa"


def complete(signature: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A demonstration with every field of a signature, in its order; DSPy moves incomplete ones apart."""
    demo = {}
    for name, field_of in signature.fields.items():
        if name not in fields and field_of.is_required():
            raise KeyError(f"a demonstration of {signature.__name__} needs the field '{name}'")
        demo[name] = fields[name] if name in fields else field_of.get_default(call_default_factory=True)
    return demo
