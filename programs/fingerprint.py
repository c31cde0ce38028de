"""What an answer depends on, described in one place: language model, retriever, program and functions.

Samples that gates share, caches, run files, journals of compilation and saved programs all use these descriptions, so
that two things that may answer differently are never taken for each other. A description is plain JSON without keys and
addresses; `digest` turns it into a short name.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
import linecache
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from operator import itemgetter
from typing import Any

import dspy

from keqa.programs.gates import question_of
from keqa.programs.keqa import KEQA
from keqa.programs.predictor import whole_prompt
from keqa.programs.program import Program
from keqa.programs.records import fraction_text
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.saving.values import OWN, settings_of
from keqa.programs.stages.selection import EmbeddingSimilarity, Similarity
from keqa.programs.stages.stage import Stage
from keqa.retrievers.adapters import AdaptedRetriever
from keqa.storage.redaction import without_folders, without_secrets

_OURS = "keqa."
_PLACE = re.compile(r" at 0x[0-9a-fA-F]+")
# How a request is sent, not what is asked; each draw has an identity of its own beside these settings.
_TRANSPORT = re.compile(
    r"api_base|base_url|api_version|(extra_)?headers|(request_|stream_)?timeout|(num|max)_retries|rollout_id|cache"
    r"|litellm_.*|additional_drop_params|metadata|.*client|.*callbacks?|.*logger.*"
    # Whose account it is, and where.
    r"|user|organization|.*project(_id)?|.*role(_name|_arn)?|.*profile(_name)?|.*region(_name)?|.*location|ssl_.*"
)
_SECRET = re.compile(r"(.*_)?(key(_id)?|token|secret|password|passwd|credentials?|authorization)|azure_ad_.*")
# Workers bring the same answers sooner or later. Fixed demonstrations are among the prompts where they are shown.
_NO_MATTER = frozenset({"workers", "demonstrations"})
_MANIFEST = ("name", "passages", "source_hash", "analyzer", "encoder", "vectors", "constant", "depth")


def digest(described: Any) -> str:
    """A short name for what is described as JSON: 20 hexadecimal digits."""
    text = json.dumps(described, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def lm_spec(lm: Any) -> dict[str, Any]:
    """Describe a language model by its name, its weights if they are here, and all that its replies may depend on.

    Secrets, addresses and what only decides how a request is sent are left out.
    """
    found: dict[str, Any] = {"model": getattr(lm, "model", None)}
    kind = getattr(lm, "model_type", "chat")
    if kind != "chat":
        found["model_type"] = kind
    path = getattr(getattr(lm, "engine", None), "path", None)
    if isinstance(path, str):
        from keqa.lms.local.weights import fingerprint

        found["weights"] = fingerprint(path)
    settings = getattr(lm, "kwargs", None) or {}
    found |= {name: value for name, value in _settings_of_lm(settings).items() if value is not None}
    cleaned: dict[str, Any] = without_secrets(found, [lm])
    return cleaned


def _settings_of_lm(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without secrets, addresses and the way of sending, at any depth."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return _settings_of_lm(value)
        if isinstance(value, list | tuple):
            return [plain(inner) for inner in value]
        return _portable(value)

    named = sorted(((str(name), value) for name, value in settings.items()), key=itemgetter(0))
    return {name: plain(value) for name, value in named if not (_TRANSPORT.fullmatch(name) or _SECRET.fullmatch(name))}


def retriever_spec(retriever: Any) -> dict[str, Any] | None:
    """Describe a retriever by its class, the corpus that its manifest names, and what it stands before.

    A cache, and an index that is watched, describe as what is behind them.
    """
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
    if manifest is not None:
        found |= {name: _portable(getattr(manifest, name)) for name in _MANIFEST if hasattr(manifest, name)}
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
        described["reference"] = {**reference.settings(), "entries": _entries(reference)}
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
    """A short name for all that `program_spec` describes."""
    return digest(program_spec(program))


def models_of(program: Program) -> dict[str, dict[str, Any]]:
    """The description of the language model that serves each role, and each predictor with another than its role's.

    A role's is the one that most of its predictors have.
    """
    roles: dict[str, dict[str, dict[str, Any]]] = {}
    for path, stage in program.named_sub_modules(Stage):
        for name, role in stage.roles.items():
            predictor = f"{path}.{name}".removeprefix("self.")
            roles.setdefault(role, {})[predictor] = lm_spec(getattr(stage, name).lm or dspy.settings.lm)
    found: dict[str, dict[str, Any]] = {}
    for role, specs in roles.items():
        own = max(specs.values(), key=list(specs.values()).count)
        found |= {role: own} | {name: spec for name, spec in specs.items() if spec != own}
    boundary = getattr(program._lms.value, "boundary", None)
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
    return f"{_name(kind)} {digest([_value(values), _code_of_class(kind), *asked])}"


def _code_of_class(kind: type[Any], *, inherited: bool = True) -> dict[str, Any]:
    # What Python writes into a class, such as the methods of a dataclass, adds nothing to the values.
    classes = reversed(kind.__mro__[:-1]) if inherited else (kind,)
    named = {name: part for one in classes for name, part in vars(one).items() if name[:2] != "__"}
    parts = {name: getattr(part, "fget", None) or getattr(part, "__func__", part) for name, part in named.items()}
    return {
        name: function_fingerprint(part) if hasattr(part, "__code__") else _value(part) for name, part in parts.items()
    }


def function_fingerprint(function: Callable[..., Any]) -> str:
    """A function by its name; one that does not come with the package by its source and what it holds as well.

    A function of a notebook keeps its name when it is changed. What a function calls is described by name alone.
    """
    if isinstance(function, functools.partial):
        held = [_value(function.args), _value(function.keywords)]
        return f"{function_fingerprint(function.func)} {digest(held)}"
    plain = hasattr(function, "__qualname__")
    name = _name(function if plain else type(function))
    if name.startswith(_OURS) and "<" not in name:
        return name
    own = function if plain else type(function).__call__
    cells = [_value(cell.cell_contents) for cell in getattr(function, "__closure__", None) or ()]
    defaults = _value([getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None)])
    state = None if plain else _value(getattr(function, "__dict__", None))
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
        if found["similarity"] == OWN:
            found["similarity"] = similarity_fingerprint(program.selection.similarity)
    return {name: _portable(value) for name, value in found.items() if name not in _NO_MATTER}


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


_last_entries: list[tuple[Any, str]] = []


def _entries(reference: UtilityReference) -> str:
    """The signature of the entries; that of a large reference is not computed for every question."""
    for entries, signature in _last_entries:
        if entries is reference.entries:
            return signature
    _last_entries[:] = [(reference.entries, reference.signature_of_entries())]
    return _last_entries[0][1]


def _name(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _portable(value: Any) -> Any:
    """A setting as JSON; of a folder its name stays, for where it lies is of this machine only."""
    if isinstance(value, str):
        return without_folders(value)
    if isinstance(value, Fraction):
        return fraction_text(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _portable(dataclasses.asdict(value))
    if isinstance(value, Mapping):
        return {str(name): _portable(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_portable(inner) for inner in value]
    return value if value is None or isinstance(value, bool | int | float) else _value(value)


def _source(function: Any) -> Any:
    """What a function does: its source; of a lambda, of which several may stand on one line, the text of its body."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    lines = linecache.getlines(code.co_filename)
    places = [place for place in code.co_positions() if None not in place and place[3]]
    if not lines or not places:
        # Nobody keeps the source of what was typed into a plain interpreter.
        return [code.co_code.hex(), list(code.co_names), [_value(one) for one in code.co_consts]]
    if code.co_name != "<lambda>":
        return inspect.getsource(function)
    (first, start), (last, end) = min((a, c) for a, _, c, _ in places), max((b, d) for _, b, _, d in places)
    body = [line.encode() for line in lines[first - 1 : last]]
    body[-1] = body[-1][:end]
    body[0] = body[0][start:]
    return b"".join(body).decode(errors="replace")


def _value(value: Any) -> Any:
    """A value as JSON that is the same in every process: no object's address is in it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(name): _value(inner) for name, inner in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, list | tuple):
        return [_value(inner) for inner in value]
    if isinstance(value, type):
        return _name(value)
    code = getattr(value, "__code__", None)
    if code is not None:
        # What this one holds in turn is left out: functions may hold each other.
        return [_name(value), _source(value)]
    own = any("__repr__" in vars(kind) for kind in type(value).__mro__[:-1])
    return _PLACE.sub("", repr(value)) if own else _name(type(value))
