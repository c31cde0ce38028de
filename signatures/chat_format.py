"""How prompts are written and replies are read: DSPy's chat format, read with some patience.

Prompts are DSPy's, byte for byte, for the shipped model is trained on them. Replies are read as DSPy reads them, after
the small slips of weak models are mended, which no prompt cures and which lose nothing: a value on the line of its
marker, spaces lost in a marker, ``completed`` on the line of the last value, code fences around a reply or a value,
``True.`` for ``True``, ``yes`` for ``Yes``, a verdict with a label before it or its reason behind it, a list in
Markdown or of questions in lines, quotations in the texts of a list whose marks are not escaped. A marker in the middle
of a line is a part of the text, such as a passage that is quoted and refused, and of a field that is named twice the
last value counts: what a reply quotes is not what it says. ``completed`` alone may also follow the last value on its
line, at the very end of a reply, for weak models write it there and it gives no field a value. Where an input is named
behind it the model has begun to ask itself, which says nothing.

A reply without any marker is read where it has all fields, and but for thoughts and politeness nothing before the first
of them, in another format: a JSON object, XML, headings or labels. Where one field is asked for, a verdict, a number or
a list may stand alone, and so may a brief answer: sentences that weak models write in an answer's place are mostly about
the form that they are asked for. What a reply thinks before it, ``<think>…</think>``, is no part of it.
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
# A line such as "Sure! Here is the answer:", which says of no passage that it is read out.
_BEFOREHAND = re.compile(
    r"\A\s*(?=sure|certainly|of course|okay|here)"
    r"(?:(?:sure|certainly|of|course|okay|here|s|is|are|the|my|your|a|an|in|as|to|requested|final|short|response|answers?|"
    r"output|result|reply|json|xml|object|format|list|order|quiz|quizzes|sub|questions?|quer(?:y|ies)|drafts?|items?|"
    r"triples?|rephrased|translated|version)\b[^\w\n]*+)++\n\s*",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^\s*```[\w-]*\s*$")
_FENCED = re.compile(r"\A\s*```[\w-]*[^\S\n]*\n([^`]*)\n[^\S\n]*```[^`]*\Z")
# What may stand alone, and what is no answer that does: structure, a question, a label, and what is broken off.
_ALONE, _ALONE_CHARS, _ALONE_WORDS = ("answer", "confidence"), 60, 5
_NO_ANSWER = re.compile(r"\[\[|##|[`{}<>?？…]|\.\.|[:：](?!\d)|\A\[|,\Z|\A(?:the )?answer\Z", re.IGNORECASE)
_VERDICT_CHARS = 1_000
# Repairing a list takes the square of its length, and more where it is deeply nested. What is longer has to be JSON.
_REPAIRED_CHARS, _REPAIRED_BRACKETS = 4_000, 128
_TEXTS = re.compile(r'\s*\[\s*"(?P<texts>[^\\]*)"\s*\]\s*', re.DOTALL)
_BULLET = re.compile(r"[-*•]\s+(.+)")
_ITEM = re.compile(
    r"(?:[-*•]\s+)?(?:\*\*)?(?:[#(]|(?:(?:sub-?)?(?:quiz|question|query|q)|step|answer|draft|triple|item)\s*#?)?(\d+)"
    r"(?:(?:[.):]|\*\*)+\s+|[、．]\s*|(?<=#\d)\s+)(.+)",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"]*\"|\*\*[^*]*\*\*")
_ROW = re.compile(r"(?![\[{\"'])[^|]*[^|\s]\s*(?:\|[^|]*[^|\s]\s*){2,}|[(<][^()<>,;]*(?:[,;][^()<>,;]*){2,}[)>]")
_ROWS = ("triples", "rows")
_NUMBERED = re.compile(
    r"(?=.*[0-9])(?!(?s:.*)[0-9]\.[0-9])(?:[\s\[\]()*\"'#.,;&]|^\s*[-•]\s|passages?\b|and\b|[0-9]{1,3}(?![0-9]))*",
    re.IGNORECASE | re.MULTILINE,
)
# The number of a passage with its title, or with what it tells.
_POINTER = re.compile(
    r"\s*(?:[-*•]\s+)?[*_]*(?:passage\s*\[?|\[)(\d{1,3})\]?[*_]*(?:\s*[(:–—-][*_]*\s*[^\s\d](?:(?!passage\s*\d)[^\[\]])*)?",
    re.IGNORECASE,
)
_JUDGEMENT = re.compile(
    r"\s*(?:[-*•]\s+)?[*_]*(?:passage\s*)?\[?(\d{1,3})\]?[*_]*\s*(?:[:.)→–—-]+[*_]*)?\s*(\D.*)", re.IGNORECASE
)
_NONE = re.compile(
    r"\W*(?:none|n/?a|no(?:ne of the)? (?:passages?|quizzes|queries|citations?|triples?)(?: [\w']+){0,5})\W*", re.I
)
# What a value is called where it is named once more: “Verdict: yes”, “The answer is yes”.
_CALLED = re.compile(
    r"[\s*_`#]*(?:(?:the|my|final)\s+)*+(\w+(?: \w+)?)[\s*_`]*(?:[:：=]|\bis\b)[*_`:]*+\s*", re.IGNORECASE
)
_CALLS = frozenset("answer verdict judgment judgement decision rating score sources".split())
# What is judged, in the words that a judge may use instead, and what it judges.
_JUDGED = {"same": "same|consistent|equivalent|identical", "helpful": "helpful|helps?"}
_WHAT = "it|they|the|this|that|these|those|both|two|answers?|passages?|question|quiz|is|are|does|do|means?|say"
# What parts a verdict from its reason, what takes it back there, and what may stand before another verdict.
_REASON = re.compile(r"[,.:;!，。：；！\n(（\[]|\s[-–—/]\s|\s(?:because|since|as)\s")
_CONTRAST = re.compile(r"\b(?:but|although|though|however|yet|except|wait|actually)\b", re.IGNORECASE)
_DENIAL = re.compile(
    r"\W*(?:\b(?:not?|none|never|nothing|neither|cannot|hardly|differ\w*|wrong|false|(?:un|ir)(?:helpful|relat|relev)\w*)"
    r"|n['’]t)\b",
    re.IGNORECASE,
)
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
                fields[name] = _typed(_value(_bare(text, name, annotation), annotation, name), annotation, name)
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
    outputs, reply = signature.output_fields, _thought_through(reply)
    for name, start, end in _own_sections(signature, reply):
        text = reply[start:end]
        if end == len(reply):
            text = without_completed(_unfenced(text))
        found[name] = _brief(text) if name in _BRIEF else text
    named = {name: found[name] for name in outputs if name in found}
    return named or _values_otherwise(tuple(outputs), reply) or _value_alone(signature, reply)


def _thought_through(text: str) -> str:
    """A text without the thoughts that it begins with; their opening mark may be the prompt's."""
    before, _, behind = text.partition("</think>")
    opened = before.lstrip().startswith("<think>")
    return behind.lstrip() if opened or (behind.startswith("\n") and not _MARKER.search(before)) else text


