"""A compiled program as a folder: saved whole or not at all, and loaded where its prompts are still the same.

::

    program/
      program.json       the method, its settings, what optimizers found for each predictor, the prompts that it was
                         found for
      reference.jsonl    the utility reference, an entry a line
      reference.npy      its embeddings, where a model made them

Nothing in it is pickled, and no language model, key or address: those belong to the machine that a program runs on.
One ships with the package, compiled on the testbed for the model that ships with it: its name is ``testbed``.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, overload

import dspy
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from keqa.errors import ConfigurationError, InputError, KeqaError
from keqa.lms.factory import IN_PROCESS
from keqa.programs.arguments import check
from keqa.programs.calls.predictor import (
    LearnedQuestions,
    Prompts,
    checked_states,
    detached,
    drift,
    learned_from_json,
    prompt_of,
    prompts_of,
    refused,
)
from keqa.programs.keqa import KEQA
from keqa.programs.reference.embedding import HASHING, Embedder, is_built_in, open_embedder, portable
from keqa.programs.reference.entries import UtilityEntry, entry_from, entry_values
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.registry import class_of_saved, made, name_of
from keqa.programs.saved_settings import must_be_named, read_values, settings_of
from keqa.programs.wrapper import ModuleWrapper, program_within
from keqa.retrievers.text import shown
from keqa.storage.files import check_replaceable, check_writable, publish
from keqa.storage.redaction import visible, without_secrets
from keqa.storage.untrusted import MissingFileError, parse_json, parse_jsonl, parse_npy, read_file, read_json

if TYPE_CHECKING:
    from keqa.programs.program import Program
    from keqa.programs.stage import RoleLMs

FORMAT, FORMAT_VERSION = "keqa-program", 1
SOURCES = "sources"
"""The name of what a compiled program was compiled from, as `keqa.optimize.compile.sources_of` digests it."""

_PROGRAM, _ENTRIES, _VECTORS = "program.json", "reference.jsonl", "reference.npy"
_OWNED = frozenset({_PROGRAM, _ENTRIES, _VECTORS})
# Far beyond what a compilation writes, and well within the memory.
_LIMITS = {_PROGRAM: 32 << 20, _ENTRIES: 256 << 20, _VECTORS: 2 << 30}
_MOST_ENTRIES = 500_000
_SHIPPED = "testbed"
_log = logging.getLogger("keqa.programs")
_MOST_LISTED = 5


class _ProgramFile(BaseModel):
    """What ``program.json`` holds."""

    model_config = ConfigDict(strict=True, extra="forbid")

    format: Literal["keqa-program"]
    version: Literal[1]
    method: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,60}$")]
    keqa: str | None
    dspy: str | None
    created: str
    settings: dict[str, Any]
    reference: dict[str, Any] | None
    learned: dict[str, Any]
    files: dict[str, Any]
    signatures: dict[str, Any]
    predictors: dict[str, Any]
    about: dict[str, Any]


def save(program: Program | ModuleWrapper[Any], folder: str | Path, **about: Any) -> None:
    """Save a program as a folder that `load` reads.

    Args:
        program: A `KEQA` or a method of `keqa.programs.baselines`, compiled or not, or what ``keqa.compile`` returned,
            which saves its report with it.
        folder: Where to; a program that is there already is replaced in one step.
        **about: How it came to be, such as the command, the metric's history or the tuning curve, as JSON values.
            Addresses and the keys of the program's language models are taken out.

    Raises:
        InputError: The folder holds something else.
        ConfigurationError: The program has parts that a saved one cannot have.
    """
    if isinstance(program, ModuleWrapper):
        # With what it has beside the program, such as the report of a compilation.
        program.save(folder, **about)
        return
    program = program_within(program, "keqa.save")
    place = _folder_of(folder)
    prompts = check_savable(program)
    reference: Any = program.reference if isinstance(program, KEQA) else None
    predictors = dict(program.named_predictors())
    parts = {name: detached(predictor).dump_state() for name, predictor in predictors.items()}
    checked_states(parts, predictors, {}, type(program).__name__)
    state = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "method": name_of(program),
        "keqa": version("keqa"),
        "dspy": version("dspy"),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": settings_of(program),
        "reference": None if reference is None else reference.settings(),
        "learned": program.learned.as_json(),
        "signatures": prompts,
        "predictors": parts,
        # With null for the numbers that JSON has not, such as the mean of nothing.
        "about": json.loads(json.dumps(without_secrets(about, program.lms_asked())), parse_constant=lambda name: None),
    }
    publish(place, _written(state, reference), owned=_OWNED)


def check_savable(program: Program) -> Prompts:
    """Refuse a program that `save` would refuse, before work is put into it, and give the prompts of its code."""
    name_of(program)
    if isinstance(program, KEQA) and not isinstance(program.reference, UtilityReference | None):
        raise ConfigurationError("a program can be saved with a UtilityReference or with none, not with another one")
    own = prompts_of(program)
    # The prompts of KEQA do not depend on its settings, which might open models.
    fresh = made(type(program), None, None, {} if isinstance(program, KEQA) else dict(program.settings))
    prompts = _expected(fresh, own)
    _refuse(drift(prompts, own, instructions=False), "cannot be saved: ")
    return prompts


def check_place(folder: str | Path) -> None:
    """Refuse a folder that `save` could not write to, before work is put into a program for it."""
    # A program is written beside its place and then renamed.
    check_writable(check_replaceable(Path(folder), _OWNED).parent, "--out")


def check_sources(folder: str | Path, sources: Mapping[str, str]) -> None:
    """Refuse to replace a program that was compiled from something else; sources are digests by name."""
    folder = Path(folder)
    if not (folder / _PROGRAM).exists():
        return
    replaced = "would be replaced: name another folder, or say that it shall be, with --force or overwrite=True"
    try:
        found = _read(folder).about.get(SOURCES)
    except KeqaError as error:
        raise InputError(f"{folder} holds a program that cannot be read, and {replaced} ({error})") from error
    then = found if isinstance(found, dict) else {}
    changed = [name for name, digest in sources.items() if then.get(name) != digest]
    if changed:
        origin = f"from other sources ({', '.join(changed)})" if then else "from sources that it does not name"
        raise InputError(f"{folder} holds a program that was compiled {origin}, and {replaced}")


def check_apart(folder: str | Path, work: str | Path) -> None:
    """Refuse to keep finished work in the folder of a program, which holds nothing else."""
    if Path(work).resolve().is_relative_to(Path(folder).resolve()):
        raise InputError(
            f"{work}, where finished work is kept, is or lies in {folder}, which shall hold the program and nothing "
            "else: name another folder for one of them"
        )


@overload
def load(
    folder: str | Path,
    retriever: Any,
    lms: RoleLMs | None = None,
    *,
    method: Literal["keqa"],
    **given: Any,
) -> KEQA: ...


@overload
def load(
    folder: str | Path, retriever: Any, lms: RoleLMs | None = None, *, method: Any = None, **given: Any
) -> Program: ...


def load(
    folder: str | Path,
    retriever: Any,
    lms: RoleLMs | None = None,
    *,
    method: str | None = None,
    embedder: Embedder | str | None = None,
    **settings: Any,
) -> Program:
    """Load a saved program, ready to be called.

    Args:
        folder: What `save` wrote; ``testbed`` is the program that ships, unless one of yours has that name.
        retriever: Where passages come from.
        lms: A language model for each role; ``dspy.settings.lm`` where None.
        method: The method that it has to be, named as for ``keqa evaluate``; any where None.
        embedder: The reference's, where it was one of your own; or the name of the embedding model that the program
            was compiled with: a model of the hub or in a folder is opened only where you name it here.
        **settings: Arguments of the program's class that take the place of what was saved, such as ``top_k=5``. A
            threshold takes the place of any gate.

    Returns:
        A program of the class that was saved, such as `KEQA`.

    Raises:
        InputError: There is no saved program, or it is one of another method.
        ConfigurationError: It is damaged, was written by a newer version, or its prompts have changed since.
        MissingExtraError: A package is missing that its reference needs.
    """
    # These are not what was saved.
    check(KEQA, {"retriever": retriever, "lms": lms}, "keqa.load")
    if embedder is not None:
        check(UtilityReference, {"embedder": embedder}, "keqa.load")
    folder = _place_of(folder)
    state = _read(folder)
    if method not in (None, state.method):
        raise InputError(
            f"{folder} holds a compiled {state.method}, not {method}: give a program that was compiled for that"
        )
    where = f"{folder / _PROGRAM}, with {', '.join(settings)} as given," if settings else f"{folder / _PROGRAM}"
    try:
        cls, named = class_of_saved(state.method), embedder if isinstance(embedder, str) else None
        chosen = read_values(cls.Settings, state.settings, settings, named, state.method)
        program: Program = made(cls, retriever, lms, chosen)
        changed = drift(state.signatures, _expected(program, state.signatures))
        _refuse(changed, f"{folder} was compiled for other prompts: ")
        if stray := sorted(state.predictors.keys() - state.signatures.keys()):
            raise ConfigurationError(f"it has no prompt for the predictor {stray[0][:80]!a}")
        if (reference := _reference_in(folder, state, embedder)) is not None:
            program.reference = reference
        program.load_parts(state.predictors, dict(program.named_predictors()))
        program.learned = learned_from_json(state.learned)
        if said := learned_of_another(program):
            _log.warning(said)
        return program
    except ConfigurationError as error:
        if type(error) is not ConfigurationError or str(folder) in str(error):
            raise
        raise ConfigurationError(f"{where} cannot be used: {error}") from error
    # Whatever a stranger wrote there, it is the program that is wrong and not the code that reads it.
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ConfigurationError(f"{where} is damaged, or a setting is wrong: {error!r:.200}") from error


def learned_of_another(program: Program) -> str:
    """What to say where a boundary model learned what another language model knows than the one that is asked."""
    # One reading asks no gate, nor does what searches for every quiz.
    if not isinstance(program, KEQA) or program.settle == "reading" or not program.examine:
        return ""
    learned = getattr(getattr(program.gate, "model", None), "about", {}).get("lm")
    asked = getattr(program.examination.quiz.lm or dspy.settings.lm, "model", None)
    if not learned or not isinstance(asked, str) or _checkpoint(str(learned)) == _checkpoint(asked):
        return ""
    return visible(f"what is known is judged by what {learned} knew, which is not {asked}: compile for that one")


def _checkpoint(model: str) -> str:
    """What stays of a model's name whoever serves it: the fingerprint of weights that are here, else its last part."""
    return model.rpartition("@" if model.partition("/")[0] in IN_PROCESS else "/")[2]


