"""How prompts are written and replies are read: DSPy's chat format, read with some patience.

Prompts are DSPy's, byte for byte, for the shipped model is trained on them. Replies are read as DSPy reads them, after
the small slips of weak models are mended, which no prompt cures and which lose nothing: a value on the line of its
marker, spaces lost in a marker, ``completed`` on the line of the last value, code fences around a reply or a value,
``True.`` for ``True``, ``yes`` for ``Yes``, a verdict with its reason behind it, a list in Markdown or of questions in
lines, quotations in the texts of a list whose marks are not escaped. A marker in the middle of a line is a part of the
text, such as a passage that is quoted and refused, and of a field that is named twice the last value counts: what a
reply quotes is not what it says. ``completed`` alone may also follow the last value on its line, at the very end of a
reply, for weak models write it there and it gives no field a value. Where an input is named behind it the model has
begun to ask itself, which says nothing.

A reply without any marker is read where it has all fields, and but for thoughts and politeness nothing before the first
of them, in another format: a JSON object, XML, headings or labels.
"""

import json
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import zip_longest
from typing import Any, Literal, NamedTuple, cast, get_args, get_origin

import dspy
from dspy.adapters.utils import apply_output_field_defaults, parse_value
from dspy.clients._deprecation import adapter_message_call
from dspy.utils.exceptions import AdapterParseError
from pydantic import TypeAdapter

from keqa.errors import ConfigurationError
from keqa.storage.untrusted import parse_json

MAX_REPLY_CHARS = 200_000
"""Longer replies are not read."""
MAX_ANSWER_CHARS = 10_000
"""Nor are longer answers and thoughts, which are a sentence or less: each passage is searched for their words."""
_BRIEF = ("answer", "thought")

COMPLETED = "completed"
"""The name of the marker that ends a reply."""