def _brief(text: str) -> str:
    """An answer without what nobody asked for; the lines of code are its own."""
    return text if "```" in text else _FURTHER.split(text, maxsplit=1)[0]


def _value_alone(signature: type[dspy.Signature], reply: str) -> dict[str, str]:
    """The value of the only field, where a reply without a name for it is nothing else; of texts an answer in few words."""
    (name, field), *others = signature.output_fields.items()
    text = without_completed(_unfenced(_BEFOREHAND.sub("", reply))).strip()
    if others or next(sections(text), None):
        return {}
    if field.annotation is not str:
        return {name: text}
    answers = name in _ALONE and len(text) <= _ALONE_CHARS and any(map(str.isalnum, text))
    if not answers or _NO_ANSWER.search(text) or _BEFOREHAND.match(f"{text}\n"):
        return {}
    words, prompt = (
        text.rstrip(".").casefold().split(),
        _system_message(cast(Hashable, signature), signature.instructions),
    )
    copied = len(words) > 1 and " ".join(words) in prompt.casefold()
    return {} if copied or len(words) > _ALONE_WORDS or "\n" in text else {name: text}


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
    text = without_completed(_BEFOREHAND.sub("", reply))
    text = found[1] if (found := _FENCED.match(text)) else _unfenced(text)
    if text.startswith("{"):
        try:
            found = parse_json(text, "it", max_depth=_REPAIRED_BRACKETS)
        except ConfigurationError:
            return {}
        found = {key.casefold().replace(" ", "_"): value for key, value in found.items()} | found
        if any(found.get(name) is None for name in names):
            return {}
        texts = {name: _as_text(found[name]) for name in names}
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


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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