def about(folder: str | Path) -> dict[str, Any]:
    """What `save` was told of a program, and its ``method``, ``created``, ``keqa`` and ``settings``."""
    state = _read(_place_of(folder))
    return {**state.about, **{name: getattr(state, name) for name in ("method", "created", "keqa", "settings")}}


def learned_of(folder: str | Path) -> LearnedQuestions:
    """The questions that a saved program learned from, without loading it; see `about`."""
    return learned_from_json(_read(_place_of(folder)).learned)


def _expected(fresh: Program, there: Mapping[str, Any]) -> Prompts:
    """The prompts that the code has for a method, of optional predictors those that are there."""
    extra = {name: prompt_of(signature) for name, signature in fresh.optional.items() if name in there}
    own = prompts_of(fresh)
    return {name: prompt for name, prompt in own.items() if name in there or name not in fresh.optional} | extra


def _refuse(changed: list[str], what: str) -> None:
    if changed:
        listed = "; ".join([*changed[:_MOST_LISTED], *(["and so on"] if len(changed) > _MOST_LISTED else [])])
        raise ConfigurationError(f"{what}{listed}. Compile the program again with this version of KEQA")


def _folder_of(folder: str | Path) -> Path:
    if not isinstance(folder, str | PathLike):
        raise InputError(f"a program is a folder: give its path, not {shown(folder)}")
    return Path(folder)


