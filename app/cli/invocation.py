"""What was typed, as a saved program or a run file may tell it."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

from keqa.storage.redaction import without_secrets

__all__ = ["invocation"]


def invocation() -> str:
    """The command as it was given, without addresses and without where this machine keeps its files."""
    arguments = sys.argv[1:]
    # An address belongs to this machine, with or without a scheme by which it would be told.
    kept = [
        argument.split("=")[0] if argument.startswith("--") and "api-base" in argument else _placeless(before, argument)
        for before, argument in zip(["", *arguments], arguments, strict=False)
        if not (before.startswith("--") and before.endswith("api-base"))
    ]
    return shlex.join(["keqa", *kept])


_INDEXES = ("--index", "-i", "--dense-index")
_PLACES = ("--val", "--out", "-o", "--work", "--data", "--program", "-p", "--questions", "-q")
# -o/tmp/runs is one argument, as --out=/tmp/runs is.
_SHORT = re.compile(r"(-[a-zA-Z])(=?)(.+)", re.DOTALL)


def _placeless(before: str, argument: str) -> str:
    """An argument in which the last component of a path stays: where its folder lies is of this machine only."""
    from keqa.data.benchmarks import BENCHMARKS

    flag, is_one, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
    if short := _SHORT.fullmatch(argument):
        flag, is_one, value = short.groups()
    if value and (flag or before) in _INDEXES:
        from keqa.retrievers.opening import parts_of

        return f"{flag}{is_one}{','.join(map(_hostless, parts_of(value)))}"
    benchmark, named, file = value.partition(":")
    if named and benchmark.strip().lower() in BENCHMARKS:
        return f"{flag}{is_one}{benchmark}:{Path(file).name}"
    if "://" in value:
        return str(without_secrets(argument))
    model = "transformers/" if value.startswith("transformers/") else ""
    place = Path(value.removeprefix(model)).expanduser()
    local = (flag or before) in _PLACES or place.is_absolute() or value.startswith((".", "~")) or place.exists()
    return f"{flag}{is_one}{model}{place.name}" if local and place.name else argument


def _hostless(index: str) -> str:
    """The address of an index without the server or the folder that it lies in."""
    scheme, remote, rest = index.rpartition("://")
    name = rest.rstrip("/").rpartition("/")[2] if remote else Path(index).name
    return f"{scheme}://<address>/{name}" if remote else name or index
