"""What is written and shown: addresses and keys are taken out, and nothing acts on a terminal or is hidden in a text.

Keys are found whole and in part, for a server's error may repeat the key that it refused: providers shorten
(``sk-ab***yz``), messages are cut, and what was sent is repeated as it was encoded: in an address, in JSON, or in
base64 as basic authentication has it.

Escape sequences, which rewrite the screen or fill its clipboard, and invisible characters, which turn the direction of
what follows or carry a message, are shown instead: a control character as its picture (``␛``), others by number.
"""

import base64
import html
import json
import os
import re
import string
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, TextIO, cast
from urllib.parse import quote, urlsplit

SECRET, REPLACED = "<secret>", "<address>"

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
USER = re.compile(r"(?<=://)[^\s/@:\"'<>]*:[^\s/@\"'<>]+(?=@)")
"""User and password in an address."""
_NAME = re.compile(r"key|token|secret|password|authorization|header", re.IGNORECASE)
_VARIABLE = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSPHRASE)S?$", re.IGNORECASE)
# Shorter keys are placeholders such as "none", which would be found in the middle of words.
_SHORTEST = 8
_IN_PART = 12
"""From this length on a key is found by a part of it."""
_MASK = re.compile(r"[*•●█…]{2,}|…|\.{2,}|[xX]{4,}")
_FEWEST = 4
"""Characters about a mask from which they are those of a key."""
_ENDS = re.compile(r"\b(ends?|ending|starts?|starting|begins?|beginning)\s+(?:in|with)\s+[\"'`]?([\w.+/=-]*[\w+/=-])")
_AUTHORIZATION = re.compile(r"\b(?:Bearer|Basic)\s+(?=[^\s\d=]*[\d=])([A-Za-z0-9._~+/=-]{8,})")
_ENCODED = frozenset(string.ascii_letters + string.digits + "+/_=-")
# Of some other characters the lower case is longer, and places in it would not be those in the text.
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def without_secrets(value: Any, lms: Sequence[Any] = ()) -> Any:
    """A JSON value without addresses, and without the keys of the environment and of language models."""
    keys, served = known_keys(lms), _servers(lms)

    def cleaned(part: Any) -> Any:
        if isinstance(part, str):
            part = HOST.sub(REPLACED, _hide_keys(_ADDRESS.sub(REPLACED, part), keys))
            return served.sub(REPLACED, part) if served else part
        if isinstance(part, dict):
            return {cleaned(key): cleaned(inner) for key, inner in part.items()}
        return [cleaned(inner) for inner in part] if isinstance(part, list) else part

    return cleaned(json.loads(json.dumps(value, default=str)))


def key_remover(lms: Sequence[Any] = ()) -> Callable[[str], str]:
    """Takes keys out of texts, whole or in part, and user and password of an address, whose host stays."""
    keys = known_keys(lms)
    return lambda text: _hide_keys(USER.sub(SECRET, text), keys)


def without_keys(text: str, lms: Sequence[Any] = ()) -> str:
    """A text without keys; see `key_remover`."""
    return key_remover(lms)(text)


def without_folders(text: str) -> str:
    """A text in which of every absolute path the last component stays: where a file lies is of this machine only."""
    return _FOLDERS.sub("", text)


def _servers(lms: Sequence[Any]) -> re.Pattern[str] | None:
    """Finds the hosts of language models; those without a dot may be words, so only before a port."""
    bases = {getattr(lm, "kwargs", {}).get(name) for lm in lms for name in ("api_base", "base_url")}
    hosts = {urlsplit(base).hostname for base in bases if isinstance(base, str)}
    named = "|".join(sorted(re.escape(host) + ("" if "." in host else r"(?=:\d)") for host in hosts if host))
    return re.compile(rf"(?<![\w.-])(?:{named})(?![\w-]|\.\w)(?::\d{{1,5}})?", re.IGNORECASE) if named else None


def known_keys(lms: Iterable[Any] = ()) -> tuple[str, ...]:
    """The keys of the environment, of language models and of DSPy's own, the longest first."""
    default = getattr(getattr(sys.modules.get("dspy"), "settings", None), "lm", None)
    found = {secret for lm in (*lms, default) for secret in _secrets(getattr(lm, "kwargs", {}), named=False)}
    found |= _of_environment(tuple(os.environ.items()))
    return tuple(sorted((one for one in found if len(one) >= _SHORTEST), key=lambda one: (-len(one), one)))


@lru_cache(maxsize=1)
def _of_environment(variables: tuple[tuple[str, str], ...]) -> frozenset[str]:
    found = ((value,) if _VARIABLE.search(name) else _passwords(value) for name, value in variables)
    return frozenset(key for keys in found for key in keys)


def _hide_keys(text: str, keys: Sequence[str]) -> str:
    """A text with ``<secret>`` in the places of keys, of parts of them that give something away, and of credentials."""
    spans = [found.span(1) for found in _AUTHORIZATION.finditer(text)]
    lowered = text.translate(_LOWER)
    for key in keys:
        for form, least, encoded in _forms(key):
            for start, end in _parts(lowered, form, least):
                # All of what is encoded about the part that was recognised.
                while encoded and start and text[start - 1] in _ENCODED:
                    start -= 1
                while encoded and end < len(text) and text[end] in _ENCODED:
                    end += 1
                spans.append((start, end))
        spans += _about_masks(lowered, key.translate(_LOWER))
    parts, done = [], 0
    for start, end in sorted(spans):
        if start >= done:
            parts += [text[done:start], SECRET]
        done = max(done, end)
    return "".join([*parts, text[done:]])


