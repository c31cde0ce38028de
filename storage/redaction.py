"""Taking addresses and keys out of what is written to disk, and keys out of what is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from keqa.storage.keys import SECRET, hide_keys, known_keys

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
_USER = re.compile(r"(?<=://)[^\s/@:\"'<>]*:[^\s/@\"'<>]+(?=@)")


def without_secrets(value: Any, lms: Sequence[Any] = ()) -> Any:
    """A JSON value without addresses and without the keys known here."""
    keys = known_keys(lms)
    served = _servers(lms)

    def cleaned(part: Any) -> Any:
        if isinstance(part, str):
            part = HOST.sub(REPLACED, hide_keys(_ADDRESS.sub(REPLACED, part), keys))
            return served.sub(REPLACED, part) if served else part
        if isinstance(part, dict):
            return {cleaned(key): cleaned(inner) for key, inner in part.items()}
        return [cleaned(inner) for inner in part] if isinstance(part, list) else part

    return cleaned(json.loads(json.dumps(value, default=str)))


def without_keys(text: str, lms: Sequence[Any] = ()) -> str:
    """A text without keys, whole or in part, and without user and password of an address, whose host stays."""
    return key_remover(lms)(text)


def key_remover(lms: Sequence[Any] = ()) -> Callable[[str], str]:
    """`without_keys` for many texts, for which the keys are looked up once."""
    keys = known_keys(lms)
    return lambda text: hide_keys(_USER.sub(SECRET, text), keys)


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
