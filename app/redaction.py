"""Taking addresses and keys out of what is written to disk."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["without_folders", "without_secrets"]

_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"'<>]+", re.IGNORECASE)
# Not after a word, a colon or a slash: "and/or" and addresses are no paths.
_FOLDERS = re.compile(r"(?<![\w.:~/\\-])(?:~|[A-Za-z]:)?[/\\](?:[^\s/\\'\"<>|:]+[/\\])+(?=[^\s/\\'\"<>|:])")
_SECRET_NAME = re.compile(r"key|token|secret|password|authorization|header", re.IGNORECASE)
_SECRET_VARIABLE = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)S?$", re.IGNORECASE)
# Shorter ones are placeholders such as "none", which would be found in the middle of words.
_SHORTEST = 8


def without_secrets(value: Any, lms: Iterable[Any] = ()) -> Any:
    """A JSON value without addresses and without the keys known here.

    Args:
        value: Anything; what JSON has no form for is written as text.
        lms: Language models whose keys and headers must not be in it. Those of the environment are known anyway.

    Returns:
        The value, with ``<address>`` and ``<secret>`` in the places of what was taken out.
    """
    found = {secret for lm in lms for secret in _secrets(getattr(lm, "kwargs", {}), named=False)}
    found |= {text for name, text in os.environ.items() if _SECRET_VARIABLE.search(name)}
    # The longest first: one may be a part of another.
    known = sorted((one for one in found if len(one) >= _SHORTEST), key=len, reverse=True)

    def cleaned(part: Any) -> Any:
        if isinstance(part, str):
            for secret in known:
                part = part.replace(secret, "<secret>")
            return _ADDRESS.sub("<address>", part)
        if isinstance(part, dict):
            return {cleaned(key): cleaned(inner) for key, inner in part.items()}
        return [cleaned(inner) for inner in part] if isinstance(part, list) else part

    return cleaned(json.loads(json.dumps(value, default=str)))


def without_folders(text: str) -> str:
    """A text in which of every absolute path the last component stays: where a file lies is of this machine only."""
    return _FOLDERS.sub("", text)


def _secrets(value: Any, *, named: bool) -> Iterator[str]:
    """The texts under a name that tells of a secret, however deep."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _secrets(inner, named=named or bool(_SECRET_NAME.search(str(name))))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _secrets(inner, named=named)
    elif named and isinstance(value, str):
        yield value
