"""A field's value in a reply: without what stands around it, and as the type spells it where it can only mean that.

``True.`` is ``True`` and ``yes`` ``Yes``; a verdict may have a label before it or its reason behind it, a list be one in
Markdown or of questions in lines, with quotations whose marks are not escaped, and numbers and verdicts may name the
passages that they are of. What denies or takes back is not read over: such a value is an error, and asked for again.
No pattern takes more than the time of its text's length, as in `keqa.signatures.chat_format`.
"""

import json
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Literal, get_args, get_origin

from dspy.adapters.utils import parse_value
from pydantic import TypeAdapter

from keqa.storage.untrusted import parse_json

# A line such as "Sure! Here is the answer:", which says of no passage that it is read out.
BEFOREHAND = re.compile(
    r"(?i)\A\s*(?=sure|certainly|of course|okay|here)"
    r"(?:(?:sure|certainly|of|course|okay|here|s|is|are|the|my|your|a|an|in|as|to|requested|final|short|response|answers?|"
    r"output|result|reply|json|xml|object|format|list|order|quiz|quizzes|sub|questions?|quer(?:y|ies)|drafts?|items?|"
    r"triples?|rephrased|translated|version)\b[^\w\n]*+)++\n\s*"
)
_FENCE = re.compile(r"^\s*```[\w-]*\s*$")
FENCED = re.compile(r"\A\s*```[\w-]*[^\S\n]*\n([^`]*)\n[^\S\n]*```[^`]*\Z")
_VERDICT_CHARS = 1_000
MOST_BRACKETS = 128
# Repairing a list takes its length times its quotation marks, and more where it is nested. What is more has to be JSON.
_REPAIRED_CHARS, _REPAIRED_QUOTES, _REPAIRED_DEPTH = 4_000, 400, 8
_TEXTS = re.compile(r'\s*\[\s*"(?P<texts>[^\\]*)"\s*\]\s*', re.DOTALL)
_BULLET = re.compile(r"[-*•]\s+(.+)")
_ITEM = re.compile(
    r"(?i)(?:[-*•]\s+)?(?:\*\*)?(?:[#(]|(?:(?:sub-?)?(?:quiz|question|query|q)|step|answer|draft|triple|item)\s*#?)?(\d+)"
    r"(?:(?:[.):]|\*\*)+\s+|[、．]\s*|(?<=#\d)\s+)(.+)"
)
_QUOTED = re.compile(r"\"[^\"]*\"|\*\*[^*]*\*\*")
_ROW = re.compile(r"(?![\[{\"'])[^|]*[^|\s]\s*(?:\|[^|]*[^|\s]\s*){2,}|[(<][^()<>,;]*(?:[,;][^()<>,;]*){2,}[)>]")
_ROWS = ("triples", "rows")
_NUMBERED = re.compile(
    r"(?im)(?=.*[0-9])(?!(?s:.*)[0-9]\.[0-9])(?:^[^\S\n]*[-•]\s|[\s\[\]()*\"'#.,;&]|passages?\b|and\b|[0-9]{1,3}(?![0-9]))*+"
)
# The number of a passage with its title or a summary of it, and with its verdict.
_POINT = r"\s*(?:[-*•]\s+)?[*_]*"
_TITLE = r"(?:\s*[(:–—-][*_]*\s*[^\s\d](?:(?!passage\s*\d)[^\[\]])*)?"
_POINTER = re.compile(rf"{_POINT}(?:passage\s*\[?|\[)(\d{{1,3}})\]?[*_]*{_TITLE}", re.I)
_JUDGEMENT = re.compile(rf"{_POINT}(?:passage\s*)?\[?(\d{{1,3}})\]?[*_]*\s*(?:[:.)→–—-]+[*_]*)?\s*(\D.*)", re.I)
_NONE = re.compile(
    r"\W*(?:none|n/?a|no(?:ne of the)? (?:passages?|quizzes|queries|citations?|triples?)(?: [\w']+){0,5})\W*", re.I
)
# What a value is called where it is named once more: “Verdict: yes”, “The answer is yes”.
_CALLED = re.compile(
    r"(?i)[\s*_`#]*+(?:(?:the|my|final)\s+)*+([^\W_]++(?:[ _][^\W_]++){0,2})[\s*_`]*+(?:[:：=]|\bis\b)[*_`:]*+\s*"
)
_CALLS = frozenset("answer verdict judgment judgement decision rating score sources".split())
# What is judged, in the words that a judge may use instead, and what it judges.
_JUDGED = {"same": "same|consistent|equivalent|identical", "helpful": "helpful|helps?"}
_WHAT = "it|they|the|this|that|these|those|both|two|answers?|passages?|question|quiz|is|are|does|do|means?|say"
# What parts a verdict from its reason, what takes it back there, and what may stand before another verdict.
_REASON = re.compile(r"[,.:;!，。：；！\n(（\[]|\s[-–—/]\s|\s(?:because|since|as)\s")
_CONTRAST = re.compile(r"\b(?:but|although|though|however|yet|except|wait|actually)\b", re.IGNORECASE)
_DENIAL = re.compile(
    r"(?i)\b(?:not?|none|never|nothing|neither|cannot|hardly|differ\w*|wrong|false|(?:un|ir)(?:helpful|relat|relev)\w*)\b|n['’]t\b"
)
_HEDGE = re.compile(r"\A\s*(?:(?:or|but|rather|so|then|actually|maybe|perhaps|wait|hence|thus|therefore)\s+)*+", re.I)
_BESIDE = " \n\"'*`,.:;!，。：；！([（-–—/"
# Marks as they are typed in Chinese.
_WIDE_LIST = re.compile(r"\A\s*[［【]([^［【］】]*)[］】]\s*\Z")
_WIDE_COMMA = re.compile(r"""(?<=["'])\s*[，、]\s*(?=["'])""")
_IN_ENGLISH = {"是": "yes", "是的": "yes", "真": "yes", "对": "yes", "否": "no", "不是": "no", "不": "no", "假": "no"}
_BETWEEN_TEXTS = re.compile(r'"\s*,\s*"')
# Before a quotation that begins inside a text stands what parts words.
_QUOTING = re.compile(r'[^"]*(?:(?<![^\s(])"\S.*)?', re.DOTALL)


