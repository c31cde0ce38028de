"""Every method that can be compared, by name: KEQA, its ablations and gates, and the papers' baselines.

A specification is a name, and where wanted arguments of its own: ``keqa``, ``rag:top_k=5``, ``keqa:threshold=3/5``.
"""

from __future__ import annotations

import copy
import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from keqa.errors import ConfigurationError, InputError

if TYPE_CHECKING:
    from keqa.programs.draws import SharedDraws
    from keqa.programs.gates import Gate, Golds
    from keqa.programs.keqa import KEQA
    from keqa.programs.program import Program
    from keqa.programs.stage import RoleLMs
    from keqa.programs.utility_reference import Variant
    from keqa.retrievers import Retriever

__all__ = ["METHODS", "Method", "Parts", "Spec", "make", "parse_spec", "takes"]

Kind = Literal["baseline", "keqa", "ablation", "gate"]

_SPEC = re.compile(r"(?P<name>[a-z0-9-]+)(?::(?P<arguments>.+))?")
_KEQA = "keqa.programs.keqa:KEQA"


@dataclass(frozen=True)
class Method:
    """A way to answer questions.

    Attributes:
        name: In specifications and run files.
        title: In tables.
        kind: What it is in a comparison.
        target: Module and class, imported when it is made.
        fixed: Arguments that make it what it is.
        gate: Class of the gate that decides instead of KEQA's, on draws that all gates share.
        variant: What the utility reference shows instead of what is most similar.
        learned: The predictor of a compiled KEQA from whose demonstrations those of its own `answer` are made.
    """

    name: str
    title: str
    kind: Kind
    target: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    gate: str | None = None
    variant: Variant | None = None
    learned: str | None = None


@dataclass(frozen=True)
class Parts:
    """What methods are made from.

    Attributes:
        retriever: The passages that all search.
        lms: The language models that all ask.
        settings: Arguments for every method that has them; what is absent is the method's own default.
        program: Folder of a compiled program, from which KEQA and what is made of it is loaded.
        draws: Shared by the gates.
        golds: For the oracle gate.
        share: For the random gate: the share of quizzes to retrieve for.
    """

    retriever: Retriever | None
    lms: RoleLMs
    settings: Mapping[str, Any] = field(default_factory=dict)
    program: Path | None = None
    draws: SharedDraws | None = None
    golds: Golds | None = None
    share: Any = None


@dataclass(frozen=True)
class Spec:
    """A method with arguments of its own.

    Attributes:
        method: Which.
        arguments: They take the place of the settings that all methods have.
        label: Tells it from others, and names its run file.
    """

    method: Method
    arguments: Mapping[str, Any]
    label: str


def _baseline(name: str, title: str, place: str, **fixed: Any) -> Method:
    return Method(name, title, "baseline", f"keqa.programs.baselines.{place}", fixed)


def _ablation(name: str, title: str, *, variant: Variant | None = None, **fixed: Any) -> Method:
    return Method(name, title, "ablation", _KEQA, fixed, variant=variant)


def _gate(name: str, title: str, gate: str) -> Method:
    return Method(name, title, "gate", _KEQA, gate=gate)


_ALL = (
    _baseline("closed-book", "Closed book", "closed_book:ClosedBook"),
    _baseline("cot", "CoT, zero-shot", "closed_book:ClosedBook", reason=True),
    Method(
        "cot-few-shot",
        "CoT, few-shot",
        "baseline",
        "keqa.programs.baselines.closed_book:ClosedBook",
        {"reason": True},
        learned="summarizing.summarize",
    ),
    _baseline("rag", "Always retrieve", "always_retrieve:AlwaysRetrieve"),
    _baseline("rag-cot", "Always retrieve, CoT", "always_retrieve:AlwaysRetrieve", reason=True),
    _baseline("react", "ReAct", "react:ReAct"),
    _baseline("ircot", "IRCoT", "ircot:IRCoT"),
    _baseline("flare", "FLARE", "flare:FLARE"),
    _baseline("self-rag", "Self-RAG", "self_rag:SelfRAG"),
    _baseline("searchain", "SearChain", "searchain:SearChain"),
    _baseline("rowen", "Rowen", "rowen:Rowen"),
    _baseline("slimplm", "SlimPLM", "slimplm:SlimPLM"),
    Method("keqa", "KEQA", "keqa", _KEQA),
    _ablation("keqa-no-qke", "w/o QKE", examine=False),
    _ablation("keqa-no-ukp", "w/o UKP", pick=False),
    _ablation("keqa-no-reference", "w/o R", variant="none"),
    _ablation("keqa-random-reference", "w random R'", variant="random"),
    _ablation("keqa-key-sentences", "w SE", extract_sentences=2),
    _ablation("keqa-full", "Full", examine=False, pick=False),
    _gate("gate-votes", "KEQA's vote", "VoteGate"),
    _gate("gate-always", "Always retrieve", "AlwaysRetrieveGate"),
    _gate("gate-never", "Never retrieve", "NeverRetrieveGate"),
    _gate("gate-random", "Random at a matched ratio", "RandomGate"),
    _gate("gate-oracle", "Oracle", "OracleGate"),
    _gate("gate-certainty", "Certainty", "CertaintyGate"),
    _gate("gate-lexical", "Lexical similarity", "LexicalSimilarityGate"),
    _gate("gate-confidence", "Verbalised confidence", "ConfidenceGate"),
    _gate("gate-probability", "Token probability", "ProbabilityGate"),
)

METHODS: dict[str, Method] = {method.name: method for method in _ALL}
"""Every method by its name."""