def _secrets(value: Any, *, named: bool) -> Iterator[str]:
    """The texts under a name of a secret, however deep, and the passwords of addresses."""
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _secrets(inner, named=named or bool(_NAME.search(str(name))))
    elif isinstance(value, str):
        # A header's value begins with the scheme: Bearer, Basic, ApiKey.
        yield from (value, value.rpartition(" ")[2]) if named else ()
        yield from _passwords(value)


def _passwords(text: str) -> Iterator[str]:
    """What an address holds before its host."""
    if "://" in text and "@" in text:
        with suppress(ValueError):
            yield from filter(None, [urlsplit(text).password])


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
    whole = [(one.translate(_LOWER), _least(one), False) for one in sorted(plain)]
    return (*whole, *((one.translate(_LOWER), max(_SHORTEST, len(one) // 3), True) for one in sorted(coded)))


def _least(key: str) -> int:
    """How many characters of a key in a row are taken for it: of words and paths only all."""
    chance = any(map(str.isdigit, key)) or (key.lower() != key and key.upper() != key)
    path = key.startswith(("/", "~", ".")) or "://" in key or any(map(str.isspace, key))
    return max(_SHORTEST, len(key) // 3) if chance and not path and len(key) >= _IN_PART else len(key)


def _parts(text: str, key: str, least: int) -> Iterator[tuple[int, int]]:
    """Where at least so many characters of a key follow each other; linear in the text where there are none."""
    # However such a part lies, it holds one of these pieces as a whole.
    step = (least + 1) // 2
    for at in range(0, len(key) - step + 1, step):
        found = text.find(key[at : at + step])
        while found >= 0:
            start, end, left, right = found, found + step, at, at + step
            while left and start and text[start - 1] == key[left - 1]:
                left, start = left - 1, start - 1
            while right < len(key) and end < len(text) and text[end] == key[right]:
                right, end = right + 1, end + 1
            if end - start >= least:
                yield start, end
            found = text.find(key[at : at + step], found + 1)


def _about_masks(text: str, key: str) -> Iterator[tuple[int, int]]:
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
    longest = min(len(key), len(text)) if text[-1:] in key else 0
    return next((n for n in range(longest, 0, -1) if text.endswith(key[:n])), 0)


# Where only line breaks and tabs are left to act.
_ACTING = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters: ESC, carriage return, CSI, OSC, DCS, backspace
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # the direction of text
    r"\u2028\u2029"  # line and paragraph separators
    r"\ud800-\udfff"  # lone surrogates, which no encoding can carry
)
_INVISIBLE = (
    r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Joiners are part of how Persian, Hindi and emoji are spelt; between other letters they only hide.
_JOINER = r"(?<![^\x00-\u024f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\u024f])"

UNSAFE = re.compile(f"[{_ACTING}{_INVISIBLE}]|{_JOINER}")
"""What no terminal is given as it is."""

_ANY_UNSAFE = re.compile(rf"[{_ACTING}{_INVISIBLE}\u200c\u200d]")
_BREAKS = re.compile(r"\r\n?|[\n\t]")
_UNSTYLED = re.compile(rf"\x1b\[[0-9;:]*m|{UNSAFE.pattern}")


def visible(text: str) -> str:
    """A text in which what acts on a terminal, or is invisible, is shown instead; line breaks and tabs stay."""
    return UNSAFE.sub(_shown, text)


def visible_line(text: str) -> str:
    return visible(_BREAKS.sub(" ", text))


def json_text(value: Any, *, encoding: str = "utf-8") -> str:
    r"""A value as JSON that a terminal may show and the encoding can carry; it parses to the same value."""
    text = _ANY_UNSAFE.sub(_escaped, json.dumps(value, ensure_ascii=False, indent=2))
    with suppress(UnicodeEncodeError):
        text.encode(encoding)
        return text
    return _ANY_UNSAFE.sub(_escaped, json.dumps(value, indent=2))


class GuardedStream:
    """A stream on which nothing acts on the terminal but styling, and that only on a terminal or where asked for."""

    def __init__(self, stream: TextIO, *, hides_keys: bool = False) -> None:
        self.unguarded, self.hides_keys = stream, hides_keys

    def write(self, text: str) -> int:
        """Write a text as `visible` shows it; returns the length of what was given."""
        length, text = len(text), without_keys(text) if self.hides_keys else text
        if UNSAFE.search(text):
            # A bar of another library starts its line again.
            start = "\r" if text.startswith("\r") and not text.startswith("\r\n") else ""
            styled = bool(os.environ.get("FORCE_COLOR")) or self.unguarded.isatty()
            guard = _UNSTYLED if styled and not os.environ.get("NO_COLOR") else UNSAFE
            text = start + guard.sub(_shown, text[len(start) :].replace("\r\n", "\n"))
        self.unguarded.write(text)
        return length

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        # Bytes would get past the guard: click asks for the buffer of a stream whose encoding it does not trust.
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self.unguarded, name)


def guard_streams() -> None:
    """Guard this process's standard output and error, of libraries too, and escape what their encoding has not."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or isinstance(stream, GuardedStream):
            continue
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, cast(TextIO, GuardedStream(stream, hides_keys=name == "stderr")))


@contextmanager
def without_bars() -> Iterator[None]:
    """Without the progress bars of transformers, such as that for the weights of a model."""
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if bars:
            logging.enable_progress_bar()


def _shown(found: re.Match[str]) -> str:
    if len(found.group()) > 1:
        # Styling.
        return found.group()
    code = ord(found.group())
    if code < 0x20 or code == 0x7F:
        return "\N{SYMBOL FOR DELETE}" if code == 0x7F else chr(0x2400 + code)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found.group())[1:-1] if found.group() != "\x7f" else "\\u007f"
