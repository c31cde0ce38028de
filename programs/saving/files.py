"""The files of a compiled program, read and checked: they may come from a stranger."""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from keqa.errors import ConfigurationError, InputError
from keqa.programs.reference.embedding import HASHING, Embedder, is_built_in, open_embedder, portable
from keqa.programs.reference.index import Entry, entry_from, entry_values
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.retrievers.text import shown
from keqa.storage.untrusted import MissingFileError, parse_json, parse_jsonl, parse_npy, read_file, read_json

FORMAT, FORMAT_VERSION = "keqa-program", 1
PROGRAM, _ENTRIES, _VECTORS = "program.json", "reference.jsonl", "reference.npy"
OWNED = frozenset({PROGRAM, _ENTRIES, _VECTORS})
# Far beyond what a compilation writes, and well within the memory.
_LIMITS = {PROGRAM: 32 << 20, _ENTRIES: 256 << 20, _VECTORS: 2 << 30}
_MOST_ENTRIES = 500_000
_PARTS: dict[str, Any] = {
    "format": str,
    "version": int,
    "method": str,
    "keqa": str | None,
    "dspy": str | None,
    "created": str,
    "settings": dict,
    "reference": dict | None,
    "learned": dict | None,
    "files": dict,
    "signatures": dict,
    "predictors": dict,
    "about": dict,
}
_METHOD = re.compile(r"[a-z0-9_-]{1,60}")
_SHIPPED = "testbed"
_KEQA = "keqa"


def folder_of(folder: str | Path) -> Path:
    """A folder as it was given.

    Raises:
        InputError: What is given names no folder.
    """
    if not isinstance(folder, str | PathLike):
        raise InputError(f"a program is a folder: give its path, not {shown(folder)}")
    return Path(folder)


def place_of(folder: str | Path) -> Path:
    """The folder that is named; ``testbed`` is the program that ships, unless there is another one of that name.

    Raises:
        InputError: What is given names no folder.
    """
    named = folder_of(folder)
    if str(named) == _SHIPPED and not (named / PROGRAM).exists():
        return Path(str(files("keqa.testbed"))) / "program"
    return named


def read(folder: Path) -> dict[str, Any]:
    """What ``program.json`` says; its parts are of the right kind, and there is none that is not known.

    Args:
        folder: Of the program, which may be a stranger's.

    Returns:
        Its parts; ``method`` is always there, KEQA where none is named.

    Raises:
        InputError: There is no saved program.
        ConfigurationError: It is damaged, holds what a program may not, or was written by a newer version.
    """
    path = folder / PROGRAM
    try:
        state = read_json(folder, PROGRAM, _LIMITS[PROGRAM])
    except MissingFileError:
        raise InputError(f"{folder} holds no compiled program: {PROGRAM} is missing") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise InputError(f"{path} does not describe a compiled program")
    if type(state.get("version")) is not int or state["version"] != FORMAT_VERSION:
        raise ConfigurationError(
            f"{path} has format version {state.get('version')!a:.40}, this version of KEQA reads {FORMAT_VERSION}. "
            f"Use the version that wrote it (keqa {_version(state.get('keqa'))}), or compile the program again"
        )
    # Programs were KEQA's alone before their folders named a method.
    state = {"method": _KEQA, "reference": None, "learned": None, **state}
    unknown = sorted(set(state) - set(_PARTS))
    if unknown:
        raise ConfigurationError(f"{path} may not hold {unknown[0][:80]!a}, only {', '.join(sorted(_PARTS))}")
    wrong = [name for name, kind in _PARTS.items() if not isinstance(state.get(name), kind)]
    if "method" not in wrong and not _METHOD.fullmatch(state["method"]):
        wrong.append("method")
    if wrong:
        raise ConfigurationError(f"{path} is damaged: {', '.join(wrong)} cannot be used")
    strange = sorted(set(state["files"]) - {_ENTRIES, _VECTORS})
    if strange:
        raise ConfigurationError(
            f"{path} names the file {strange[0][:80]!a}: beside it lie {_ENTRIES} and {_VECTORS}, nothing else"
        )
    return state


