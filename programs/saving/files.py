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
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from keqa.errors import ConfigurationError, InputError
from keqa.programs.reference.embedding import HASHING, Embedder, is_built_in, open_embedder, portable
from keqa.programs.reference.index import Entry, entry_from, entry_values
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.saving.values import must_be_named
from keqa.retrievers.text import shown
from keqa.storage.untrusted import MissingFileError, parse_json, parse_jsonl, parse_npy, read_file, read_json

FORMAT, FORMAT_VERSION = "keqa-program", 1
PROGRAM, _ENTRIES, _VECTORS = "program.json", "reference.jsonl", "reference.npy"
OWNED = frozenset({PROGRAM, _ENTRIES, _VECTORS})
# Far beyond what a compilation writes, and well within the memory.
_LIMITS = {PROGRAM: 32 << 20, _ENTRIES: 256 << 20, _VECTORS: 2 << 30}
_MOST_ENTRIES = 500_000
_SHIPPED = "testbed"


class _Reference(BaseModel):
    """A utility reference without its entries; it checks its values itself."""

    model_config = ConfigDict(strict=True, extra="forbid")

    embedder: str
    k: Any
    least: Any
    variant: Any
    form: Any = None


class ProgramFile(BaseModel):
    """What ``program.json`` holds."""

    model_config = ConfigDict(strict=True, extra="forbid")

    format: Literal["keqa-program"]
    version: Literal[1]
    method: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,60}$")]
    keqa: str | None
    dspy: str | None
    created: str
    settings: dict[str, Any]
    reference: _Reference | None
    learned: dict[str, Any]
    files: dict[str, Any]
    signatures: dict[str, Any]
    predictors: dict[str, Any]
    about: dict[str, Any]


def folder_of(folder: str | Path) -> Path:
    """A folder as it was given.

    Raises:
        InputError: What is given names no folder.
    """
    if not isinstance(folder, str | PathLike):
        raise InputError(f"a program is a folder: give its path, not {shown(folder)}")
    return Path(folder)


def place_of(folder: str | Path) -> Path:
    """The folder that is named; ``testbed`` is the program that ships, unless there is another one of that name."""
    named = folder_of(folder)
    if str(named) == _SHIPPED and not (named / PROGRAM).exists():
        return Path(str(files("keqa.testbed"))) / "program"
    return named


def read(folder: Path) -> ProgramFile:
    """What ``program.json`` of a folder says, which may be a stranger's.

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
        writer = state.get("keqa")
        known = isinstance(writer, str) and re.fullmatch(r"[0-9A-Za-z.+-]{1,40}", writer)
        raise ConfigurationError(
            f"{path} has format version {state.get('version')!a:.40}, this version of KEQA reads {FORMAT_VERSION}. "
            f"Use the version that wrote it (keqa {writer if known else 'unknown'}), or compile the program again"
        )
    try:
        found = ProgramFile.model_validate(state)
    except ValidationError as error:
        *where, last = map(str, error.errors()[0]["loc"])
        if error.errors()[0]["type"] == "extra_forbidden":
            raise ConfigurationError(f"{path} may not hold {last[:80]!a}{' in ' + where[0] if where else ''}") from None
        raise ConfigurationError(f"{path} is damaged: {'.'.join([*where, last])} cannot be used") from None
    if strange := sorted(found.files.keys() - {_ENTRIES, _VECTORS}):
        raise ConfigurationError(
            f"{path} names the file {strange[0][:80]!a}: beside it lie {_ENTRIES} and {_VECTORS}, nothing else"
        )
    return found


def reference_in(folder: Path, state: ProgramFile, embedder: Embedder | str | None) -> UtilityReference | None:
    """The utility reference of a program.

    Args:
        folder: Of the program.
        state: What `read` gave.
        embedder: The reference's, or its name, where it is none of the built-in ones.

    Raises:
        ConfigurationError: A file is not the one that was saved, the embedder is another one, or the program names one
            that the user does not.
    """
    if state.reference is None:
        return None
    if _ENTRIES not in state.files:
        raise ConfigurationError(f"{folder / PROGRAM} is damaged: it has a reference and does not name {_ENTRIES}")
    path, entries = folder / _ENTRIES, list[Entry]()
    for number, value in parse_jsonl(_checked(folder, _ENTRIES, state.files), path, max_depth=1):
        if len(entries) == _MOST_ENTRIES:
            raise ConfigurationError(f"{path} has more than {_MOST_ENTRIES:,} entries, the most that are read")
        entries.append(entry_from(value, f"{path}, line {number},"))
    settings = state.reference.model_dump(exclude_unset=True)
    settings["embedder"] = _embedder(folder, state.reference.embedder, state.files, embedder)
    vectors = None
    if _VECTORS in state.files:
        vectors = parse_npy(_checked(folder, _VECTORS, state.files), folder / _VECTORS, (None, None))
    return UtilityReference(**settings).fit(entries, vectors)


def written(state: Mapping[str, Any], reference: UtilityReference | None) -> dict[str, bytes]:
    """The files of a program by name, which `read` and `reference_in` can read.

    Args:
        state: What ``program.json`` holds, but for the digests of the other files.
        reference: The utility reference.

    Raises:
        ConfigurationError: A file would be larger, or a value in it stranger, than what is read.
    """
    found: dict[str, bytes] = {}
    if reference is not None:
        found[_ENTRIES] = b"".join(_as_json(entry_values(entry)) + b"\n" for entry in reference.entries)
        if reference.embedder.name != HASHING and reference.entries:
            stream = io.BytesIO()
            np.save(stream, reference.vectors(), allow_pickle=False)
            found[_VECTORS] = stream.getvalue()
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in found.items()}
    found = {PROGRAM: _as_json({**state, "files": digests}, indent=2) + b"\n", **found}
    for name, content in found.items():
        if len(content) > _LIMITS[name]:
            raise ConfigurationError(f"the program cannot be saved: {name} would have {len(content):,} bytes")
    ProgramFile.model_validate(parse_json(found[PROGRAM], f"the program cannot be saved: {PROGRAM}"))
    return found


def _as_json(value: Any, indent: int | None = None) -> bytes:
    # A language model may reply with half a surrogate pair; escaped, it is the same character in JSON.
    return json.dumps(value, ensure_ascii=False, indent=indent).encode("utf-8", "backslashreplace")


def _embedder(folder: Path, saved: str, digests: Mapping[str, Any], given: Embedder | str | None) -> Embedder:
    """The embedder that was given, or the one that a program names where that is built in.

    A model of the hub would be fetched with the user's token, and a folder opened, because a stranger's file says so.
    """
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
            f"{folder / name} is not the file that was saved with {PROGRAM}; it was changed or cut off"
        )
    return content