def _place_of(folder: str | Path) -> Path:
    """The folder that is named; ``testbed`` is the program that ships, unless there is another one of that name."""
    named = _folder_of(folder)
    if str(named) == _SHIPPED and not (named / _PROGRAM).exists():
        return Path(str(files("keqa.testbed"))) / "program"
    return named


def _read(folder: Path) -> _ProgramFile:
    """What ``program.json`` of a folder says, which may be a stranger's."""
    path = folder / _PROGRAM
    try:
        state = read_json(folder, _PROGRAM, _LIMITS[_PROGRAM])
    except MissingFileError:
        raise InputError(f"{folder} holds no compiled program: {_PROGRAM} is missing") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise InputError(f"{path} does not describe a compiled program")
    if type(state.get("version")) is not int or state["version"] != FORMAT_VERSION:
        writer = state.get("keqa")
        known = isinstance(writer, str) and re.fullmatch(r"[0-9A-Za-z.+-]{1,40}", writer)
        raise ConfigurationError(
            f"{path} has format version {state.get('version')!a:.40}, this version of KEQA reads {FORMAT_VERSION}. "
            f"Use the version that wrote it (keqa {writer if known else 'unknown'}), or compile the program again"
        )
    try:
        found = _ProgramFile.model_validate(state)
    except ValidationError as error:
        raise refused(error, str(path)) from None
    if strange := sorted(found.files.keys() - {_ENTRIES, _VECTORS}):
        raise ConfigurationError(
            f"{path} names the file {strange[0][:80]!a}: beside it lie {_ENTRIES} and {_VECTORS}, nothing else"
        )
    return found


