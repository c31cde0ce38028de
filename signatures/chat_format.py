"""How prompts are written and replies are read: DSPy's chat format, read with some patience.

Prompts are DSPy's, byte for byte, for the shipped model is trained on them. Replies are read as DSPy reads them, after
the small slips of weak models are mended, which no prompt cures and which lose nothing: a value on the line of its
marker, spaces lost in a marker, ``completed`` on the line of the last value, code fences around a reply or a value; and
what `keqa.signatures.reply_values` says of values. A marker in the middle of a line is a part of the text, such as a
passage that is quoted and refused, and of a field that is named twice the last value counts: what a reply quotes is not
what it says. ``completed`` alone may also follow the last value on its line, at the very end of a reply, for weak models
write it there and it gives no field a value. Where an input is named behind it the model has begun to ask itself, which
says nothing.

A reply without any marker is read where it has all fields, and but for thoughts and politeness nothing before the first
of them, in another format: a JSON object, XML, headings or labels. Where one field is asked for, a verdict, a number or
a list may stand alone, and so may a brief answer: sentences that weak models write in an answer's place are mostly about
the form that they are asked for. What a reply thinks before it, ``<think>…</think>``, is no part of it.
"""

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import zip_longest
from typing import Any, NamedTuple, cast

import dspy
from dspy.adapters.utils import apply_output_field_defaults
from dspy.clients._deprecation import adapter_message_call
from dspy.utils.exceptions import AdapterParseError

from keqa.errors import ConfigurationError
from keqa.signatures.reply_values import BEFOREHAND, FENCED, MOST_BRACKETS, as_text, thought_through, typed, unfenced
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
# What may stand alone, and what is none then: more than three words, structure, a question, a label, a broken-off line.
_ALONE = ("answer", "confidence")
_NO_ANSWER = re.compile(r"(?i).{61}|(?:\S+ +){3}\S|\[\[|##|[\n`{}<>?？…]|\.\.|[:：](?!\d)|\A\[|,\Z|\A(?:the )?answer\Z")


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
            try:
                fields[name] = typed(text, name, signature.output_fields[name].annotation)
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
    outputs, reply = signature.output_fields, thought_through(reply)
    for name, start, end in _own_sections(signature, reply):
        text = reply[start:end]
        if end == len(reply):
            text = without_completed(unfenced(text))
        found[name] = _brief(text) if name in _BRIEF else text
    named = {name: found[name] for name in outputs if name in found}
    return named or _values_otherwise(tuple(outputs), reply) or _value_alone(signature, reply)


def _brief(text: str) -> str:
    """An answer without what nobody asked for; the lines of code are its own."""
    return text if "```" in text else _FURTHER.split(text, maxsplit=1)[0]


def _value_alone(signature: type[dspy.Signature], reply: str) -> dict[str, str]:
    """The value of the only field, where a reply without a name for it is nothing else; of texts an answer in few words."""
    (name, field), *others = signature.output_fields.items()
    text = without_completed(unfenced(BEFOREHAND.sub("", reply))).strip()
    if others or next(sections(text), None):
        return {}
    if field.annotation is not str:
        return {name: text}
    none = not any(map(str.isalnum, text)) or _NO_ANSWER.search(text) or BEFOREHAND.match(f"{text}\n")
    prompt = _system_message(cast(Hashable, signature), signature.instructions).casefold()
    copied = " " in text and text.rstrip(".").casefold() in prompt
    return {} if name not in _ALONE or none or copied else {name: text}


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
    text = without_completed(BEFOREHAND.sub("", reply))
    text = found[1] if (found := FENCED.match(text)) else unfenced(text)
    if text.startswith("{"):
        try:
            found = parse_json(text, "it", max_depth=MOST_BRACKETS)
        except ConfigurationError:
            return {}
        found = {key.casefold().replace(" ", "_"): value for key, value in found.items()} | found
        if any(found.get(name) is None for name in names):
            return {}
        texts = {name: as_text(found[name]) for name in names}
        # What is escaped in JSON may be half a character.
        return {name: text.encode("utf-8", "replace").decode() for name, text in texts.items()}
    marks = list(_label(names).finditer(text))
    named = [mark["name"].casefold().replace(" ", "_") for mark in marks]
    if not marks or marks[0].start() or named not in ([*names], [*names, COMPLETED]):
        return {}
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    values = {}
    for name, mark, end in zip(names, marks, ends, strict=False):
        value = re.split(rf"</{name}\s*+>", text[mark.end() : end], maxsplit=1, flags=re.IGNORECASE)[0]
        values[name] = (_brief(value) if name in _BRIEF else value).strip()
    return values


@lru_cache(maxsize=256)
def _label(names: tuple[str, ...]) -> re.Pattern[str]:
    """What begins a line that names a field: ``## answer``, ``**Answer:**``, ``[ ## ANSWER ## ]``, ``<answer>``."""
    name = "|".join(re.escape(one).replace("_", "[ _]") for one in (*names, COMPLETED))
    point = r"[^\S\n]*+(?:(?:-|\d{1,2}[.)])[ \t]+(?=[*`]))?"
    opened = rf"{point}(?=[*\[#<`]|\w+(?: \w+){{0,2}}[^\S\n]*:)[ \t*\[#<`]*+"
    return re.compile(
        rf"^{opened}(?:(?:the|my|final) )*+(?P<name>{name})\b(?=[ \t]*+(?:[*\]#>:`]|$))[ \t*\]#>:`]*+",
        re.MULTILINE | re.IGNORECASE,
    )
