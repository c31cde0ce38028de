"""Every method that can be compared, by name: KEQA, its ablations and gates, and the papers' baselines.

A specification is a name, and where wanted arguments of its own: ``keqa``, ``rag:top_k=5``, ``keqa:threshold=3/5``.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from keqa.errors import ConfigurationError, InputError, meant
from keqa.programs.arguments import check
from keqa.programs.gate import NamedGate, VoteGate
from keqa.programs.gates import GATES, check_gate
from keqa.storage.redaction import without_folders

if TYPE_CHECKING:
    from keqa.programs.reference.utility_reference import Variant

_GateClass = TypeVar("_GateClass", bound=type[NamedGate])
Kind = Literal["baseline", "keqa", "ablation", "gate"]

_NAME = re.compile(r"[a-z0-9-]+")
_SPEC = re.compile(rf"(?P<name>{_NAME.pattern})(?::(?P<arguments>.+))?")
# The label is made of it, and names a file.
_LONGEST = 200
_CONSTANTS = {"True": True, "False": False, "None": None}
KEQA = "keqa.programs.keqa:KEQA"
"""Where KEQA is, from which its ablations and gates are made."""
# What ablations and gates change is how quizzes are answered, whatever a compiled program settles questions by.
_APART: Mapping[str, Any] = {"settle": "quizzes"}
# What makes a gate what it is, and what only code can give.
_OF_GATES = {"name", "golds", "correctness"}


@dataclass(frozen=True)
class Method:
    """A way to answer questions.

    Attributes:
        name: In specifications and run files.
        title: In tables.
        kind: What it is in a comparison.
        target: The class, or module and class, which is imported when it is made.
        fixed: Arguments that make it what it is.
        gate: Class of the gate that decides instead of KEQA's, on draws that all gates share; a `NamedGate`.
        variant: What the utility reference shows instead of what is most similar.
        learned: The predictor of a compiled KEQA from whose demonstrations those of its own `answer` are made; without
            such a program it shows the fixed ones.
        reduced: What its title says besides where it is set up with less than its paper describes, and the settings
            with which it is.
        masked: Whether the gold answers are masked in what it finds; see `keqa.retrievers.masking`.
    """

    name: str
    title: str
    kind: Kind
    target: str | Callable[..., Any]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    gate: type[Any] | None = None
    variant: Variant | None = None
    learned: str | None = None
    reduced: tuple[str, Mapping[str, Any]] | None = None
    masked: bool = False

    @property
    def cls(self) -> Any:
        """The class whose arguments are its own: that of its gate, if it has one."""
        return self.gate or load_class(self.target)

    @property
    def needs_golds(self) -> bool:
        """Whether it takes the gold answers of what is asked."""
        return self.masked or (self.gate is not None and self.gate.needs == "golds")


@dataclass(frozen=True)
class Spec:
    """A method with arguments of its own."""

    method: Method
    arguments: Mapping[str, Any]
    label: str


def _baseline(name: str, title: str, cls: str, more: Mapping[str, Any] | None = None, **fixed: Any) -> Method:
    return Method(name, title, "baseline", f"keqa.programs.baselines.{cls}", fixed, **(more or {}))


def _ablation(name: str, title: str, *, variant: Variant | None = None, **fixed: Any) -> Method:
    return Method(name, title, "ablation", KEQA, {**_APART, **fixed}, variant=variant)


def _gate(gate: type[Any]) -> Method:
    return Method(gate.method, gate.title, "gate", KEQA, _APART, gate=gate)


_ALL = (
    _baseline("closed-book", "Closed book", "reading:ClosedBook"),
    _baseline("cot", "CoT, zero-shot", "reading:ClosedBook", reason=True, demonstrations=False),
    _baseline("cot-few-shot", "CoT, few-shot", "reading:ClosedBook", {"learned": "summarizing.summarize"}, reason=True),
    _baseline("rag", "Always retrieve", "reading:AlwaysRetrieve"),
    _baseline("rag-cot", "Always retrieve, CoT", "reading:AlwaysRetrieve", reason=True),
    _baseline("rag-masked", "MASK RAG", "reading:AlwaysRetrieve", {"masked": True}),
    _baseline("react", "ReAct", "steps:ReAct"),
    _baseline("ircot", "IRCoT", "steps:IRCoT"),
    _baseline("flare", "FLARE", "steps:FLARE"),
    _baseline("self-rag", "Self-RAG", "deciding:SelfRAG"),
    _baseline("searchain", "SearChain", "steps:SearChain"),
    _baseline(
        "rowen", "Rowen", "deciding:Rowen", {"reduced": ("one language", {"language": None, "cross_model": False})}
    ),
    _baseline("slimplm", "SlimPLM", "deciding:SlimPLM"),
    _baseline("kbm", "KBM", "deciding:KBM", {"reduced": ("prompted", {"model": None})}),
    _baseline("standard", "Standard", "reading:Standard"),
    _baseline("standard-doc", "Standard+doc", "reading:DocumentReader"),
    _baseline("cot-doc", "CoT+doc", "reading:DocumentReader", reason=True),
    _baseline("ks-q", "KS-Q", "reading:KSLLM", form="KS-Q"),
    _baseline("ks-t", "KS-T", "reading:KSLLM", form="KS-T"),
    _baseline("ks-s", "KS-S", "reading:KSLLM", form="KS-S"),
    _baseline("ks-llm", "KS-LLM", "reading:KSLLM"),
    Method("keqa", "KEQA", "keqa", KEQA),
    _ablation("keqa-no-qke", "w/o QKE", examine=False),
    _ablation("keqa-no-ukp", "w/o UKP", pick=False),
    _ablation("keqa-no-reference", "w/o R", variant="none"),
    _ablation("keqa-random-reference", "w random R'", variant="random"),
    _ablation("keqa-key-sentences", "w SE", extract_sentences=2),
    _ablation("keqa-full", "Full", examine=False, pick=False),
    *(_gate(gate) for gate in GATES.values() if gate.method is not None),
)

METHODS: dict[str, Method] = {method.name: method for method in _ALL}
"""Every method by its name; `register_gate` and `register_method` add to it."""


def register_gate(gate: _GateClass) -> _GateClass:
    """Make a gate of your own known: as a method to compare, to tables and figures, and to programs that are saved.

    Also a decorator of the class. It lasts as long as the process does, so a program that holds the gate is loaded
    after the module that registers it was imported.

    Args:
        gate: A `keqa.programs.gates.NamedGate` with the methods of `keqa.programs.gates.Gate`.

    Raises:
        ConfigurationError: It lacks something, or another gate or method has its name.
    """
    check_gate(gate)
    if gate.method is not None:
        register_method(_gate(gate))
    GATES[gate.__name__] = gate
    return gate


def register_method(method: Method) -> Method:
    """Make a method of your own known: to comparisons, tables and, as a baseline, to programs that are saved.

    Args:
        method: Its target is a `keqa.programs.program.Program`.

    Raises:
        ConfigurationError: Its name is another method's, or cannot be written in a specification.
    """
    if _NAME.fullmatch(method.name) is None:
        raise ConfigurationError(f"a method is named in small letters, digits and hyphens, not {method.name!r:.80}")
    there = METHODS.get(method.name)
    if there is not None and _identity(there) != _identity(method):
        raise ConfigurationError(f"there is a method {method.name!r} already: {there.title}")
    METHODS[method.name] = method
    return method


def _identity(method: Method) -> tuple[Any, ...]:
    """What makes a method itself: a notebook's cell that runs again makes its class again."""
    return method.cls.__module__, method.cls.__qualname__, dict(method.fixed), method.variant


