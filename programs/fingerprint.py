"""What an answer depends on, described in one place: language model, retriever, program and functions.

A description is plain JSON without keys and addresses; `digest` turns it into a short name. Two things that may answer
differently are never taken for each other by it.
"""

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from fractions import Fraction
from types import CodeType
from typing import Any

import dspy

from keqa.programs.calls.predictor import whole_prompt
from keqa.programs.gate import question_of
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program
from keqa.programs.records import digest as digest
from keqa.programs.records import fraction_text
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.saved_settings import OWN, settings_of
from keqa.programs.settings import CHOOSERS
from keqa.programs.stage import Stage
from keqa.programs.stages.selection import EmbeddingSimilarity, Similarity
from keqa.retrievers.adapters import AdaptedRetriever
from keqa.storage.redaction import without_folders, without_secrets

_OURS = "keqa."
_PLACE = re.compile(r" at 0x[0-9a-fA-F]+")
# How a request is sent, not what is asked, as each draw has an identity of its own beside these settings; whose account
# it is, and where; and secrets.
_NOT_ASKED = re.compile(
    r"api_base|base_url|api_version|(extra_)?headers|(request_|stream_)?timeout|(num|max)_retries|rollout_id|cache"
    r"|litellm_.*|additional_drop_params|metadata|.*client|.*callbacks?|.*logger.*"
    r"|user|organization|.*project(_id)?|.*role(_name|_arn)?|.*profile(_name)?|.*region(_name)?|.*location|ssl_.*"
    r"|(.*_)?(key(_id)?|token|secret|password|passwd|credentials?|authorization)|azure_ad_.*"
)
# Workers bring the same answers sooner or later. Fixed demonstrations are among the prompts where they are shown.
_NO_MATTER = frozenset({"workers", "demonstrations"})
# What came later, as it is by default: a program is then what it was before there was any.
_LATER: Mapping[str, Any] = {"draft": False, "cite": False, "settle": "quizzes", "expand": 0, **dict.fromkeys(CHOOSERS)}
_MANIFEST = ("name", "passages", "source_hash", "analyzer", "encoder", "vectors", "constant", "depth")


def lm_spec(lm: Any) -> dict[str, Any]:
    """A language model by its name, its weights if they are here, and all settings that its replies may depend on."""
    found: dict[str, Any] = {"model": getattr(lm, "model", None)}
    kind = getattr(lm, "model_type", "chat")
    if kind != "chat":
        found["model_type"] = kind
    path = getattr(getattr(lm, "engine", None), "path", None)
    if isinstance(path, str):
        from keqa.lms.local.weights import fingerprint

        found["weights"] = fingerprint(path)
    settings = _plain(getattr(lm, "kwargs", None) or {}, _NOT_ASKED)
    found |= {name: value for name, value in sorted(settings.items()) if value is not None}
    cleaned: dict[str, Any] = without_secrets(found, [lm])
    return cleaned


def retriever_spec(retriever: Any) -> dict[str, Any] | None:
    """A retriever by its class, the corpus that its manifest names, and what it stands before."""
    if retriever is None:
        return None
    if getattr(retriever, "passes_on", False):
        return retriever_spec(retriever.retriever)
    behind = getattr(retriever, "retriever", None)
    if behind is not None:
        # Tables name the index behind; what stands before it cuts its passages.
        similarity = getattr(retriever, "_similarity", None)
        cut = {"by": type(retriever).__name__, "keep": getattr(retriever, "keep", None)}
        cut["similarity"] = None if similarity is None else similarity_fingerprint(similarity)
        return {**(retriever_spec(behind) or {}), "cut": cut}
    if isinstance(retriever, AdaptedRetriever):
        if retriever.searches_itself:
            return retriever_spec(retriever.source)
        own = {"kind": retriever.name, "search": function_fingerprint(retriever.function)}
        corpus = retriever.corpus_digest
        return own if corpus is None else {**own, "corpus": corpus}
    kind = type(retriever)
    found: dict[str, Any] = {"kind": kind.__name__}
    if not _name(kind).startswith(_OURS):
        found["search"] = function_fingerprint(kind.search) if hasattr(kind, "search") else _name(kind)
    manifest = getattr(retriever, "manifest", None)
    for name in (name for name in _MANIFEST if hasattr(manifest, name)):
        value = getattr(manifest, name)
        found[name] = _plain(asdict(value) if is_dataclass(value) and not isinstance(value, type) else value)
    parts = getattr(retriever, "retrievers", None)
    if parts is not None:
        found |= {**getattr(retriever, "settings", {}), "parts": [retriever_spec(part) for part in parts]}
    return found


