"""Whether a text says that it has no answer, in any wording: a small classifier over letters.

A logistic regression over hashed n-grams of characters and words, with length, capitals and position in the text. Its
weights are numbers in ``refusals.json``, which ``benchmarks/refusals.py`` trains from lists in twelve languages.

Each sentence is judged by itself. A text is a refusal where its first sentence is one and what follows adds no answer:
apologies, offers of help and guesses that are marked as such add none.
"""

import json
import math
import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple
from zlib import crc32

PLACES = 1 << 18
"""How many weights there are."""

SHORT = 25
"""A sentence of fewer letters may be a name, so that more has to speak for a refusal."""

_SENTENCE_END = re.compile(r"(?<=[。！？!?؟])\s*|(?<=\w{4}[.…])\s+|(?<=[)\]\"”’»][.…])\s+|\n")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_DIGIT = re.compile(r"\d")
# What a guess begins with behind few words that say nothing: "I'm not sure, but Paris".
_BUT = re.compile(r"(?<=\w)[\s,，،]*(?:\b(?:but|aber|mais|pero|mas|ma|maar|ale|но)\b|و?لكن|但)")
# What refusals are written with in traditional Chinese, which nothing was learned from.
_SIMPLIFIED = str.maketrans("無沒確資訊關說詳記載錄問題檔內", "无没确资讯关说详记载录问题档内")
_MOST_LETTERS = 300
_LONGEST = 5


class Model(NamedTuple):
    """What ``refusals.json`` holds: weights, their divisor, and thresholds of log odds by the sentence's kind."""

    threshold: float
    short_threshold: float
    later_threshold: float
    divisor: float
    weights: list[int]


@cache
def model() -> Model:
    return Model(**json.loads(files("keqa.metrics").joinpath("refusals.json").read_text("utf-8")))


def is_refusal(text: str, shift: float = 0.0) -> bool:
    """Whether a text says that it has no answer and gives none; `shift` raises the bar of its first sentence."""
    found = sentences(text)
    if not found:
        return False
    least = model().short_threshold if len(found[0]) < SHORT else model().threshold
    if score(found[0]) < least + shift:
        return False
    return all(score(one, later=True) >= model().later_threshold for one in found[1:])


def is_marked_guess(text: str) -> bool:
    """Whether few words that say nothing stand before a guess; of a document they may be what it says."""
    before, *guess = _BUT.split(text.strip(), maxsplit=1)
    return bool(guess) and len(before) < SHORT and score(before) >= model().short_threshold + 1.0


def sentences(text: str) -> list[str]:
    """The sentences of a text; a stop behind a short word may be an abbreviation's and ends none."""
    return [part for part in _SENTENCE_END.split(text.strip()) if _WORD.search(part)]


def score(sentence: str, *, later: bool = False) -> float:
    """The log odds that a sentence has no answer to give; `later` says that another stands before it."""
    sentence = sentence[:_MOST_LETTERS]
    return max(_score(one, later) for one in {sentence, sentence.translate(_SIMPLIFIED)})


# Whoever compares programs meets the same answers many times.
@lru_cache(maxsize=1 << 12)
def _score(sentence: str, later: bool) -> float:
    found = places(sentence, later=later)
    return sum(map(model().weights.__getitem__, found)) / model().divisor / math.sqrt(len(found) or 1)


def places(sentence: str, *, later: bool = False) -> set[int]:
    prefix = "later " if later else ""
    return {
        crc32((prefix + feature).encode("utf-8", "surrogatepass")) % PLACES
        for feature in _features(sentence[:_MOST_LETTERS])
    }


def _features(sentence: str) -> Iterator[str]:
    named = _WORD.findall(sentence)
    capitals = sum(word[0].isupper() and not word.isupper() for word in named[1:])
    yield f"capitals {min(capitals, 4)} of {min(len(named), 6)}"
    yield f"length {math.isqrt(len(sentence))}"
    yield f"digits {min(len(_DIGIT.findall(sentence)), 3)}"
    plain = unicodedata.normalize("NFKD", re.sub("['’]", "", sentence)).casefold()
    plain = _DIGIT.sub("0", "".join(letter for letter in plain if not unicodedata.combining(letter)))
    words = ["^", *_WORD.findall(plain), "$"]
    yield from words
    yield from (f"{first} {second}" for first, second in pairwise(words))
    spaced = f"^{' '.join(plain.split())}$"
    for length in range(1, _LONGEST + 1):
        yield from (f"<{spaced[start : start + length]}" for start in range(len(spaced) - length + 1))