def _reference_in(folder: Path, state: _ProgramFile, embedder: Embedder | str | None) -> UtilityReference | None:
    """The utility reference of a program; `embedder` is its own, or its name, where it is none of the built-in ones."""
    if state.reference is None:
        return None
    if _ENTRIES not in state.files:
        raise ConfigurationError(f"{folder / _PROGRAM} is damaged: it has a reference and does not name {_ENTRIES}")
    path, entries = folder / _ENTRIES, list[UtilityEntry]()
    for number, value in parse_jsonl(_checked(folder, _ENTRIES, state.files), path, max_depth=1):
        if len(entries) == _MOST_ENTRIES:
            raise ConfigurationError(f"{path} has more than {_MOST_ENTRIES:,} entries, the most that are read")
        entries.append(entry_from(value, f"{path}, line {number},"))
    named = _embedder(folder, state.reference["embedder"], state.files, embedder)
    saved = _checked(folder, _VECTORS, state.files) if _VECTORS in state.files else None
    vectors = None if saved is None else parse_npy(saved, folder / _VECTORS)
    return UtilityReference(**{**state.reference, "embedder": named}).fit(entries, vectors)


def _written(state: Mapping[str, Any], reference: UtilityReference | None) -> dict[str, bytes]:
    """The files of a program by name; refused where one is larger, or a value in it stranger, than what is read."""
    found: dict[str, bytes] = {}
    if reference is not None:
        found[_ENTRIES] = b"".join(_as_json(entry_values(entry)) + b"\n" for entry in reference.entries)
        if reference.embedder.name != HASHING and reference.entries:
            stream = io.BytesIO()
            np.save(stream, reference.index.vectors(), allow_pickle=False)
            found[_VECTORS] = stream.getvalue()
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in found.items()}
    found = {_PROGRAM: _as_json({**state, "files": digests}, indent=2) + b"\n", **found}
    for name, content in found.items():
        if len(content) > _LIMITS[name]:
            raise ConfigurationError(f"the program cannot be saved: {name} would have {len(content):,} bytes")
    _ProgramFile.model_validate(parse_json(found[_PROGRAM], f"the program cannot be saved: {_PROGRAM}"))
    return found


def _as_json(value: Any, indent: int | None = None) -> bytes:
    # A language model may reply with half a surrogate pair; escaped, it is the same character in JSON.
    return json.dumps(value, ensure_ascii=False, indent=indent).encode("utf-8", "backslashreplace")


def _embedder(folder: Path, saved: Any, digests: Mapping[str, Any], given: Embedder | str | None) -> Embedder:
    """The embedder that was given, or the one that a program names where that is built in; see `open_built_in`."""
    # A name stands for the model of that name only; another part of the program may be meant by it.
    if is_built_in(saved) and (given is None or isinstance(given, str)):
        return open_embedder(saved)
    if given is None:
        raise ConfigurationError(must_be_named("the utility reference", saved))
    opened = open_embedder(given) if isinstance(given, str) else given
    # What is saved was made by the embedder, so `fit` finds out by that whether this is the one, whatever its name.
    if _VECTORS not in digests and portable(opened.name) != saved:
        raise ConfigurationError(f"{folder} was compiled with the embedder {saved!a:.100}, not this one")
    return opened


def _checked(folder: Path, name: str, digests: Mapping[str, Any]) -> bytes:
    content = read_file(folder, name, _LIMITS[name])
    if hashlib.sha256(content).hexdigest() != digests[name]:
        raise ConfigurationError(
            f"{folder / name} is not the file that was saved with {_PROGRAM}; it was changed or cut off"
        )
    return content