def parse_spec(text: str) -> Spec:
    """Read a specification, such as ``rag:top_k=5``."""
    match = _SPEC.fullmatch(text.strip()) if text.isprintable() and len(text) <= _LONGEST else None
    if match is None or match["name"] not in METHODS:
        near = meant(text[:_LONGEST].partition(":")[0].strip().lower(), METHODS) or "."
        raise InputError(
            f"{text!r} is no method{near} There are {', '.join(METHODS)}; arguments follow as NAME:argument=value"
        )
    arguments: dict[str, Any] = {}
    for part in (match["arguments"] or "").split(",") if match["arguments"] else ():
        name, equals, value = part.partition("=")
        if not equals or not name.strip().isidentifier() or not value.strip():
            raise InputError(f"{text!r}: an argument is written as name=value, not as {part!r}")
        if name.strip() in arguments:
            raise InputError(f"{text!r}: {name.strip()} is there twice")
        read = _value(name.strip(), value.strip())
        if isinstance(read, str) and not read.isprintable():
            raise InputError(f"{text!r}: {name.strip()} holds control characters")
        arguments[name.strip()] = read
    # Of a file or folder of this machine the last component is enough to distinguish it.
    named = {name: without_folders(str(value)).replace("/", "_") for name, value in arguments.items()}
    label = "-".join([match["name"], *(f"{name}={value}" for name, value in named.items())])
    return Spec(METHODS[match["name"]], arguments, label)