def reference_in(folder: Path, state: Mapping[str, Any], embedder: Embedder | str | None) -> UtilityReference | None:
    """The utility reference of a program.

    Args:
        folder: Of the program.
        state: What `read` gave.
        embedder: The reference's, or its name, where it is none of the built-in ones.

    Raises:
        ConfigurationError: A file is not the one that was saved, the embedder is another one, or the program names one
            that the user does not.
    """
    if state["reference"] is None:
        return None
    path = folder / PROGRAM
    settings, found = state["reference"], state["files"]
    named = {"embedder", "k", "least", "variant"}
    if set(settings) - {"form"} != named or not isinstance(settings["embedder"], str):
        raise ConfigurationError(
            f"{path} is damaged: reference has embedder, k, least, variant and maybe form, nothing else"
        )
    if _ENTRIES not in found:
        raise ConfigurationError(f"{path} is damaged: it has a reference and does not name {_ENTRIES}")
    entries = _entries(folder / _ENTRIES, _checked(folder, _ENTRIES, found))
    reference = UtilityReference(**{**settings, "embedder": _embedder(folder, settings["embedder"], found, embedder)})
    vectors = None
    if _VECTORS in found:
        vectors = parse_npy(_checked(folder, _VECTORS, found), folder / _VECTORS, (None, None))
    return reference.fit(entries, vectors)


def written(reference: UtilityReference | None) -> dict[str, bytes]:
    """The files of a utility reference, by name."""
    if reference is None:
        return {}
    found = {_ENTRIES: b"".join(as_json(entry_values(entry)) + b"\n" for entry in reference.entries)}
    if reference.embedder.name != HASHING and reference.entries:
        stream = io.BytesIO()
        np.save(stream, reference.vectors(), allow_pickle=False)
        found[_VECTORS] = stream.getvalue()
    return found


def check_readable(files: Mapping[str, bytes]) -> dict[str, Any]:
    """Refuse to save what could not be loaded again.

    Args:
        files: Content by name.

    Returns:
        What ``program.json`` would be read as.

    Raises:
        ConfigurationError: A file is larger, or a value in it stranger, than `read` and `reference_in` take.
    """
    for name, content in files.items():
        if len(content) > _LIMITS[name]:
            raise ConfigurationError(f"the program cannot be saved: {name} would have {len(content):,} bytes")
    state: dict[str, Any] = parse_json(files[PROGRAM], f"the program cannot be saved: {PROGRAM}")
    return state


def finite(value: Any) -> Any:
    """A value with null for the numbers that JSON has not, such as the mean of nothing."""
    return json.loads(json.dumps(value), parse_constant=lambda name: None)


def must_be_named(part: str, name: Any) -> str:
    """What is said where a program names a model that the user has not named.

    Args:
        part: What the model is for.
        name: What the program calls it.
    """
    return (
        f"it names the embedding model {name!a:.100} for {part}. What a file names is not fetched from a hub or opened "
        "from a folder: if you want this model, name it yourself, with --embedder NAME or "
        "keqa.load(…, embedder=NAME), where NAME is a model of the hub or the folder that it lies in"
    )


def as_json(value: Any, indent: int | None = None) -> bytes:
    """A value as a line of JSON."""
    # A language model may reply with half a surrogate pair; escaped, it is the same character in JSON.
    return json.dumps(value, ensure_ascii=False, indent=indent).encode("utf-8", "backslashreplace")


def _version(found: Any) -> str:
    """A version as a message may show it."""
    return found if isinstance(found, str) and re.fullmatch(r"[0-9A-Za-z.+-]{1,40}", found) else "unknown"


def _entries(path: Path, content: bytes) -> list[Entry]:
    entries: list[Entry] = []
    for number, value in parse_jsonl(content, path, max_depth=1):
        if len(entries) == _MOST_ENTRIES:
            raise ConfigurationError(f"{path} has more than {_MOST_ENTRIES:,} entries, the most that are read")
        entries.append(entry_from(value, f"{path}, line {number},"))
    return entries


def _embedder(folder: Path, saved: str, files: Mapping[str, Any], given: Embedder | str | None) -> Embedder:
    """The embedder that was given, or the one that a program names where that is built in.

    A model of the hub would be fetched with the user's token, and a folder opened, because a stranger's file says so.
    """
    if isinstance(given, str):
        # A name stands for the model of that name only; another part of the program may be meant by it.
        if is_built_in(saved):
            return open_embedder(saved)
        given = open_embedder(given)
    if given is None:
        if not is_built_in(saved):
            raise ConfigurationError(must_be_named("the utility reference", saved))
        return open_embedder(saved)
    # What is saved was made by the embedder, so `fit` finds out by that whether this is the one, whatever its name.
    if _VECTORS not in files and portable(given.name) != saved:
        raise ConfigurationError(f"{folder} was compiled with the embedder {saved!a:.100}, not this one")
    return given


def _checked(folder: Path, name: str, digests: Mapping[str, Any]) -> bytes:
    content = read_file(folder, name, _LIMITS[name])
    if hashlib.sha256(content).hexdigest() != digests[name]:
        raise ConfigurationError(
            f"{folder / name} is not the file that was saved with {PROGRAM}; it was changed or cut off"
        )
    return content
