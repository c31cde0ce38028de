"""What a command of a case may be: the commands and options of a table, on files of the working folder.

A case may come from a stranger. A command of it runs as the user, with the user's keys: so it names no server, no
language model or data set that is fetched, and no file elsewhere, unless the user gives the same on the command line of
``keqa reproduce``. What is not in the table is refused by its name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from keqa.errors import InputError
from keqa.programs.reference.embedding import HASHING, LOCAL
from keqa.programs.registry import parse_spec
from keqa.retrievers.engines import DOCUMENTS, JOINT, MODEL, is_documents

FOLDER = "{folder}"
"""Stands in a command for the folder of its run files."""

Kind = Literal["flag", "plain", "text", "file", "index", "output", "lm", "embedder", "given"]
"""What may follow an option: nothing; a number or name of the command's own; any text; a file of the working folder or
of the case's; indexes there, of which several may be joined; a file of the case's own; the language model that ships;
an embedder that is not fetched; or what the user gives as well."""

_QUESTIONS = ("--questions", "--val", "the file")
_TINY = "keqa/tiny"
_PLAIN = re.compile(r"[A-Za-z0-9][\w.+-]*(?:/[0-9]+)?", re.ASCII)
_SHORT = {"-m": "--lm", "-i": "--index", "-p": "--program", "-q": "--questions", "-o": "--out"}


def _kinds(**options: str) -> dict[str, Kind]:
    kinds: dict[str, Kind] = {}
    for kind, names in options.items():
        kinds |= dict.fromkeys((f"--{name}" for name in names.split()), kind)  # type: ignore[arg-type]
    return kinds


_MODELS = _kinds(
    lm="lm consistency-lm utility-lm",
    given="api-base consistency-api-base utility-api-base",
    index="index",
    file="program",
)
_SETTINGS = _kinds(plain="tries threshold temperature top-k unanswered", flag="no-decompose json")
_PARTS = _kinds(flag="no-examine no-pick")
_LM = _kinds(lm="lm", given="api-base")
_ASKED = _kinds(flag="testbed", plain="split sample seed limit", file="questions", given="data")
_RUNS = _ASKED | _kinds(flag="retry-failed no-cache", plain="in-flight retriever", output="out")
_COMMANDS: dict[str, Mapping[str, Kind]] = {
    "ask": _MODELS | _SETTINGS | _PARTS | _kinds(plain="answer-type", text="choice", flag="select"),
    "compare": _MODELS | _SETTINGS | _RUNS,
    "compile": _MODELS
    | _SETTINGS
    | _PARTS
    | _kinds(
        flag="testbed no-reference no-tuning",
        plain="method limit val-limit optimizer budget demos judge-demos sets cost-per-retrieval seed in-flight",
        file="val",
        output="out work",
        embedder="embedder",
        lm="reflection-lm",
    ),
    "demo": _kinds(plain="questions", flag="json"),
    "documents": _LM | _ASKED | _kinds(flag="json", plain="from in-flight top-k", index="index", output="out"),
    "evaluate": _MODELS | _SETTINGS | _RUNS | _kinds(plain="label"),
    "testbed boundary": _LM | _kinds(plain="facts tries", flag="json"),
    "testbed check": _LM | _kinds(plain="asked", text="skill", flag="json"),
}

GIVEN = frozenset({*_MODELS, "--data"})
"""The options of ``keqa reproduce`` whose values a case may use as well."""


def check_command(command: str, given: Mapping[str, Sequence[str]]) -> None:
    """Refuse a command that a case may not run.

    Args:
        command: As the case has it.
        given: By option, such as ``--api-base``, the values that the user gives on the command line.

    Raises:
        ValueError: The command, or an option or value of it, is none that may be used; the message names it.
    """
    name, words = _named(command)
    kinds = _COMMANDS[name]
    positional = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not word.startswith("-"):
            positional.append(word)
            continue
        option, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        option = _SHORT.get(option, option)
        kind = kinds.get(option)
        if kind is None:
            raise ValueError(f"a case may not give {option} to keqa {name}; it may give {', '.join(sorted(kinds))}")
        if kind == "flag":
            if equals:
                raise ValueError(f"{option} takes no value")
            continue
        if not equals:
            if position == len(words):
                raise ValueError(f"{option} lacks its value")
            value = words[position]
            position += 1
        if value not in given.get(option, ()):
            _check_value(option, kind, value)
    _check_positional(name, positional)


def options_of(command: str) -> set[str]:
    """The options that a command has, by their long names."""
    words = (word.partition("=")[0] for word in shlex.split(command) if word.startswith("-"))
    return {_SHORT.get(word, word) for word in words}


def _named(command: str) -> tuple[str, list[str]]:
    """The command's name, and the words after it."""
    words = shlex.split(command)
    if len(words) < 2 or words[0] != "keqa" or words[1] == "reproduce":
        raise ValueError("a command is 'keqa …', and not 'keqa reproduce' again")
    length = 3 if words[1] == "testbed" else 2
    name = " ".join(words[1:length])
    if name not in _COMMANDS:
        raise ValueError(f"a case may not run keqa {name}; it may run {', '.join(f'keqa {one}' for one in _COMMANDS)}")
    return name, words[length:]