def check_arguments(spec: Spec) -> None:
    """Refuse a specification whose arguments its method does not have, or that have another type or range."""
    method = spec.method
    known = takes(method) if method.gate is None else set(arguments_of(method.gate)) - _OF_GATES
    if unknown := sorted(set(spec.arguments) - known):
        raise InputError(f"{spec.label}: {method.name} has no {unknown[0]}; it has {', '.join(sorted(known))}")
    try:
        if method.gate is None:
            method.cls.Settings.read(spec.arguments, spec.label)
        else:
            check(method.gate, spec.arguments, spec.label)
    except ConfigurationError as error:
        raise InputError(str(error)) from error


def takes(method: Method) -> set[str]:
    # KEQA's threshold is that of its vote; any other gate has a threshold of its own, on a scale of its own.
    without = {"threshold"} if method.gate not in (None, VoteGate) else set()
    return set(load_class(method.target).Settings.model_fields) - without - {"gate", *method.fixed}


def roles_of(method: Method) -> set[str]:
    """The roles of the language models that a method may ask; all of them where its parts ask, as those of KEQA do."""
    own = set(getattr(load_class(method.target), "roles", {}).values())
    return (own or {"task", "consistency", "utility", "boundary"}) | (
        {"boundary"} if "model" in takes(method) else set()
    )


def compilable(method: Method) -> bool:
    """Whether a method is compiled by itself; the others are made from a compiled KEQA."""
    return method.name == "keqa" or (method.kind == "baseline" and method.learned is None and not method.masked)


def name_of(program: Any) -> str:
    """What a program is called where methods are named, such as ``keqa`` or ``rag-cot``."""
    fitting = [
        method
        for method in METHODS.values()
        if compilable(method)
        and load_class(method.target) is type(program)
        # Fixed demonstrations are a setting of the program, whatever the method goes without.
        and all(getattr(program, name) == value for name, value in method.fixed.items() if name != "demonstrations")
    ]
    if not fitting:
        raise ConfigurationError(
            f"only a KEQA can be saved, or one of keqa.programs.baselines, not a {type(program).__name__}: register a "
            "class of your own with keqa.programs.registry.register_method before"
        )
    return max(fitting, key=lambda method: len(method.fixed)).name


def class_of_saved(name: str) -> Any:
    if name not in METHODS or not compilable(METHODS[name]):
        raise ConfigurationError(
            f"unknown method {name!a:.80}: it is one of another version of KEQA, or of your own, which is registered "
            "before a program is loaded"
        )
    return load_class(METHODS[name].target)


def arguments_of(cls: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(cls).parameters)


def made(cls: Any, retriever: Any, lms: Any, settings: Mapping[str, Any]) -> Any:
    searches = {"retriever": retriever} if "retriever" in arguments_of(cls) else {}
    return cls(**searches, lms=lms, **settings)


def load_class(target: str | Callable[..., Any]) -> Any:
    if not isinstance(target, str):
        return target
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def _value(name: str, text: str) -> Any:
    # A threshold stays as it is written: 0.8 is 4/5, and not the nearest binary number.
    if name == "threshold":
        return text
    try:
        return _CONSTANTS[text] if text in _CONSTANTS else json.loads(text)
    except (ValueError, RecursionError):
        return text
