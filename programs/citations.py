"""Citations of numbered passages in a text, such as ``[2]`` and ``[1, 3]``: found, renumbered and taken out."""

import re
from collections.abc import Mapping, Sequence

from keqa.retrievers.splitting import stripped_sentences

# What a passage is called, before its number.
_NAMED = r"(?:passages?|段落|文段|文档|文檔|文書|资料|資料|来源|來源|出典)"
_SOURCE = rf"(?:{_NAMED}|(?:sources?|documents?|docs?|quellen?|fuentes?)\b)"
# What is cited may be named, as prompts name it: [Passage 2], (passages 1 and 3). [Score: 3-1] cites nothing.
_ONE = rf"(?:{_SOURCE}\s*[:：]\s*|[^\W\d_]+\s*)?\d{{1,3}}(?:\s*[-–]\s*\d{{1,3}})?"
_BETWEEN = r"\s*(?:[,;、，；&和与與]|(?:and|und|et|y)\b)\s*"
_MANY = rf"{_ONE}(?:{_BETWEEN}{_ONE})*"
# A run of blanks or of stops is gone through once, not from each of its characters.
_CITATION = re.compile(
    rf"(?<!\s)\s*+(?:[\[【［〔]\s*({_MANY})\s*[\]】］〕]|[(（]\s*({_NAMED}\s*(?:[:：]\s*)?{_MANY})\s*[)）])",
    re.IGNORECASE,
)
# Outside of brackets a number after a comma may be one of what is said: "By passage 1, 40 trains".
_POINTER = re.compile(
    r"\bpassages?\s*\d{1,3}\b(?:\s*(?:[-–]|and\b)\s*\d{1,3}\b)?"
    r"|(?:段落|文段|文档|文檔|资料|資料|来源|來源)\s*\d{1,3}(?![\d份个個页頁年月日号條条章])",
    re.IGNORECASE,
)
_AFTER_STOP = re.compile(rf"(?<![.!?…。！？])([.!?…。！？]++)((?:{_CITATION.pattern})+)")
_BULLET = re.compile(r"^\s*(?:(?:[-*•]|#{1,6}|\d{1,3}[.)])\s+|\d{1,3}[、．]\s*|（\d{1,3}）\s*|[①-⑳・]\s*)")
_WIDEST = 20


def cited_in(text: str) -> list[int]:
    pointed = _POINTER.findall(_CITATION.sub("", text))
    written = [*(found[1] or found[2] for found in _CITATION.finditer(text)), *pointed]
    return list(dict.fromkeys(number for one in written for number in _numbers(one)))


def _numbers(written: str) -> list[int]:
    found: list[int] = []
    for first, last in re.findall(r"(\d+)(?:\s*[-–]\s*(\d+))?", written):
        found += range(int(first), min(int(last or first), int(first) + _WIDEST) + 1)
    return found


def without_citations(text: str) -> str:
    return _CITATION.sub("", text).strip()


def without_pointers(text: str) -> str:
    """A text without citations, in whatever form: neither is “passage 2” a word of what it says."""
    return _POINTER.sub("", without_citations(text)).strip()


def with_citations(text: str, numbers: Mapping[int, int]) -> str:
    """A text with other numbers in the places of those that are given, and without the citations of others."""

    def renumbered(found: re.Match[str]) -> str:
        kept = "".join(f"[{numbers[number]}]" for number in _numbers(found[1] or found[2]) if number in numbers)
        space = found[0][: len(found[0]) - len(found[0].lstrip())]
        return f"{space}{kept}" if kept else ""

    def pointed(found: re.Match[str]) -> str:
        return re.sub(r"\d+", lambda number: str(numbers.get(int(number[0]), number[0])), found[0])

    return _POINTER.sub(pointed, _CITATION.sub(renumbered, text)).strip()


def cited_with(text: str, numbers: Sequence[int]) -> str:
    """A text whose citations are these, before the stop that it ends with."""
    bare = without_citations(text)
    before = bare.rstrip(".!?…。！？")
    return f"{before} {''.join(f'[{number}]' for number in numbers)}{bare[len(before) :]}" if numbers else bare


def cited_sentences(text: str) -> list[str]:
    """The sentences of a text, each with its citations, also where these stand behind the stop."""
    within = _AFTER_STOP.sub(lambda found: f"{found[2]}{found[1]} ", text)
    return [one for line in within.splitlines() for one in stripped_sentences(_BULLET.sub("", line).strip())]


def without_bullets(items: Sequence[str]) -> list[str]:
    """The items of a list without the bullets before them, or their numbers where all are numbered in their order."""
    numbers = [re.match(r"(\d+)(?:[.)]\s|[、．])", one) for one in items]
    numbered = [int(found[1]) if found else 0 for found in numbers] == [*range(1, len(items) + 1)]
    return [one if re.match(r"\d+(?![\d、])", one) and not numbered else _BULLET.sub("", one).strip() for one in items]
