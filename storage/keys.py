"""Finding keys in text, whole or in part: a server's error may repeat the key that it refused.

Providers shorten (``sk-ab***yz``), messages are cut, and what was sent is repeated as it was encoded: in an address, in
JSON, or in base64 as basic authentication has it. None of these may be shown or kept.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
import string
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlsplit

SECRET = "<secret>"

_NAME = re.compile(r"key|token|secret|password|authorization|header", re.IGNORECASE)
_VARIABLE = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSPHRASE)S?$", re.IGNORECASE)
# Shorter ones are placeholders such as "none", which would be found in the middle of words.
_SHORTEST = 8
_IN_PART = 12
"""From this length on a key is found by a part of it."""
_MASK = re.compile(r"[*•●█…]{2,}|…|\.{2,}|[xX]{4,}")
_FEWEST = 4
"""Characters about a mask from which they are those of a key."""
_ENDS = re.compile(r"\b(ends?|ending|starts?|starting|begins?|beginning)\s+(?:in|with)\s+[\"'`]?([\w.+/=-]*[\w+/=-])")
_AUTHORIZATION = re.compile(r"\b(?:Bearer|Basic)\s+(?=[^\s\d=]*[\d=])([A-Za-z0-9._~+/=-]{8,})")
_ENCODED = re.compile(r"[A-Za-z0-9+/_=-]*")

# Of some other characters the lower case is longer, and places in it would not be those in the text.
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)

Span = tuple[int, int]


def known_keys(lms: Iterable[Any] = ()) -> tuple[str, ...]:
    """The keys that are configured here, the longest first."""
    dspy = sys.modules.get("dspy")
    default = getattr(getattr(dspy, "settings", None), "lm", None)
    found = {secret for lm in (*lms, default) for secret in _secrets(getattr(lm, "kwargs", {}), named=False)}
    for name, value in os.environ.items():
        found |= {value} if _holds_key(name) else set(_passwords(value))
    return tuple(sorted((one for one in found if len(one) >= _SHORTEST), key=lambda one: (-len(one), one)))


@lru_cache(maxsize=1024)
def _holds_key(variable: str) -> bool:
    return _VARIABLE.search(variable) is not None


def hide_keys(text: str, keys: Sequence[str]) -> str:
    """A text with ``<secret>`` in the places of keys, of parts of them that give something away, and of credentials."""
    spans = [found.span(1) for found in _AUTHORIZATION.finditer(text)]
    lowered = text.translate(_LOWER)
    for key in keys:
        for form, least, encoded in _forms(key):
            for start, end in _parts(lowered, form, least):
                spans.append(_widened(text, start, end) if encoded else (start, end))
        spans += _about_masks(lowered, key.translate(_LOWER))
    return _replaced(text, spans)


def _secrets(value: Any, *, named: bool) -> Iterator[str]:
    """The texts under a name of a secret, however deep, and the passwords of addresses."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _secrets(inner, named=named or bool(_NAME.search(str(name))))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _secrets(inner, named=named)
    elif isinstance(value, str):
        if named:
            yield value
            # A header's value begins with the scheme: Bearer, Basic, ApiKey.
            yield value.rpartition(" ")[2]
        yield from _passwords(value)


def _passwords(text: str) -> Iterator[str]:
    """What an address holds before its host."""
    if "://" in text and "@" in text:
        try:
            password = urlsplit(text).password
        except ValueError:
            return
        if password:
            yield password


@lru_cache(maxsize=256)
def _forms(key: str) -> tuple[tuple[str, int, bool], ...]:
    """How a key may be written, in lower case, with the fewest characters that give it away, and if it is base64."""
    plain = {key, quote(key, safe=""), json.dumps(key)[1:-1], html.escape(key)}
    coded = set()
    for before in range(3):
        # After another text, such as a user's name, a key is encoded in one of three ways.
        data = base64.b64encode(b"\0" * before + key.encode("utf-8", "surrogatepass")).decode()
        core = data[-(-before * 8 // 6) :]
        # What follows, or that nothing does, changes the last characters.
        core = core[:-4] if core.endswith("=") else core
        if len(core) >= _SHORTEST:
            coded |= {core, core.replace("+", "-").replace("/", "_")}
    return (
        *((one.translate(_LOWER), _least(one), False) for one in sorted(plain)),
        *((one.translate(_LOWER), max(_SHORTEST, len(one) // 3), True) for one in sorted(coded)),
    )


def _least(key: str) -> int:
    """How many characters of a key in a row are taken for it: of words and paths only all."""
    chance = any(map(str.isdigit, key)) or (key.lower() != key and key.upper() != key)
    path = key.startswith(("/", "~", ".")) or "://" in key or any(map(str.isspace, key))
    return max(_SHORTEST, len(key) // 3) if chance and not path and len(key) >= _IN_PART else len(key)


def _parts(text: str, key: str, least: int) -> Iterator[Span]:
    """Where at least so many characters of a key follow each other; linear in the text where there are none."""
    # However such a part lies, it holds one of these pieces as a whole.
    step = (least + 1) // 2
    for at in range(0, len(key) - step + 1, step):
        piece = key[at : at + step]
        found = text.find(piece)
        while found >= 0:
            start, end = found, found + step
            left, right = at, at + step
            while left and start and text[start - 1] == key[left - 1]:
                left, start = left - 1, start - 1
            while right < len(key) and end < len(text) and text[end] == key[right]:
                right, end = right + 1, end + 1
            if end - start >= least:
                yield start, end
            found = text.find(piece, found + 1)


def _about_masks(text: str, key: str) -> Iterator[Span]:
    """The first and last characters of a key about what stands for the others, or named as such."""
    for mask in _MASK.finditer(text):
        head = _common(key, text[max(0, mask.start() - len(key)) : mask.start()])
        tail = _common(key[::-1], text[mask.end() : mask.end() + len(key)][::-1])
        if head + tail >= _FEWEST:
            yield mask.start() - head, mask.end() + tail
    for named in _ENDS.finditer(text):
        part = named.group(2)
        if len(part) >= _FEWEST - 1 and (key.endswith if named.group(1)[0] == "e" else key.startswith)(part):
            yield named.span(2)


def _common(key: str, text: str) -> int:
    """The most characters with which a key begins and a text ends."""
    if not text or text[-1] not in key:
        return 0
    return next((n for n in range(min(len(key), len(text)), 0, -1) if text.endswith(key[:n])), 0)


def _widened(text: str, start: int, end: int) -> Span:
    """All of what is encoded about a part that was recognised."""
    while start and _ENCODED.fullmatch(text[start - 1]):
        start -= 1
    found = _ENCODED.match(text, end)
    return start, found.end() if found else end


def _replaced(text: str, spans: list[Span]) -> str:
    if not spans:
        return text
    parts, done = [], 0
    for start, end in sorted(spans):
        if start >= done:
            parts += [text[done:start], SECRET]
        done = max(done, end)
    return "".join([*parts, text[done:]])