def _unfenced(value: str) -> str:
    """A value without a code fence around it, or without half of one that was around the whole reply."""
    lines = value.strip().splitlines() or [""]
    fences = sum(map(bool, map(_FENCE.match, lines)))
    if len(lines) > 1 and fences and _FENCE.match(lines[-1]) and (fences % 2 or _FENCE.match(lines[0])):
        del lines[-1]
        if fences % 2 == 0:
            del lines[0]
    return "\n".join(lines).strip()


def _bare(value: str, name: str, annotation: Any) -> str:
    """A value without what stands around it: a fence, thoughts and politeness; what is no text without its name, too."""
    text = _unfenced(_BEFOREHAND.sub("", _thought_through(_unfenced(value))))
    text = found[1] if annotation is not str and (found := _FENCED.match(text)) else text
    if annotation is str:
        return text.removeprefix(f"<{name}>").removesuffix(f"</{name}>").strip()
    if text.startswith("{") and isinstance(found := _loaded(text), dict) and found.keys() == {name}:
        return _as_text(found[name])
    called = _CALLED.match(text[:_VERDICT_CHARS])
    names = _CALLS | {name, f"{name}s", name.rpartition("_")[2]}
    return text[called.end() :] if called and called[1].casefold().replace(" ", "_") in names else text


