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

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from keqa.errors import ConfigurationError, InputError, KeqaError
from keqa.programs.arguments import check
from keqa.programs.keqa import KEQA
from keqa.programs.learned import LearnedQuestions, learned_from_json
from keqa.programs.predictor_state import checked_states
from keqa.programs.program import SETTINGS
from keqa.programs.prompts import Prompts, drift, prompt_of, prompts_of
from keqa.programs.record_redaction import lms_asked
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.registry import arguments_of, class_of_saved, name_of
from keqa.programs.saving.files import (
    FORMAT,
    FORMAT_VERSION,
    OWNED,
    PROGRAM,
    ProgramFile,
    folder_of,
    place_of,
    read,
    reference_in,
    written,
)
from keqa.programs.saving.values import read_values, settings_of
from keqa.programs.stages.stage import detached
from keqa.programs.wrapper import ModuleWrapper, program_within
from keqa.storage.files import check_writable, publish
from keqa.storage.redaction import without_secrets

if TYPE_CHECKING:
    from keqa.programs.program import Program
    from keqa.programs.reference.embedding import Embedder
    from keqa.programs.stages.stage import RoleLMs
    from keqa.retrievers import Retriever

__all__ = [
    "FORMAT_VERSION",
    "SOURCES",
    "about",
    "check_apart",
    "check_place",
    "check_savable",
    "check_sources",
    "learned_of",
    "load",
    "save",
]

SOURCES = "sources"
"""The name of what a compiled program was compiled from, as `keqa.optimize.compile.sources_of` digests it."""

_MOST_LISTED = 5


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
    place = folder_of(folder)
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
        SETTINGS: settings_of(program),
        "reference": None if reference is None else reference.settings(),
        "learned": program.learned.as_json(),
        "signatures": prompts,
        "predictors": parts,
        # With null for the numbers that JSON has not, such as the mean of nothing.
        "about": json.loads(json.dumps(without_secrets(about, lms_asked(program))), parse_constant=lambda name: None),
    }
    publish(place, written(state, reference), owned=OWNED)


def check_savable(program: Program) -> Prompts:
    """Refuse a program that `save` would refuse, before work is put into it, and give the prompts of its code.

    Raises:
        ConfigurationError: The program has parts that a saved one cannot have.
    """
    name_of(program)
    if isinstance(program, KEQA) and not isinstance(program.reference, UtilityReference | None):
        raise ConfigurationError("a program can be saved with a UtilityReference or with none, not with another one")
    own = prompts_of(program)
    # The prompts of KEQA do not depend on its settings, which might open models.
    prompts = _expected(_made(type(program), {} if isinstance(program, KEQA) else dict(program.settings)), own)
    _refuse(drift(prompts, own, instructions=False), "cannot be saved: ")
    return prompts


def check_place(folder: str | Path) -> None:
    """Refuse a folder that `save` could not write to, before work is put into a program for it.

    Raises:
        InputError: The place is taken by something else, or cannot be written to.
    """
    folder = Path(folder).resolve()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder")
    others = sorted({entry.name for entry in folder.iterdir()} - OWNED) if folder.exists() else []
    if others:
        raise InputError(f"{folder} holds other files ({', '.join(others[:3])}); name a new folder")
    # A program is written beside its place and then renamed.
    check_writable(folder.parent, "--out")


def check_sources(folder: str | Path, sources: Mapping[str, str]) -> None:
    """Refuse to replace a program that was compiled from something else.

    Args:
        folder: Where a program shall be saved.
        sources: What it is compiled from, by name; what was compiled from the same has the same.

    Raises:
        InputError: There is a program of other sources, or one that cannot be read.
    """
    folder = Path(folder)
    if not (folder / PROGRAM).exists():
        return
    replaced = "would be replaced: name another folder, or say that it shall be, with --force or overwrite=True"
    try:
        found = read(folder).about.get(SOURCES)
    except KeqaError as error:
        raise InputError(f"{folder} holds a program that cannot be read, and {replaced} ({error})") from error
    then = found if isinstance(found, dict) else {}
    changed = [name for name, digest in sources.items() if then.get(name) != digest]
    if changed:
        origin = f"from other sources ({', '.join(changed)})" if then else "from sources that it does not name"
        raise InputError(f"{folder} holds a program that was compiled {origin}, and {replaced}")


