"""What was typed, as a saved program or a run file may hold it."""

from __future__ import annotations

import re
import shlex
import sys

from keqa.storage.redaction import REPLACED, without_secrets

__all__ = ["invocation"]

# An address here may be a bare name, which nothing else would show to be one.
_SERVER = re.compile(r"--(?:[a-z]+-)*api-base")
# An absolute path stands alone or after an option, the name of a benchmark or of a loader, or another path.
_FOLDERS = re.compile(
    r"((?:^|[=:,])(?:transformers/)?)(?:~[^/\\]*|[a-z]:)?[/\\](?:[^,=]*[/\\])?(?=[^/\\])", re.IGNORECASE
)
# -o/tmp/runs is one argument, as --out=/tmp/runs is.
_SHORT = re.compile(r"-\w=?")


def invocation() -> str:
    """The command as it was given, without secrets and addresses; of an absolute path only its last component."""
    arguments = sys.argv[1:]
    return shlex.join(["keqa", *map(_shareable, ["", *arguments], arguments)])


def _shareable(before: str, argument: str) -> str:
    option, is_one, _ = argument.partition("=")
    if _SERVER.fullmatch(before):
        return REPLACED
    if is_one and _SERVER.fullmatch(option):
        return f"{option}={REPLACED}"
    short = _SHORT.match(argument)
    start = short.end() if short else 0
    return argument[:start] + _FOLDERS.sub(r"\1", str(without_secrets(argument[start:])))