def _check_value(option: str, kind: Kind, value: str) -> None:
    if kind == "given":
        raise ValueError(f"{option} {value} is not the case's to say; {_to_give(option, value)}")
    if kind == "lm" and value != _TINY:
        raise ValueError(f"{option} {value} is not the language model that ships; {_to_give(option, value)}")
    if kind == "plain" and _PLAIN.fullmatch(value) is None:
        raise ValueError(f"{option} {value} is neither a number nor a name")
    if kind == "embedder" and not _is_here(value):
        raise ValueError(f"{option} {value} may be fetched; a case may name {HASHING} and {LOCAL}")
    if kind == "output" and not _in_folder(value):
        raise ValueError(f"{option} {value} is elsewhere; a case writes into {FOLDER}")
    if kind == "index":
        _check_index(option, value)
    if kind == "file":
        _check_file(option, value, value)


def _check_index(option: str, value: str) -> None:
    if is_documents(value):
        _check_file(option, value.removeprefix(f"{DOCUMENTS}:"), value)
        return
    for part in value.split(JOINT):
        if MODEL in part:
            raise ValueError(f"{option} {value} names a model that may be fetched; {_to_give(option, value)}")
        _check_file(option, part, value)


def _check_file(option: str, part: str, value: str) -> None:
    if not (_in_folder(part) or _in_working_folder(part)):
        raise ValueError(f"{option} {value} is outside the working folder; {_to_give(option, value)}")
    if option in _QUESTIONS and not Path(part).suffix:
        # The name of a benchmark, which is fetched from a hub.
        raise ValueError(f"{option} {value} is no file of questions; {_to_give(option, value)}")


def _check_positional(name: str, words: Sequence[str]) -> None:
    if name in ("compare", "evaluate"):
        for word in words:
            try:
                arguments = parse_spec(word).arguments
            except InputError as error:
                raise ValueError(str(error)) from error
            for argument, value in arguments.items():
                text = str(value)
                if argument == "similarity" and not _is_here(text):
                    named = f"{HASHING} and {LOCAL}"
                    raise ValueError(f"{word} names an embedder that may be fetched; a case may name {named}")
                if argument != "similarity" and not (_in_folder(text) or _in_working_folder(text)):
                    raise ValueError(f"{word} names a file outside the working folder, of which a case takes none")
    elif name == "compile":
        for word in words:
            _check_value("the file", "file", word)


def _is_here(embedder: str) -> bool:
    return embedder == LOCAL or re.fullmatch(rf"{HASHING}(-[1-9][0-9]{{0,4}})?", embedder, re.ASCII) is not None


def _in_folder(value: str) -> bool:
    first, _, rest = value.partition("/")
    return first == FOLDER and _is_below(rest)


def _in_working_folder(value: str) -> bool:
    """Whether a file is in the working folder, links followed."""
    if not value or not _is_below(value) or FOLDER in value:
        return False
    here = Path.cwd().resolve()
    return (here / value).resolve().is_relative_to(here)


def _is_below(value: str) -> bool:
    # A colon may begin an address, or name a drive.
    return not (value.startswith(("/", "~")) or set(value) & set("\\:\0") or ".." in value.split("/"))


def _to_give(option: str, value: str) -> str:
    return f"a case uses it only where you give the same: keqa reproduce FILE {option} {shlex.quote(value)}"