def check_apart(folder: str | Path, work: str | Path) -> None:
    """Refuse to keep finished work in the folder of a program, which holds nothing else.

    Raises:
        InputError: One is the other, or the work lies in it.
    """
    if Path(work).resolve().is_relative_to(Path(folder).resolve()):
        raise InputError(
            f"{work}, where finished work is kept, is or lies in {folder}, which shall hold the program and nothing "
            "else: name another folder for one of them"
        )


@overload
def load(
    folder: str | Path,
    retriever: Retriever | None,
    lms: RoleLMs | None = None,
    *,
    method: Literal["keqa"],
    embedder: Embedder | str | None = None,
    **settings: Any,
) -> KEQA: ...


@overload
def load(
    folder: str | Path,
    retriever: Retriever | None,
    lms: RoleLMs | None = None,
    *,
    method: str | None = None,
    embedder: Embedder | str | None = None,
    **settings: Any,
) -> Program: ...


def load(
    folder: str | Path,
    retriever: Retriever | None,
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
    if embedder is not None:
        check(UtilityReference, {"embedder": embedder}, "keqa.load")
    folder = place_of(folder)
    state = read(folder)
    if method not in (None, state.method):
        raise InputError(
            f"{folder} holds a compiled {state.method}, not {method}: give a program that was compiled for that"
        )
    where = f"{folder / PROGRAM}, with {', '.join(settings)} as given," if settings else f"{folder / PROGRAM}"
    try:
        return _loaded(folder, state, settings, retriever, lms, embedder)
    except ConfigurationError as error:
        if type(error) is not ConfigurationError or str(folder) in str(error):
            raise
        raise ConfigurationError(f"{where} cannot be used: {error}") from error
    # Whatever a stranger wrote there, it is the program that is wrong and not the code that reads it.
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ConfigurationError(f"{where} is damaged, or a setting is wrong: {error!r:.200}") from error


def about(folder: str | Path) -> dict[str, Any]:
    """What a saved program says about itself, without loading it.

    Args:
        folder: As for `load`, which says as well what is raised.

    Returns:
        What `save` was given, and ``method``, ``created``, ``keqa`` and ``settings``.
    """
    state = read(place_of(folder))
    return {**state.about, **{name: getattr(state, name) for name in ("method", "created", "keqa", SETTINGS)}}


def learned_of(folder: str | Path) -> LearnedQuestions:
    """The questions that a saved program learned from, without loading it; see `about`."""
    return learned_from_json(read(place_of(folder)).learned)


def _loaded(
    folder: Path,
    state: ProgramFile,
    given: Mapping[str, Any],
    retriever: Retriever | None,
    lms: RoleLMs | None,
    embedder: Embedder | str | None,
) -> Program:
    """The program that a folder describes, its files and prompts checked."""
    cls: Any = class_of_saved(state.method)
    named = embedder if isinstance(embedder, str) else None
    settings = read_values(cls.Settings, state.settings, given, named, state.method)
    program = _made(cls, settings, retriever, lms)
    _refuse(drift(state.signatures, _expected(program, state.signatures)), f"{folder} was compiled for other prompts: ")
    if stray := sorted(state.predictors.keys() - state.signatures.keys()):
        raise ConfigurationError(f"it has no prompt for the predictor {stray[0][:80]!a}")
    if (reference := reference_in(folder, state, embedder)) is not None:
        program.reference = reference
    program.load_parts(state.predictors, dict(program.named_predictors()))
    program.learned = learned_from_json(state.learned)
    return program


def _made(
    cls: Any, settings: Mapping[str, Any], retriever: Retriever | None = None, lms: RoleLMs | None = None
) -> Program:
    searches = {"retriever": retriever} if "retriever" in arguments_of(cls) else {}
    program: Program = cls(**searches, lms=lms, **settings)
    return program


def _expected(fresh: Program, there: Mapping[str, Any]) -> Prompts:
    """The prompts that the code has for a method, of optional predictors those that are there."""
    extra = {name: prompt_of(signature) for name, signature in fresh.optional.items() if name in there}
    own = prompts_of(fresh)
    return {name: prompt for name, prompt in own.items() if name in there or name not in fresh.optional} | extra


def _refuse(changed: list[str], what: str) -> None:
    if changed:
        listed = "; ".join([*changed[:_MOST_LISTED], *(["and so on"] if len(changed) > _MOST_LISTED else [])])
        raise ConfigurationError(f"{what}{listed}. Compile the program again with this version of KEQA")