# Spaces lost or added within a marker are mended. Every repetition here and below is bounded by a character that it
# cannot match itself, so that the time grows with the length of the text and no faster.
_MARKER = re.compile(r"^[^\S\n]*\[\[[^\S\n]*##[^\S\n]*(\w+)[^\S\n]*##[^\S\n]*\]\]", re.MULTILINE)
_ENDING = re.compile(r"\[\[[^\S\n]*##[^\S\n]*completed[^\S\n]*##[^\S\n]*\]\]\Z")
_ENDING_CHARS = 60
_BRACKETS, _HASHES = "[［⟦〚", "#＃"
# Blank space, and characters that take no place where text is shown: an LM reads through both.
_BLANK = r"\s\u00ad\u200b-\u200f\u2060-\u2064\ufeff"
_MARK = re.compile(rf"[\{_BRACKETS}{_HASHES}]")
_OPENING = re.compile(rf"[\{_BRACKETS}](?:[\{_BRACKETS}{_BLANK}]*+)((?:[{_HASHES}][{_BLANK}]*+)*+)")
# Behind a short answer a line that names what nobody asked for. Lines of an answer's own may be named, too.
_FURTHER = re.compile(
    r"\n[ \t]*+(?=[#*][#* \t]*+(?:explanation|reason(?:ing)?|rationale|justification|evidence|sources?|references?|"
    r"confidence|notes?)\b|(?:explanation|reasoning|rationale|justification|evidence|sources?|confidence):)",
    re.IGNORECASE,
)
# Thoughts, and a line such as "Sure! Here is the answer:", which says of no passage that it is read out.
_BEFOREHAND = re.compile(
    r"\A\s*(?:<think>(?s:.*?)</think>\s*)?(?:(?=sure|certainly|of course|okay|here)"
    r"(?:(?:sure|certainly|of|course|okay|here|s|is|the|my|your|a|an|in|as|to|requested|final|short|response|answer|"
    r"output|result|reply|json|xml|object|format|question)\b[^\w\n]*+)++\n\s*)?",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^\s*```[\w-]*\s*$")
_VERDICT_CHARS = 1_000
# Repairing a list takes the square of its length, and more where it is deeply nested. What is longer has to be JSON.
_REPAIRED_CHARS, _REPAIRED_BRACKETS = 4_000, 128
_TEXTS = re.compile(r'\s*\[\s*"(?P<texts>[^\\]*)"\s*\]\s*', re.DOTALL)
_ITEM = re.compile(r"(?:(?:[-*•]|(?:(?:Quiz|Question|Step)\s+)?(\d+)[.):])\s+|(\d+)[、．]\s*)(.+)", re.IGNORECASE)
_NUMBERED = re.compile(
    r"(?=.*[0-9])(?!(?s:.*)[0-9]\.[0-9])(?:[\s\[\]#.,;&]|passages?\b|and\b|[0-9]{1,3}(?![0-9]))*", re.IGNORECASE
)
# What parts a verdict from its reason, and what may stand before another verdict there.
_REASON = re.compile(r"[,.:;!?，。：；！？\n]|\s[-–—]\s")
_HEDGE = re.compile(r"\A\s*(?:(?:or|but|rather|so|then|actually|maybe|perhaps|wait|hence|thus|therefore)\s+)*+", re.I)
# Marks as they are typed in Chinese.
_WIDE_LIST = re.compile(r"\A\s*[［【]([^［【］】]*)[］】]\s*\Z")
_WIDE_COMMA = re.compile(r"""(?<=["'])\s*[，、]\s*(?=["'])""")
_IN_ENGLISH = {"是": "yes", "是的": "yes", "真": "yes", "对": "yes", "否": "no", "不是": "no", "不": "no", "假": "no"}
_BETWEEN_TEXTS = re.compile(r'"\s*,\s*"')
# Before a quotation that begins inside a text stands what parts words.
_QUOTING = re.compile(r'[^"]*(?:(?<![^\s(])"\S.*)?', re.DOTALL)


class ReplyField(NamedTuple):
    """One field of a reply, and where its value begins and ends: at the next marker, or at the end of the reply."""

    name: str
    start: int
    end: int


def sections(reply: str) -> Iterator[ReplyField]:
    """The fields of a reply in their order, whatever their names; a name may come more than once."""
    found = list(_MARKER.finditer(reply))
    for marker, following in zip_longest(found, found[1:]):
        yield ReplyField(marker[1], marker.end(), following.start() if following else len(reply))


def is_completed(reply: str) -> bool:
    """Whether a reply has the marker that ends it."""
    return any(section.name == COMPLETED for section in sections(reply)) or without_completed(reply) != reply


def without_completed(text: str) -> str:
    """A text without the marker ``completed`` at its very end, where it has one."""
    bare = text.rstrip()
    ending = _ENDING.search(bare, max(0, len(bare) - _ENDING_CHARS))
    return bare[: ending.start()] if ending else text


def broken_up(text: str) -> str:
    """A text in which no field marker stands: brackets and hashes that open one are set apart, ``[ [ # #``.

    Careless spellings count, too: other spacing, full-width characters, a single bracket before two hashes. A text
    without any comes back unchanged, and so does one that was broken up before.
    """
    return _OPENING.sub(_apart, text)


def _apart(found: re.Match[str]) -> str:
    opening = found[0]
    marks = _MARK.findall(opening)
    if not found[1] or len(marks) < 3:
        return opening
    # The blank space after the last hash stays, a name may follow it.
    return " ".join(marks) + opening[opening.rindex(marks[-1]) + 1 :]


class PatientChatAdapter(dspy.ChatAdapter):
    """`dspy.ChatAdapter` with the same prompts, a single attempt, and small slips in replies mended.

    There is no second attempt in JSON: it would double the calls of a failing stage and hide the failure, which KEQA
    records and degrades from instead (one bad sample costs one sample).
    """

    def __init__(self) -> None:
        super().__init__(use_json_adapter_fallback=False)

    def format_system_message(self, signature: type[dspy.Signature]) -> str:
        """What does not depend on a call, written once for each signature."""
        return _system_message(cast(Hashable, signature), signature.instructions)

    async def acall(
        self,
        lm: Any,
        lm_kwargs: dict[str, Any],
        signature: type[dspy.Signature],
        demos: Sequence[Any],
        inputs: Mapping[str, Any],
    ) -> list[dict[str, Any]]:
        """As `dspy.Adapter.acall`, which would look up what the language model is capable of in another thread."""
        shown = self._call_preprocess(lm, lm_kwargs, signature, inputs)
        messages = self.format(shown, demos, inputs)
        with adapter_message_call(lm, messages):
            outputs = await lm.acall(messages=messages, **lm_kwargs)
        found: list[dict[str, Any]] = self._call_postprocess(shown, signature, outputs, lm, lm_kwargs)
        return found

    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, Any]:
        """The fields of a reply by name; an `AdapterParseError` where one is missing or not of its type."""
        refused = partial(
            AdapterParseError, adapter_name=type(self).__name__, signature=signature, lm_response=completion
        )
        if len(completion) > MAX_REPLY_CHARS:
            raise refused(message=f"the reply has {len(completion):,} characters; at most {MAX_REPLY_CHARS:,} are read")
        texts = _values(signature, completion)
        fields: dict[str, Any] = {}
        for name in _BRIEF:
            if (length := len(texts.get(name, ""))) > MAX_ANSWER_CHARS:
                raise refused(message=f"the {name} has {length:,} characters; at most {MAX_ANSWER_CHARS:,} are read")
        for name, text in texts.items():
            annotation = signature.output_fields[name].annotation
            try:
                fields[name] = _typed(_value(_unfenced(text), annotation), annotation)
            except Exception as error:
                # The parsers of JSON and Python that DSPy reads values with fail on hostile text in any way they like.
                raise refused(message=f"{name} is not of its type: {type(error).__name__}: {error}") from error
        fields = apply_output_field_defaults(signature, fields)
        if fields.keys() != signature.output_fields.keys():
            raise refused(parsed_result=fields)
        return fields


def adapter() -> PatientChatAdapter:
    """The adapter by which programs ask where no other is set."""
    return PatientChatAdapter()


def only_blocks(adapter: Any) -> bool:
    """Whether an adapter asks in a way of its own in its blocking call alone, as the one that ``dspy.Refine`` makes."""
    asking = (kind for kind in type(adapter).__mro__ if "__call__" in vars(kind) or "acall" in vars(kind))
    own = next(asking, None)
    return own is not None and "acall" not in vars(own)


@lru_cache(maxsize=256)
def _system_message(signature: Hashable, instructions: str) -> str:
    """The system message of a signature, whose instructions can be changed in place."""
    return str(dspy.ChatAdapter().format_system_message(signature))


def _values(signature: type[dspy.Signature], reply: str) -> dict[str, str]:
    """The text of each output field that a reply names; of one named twice the last."""
    found: dict[str, str] = {}
    outputs = signature.output_fields
    for name, start, end in _own_sections(signature, reply):
        text = reply[start:end]
        if end == len(reply):
            text = without_completed(_unfenced(text))
        found[name] = text
    return {name: found[name] for name in outputs if name in found} or _values_otherwise(tuple(outputs), reply)


def _own_sections(signature: type[dspy.Signature], reply: str) -> list[ReplyField]:
    """The fields of a reply without those that it asks itself: behind all outputs and its end an input is named.

    A reply may quote as much before it answers; then it has said something before, or not all of it again.
    """
    fields, own = list(sections(reply)), [*signature.output_fields, COMPLETED]
    names = [field.name for field in fields]
    behind = names[len(own) :]
    again = [name for name in behind if name in own]
    asks_itself = names[: len(own)] == own and behind and behind[0] in signature.input_fields
    begins = asks_itself and again[:1] in ([], own[:1]) and _MARKER.match(reply.lstrip())
    return fields[: len(own)] if begins else fields


def _values_otherwise(names: tuple[str, ...], reply: str) -> dict[str, str]:
    """The texts of all fields of a reply that begins with the first of them, in another format than the one asked."""
    text = without_completed(_unfenced(_BEFOREHAND.sub("", reply)))
    if text.startswith("{"):
        try:
            found = parse_json(text, "it", max_depth=_REPAIRED_BRACKETS)
        except ConfigurationError:
            return {}
        if not isinstance(found, dict) or any(found.get(name) is None for name in names):
            return {}
        texts = {name: _as_text(found[name]) for name in names}
        # What is escaped in JSON may be half a character.
        return {name: text.encode("utf-8", "replace").decode() for name, text in texts.items()}
    marks = list(_label(names).finditer(text))
    named = [mark["name"].casefold() for mark in marks]
    if not marks or marks[0].start() or named not in ([*names], [*names, COMPLETED]):
        return {}
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    values = {}
    for name, mark, end in zip(names, marks, ends, strict=False):
        value = re.split(rf"</{name}\s*+>", text[mark.end() : end], maxsplit=1, flags=re.IGNORECASE)[0]
        values[name] = (_FURTHER.split(value, maxsplit=1)[0] if name in _BRIEF else value).strip()
    return values


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=256)
def _label(names: tuple[str, ...]) -> re.Pattern[str]:
    """What begins a line that names a field: ``## answer``, ``**Answer:**``, ``[ ## ANSWER ## ]``, ``<answer>``."""
    name = "|".join(map(re.escape, (*names, COMPLETED)))
    opened = r"[^\S\n]*+(?=[*\[#<]|\w+[^\S\n]*:)[ \t*\[#<]*+"
    return re.compile(
        rf"^{opened}(?P<name>{name})\b(?=[ \t]*+(?:[*\]#>:]|$))[ \t*\]#>:]*+", re.MULTILINE | re.IGNORECASE
    )


def _unfenced(value: str) -> str:
    """A value without a code fence around it, or without half of one that was around the whole reply."""
    lines = value.strip().splitlines() or [""]
    fences = sum(map(bool, map(_FENCE.match, lines)))
    if len(lines) > 1 and fences and _FENCE.match(lines[-1]) and (fences % 2 or _FENCE.match(lines[0])):
        del lines[-1]
        if fences % 2 == 0:
            del lines[0]
    return "\n".join(lines).strip()


def _value(value: str, annotation: Any) -> str:
    """A yes-or-no or listed value as the type spells it, where what was written can only mean that."""
    if annotation is bool:
        allowed = ["True", "False", "yes", "no"]
    elif get_origin(annotation) is Literal:
        allowed = [option for option in get_args(annotation) if isinstance(option, str)]
    else:
        return value
    if len(value) > _VERDICT_CHARS:
        raise ValueError(f"{len(value):,} characters")
    bare = value.strip().strip("*`\"'").rstrip(".!。！").strip()
    meant, *others = (_option(_HEDGE.sub("", part), allowed) for part in _REASON.split(bare))
    # What stands behind the verdict may take it back.
    meant = _option(bare, allowed) or (meant if all(other in ([], meant) for other in others) else [])
    return meant[0] if len(meant) == 1 else value