def program_spec(program: Program) -> dict[str, Any]:
    """Describe a program by its class, settings, prompts and utility reference, its LMs and retriever left out."""
    described: dict[str, Any] = {
        "program": type(program).__name__,
        "settings": _settings(program),
        "prompts": digest({name: _shown(predictor) for name, predictor in program.named_predictors()}),
    }
    reference = program.picking.reference if isinstance(program, KEQA) else None
    if isinstance(reference, UtilityReference):
        described["reference"] = {**reference.settings(), "entries": reference.index.signature}
    elif reference is not None:
        described["reference"] = function_fingerprint(reference)
    if program.learned.demonstrations or program.learned.train:
        # A question that was learned from is asked without its own demonstrations and labels.
        described["learned"] = digest([sorted(program.learned.train), dict(program.learned.demonstrations)])
    if program.abstention is not None:
        described["abstention"] = dict(program.abstention.spec())
    if not _name(type(program)).startswith(_OURS):
        described["code"] = digest(_code_of_class(type(program), inherited=False))
    return described


def program_fingerprint(program: Program) -> str:
    return digest(program_spec(program))


def models_of(program: Program) -> dict[str, dict[str, Any]]:
    """The language model of each role, that of most of its predictors, and of each predictor that has another one."""
    roles: dict[str, dict[str, dict[str, Any]]] = {}
    for path, stage in program.named_sub_modules(Stage):
        for name, role in stage.roles.items():
            predictor = f"{path}.{name}".removeprefix("self.")
            roles.setdefault(role, {})[predictor] = lm_spec(getattr(stage, name).lm or dspy.settings.lm)
    found: dict[str, dict[str, Any]] = {}
    for role, specs in roles.items():
        own = max(specs.values(), key=list(specs.values()).count)
        found |= {role: own} | {name: spec for name, spec in specs.items() if spec != own}
    boundary = getattr(program.lms, "boundary", None)
    return found if boundary is None else found | {"boundary": lm_spec(boundary)}


def gate_fingerprint(gate: Any) -> str:
    """A gate by its class and values; one that does not come with the package by the code of its class as well."""
    kind = type(gate)
    if _name(kind).startswith(_OURS):
        return repr(gate)
    slots = [name for one in kind.__mro__ for name in getattr(one, "__slots__", ()) if hasattr(gate, name)]
    values = {name: getattr(gate, name) for name in slots} | getattr(gate, "__dict__", {})
    question = question_of(gate)
    # Of a stage, what it inherits is the package's and DSPy's.
    asked = [] if question is None or _name(question).startswith(_OURS) else [_code_of_class(question, inherited=False)]
    return f"{_name(kind)} {digest([_plain(values), _code_of_class(kind), *asked])}"


def _code_of_class(kind: type[Any], *, inherited: bool = True) -> dict[str, Any]:
    # What Python writes into a class, such as the methods of a dataclass, adds nothing to the values.
    classes = reversed(kind.__mro__[:-1]) if inherited else (kind,)
    named = {name: part for one in classes for name, part in vars(one).items() if name[:2] != "__"}
    parts = {name: getattr(part, "fget", None) or getattr(part, "__func__", part) for name, part in named.items()}
    return {
        name: function_fingerprint(part) if hasattr(part, "__code__") else _plain(part) for name, part in parts.items()
    }


