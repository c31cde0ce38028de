"""A compiled program as a folder: saved whole or not at all, and loaded where its prompts are still the same.

::

    program/
      program.json       settings, what optimizers found for each predictor, the prompts that it was found for
      reference.jsonl    the utility reference, an entry a line
      reference.npy      its embeddings, where a model made them

Nothing in it is pickled, and no language model, key or address: those belong to the machine that a program runs on.
One ships with the package, compiled on the testbed for the model that ships with it: its name is ``testbed``.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from collections.abc import Container, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy
import numpy as np

from keqa.errors import ConfigurationError, InputError
from keqa.folders import publish
from keqa.programs.embedding import HASHING, Embedder
from keqa.programs.keqa import KEQA
from keqa.programs.settings import arguments, settings_of
from keqa.programs.utility_reference import Entry, UtilityReference
from keqa.prompts import drift, prompt_of, prompts_of
from keqa.redaction import without_secrets

if TYPE_CHECKING:
    from keqa.programs.stage import RoleLMs
    from keqa.retrievers import Retriever

__all__ = ["FORMAT_VERSION", "about", "check_place", "check_savable", "load", "save"]

FORMAT_VERSION = 1
_FORMAT = "keqa-program"
_PROGRAM, _ENTRIES, _VECTORS = "program.json", "reference.jsonl", "reference.npy"
_OWNED = frozenset({_PROGRAM, _ENTRIES, _VECTORS})
_SHIPPED = "testbed"


def save(program: KEQA, folder: str | Path, **about: Any) -> None:
    """Save a program as a folder that `load` reads.

    Args:
        program: A `KEQA`, compiled or not.
        folder: Where to; a program that is there already is replaced in one step.
        **about: How it came to be, such as the command, the metric's history or the tuning curve, as JSON values.
            Addresses and the keys of the program's language models are taken out.

    Raises:
        InputError: The folder holds something else.
        ConfigurationError: The program has parts that a saved one cannot have.
    """
    reference, prompts = _savable(program)
    files: dict[str, bytes] = {}
    if reference is not None:
        files[_ENTRIES] = b"".join(_json(asdict(entry)) + b"\n" for entry in reference.entries)
        if reference.embedder.name != HASHING and reference.entries:
            files[_VECTORS] = _array(reference.vectors())
    state = {
        "format": _FORMAT,
        "version": FORMAT_VERSION,
        "keqa": version("keqa"),
        "dspy": version("dspy"),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": settings_of(program),
        "reference": None if reference is None else reference.settings(),
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        "signatures": prompts,
        "predictors": {name: _found(predictor) for name, predictor in program.named_predictors()},
        "about": without_secrets(about, [dspy.settings.lm, *(predictor.lm for predictor in program.predictors())]),
    }
    publish(Path(folder), {_PROGRAM: _json(state, indent=2) + b"\n", **files}, owned=_OWNED)


def check_savable(program: KEQA) -> None:
    """Refuse a program that `save` would refuse, before work is put into it.

    Raises:
        ConfigurationError: The program has parts that a saved one cannot have.
    """
    _savable(program)


def check_place(folder: str | Path) -> None:
    """Refuse a folder that `save` could not write to, before work is put into a program for it.

    Raises:
        InputError: The place is taken by something else, or cannot be written to.
    """
    folder = Path(folder).resolve()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder")
    others = sorted({entry.name for entry in folder.iterdir()} - _OWNED) if folder.exists() else []
    if others:
        raise InputError(f"{folder} holds other files ({', '.join(others[:3])}); name a new folder")
    there = next(parent for parent in folder.parents if parent.exists())
    try:
        Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=there)).rmdir()
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error}") from error


def load(
    folder: str | Path,
    retriever: Retriever | None,
    lms: RoleLMs | None = None,
    *,
    embedder: Embedder | None = None,
    **settings: Any,
) -> KEQA:
    """Load a saved program, ready to be called.

    Args:
        folder: What `save` wrote; ``testbed`` is the program that ships, unless one of yours has that name.
        retriever: Where unknown knowledge comes from.
        lms: A language model for each role; ``dspy.settings.lm`` where None.
        embedder: The reference's, where it was one of your own.
        **settings: Arguments of `KEQA` that take the place of what was saved, such as ``top_k=5``. A threshold takes
            the place of any gate.

    Raises:
        InputError: There is no saved program.
        ConfigurationError: It is damaged, was written by a newer version, or its prompts have changed since.
        MissingExtraError: A package is missing that its reference needs.
    """
    folder = _place(folder)
    state = _read(folder)
    try:
        then = state["signatures"]
        _refuse(drift(then, _expected(then)), f"{folder} was compiled for other prompts: ")
        reference = None if state["reference"] is None else _reference(folder, state, embedder)
        program = KEQA(retriever, lms=lms, reference=reference, **arguments(state["settings"], settings))
        for name, predictor in program.named_predictors():
            if name in state["predictors"] or name not in KEQA.optional:
                predictor.load_state(state["predictors"][name])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigurationError(f"{folder / _PROGRAM} is damaged, or a setting is wrong: {error!r}") from error
    program.bind_lms(lms)
    return program


def about(folder: str | Path) -> dict[str, Any]:
    """What a saved program says about itself, without loading it.

    Args:
        folder: As for `load`.

    Returns:
        What `save` was told, and ``created``, ``keqa`` and ``settings``.

    Raises:
        InputError: There is no saved program.
        ConfigurationError: It is damaged or was written by a newer version.
    """
    state = _read(_place(folder))
    return {**state["about"], **{name: state[name] for name in ("created", "keqa", "settings")}}


def _savable(program: KEQA) -> tuple[UtilityReference | None, dict[str, Any]]:
    """The reference and the prompts of a program that can be saved."""
    if type(program) is not KEQA:
        raise ConfigurationError(f"only a KEQA can be saved, not a {type(program).__name__}")
    reference = program.picking.reference
    if not isinstance(reference, UtilityReference | None):
        raise ConfigurationError("a program can be saved with a UtilityReference or with none, not with another one")
    own = prompts_of(program)
    prompts = _expected(own)
    _refuse(drift(prompts, own, instructions=False), "cannot be saved: ")
    return reference, prompts


def _found(predictor: dspy.Predict) -> dict[str, Any]:
    """What an optimizer may have found for a predictor, without its language model."""
    twin = dspy.Predict(predictor.signature)
    twin.demos, twin.fields = predictor.demos, predictor.fields
    state: dict[str, Any] = twin.dump_state(json_mode=True)
    return state


def _expected(there: Container[str]) -> dict[str, Any]:
    """The prompts of the code, of optional predictors those that are there."""
    extra = {name: prompt_of(signature) for name, signature in KEQA.optional.items() if name in there}
    return prompts_of(KEQA(None)) | extra


def _refuse(changed: list[str], what: str) -> None:
    if changed:
        raise ConfigurationError(f"{what}{'; '.join(changed)}. Compile the program again with this version of KEQA")


def _place(folder: str | Path) -> Path:
    named = Path(folder)
    if str(named) == _SHIPPED and not (named / _PROGRAM).exists():
        return Path(str(files("keqa.testbed"))) / "program"
    return named


def _read(folder: Path) -> dict[str, Any]:
    path = folder / _PROGRAM
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{folder} holds no compiled program: {_PROGRAM} is missing") from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    if not isinstance(state, dict) or state.get("format") != _FORMAT:
        raise InputError(f"{path} does not describe a compiled program")
    if state.get("version") != FORMAT_VERSION:
        raise ConfigurationError(
            f"{path} has format version {state.get('version')!r}, this version of KEQA reads {FORMAT_VERSION}. "
            f"Use the version that wrote it (keqa {state.get('keqa')}), or compile the program again"
        )
    parts = {"settings": dict, "files": dict, "signatures": dict, "predictors": dict, "about": dict, "created": str}
    wrong = [name for name, kind in parts.items() if not isinstance(state.get(name), kind)]
    if wrong or not isinstance(state.get("reference"), dict | None):
        raise ConfigurationError(f"{path} is damaged: {', '.join(wrong or ['reference'])} cannot be used")
    return state


def _reference(folder: Path, state: Mapping[str, Any], embedder: Embedder | None) -> UtilityReference:
    settings = dict(state["reference"])
    content = {name: _checked(folder / name, digest) for name, digest in state["files"].items()}
    if embedder is not None and embedder.name != settings.get("embedder"):
        raise ConfigurationError(f"{folder} was compiled with the embedder {settings.get('embedder')!r}, not this one")
    reference = UtilityReference(**settings | ({} if embedder is None else {"embedder": embedder}))
    entries = [Entry(**json.loads(line)) for line in content[_ENTRIES].splitlines()]
    vectors = np.load(io.BytesIO(content[_VECTORS]), allow_pickle=False) if _VECTORS in content else None
    return reference.fit(entries, vectors)


def _checked(path: Path, digest: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise ConfigurationError(f"{path} is not the file that was saved with {_PROGRAM}; it was changed or cut off")
    return content


def _json(value: Any, indent: int | None = None) -> bytes:
    # A language model may reply with half a surrogate pair; escaped, it is the same character in JSON.
    return json.dumps(value, ensure_ascii=False, indent=indent).encode("utf-8", "backslashreplace")


def _array(rows: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, rows, allow_pickle=False)
    return stream.getvalue()
