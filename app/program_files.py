"""The files of a compiled program, read and checked."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from keqa.errors import ConfigurationError, InputError
from keqa.programs.embedding import HASHING, Embedder, portable
from keqa.programs.utility_reference import Entry, UtilityReference

__all__ = ["FORMAT", "FORMAT_VERSION", "OWNED", "PROGRAM", "as_json", "place_of", "read", "reference_in", "written"]

FORMAT, FORMAT_VERSION = "keqa-program", 1
PROGRAM, _ENTRIES, _VECTORS = "program.json", "reference.jsonl", "reference.npy"
OWNED = frozenset({PROGRAM, _ENTRIES, _VECTORS})
_SHIPPED = "testbed"
_KEQA = "keqa"


def place_of(folder: str | Path) -> Path:
    """The folder that is named; ``testbed`` is the program that ships, unless there is another one of that name."""
    named = Path(folder)
    if str(named) == _SHIPPED and not (named / PROGRAM).exists():
        return Path(str(files("keqa.testbed"))) / "program"
    return named


def read(folder: Path) -> dict[str, Any]:
    """What ``program.json`` says.

    Args:
        folder: Of the program.

    Returns:
        Its parts; ``method`` is always there, KEQA where none is named.

    Raises:
        InputError: There is no saved program.
        ConfigurationError: It is damaged or was written by a newer version.
    """
    path = folder / PROGRAM
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{folder} holds no compiled program: {PROGRAM} is missing") from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise InputError(f"{path} does not describe a compiled program")
    if state.get("version") != FORMAT_VERSION:
        raise ConfigurationError(
            f"{path} has format version {state.get('version')!r}, this version of KEQA reads {FORMAT_VERSION}. "
            f"Use the version that wrote it (keqa {state.get('keqa')}), or compile the program again"
        )
    # Programs were KEQA's alone before their folders named a method.
    state = {"method": _KEQA, **state}
    kinds = {"settings": dict, "files": dict, "signatures": dict, "predictors": dict, "about": dict}
    parts = {**kinds, "created": str, "method": str}
    wrong = [name for name, kind in parts.items() if not isinstance(state.get(name), kind)]
    if wrong or not isinstance(state.get("reference"), dict | None):
        raise ConfigurationError(f"{path} is damaged: {', '.join(wrong or ['reference'])} cannot be used")
    return state


def reference_in(folder: Path, state: Mapping[str, Any], embedder: Embedder | None) -> UtilityReference | None:
    """The utility reference of a program.

    Args:
        folder: Of the program.
        state: What `read` gave.
        embedder: The reference's, where it was one of the user's own, or a model that lies elsewhere now.

    Raises:
        ConfigurationError: A file is not the one that was saved, or the embedder is another one.
    """
    if state["reference"] is None:
        return None
    settings = dict(state["reference"])
    content = {name: _checked(folder / name, digest) for name, digest in state["files"].items()}
    vectors = np.load(io.BytesIO(content[_VECTORS]), allow_pickle=False) if _VECTORS in content else None
    entries = [Entry(**json.loads(line)) for line in content[_ENTRIES].splitlines()]
    # What is saved was made by the embedder, so `fit` finds out by that whether this is the one, whatever its name.
    if embedder is not None and vectors is None and portable(embedder.name) != settings.get("embedder"):
        raise ConfigurationError(f"{folder} was compiled with the embedder {settings.get('embedder')!r}, not this one")
    return _set_up(folder, settings, embedder).fit(entries, vectors)


def written(reference: UtilityReference | None) -> dict[str, bytes]:
    """The files of a utility reference, by name."""
    if reference is None:
        return {}
    found = {_ENTRIES: b"".join(as_json(asdict(entry)) + b"\n" for entry in reference.entries)}
    if reference.embedder.name != HASHING and reference.entries:
        stream = io.BytesIO()
        np.save(stream, reference.vectors(), allow_pickle=False)
        found[_VECTORS] = stream.getvalue()
    return found


def as_json(value: Any, indent: int | None = None) -> bytes:
    """A value as a line of JSON."""
    # A language model may reply with half a surrogate pair; escaped, it is the same character in JSON.
    return json.dumps(value, ensure_ascii=False, indent=indent).encode("utf-8", "backslashreplace")


def _set_up(folder: Path, settings: Mapping[str, Any], embedder: Embedder | None) -> UtilityReference:
    if embedder is not None:
        return UtilityReference(**{**settings, "embedder": embedder})
    try:
        return UtilityReference(**settings)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{folder} was compiled with the embedder {settings.get('embedder')!r}, which is not found here: {error}. "
            "A model in a folder of that name is found where it lies in the working directory, or given as embedder= "
            "to keqa.load, opened by keqa.programs.embedding.open_embedder"
        ) from error


def _checked(path: Path, digest: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise ConfigurationError(f"{path} is not the file that was saved with {PROGRAM}; it was changed or cut off")
    return content