def function_fingerprint(function: Callable[..., Any]) -> str:
    """A function by its name; one that is not the package's by its source and what it holds as well."""
    if isinstance(function, functools.partial):
        held = [_plain(function.args), _plain(function.keywords)]
        return f"{function_fingerprint(function.func)} {digest(held)}"
    plain = hasattr(function, "__qualname__")
    name = _name(function if plain else type(function))
    if name.startswith(_OURS) and "<" not in name:
        return name
    own = function if plain else type(function).__call__
    cells = [_plain(cell.cell_contents) for cell in getattr(function, "__closure__", None) or ()]
    defaults = _plain([getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None)])
    state = None if plain else _plain(getattr(function, "__dict__", None))
    return f"{name} {digest([_source(own), cells, defaults, state])}"


def similarity_fingerprint(similarity: Similarity) -> str:
    """What compares sentences: the name of an embedder, or a function."""
    return similarity.name if isinstance(similarity, EmbeddingSimilarity) else function_fingerprint(similarity)


def _settings(program: Program) -> dict[str, Any]:
    found = settings_of(program)
    if isinstance(program, KEQA):
        gate = program.examination.gate
        found["gate"] = _gate(gate, found["gate"]) if isinstance(found["gate"], dict) else gate.name
        if not _name(type(gate)).startswith(_OURS):
            found["gate_code"] = gate_fingerprint(gate)
        found |= program.examination.spec()
        for name in CHOOSERS:
            chooser = getattr(program, name)
            found[name] = None if chooser is None else _chooser(chooser)
        if found["similarity"] == OWN:
            found["similarity"] = similarity_fingerprint(program.selection.similarity)
    if found.get("model") == OWN:
        found["model"] = program.model.spec()
    off = {name for name, usual in _LATER.items() if found.get(name) == usual}
    return {name: _plain(value) for name, value in found.items() if name not in _NO_MATTER | off}


def _chooser(chooser: Any) -> Any:
    """A chooser in short; one of the user's own by its class, its values and its code."""
    if callable(spec := getattr(chooser, "spec", None)):
        return spec()
    kind = type(chooser)
    return f"{_name(kind)} {digest([_plain(getattr(chooser, '__dict__', {})), _code_of_class(kind)])}"


def _gate(gate: Any, written: Mapping[str, Any]) -> dict[str, Any]:
    """A gate as it is saved, its parts that say in short what they are so described."""
    parts = {name: getattr(getattr(gate, name, None), "spec", None) for name in written}
    return {name: spec() if callable(spec := parts[name]) else value for name, value in written.items()}


def _shown(predictor: dspy.Predict) -> dict[str, Any]:
    """What a prompt shows; optimizers note more in a demonstration than that."""
    whole = whole_prompt(predictor)
    fields = predictor.signature.fields
    whole["demos"] = [{name: demo[name] for name in fields if name in demo} for demo in whole["demos"]]
    return whole


def _name(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _plain(value: Any, left_out: re.Pattern[str] | None = None) -> Any:
    """A value as JSON that is the same everywhere: no object's address and no folder of this machine is in it."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return without_folders(value)
    if isinstance(value, Fraction):
        return fraction_text(value)
    if isinstance(value, Mapping):
        kept = {str(name): inner for name, inner in value.items() if not (left_out and left_out.fullmatch(str(name)))}
        return {name: _plain(inner, left_out) for name, inner in kept.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, list | tuple):
        return [_plain(inner, left_out) for inner in value]
    if isinstance(value, type):
        return _name(value)
    if hasattr(value, "__code__"):
        # What this one holds in turn is left out: functions may hold each other.
        return [_name(value), _source(value)]
    own = any("__repr__" in vars(kind) for kind in type(value).__mro__[:-1])
    return _PLACE.sub("", repr(value)) if own else _name(type(value))


def _source(function: Any) -> Any:
    code = getattr(function, "__code__", None)
    return None if code is None else _text(code)


@functools.cache
def _text(code: CodeType) -> Any:
    """The source of code, read once, and of a lambda, of which several may stand on one line, where it is in it."""
    try:
        source = inspect.getsource(code)
    except OSError:
        # Nobody keeps the source of what was typed into a plain interpreter.
        return [code.co_code.hex(), list(code.co_names), _plain(code.co_consts)]
    if code.co_name != "<lambda>":
        return source
    places = ((line - code.co_firstlineno, column) for line, _, column, _ in code.co_positions() if line and column)
    return [source, min(places, default=None)]
