"""Citations of numbered passages in a text, such as ``[2]`` and ``[1, 3]``: found, renumbered and taken out."""

import re
from collections.abc import Mapping, Sequence

from keqa.retrievers.splitting import stripped_sentences

_ONE = r"\d{1,3}(?:\s*[-–]\s*\d{1,3})?"
_CITATION = re.compile(rf"\s*[\[【［]\s*({_ONE}(?:\s*[,;、]\s*{_ONE})*)\s*[\]】］]")
_AFTER_STOP = re.compile(rf"([.!?…。！？]+)((?:{_CITATION.pattern})+)")
_BULLET = re.compile(r"^\s*(?:[-*•]|#{1,6}|\d{1,3}[.)])\s+")
_WIDEST = 20


def cited_in(text: str) -> list[int]:
    """The numbers of the passages that a text cites, each once, in order."""
    return list(dict.fromkeys(number for found in _CITATION.finditer(text) for number in _numbers(found[1])))


def _numbers(written: str) -> list[int]:
    found: list[int] = []
    for part in re.split(r"[,;、]", written):
        first, *last = (int(number) for number in re.split(r"[-–]", part))
        found += range(first, min(last[0], first + _WIDEST) + 1) if last else [first]
    return found


def without_citations(text: str) -> str:
    return _CITATION.sub("", text).strip()


def with_citations(text: str, numbers: Mapping[int, int]) -> str:
    """A text with other numbers in the places of those that are given, and without the citations of others."""

    def renumbered(found: re.Match[str]) -> str:
        kept = "".join(f"[{numbers[number]}]" for number in _numbers(found[1]) if number in numbers)
        space = found[0][: len(found[0]) - len(found[0].lstrip())]
        return f"{space}{kept}" if kept else ""

    return _CITATION.sub(renumbered, text).strip()


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
    numbers = [re.match(r"(\d+)[.)]\s", one) for one in items]
    numbered = [int(found[1]) if found else 0 for found in numbers] == [*range(1, len(items) + 1)]
    return [one if one[:1].isdigit() and not numbered else _BULLET.sub("", one).strip() for one in items]
