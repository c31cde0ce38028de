"""Text from outside in prompts: it cannot close or open a field, in any adapter, and a reply's text is sound.

Passages, questions, earlier answers, quizzes and demonstrations are written by others: by the authors of documents, by
users, by an LM that read them, by whoever saved a program. `Guarded` stands before any adapter of DSPy and breaks up
what the adapters and chat templates take for structure, so that it stays visible and is nothing but text. Text that
holds no such thing passes through unchanged.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import dspy
from dspy.adapters.types.base_type import CUSTOM_TYPE_END_IDENTIFIER, CUSTOM_TYPE_START_IDENTIFIER

from keqa.signatures.markers import CONTROL_TOKEN, broken_up
from keqa.signatures.react import TURN_MARKER

# Between these DSPy takes JSON in any message for parts of other kinds, such as an image that is fetched.
_CUSTOM_TYPE = re.compile("|".join(map(re.escape, (CUSTOM_TYPE_START_IDENTIFIER, CUSTOM_TYPE_END_IDENTIFIER))))
# Line ends as `str.splitlines` knows them; an adapter may, too.
_LINE_START = r"(?:^|(?<=[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]))[ \t]*+"
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARKS_IN_A_ROW = 30
_FOREIGN = re.compile(rf"[^\x00-\u02ff]{{{_MARKS_IN_A_ROW + 1},}}")
_DEEPEST = 50


class Guarded:
    """An adapter before which inputs and demonstrations are made harmless, and behind which replies are made sound."""

    def __init__(self, adapter: dspy.Adapter) -> None:
        self.adapter = adapter

    def __call__(self, lm: Any, lm_kwargs: dict[str, Any], **asked: Any) -> list[dict[str, Any]]:
        """Write the prompt, ask and read the replies, as the adapter does."""
        described = self._described(**asked)
        return _heard(described[0], self.adapter(lm, lm_kwargs, *described))

    async def acall(self, lm: Any, lm_kwargs: dict[str, Any], **asked: Any) -> list[dict[str, Any]]:
        """As `__call__`, for coroutines."""
        described = self._described(**asked)
        return _heard(described[0], await self.adapter.acall(lm, lm_kwargs, *described))

    def _described(
        self, signature: type[dspy.Signature], demos: Sequence[Any], inputs: Mapping[str, Any]
    ) -> tuple[type[dspy.Signature], list[dict[str, Any]], dict[str, Any]]:
        safe = harmless_in(self.adapter, signature)

        def fields(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
            return {name: _each(safe[name], value) if name in safe else value for name, value in values}

        return signature, [fields(demo.items()) for demo in demos], fields(inputs.items())


def sound(text: str) -> str:
    """A text of a reply that everything after it can hold and read in a time that grows with its length.

    Lone surrogates, which no encoding holds, are replaced. Of combining marks in a row 30 are kept, as in Unicode's
    stream-safe format (UAX 15): no script has so many, and normalising more takes the square of their number.
    """
    if text.isascii():
        return text
    text = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
    return _FOREIGN.sub(_fewer_marks, text)


def _fewer_marks(found: re.Match[str]) -> str:
    kept, row = [], 0
    for char in found[0]:
        row = row + 1 if unicodedata.combining(char) else 0
        if row <= _MARKS_IN_A_ROW:
            kept.append(char)
    return "".join(kept)


def _heard(signature: type[dspy.Signature], outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    fields = signature.output_fields
    return [{name: _each(sound, value) if name in fields else value for name, value in one.items()} for one in outputs]


_Structure = tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]


def harmless_in(adapter: dspy.Adapter, signature: type[dspy.Signature]) -> dict[str, Callable[[str], str]]:
    """For each field of a signature what makes a text from outside harmless in a prompt that an adapter writes.

    Field markers, tags of the signature's fields and control tokens are broken up by a space or, for adapters that need
    it, by a quotation mark or brackets.
    """
    structure = _structure(adapter, tuple(signature.fields), tuple(signature.output_fields))

    def plain(text: str) -> str:
        return _harmless(text, structure)

    def turns(text: str) -> str:
        # What stands between the turns' own markers is from outside; `written_trajectory` leaves no others in it.
        pieces = TURN_MARKER.split(text)
        return "".join(piece if at % 2 else _harmless(piece, structure) for at, piece in enumerate(pieces))

    return {name: turns if name == "trajectory" else plain for name in signature.fields}


def _harmless(text: str, structure: _Structure) -> str:
    text = broken_up(_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text))
    for pattern, broken in structure:
        text = pattern.sub(broken, text)
    return text


def _structure(adapter: dspy.Adapter, fields: tuple[str, ...], outputs: tuple[str, ...]) -> _Structure:
    chat = isinstance(adapter, dspy.ChatAdapter)
    json = isinstance(adapter, dspy.JSONAdapter) or (chat and adapter.use_json_adapter_fallback)
    return _compiled(fields, outputs, not chat, json)


@lru_cache(maxsize=256)
def _compiled(fields: tuple[str, ...], outputs: tuple[str, ...], labels: bool, keys: bool) -> _Structure:
    """What opens and closes fields, besides markers: each pattern with what it becomes."""
    names = "|".join(map(re.escape, fields))
    found: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
        (re.compile(rf"<(?=/?(?:{names})\b)", re.IGNORECASE), "< "),
        (CONTROL_TOKEN, lambda token: f"{token[0][0]} {token[0][1:]}"),
        (_CUSTOM_TYPE, lambda marker: f"{marker[0][0]} {marker[0][1:]}"),
    ]
    if labels:
        # Adapters that are none of DSPy's chat adapters write fields as "name: value".
        found.append((re.compile(rf"({_LINE_START})(?=(?:{names})[^\S\n]*:)", re.IGNORECASE | re.MULTILINE), r"\1> "))
    if keys:
        # A reply in JSON may quote its inputs before its own object, and lenient readers take the first they find.
        own = "|".join(map(re.escape, outputs))
        key = rf"((?:\A|[{{,\n])[ \t]*+|[\"'`“”‘’])({own})(?=[\"'`“”‘’]?\s*:)"
        found.append((re.compile(key), r"\1(\2)"))
        found.append((re.compile(r"\\(?=u00[0-9a-fA-F]{2})"), r"\\ "))
    return tuple(found)


def _each(change: Callable[[str], str], value: Any, deepest: int = _DEEPEST) -> Any:
    """A value with every text in it changed; what is neither text nor a container of texts stays."""
    if isinstance(value, str):
        return change(value)
    if deepest and type(value) is dict:
        return {_each(change, key, 0): _each(change, item, deepest - 1) for key, item in value.items()}
    if deepest and type(value) in (list, tuple):
        return type(value)(_each(change, item, deepest - 1) for item in value)
    return value
