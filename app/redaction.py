"""Taking addresses and keys out of what is written to disk."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from keqa.programs.records import QuestionRecord

__all__ = ["HOST", "REPLACED", "record_without_secrets", "without_folders", "without_secrets"]

REPLACED = "<address>"
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]{0,30}://[^\s\"'<>]+", re.IGNORECASE)
# Numbers of lines, times and ratios follow a colon too: a host has a dot in it, and no file's ending, or "host" before.
HOST = re.compile(
    r"""
    \[[0-9a-f:.]{0,45}:[0-9a-f:.]{0,45}(?:%\w{1,20})?\]:\d{1,5}        # [::1]:9300
    | (?<=host=)(?:'[^']+'|"[^"]+"|[^\s'",)]+)        # host='es-1', port=9200
    | (?<=host\ )[\w.-]+:\d{1,5}(?!\w)
    | (?<![\w.-])(?:[\w.-]+/)?\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\w)(?::\d{1,5})?        # host/10.0.0.5:9300
    | (?<![\w.-])[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.(?!(?:csv|html?|jsonl?|log|md|npy|pyc?|toml|tsv|txt|ya?ml):)
      [a-z][a-z0-9_-]*:\d{2,5}(?!\w)        # es-1.lan:9200
    | (?<![\w.-])localhost:\d{1,5}(?!\w)
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""A server that is named without a scheme."""
# Not after a word, a colon or a slash: "and/or" and addresses are no paths.
_FOLDERS = re.compile(r"(?<![\w.:~/\\-])(?:~|[A-Za-z]:)?[/\\](?:[^\s/\\'\"<>|:]+[/\\])+(?=[^\s/\\'\"<>|:])")
_SECRET_NAME = re.compile(r"key|token|secret|password|authorization|header", re.IGNORECASE)
_SECRET_VARIABLE = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)S?$", re.IGNORECASE)
# Shorter ones are placeholders such as "none", which would be found in the middle of words.
_SHORTEST = 8


def without_secrets(value: Any, lms: Sequence[Any] = ()) -> Any:
    """A JSON value without addresses and without the keys known here.

    Args:
        value: Anything; what JSON has no form for is written as text.
        lms: Language models whose keys, headers and servers must not be in it. Keys of the environment are known
            anyway.

    Returns:
        The value, with ``<address>`` and ``<secret>`` in the places of what was taken out.
    """
    found = {secret for lm in lms for secret in _secrets(getattr(lm, "kwargs", {}), named=False)}
    found |= {text for name, text in os.environ.items() if _SECRET_VARIABLE.search(name)}
    # The longest first: one may be a part of another.
    known = sorted((one for one in found if len(one) >= _SHORTEST), key=len, reverse=True)
    served = _servers(lms)

    def cleaned(part: Any) -> Any:
        if isinstance(part, str):
            for secret in known:
                part = part.replace(secret, "<secret>")
            part = HOST.sub(REPLACED, _ADDRESS.sub(REPLACED, part))
            return served.sub(REPLACED, part) if served else part
        if isinstance(part, dict):
            return {cleaned(key): cleaned(inner) for key, inner in part.items()}
        return [cleaned(inner) for inner in part] if isinstance(part, list) else part

    return cleaned(json.loads(json.dumps(value, default=str)))


def record_without_secrets(record: QuestionRecord, lms: Sequence[Any]) -> QuestionRecord:
    """A record without what a server's error may have brought into its messages.

    Args:
        record: The story of a question.
        lms: As for `without_secrets`.
    """
    changed: dict[str, Any] = {}
    if record.failure is not None:
        changed["failure"] = record.failure.model_copy(update={"message": without_secrets(record.failure.message, lms)})
    if record.degradations:
        changed["degradations"] = [
            note.model_copy(update={"message": without_secrets(note.message, lms)}) for note in record.degradations
        ]
    return record.model_copy(update=changed) if changed else record


def without_folders(text: str) -> str:
    """A text in which of every absolute path the last component stays: where a file lies is of this machine only."""
    return _FOLDERS.sub("", text)


def _servers(lms: Sequence[Any]) -> re.Pattern[str] | None:
    """Finds the hosts of language models; those without a dot may be words, so only before a port."""
    bases = {getattr(lm, "kwargs", {}).get(name) for lm in lms for name in ("api_base", "base_url")}
    hosts = {urlsplit(base).hostname for base in bases if isinstance(base, str)}
    named = [re.escape(host) + ("" if "." in host else r"(?=:\d)") for host in hosts if host]
    if not named:
        return None
    return re.compile(rf"(?<![\w.-])(?:{'|'.join(sorted(named))})(?![\w-]|\.\w)(?::\d{{1,5}})?", re.IGNORECASE)


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