def _option(text: str, allowed: Sequence[str]) -> list[str]:
    """The options that a text is, in whatever case."""
    bare = text.strip().strip("*`\"'").casefold()
    # Of a type that lists 是 itself, it is that.
    found = [option for option in allowed if option.casefold() == bare]
    return found or [option for option in allowed if option.casefold() == _IN_ENGLISH.get(bare)]


def _typed(value: str, annotation: Any) -> Any:
    """A value as its type has it: as DSPy reads it, and as JSON where it is too long or too nested to be repaired."""
    if annotation is not str and not value.isascii():
        value = _WIDE_COMMA.sub(", ", _WIDE_LIST.sub(r"[\1]", value))
    brackets = sum(value.count(bracket) for bracket in "[]{}()")
    if annotation is str or (len(value) <= _REPAIRED_CHARS and brackets <= _REPAIRED_BRACKETS):
        if annotation == list[str]:
            value = _escaped(_listed(_unwrapped(value)))
        elif annotation == list[int]:
            value = _numbers(value)
        return parse_value(value, annotation)
    return TypeAdapter(annotation).validate_python(parse_json(value, "it", max_depth=_REPAIRED_BRACKETS))


def _listed(value: str) -> str:
    """A list in Markdown as JSON, where every line is an item of it, and so are lines that are questions all of them."""
    lines = [line.strip() for line in value.splitlines() if line.strip()]
    if len(lines) > 1 and all(line.endswith(("?", "？")) and line[0] not in "[{\"'" for line in lines):
        lines = [line if _ITEM.fullmatch(line) else f"- {line}" for line in lines]
    items = [_ITEM.fullmatch(line) for line in lines]
    found = [item for at, item in enumerate(items, 1) if item and (item[1] or item[2]) in (None, str(at))]
    return json.dumps([item[3] for item in found]) if lines and len(found) == len(lines) else value