def typed(text: str, name: str, annotation: Any) -> Any:
    """A field's value as DSPy reads it, and as JSON where it is too long or nested to be repaired; else any error."""
    value = _value(_bare(text, name, annotation), annotation, name)
    if annotation is not str and not value.isascii():
        value = _WIDE_COMMA.sub(", ", _WIDE_LIST.sub(r"[\1]", value))
    kind = get_origin(annotation)
    if kind in (list, dict) and _NONE.fullmatch(value[:_VERDICT_CHARS]):
        return kind()
    if annotation is not str and not _repairable(value):
        return TypeAdapter(annotation).validate_python(parse_json(value, "it", max_depth=MOST_BRACKETS))
    if annotation == list[str]:
        value = _escaped(_listed(_unwrapped(value, name)))
    elif annotation == list[int]:
        value = _numbers(value)
    elif annotation == dict[int, bool]:
        value = _verdicts(value, name)
    if kind in (list, dict) and value.lstrip()[:1] not in ("[", "{", '"', "'"):
        # Repaired, it would be what a sentence quotes.
        raise ValueError(f"no {kind.__name__}")
    return parse_value(value, annotation)


def _repairable(value: str) -> bool:
    """Whether a value that is not quite JSON can be repaired in little time."""
    if len(value) > _REPAIRED_CHARS or sum(map(value.count, "\"'“”‘’`")) > _REPAIRED_QUOTES:
        return False
    brackets = [1 if char in "[{(" else -1 for char in value if char in "[]{}()"]
    return len(brackets) <= MOST_BRACKETS and max(accumulate(brackets), default=0) <= _REPAIRED_DEPTH


def thought_through(text: str) -> str:
    """A text without the thoughts that it begins with; their opening mark may be the prompt's."""
    before, _, behind = text.partition("</think>")
    opened = before.lstrip().startswith("<think>")
    return behind.lstrip() if opened or (behind.startswith("\n") and "[[" not in before) else text


def unfenced(value: str) -> str:
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
    text = unfenced(BEFOREHAND.sub("", thought_through(unfenced(value))))
    text = found[1] if annotation is not str and (found := FENCED.match(text)) else text
    if annotation is str:
        return text.removeprefix(f"<{name}>").removesuffix(f"</{name}>").strip()
    if text.startswith("{") and isinstance(found := _loaded(text), dict) and found.keys() == {name}:
        return as_text(found[name])
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
    denied = _DENIAL.match(reason.lstrip(_BESIDE)) or (contrast and _DENIAL.search(reason, contrast.end()))
    return value if option is None or against or (denied and option not in ("False", "no")) else option


def _option(text: str, allowed: Sequence[str], name: str) -> str | None:
    """The option that a text is, in whatever case: “Fully supported”, “4 out of 5”, “They are not the same”."""
    bare = text.strip().strip("*`\"'[])）").casefold()
    subject = rf"(?:(?:{_WHAT})\s+)*+"
    judged = rf"(?!(?:is|are|does|do)\s){subject}(not\s+)?{subject}(un|ir|in)?(?:{_JUDGED.get(name, name)})(?:ed)?"
    if found := re.fullmatch(judged, re.sub(r"\bdiffer(?:ent)?\b", "not same", bare)):
        bare = "true" if not any(found.groups()) else "" if all(found.groups()) else "no"
    bare = re.sub(rf"\s+{name}(?:ed)?\Z|(?<=\d)\s*(?:/|out of)\s*{re.escape(allowed[-1])}\Z", "", bare)
    english = _IN_ENGLISH.get(bare, bare)
    # Of a type that lists 是 or yes itself, it is that.
    words = (bare, english, {"yes": "true", "no": "false"}.get(english))
    return next((one for word in words for one in allowed if one.casefold() == word), None)


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
    found = _loaded(value)
    if isinstance(found, dict):
        values, numbers = [*found.values()], [re.sub(r"\D", "", key) for key in found]
        numbered = numbers == [str(at) for at in range(1, len(values) + 1)]
        found = values if numbered else values[0] if len(values) == 1 else None
    texts = []
    for one in found if isinstance(found, list) else []:
        parts = [*one.values()] if isinstance(one, dict) else one if isinstance(one, list) else [one]
        parts = [part for part in parts if not isinstance(part, int)]
        whole = len(parts) == 1 or (len(parts) > 2 and name in _ROWS)
        if not whole or not all(isinstance(part, str) for part in parts):
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
    """Verdicts by number as JSON, where each line is one: “Passage 1: yes, it helps”."""
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


def as_text(value: Any) -> str:
    """A text, and anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
