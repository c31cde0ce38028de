"""What a quiz is about, and whether passages speak of it: its names and numbers, or else most of its words.

It is decided by words alone, which costs nothing: before anything is asked, and where nothing that was found helps.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from keqa.retrievers.stopwords import CHINESE
from keqa.retrievers.text import languages_of_word, spaced_language, without_stop_words

_WORD = re.compile(r"[^\W_]+")
_JOINS = re.compile(r"[\s.'’&/-]{1,2}")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+")
_CJK_FUNCTION = re.compile(f"[{''.join(sorted(CHINESE))}]")
# They tell the language of a question, and in any language they are nothing that it is about: one list serves both, for
# a word that was left out of either would make a question of one language look like one of another.
_QUESTION_WORDS = {
    "de": "wer was wann wo wie welche welcher welches welchen warum wieso wieviel wieviele wessen wem wen woher wohin",
    "en": "who what when where which whose how why is are does do did was were",
    "es": "quién quiénes cuál cuáles cuándo dónde cómo cuánto cuánta cuántos cuántas qué",
    "fr": "qui que quel quelle quels quelles quand où comment combien pourquoi",
    "it": "chi quale quali qual dove dov come quando quanto quanti quanta perché",
    "nl": "wat wie wanneer waar hoe welk welke waarom hoeveel wiens",
    "pl": "kto co kiedy gdzie jak jaki jaka jakie ile czy który która które którym której dlaczego kogo czyj",
    "pt": "quem qual quais onde quando quanto quantos quantas",
}
_ASKED_IN: dict[str, list[str]] = {}
for _code, _words in _QUESTION_WORDS.items():
    for _word in _words.split():
        _ASKED_IN.setdefault(_word, []).append(_code)
# Two forms of a word share so many letters at the beginning, and so much of the longer one.
_STEM, _SHARE = 4, 0.6
# Of the words of a quiz without names, how many a passage has that speaks of it; in a script without spaces, of its
# pairs of characters.
_MOST, _HALF = 2 / 3, 0.5


def language_of(text: str) -> str:
    """The language of a question by its script, its question words and function words; ``en`` where it is unclear."""
    words = words_of(text)
    # Beside a question word of another script it is a name: "Who wrote 三体?".
    if not any(word in _ASKED_IN for word in words):
        if _CJK.search(text):
            return "ja" if re.search(r"[\u3040-\u30ff]", text) else "zh"
        if re.search(r"[\u0400-\u04ff]", text):
            return "ru"
    spaced = spaced_language([text])
    votes: Counter[str] = Counter()
    for word in words:
        votes.update([*_ASKED_IN.get(word, ()), *languages_of_word(word)])
    if spaced == "ar" or not votes:
        return spaced
    # "Was" is English before who is spoken of, and German before what they do: "Was kostet".
    first, second = [*_WORD.findall(text), "", ""][:2]
    votes["de"] += first.casefold() == "was" and second[:1].islower() and "en" not in languages_of_word(second)
    ranks = {code: (count, code == "en", code in _QUESTION_WORDS, code == spaced) for code, count in votes.items()}
    return max(sorted(ranks), key=ranks.__getitem__)


def words_of(text: str) -> list[str]:
    """The words of a text in small letters; of Chinese and Japanese each pair of neighbouring characters."""
    spaced = [word.casefold() for word in _WORD.findall(_CJK.sub(" ", text))]
    runs = [run for text in _CJK.findall(text) for run in _CJK_FUNCTION.sub(" ", text).split()]
    return spaced + [run[at : at + 2] for run in runs for at in range(max(1, len(run) - 1))]


def content_words(text: str) -> list[str]:
    """The words of a text that are no function words of its language."""
    language = spaced_language([text])
    kept = {word.casefold() for word in without_stop_words(language).analyze(text)}
    return [word for word in words_of(text) if (word in kept or _CJK.match(word)) and word not in _ASKED_IN]


def names_of(text: str) -> list[list[str]]:
    """The names and numbers in a question, each as its words in small letters.

    Words in capitals that follow each other are one name. The first word counts only where it is a number: every
    question begins with a capital.
    """
    content, found, end = set(content_words(text)), list[list[str]](), 0
    for match in _WORD.finditer(_CJK.sub(lambda run: " " * len(run[0]), text)):
        word = match[0]
        if any(map(str.isdigit, word)) or (match.start() > 0 and word[0].isupper() and word.casefold() in content):
            joined = bool(found) and _JOINS.fullmatch(text, end, match.start()) is not None
            found[-1].append(word.casefold()) if joined else found.append([word.casefold()])
            end = match.end()
    return found


def spoken_of(quiz: str, passages: Iterable[str], *, least: float = 2 / 3) -> list[str]:
    """What of a quiz passages speak of: the names of it that stand in one of them, or else its words.

    None where less than a share of the names, or too few words, stand there for the passages to be about the quiz.
    """
    bags = [set(words_of(passage)) for passage in passages]
    names = names_of(quiz)
    if any(not word.isdigit() for name in names for word in name):
        there = [name for name in names if any(all(stands_in(word, bag) for word in name) for bag in bags)]
        return [" ".join(name) for name in there] if len(there) >= least * len(names) else []
    words = list(dict.fromkeys(content_words(quiz)))
    shared = max(([word for word in words if stands_in(word, bag)] for bag in bags), key=len, default=[])
    enough = len(shared) >= (_HALF if _CJK.search(quiz) else _MOST) * len(words)
    return shared if shared and enough else []


def stands_in(word: str, words: Iterable[str]) -> bool:
    """Whether a word is among others, maybe in another form."""
    if word in (words := words if isinstance(words, set) else set(words)):
        return True
    if len(word) < _STEM or not word.isalpha() or _CJK.match(word):
        return False
    return any(_same_stem(word, other) for other in words)


def _same_stem(first: str, second: str) -> bool:
    longer = max(len(first), len(second))
    least = max(_STEM, round(_SHARE * longer))
    return len(second) >= _STEM and first[:least] == second[:least]