def _unwrapped(value: str) -> str:
    """A list of texts without the object that holds it, or that holds each of them."""
    if not value.lstrip().startswith(("{", "[")):
        return value
    try:
        found = json.loads(value)
    except ValueError:
        return value
    if isinstance(found, dict) and len(found) == 1:
        (found,) = found.values()
    inner = [[*one.values()] if isinstance(one, dict) else [one] for one in found] if isinstance(found, list) else []
    return json.dumps([one for (one,) in inner]) if inner and all(len(one) == 1 for one in inner) else value


def _numbers(value: str) -> str:
    """Numbers as a list, where nothing else stands there but what is numbered: “Passage 1 and passage 3”."""
    return f"[{', '.join(re.findall(r'[0-9]+', value))}]" if _NUMBERED.fullmatch(value) else value


def _escaped(value: str) -> str:
    """A list of texts with quotations in them escaped; repaired as it is, it would fall apart at their commas."""
    found = _TEXTS.fullmatch(value)
    texts: list[str] = []
    for part in _BETWEEN_TEXTS.split(found["texts"]) if found else ():
        if texts and texts[-1].count('"') % 2:
            texts[-1] = f'{texts[-1]}", "{part}'
        else:
            texts.append(part)
    quoting = any('"' in text for text in texts) and texts[-1].count('"') % 2 == 0
    return json.dumps(texts) if quoting and all(map(_QUOTING.fullmatch, texts)) else value