def _loaded(text: str) -> Any:
    """A value in JSON; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _value(value: str, annotation: Any, name: str) -> str:
    """A yes-or-no or listed value as the type spells it, where what was written can only mean that."""
    if annotation is bool:
        allowed = ["True", "False"]
    elif get_origin(annotation) is Literal:
        allowed = [str(option) for option in get_args(annotation)]
    else:
        return value
    if len(value) > _VERDICT_CHARS:
        raise ValueError(f"{len(value):,} characters")
    bare = value.strip().strip("*`\"'[]").rstrip(".!。！").strip()
    if whole := _option(bare, allowed, name):
        return whole
    verdict, *reasons = _REASON.split(bare)
    option, reason = _option(verdict, allowed, name), bare[len(verdict) :]
    against = {_option(_HEDGE.sub("", one), allowed, name) for one in reasons} - {None, option}
    contrast = _CONTRAST.search(reason)
    denied = _DENIAL.match(reason) or (contrast and _DENIAL.search(reason, contrast.end()))
    return value if option is None or against or (denied and option not in ("False", "no")) else option


def _option(text: str, allowed: Sequence[str], name: str) -> str | None:
    """The option that a text is, in whatever case: “Fully supported”, “4 out of 5”, “They are not the same”."""
    bare = text.strip().strip("*`\"'[])）").casefold()
    judged = rf"(?!(?:is|are|does|do)\s)(?:(?:{_WHAT})\s+)*+(not\s+)?(?:(?:{_WHAT})\s+)*+(un|ir|in)?(?:{_JUDGED.get(name, name)})(?:ed)?"
    if found := re.fullmatch(judged, bare):
        bare = "true" if not any(found.groups()) else "" if all(found.groups()) else "no"
    bare = re.sub(rf"\s+{name}(?:ed)?\Z|(?<=\d)\s*(?:/|out of)\s*{re.escape(allowed[-1])}\Z", "", bare)
    english = _IN_ENGLISH.get(bare, bare)
    # Of a type that lists 是 or yes itself, it is that.
    words = (bare, english, {"yes": "true", "no": "false"}.get(english))
    return next((one for word in words for one in allowed if one.casefold() == word), None)


def _typed(value: str, annotation: Any, name: str) -> Any:
    """A value as its type has it: as DSPy reads it, and as JSON where it is too long or too nested to be repaired."""
    if annotation is not str and not value.isascii():
        value = _WIDE_COMMA.sub(", ", _WIDE_LIST.sub(r"[\1]", value))
    listed = get_origin(annotation) in (list, dict)
    if listed and _NONE.fullmatch(value[:_VERDICT_CHARS]):
        return get_origin(annotation)()
    brackets = sum(value.count(bracket) for bracket in "[]{}()")
    if annotation is str or (len(value) <= _REPAIRED_CHARS and brackets <= _REPAIRED_BRACKETS):
        if annotation == list[str]:
            value = _escaped(_listed(_unwrapped(value, name)))
        elif annotation == list[int]:
            value = _numbers(value)
        elif annotation == dict[int, bool]:
            value = _verdicts(value, name)
        if listed and value.lstrip()[:1] not in ("[", "{", '"', "'"):
            # Repaired, it would be what a sentence quotes.
            raise ValueError(f"no {get_origin(annotation).__name__}")
        return parse_value(value, annotation)
    return TypeAdapter(annotation).validate_python(parse_json(value, "it", max_depth=_REPAIRED_BRACKETS))


def _listed(value: str) -> str:
    """A list in lines as JSON: in Markdown, or of questions or rows."""
    items = _items(value) or _items(_without_closing(value))
    return json.dumps(items) if items else value


def _without_closing(value: str) -> str:
    """A value in lines without a sentence that closes it behind a blank line, and takes nothing back."""
    before, _, closing = value.strip().rpartition("\n\n")
    closes = closing.endswith((".", "!")) and not re.search(r"\d", closing)
    return before if before and closes and not _CONTRAST.search(closing) and not _DENIAL.search(closing) else value


def _items(value: str) -> list[str]:
    """The items of a list in lines; none where a line is anything else."""
    lines = [line.strip() for line in value.splitlines() if line.strip()]
    numbered, bullets = ([form.fullmatch(line) for line in lines] for form in (_ITEM, _BULLET))
    if all(numbered) and [int(found[1]) for found in numbered if found] == [*range(1, len(lines) + 1)]:
        items = [found[2] for found in numbered if found]
    elif all(bullets):
        items = [found[1] for found in bullets if found]
    elif all(
        _QUOTED.fullmatch(line) or _ROW.fullmatch(line) or (line.endswith(("?", "？")) and line[0] not in "[{\"'")
        for line in lines
    ):
        items = lines
    else:
        return []
    return [item[1:-1].strip("*") for item in items] if all(map(_QUOTED.fullmatch, items)) else items


def _unwrapped(value: str, name: str) -> str:
    """A list of texts without the object that holds it, or that holds each of them; the parts of a row between bars."""
    found = _loaded(value) if value.lstrip().startswith(("{", "[")) else None
    if isinstance(found, dict) and len(found) == 1 and isinstance(inner := next(iter(found.values())), list):
        found = inner
    if isinstance(found, dict):
        numbers = [re.sub(r"\D", "", key) for key in found]
        found = [*found.values()] if numbers == [str(at) for at in range(1, len(found) + 1)] else None
    texts = []
    for one in found if isinstance(found, list) else []:
        parts = [*one.values()] if isinstance(one, dict) else one if isinstance(one, list) else [one]
        parts = [part for part in parts if not isinstance(part, int)]
        if not all(isinstance(part, str) for part in parts) or not (
            len(parts) == 1 or (len(parts) > 2 and name in _ROWS)
        ):
            return value
        texts.append(" | ".join(parts))
    return json.dumps(texts) if texts else value


def _numbers(value: str) -> str:
    """Numbers as a list, where nothing else stands there but what is numbered: “Passage 1 and passage 3”."""
    value = _without_closing(value)
    parts = re.split(r"\n|[,;]\s*(?=\[|passage\s)", value, flags=re.IGNORECASE)
    pointers = [_POINTER.fullmatch(part) for part in parts if part.strip()]
    if _NUMBERED.fullmatch(value):
        return f"[{', '.join(re.findall(r'[0-9]+', value))}]"
    if pointers and all(pointers) and not _DENIAL.search(value):
        return f"[{', '.join(found[1] for found in pointers if found)}]"
    # Repaired, a sentence would be the number that stands last in it.
    json.loads(value)
    return value


def _verdicts(value: str, name: str) -> str:
    """Verdicts by number as JSON, where each line is one: “Passage 1: yes, it tells”."""
    found, pairs = _loaded(value), list[tuple[str, Any]]()
    if isinstance(found, dict):
        pairs = [*found.items()]
    elif isinstance(found, list) and all(isinstance(one, dict) and one for one in found):
        pairs = [(str(next(iter(one.values()))), one) for one in found]
    elif found is None:
        parts = [part for part in re.split(r"\n|[,;]\s+(?=\d+\s*[:=])", value) if part.strip()]
        pairs = [(line[1], line[2]) if (line := _JUDGEMENT.fullmatch(part)) else ("", "") for part in parts]
    judged = {re.sub(r"\D", "", key): one.get(name) if isinstance(one, dict) else one for key, one in pairs}
    if not judged or "" in judged or len(judged) < len(pairs):
        return value
    return json.dumps({number: _value(str(one), bool, name) for number, one in judged.items()})


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