def parse_spec(text: str) -> Spec:
    """Read a specification, such as ``rag:top_k=5``.

    Raises:
        InputError: There is no such method, or the arguments are not written as name=value.
    """
    match = _SPEC.fullmatch(text.strip())
    if match is None or match["name"] not in METHODS:
        raise InputError(
            f"{text!r} is no method. There are {', '.join(METHODS)}; arguments follow as NAME:argument=value"
        )
    arguments: dict[str, Any] = {}
    for part in (match["arguments"] or "").split(",") if match["arguments"] else ():
        name, equals, value = part.partition("=")
        if not equals or not name.strip().isidentifier() or not value.strip():
            raise InputError(f"{text!r}: an argument is written as name=value, not as {part!r}")
        arguments[name.strip()] = _value(name.strip(), value.strip())
    label = "-".join([match["name"], *(f"{name}={str(value).replace('/', '_')}" for name, value in arguments.items())])
    return Spec(METHODS[match["name"]], arguments, label)


def make(spec: Spec, parts: Parts) -> Program:
    """Make a method ready to be asked.

    Raises:
        InputError: It has no argument of a name that its specification gives.
        ConfigurationError: It lacks a part, or its settings cannot work.
    """
    method = spec.method
    program = _keqa(spec, parts) if method.target == _KEQA else _baseline_program(spec, parts)
    if method.gate is None:
        return program
    if parts.draws is None:
        raise ConfigurationError(f"{method.name} needs draws that the gates share")
    return parts.draws.sharing(program, _gate_of(spec, parts))


def takes(method: Method) -> set[str]:
    """The names of the settings that a method has."""
    return set(inspect.signature(_load(method.target)).parameters) - {"lms", "retriever"} - set(method.fixed)


def _baseline_program(spec: Spec, parts: Parts) -> Program:
    cls = _load(spec.method.target)
    known = inspect.signature(cls).parameters
    _refuse_unknown(spec, takes(spec.method))
    arguments = {name: value for name, value in parts.settings.items() if name in known}
    given = {**arguments, **spec.arguments, **spec.method.fixed, "lms": parts.lms}
    program: Program = cls(parts.retriever, **given) if "retriever" in known else cls(**given)
    if spec.method.learned is not None:
        program.answer.demos = _learned(spec.method, parts)  # type: ignore[attr-defined]
    return program


def _keqa(spec: Spec, parts: Parts) -> KEQA:
    method = spec.method
    own = {} if method.gate is not None else dict(spec.arguments)
    if method.gate is None:
        _refuse_unknown(spec, takes(method))
    given = {**parts.settings, **own, **method.fixed}
    if parts.program is None:
        program: KEQA = _load(_KEQA)(parts.retriever, lms=parts.lms, **given)
    else:
        from keqa.compiled import load

        program = load(parts.program, parts.retriever, parts.lms, **given)
    if method.variant is not None:
        reference = program.picking.reference
        if not hasattr(reference, "variant"):
            raise ConfigurationError(
                f"{method.name} changes what the utility reference shows, and the program has none: give --program, a "
                "folder that keqa compile wrote"
            )
        program.picking.reference = copy.deepcopy(reference)
        program.picking.reference.variant = method.variant
    return program


def _gate_of(spec: Spec, parts: Parts) -> Gate:
    from keqa.programs import gates

    arguments = dict(spec.arguments)
    if "threshold" in arguments:
        arguments["threshold"] = gates.as_fraction(arguments["threshold"])
    if spec.method.gate == "OracleGate":
        if parts.golds is None:
            raise ConfigurationError(f"{spec.method.name} needs the gold answers of the quizzes")
        arguments["golds"] = parts.golds
    if spec.method.gate == "RandomGate" and "threshold" not in arguments:
        if parts.share is None:
            raise ConfigurationError(
                f"{spec.method.name} needs the share of quizzes to retrieve for: {spec.method.name}:threshold=0.4, or "
                "put gate-votes or keqa before it in a comparison, whose ratio it then matches"
            )
        arguments["threshold"] = parts.share
    try:
        gate: Gate = getattr(gates, str(spec.method.gate))(**arguments)
    except TypeError as error:
        raise InputError(f"{spec.label}: {error}") from error
    return gate


def _learned(method: Method, parts: Parts) -> list[dict[str, Any]]:
    """Demonstrations of reasoning, from those that a compiled program concludes with."""
    if parts.program is None:
        raise ConfigurationError(
            f"{method.name} takes its demonstrations from a compiled program: give --program, a folder that keqa "
            "compile wrote"
        )
    from keqa.compiled import load

    compiled = load(parts.program, parts.retriever, parts.lms)
    demos = dict(compiled.named_predictors())[str(method.learned)].demos
    if not demos:
        raise ConfigurationError(f"{parts.program} holds no demonstrations that {method.name} could take")
    from keqa.optimize.candidate import complete
    from keqa.signatures import ReasonFromMemory

    return [complete(ReasonFromMemory, {**demo, "reasoning": demo["explanation"]}) for demo in demos]


def _refuse_unknown(spec: Spec, known: set[str]) -> None:
    unknown = sorted(set(spec.arguments) - known)
    if unknown:
        raise InputError(f"{spec.label}: {spec.method.name} has no {unknown[0]}; it has {', '.join(sorted(known))}")


def _load(target: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


def _value(name: str, text: str) -> Any:
    # A threshold stays as it is written: 0.8 is 4/5, and not the nearest binary number.
    if name == "threshold":
        return text
    try:
        return json.loads(text.lower() if text in ("True", "False", "None") else text)
    except ValueError:
        return text
