"""The languages whose words an index knows in all their forms, and which of them a text is in.

Each has a stemmer of the Snowball project. What a language's words are folded to afterwards has no accents: who types
``Munchen`` or ``ecole`` finds ``München`` and ``école``, and ``ß`` is ``ss``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from keqa.retrievers.stopwords import ENGLISH, ROMANIAN, TURKISH
from keqa.retrievers.text import JOINED, UNSPACED, clean_text

if TYPE_CHECKING:
    import tantivy

STEMMED: Final = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "tr": "turkish",
}
"""Stemmers by the code of their language, English and Chinese excepted, which have analyzers of their own."""

# Where the engine has no list, and the language no script of its own either, a short one distinguishes it from others.
_OWN_LISTS: Final = {"en": ENGLISH, "ro": ROMANIAN, "tr": TURKISH}
_NO_LIST: Final = frozenset({"ar", "el"})
_SCRIPTS: Final = {"ar": re.compile(r"[\u0620-\u06ff]"), "el": re.compile(r"[\u0370-\u03ff]")}
_LETTER: Final = re.compile(r"[^\W\d_]")

NAMES: Final = {code: name.capitalize() for code, name in STEMMED.items()} | {
    "en": "English",
    "zh": "Chinese",
    "ja": "Japanese",
    "ko": "Korean",
    "th": "Thai",
}
"""What the languages are called that a passage may be in; that of any other goes by its script."""

# Scripts that say which language a passage is in, or as what it is treated; each character of the first is a syllable,
# so that fewer of them are as much. Kana come before Han, which Japanese has too.
_JOINED_SHARE: Final = 0.3
_OF_JOINED: Final = {
    "ja": re.compile(r"[\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f]"),
    "ko": re.compile(r"[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]"),
    "zh": re.compile(f"[{UNSPACED}]"),
    "th": re.compile(f"[{JOINED}]"),
}
_OF_LETTERS: Final = {**_SCRIPTS, "ru": re.compile(r"[\u0400-\u04ff]")}
_OTHER_SCRIPT: Final = re.compile(rf"[\u0370-\u06ff{JOINED}]")
_LATIN: Final = tuple(code for code in ("en", *STEMMED) if code not in _OF_LETTERS)
_WORD: Final = re.compile(r"[^\W\d_]+")
# So many words of a passage are looked at, and so many of them at least are function words of its language, which is
# another than that of the index only where it is clearly ahead.
_LONGEST_FUNCTION_WORD: Final = 12
_LOOKED_AT: Final = 2000
_LEAST_WORDS: Final = 2
_CLEARLY: Final = 0.2
_CLEARLY_AHEAD: Final = 1.5

# So many characters of a corpus are looked at, so many of each passage.
_SAMPLE: Final = 100_000
_OF_EACH: Final = 1000
# In running text a third of the words are function words; a list of names or figures has hardly any.
_LEAST: Final = 0.15
# Languages share words (de, la, in, man): another one than English has to be clearly ahead of it.
_AHEAD: Final = 1.3


@lru_cache(maxsize=32)
def without_stop_words(language: str) -> tantivy.TextAnalyzer:
    """The analyzer that leaves out the function words of a language, where there is a list of them."""
    from tantivy import Filter, TextAnalyzerBuilder

    builder = TextAnalyzerBuilder(words_of_any_script()).filter(Filter.lowercase())
    if language in _OWN_LISTS:
        builder = builder.filter(Filter.custom_stopword(sorted(_OWN_LISTS[language])))
    elif language not in _NO_LIST:
        builder = builder.filter(Filter.stopword(STEMMED[language]))
    return builder.build()


def words_of_any_script() -> tantivy.Tokenizer:
    """Cuts text into words; each Han character is one."""
    from tantivy import Tokenizer

    return Tokenizer.regex(r"[\p{Han}]|[\p{Alphabetic}\p{M}\p{N}&&[^\p{Han}]]+")


@lru_cache(maxsize=1 << 16)
def languages_of_word(word: str) -> frozenset[str]:
    """The languages in which a word, in lower case, is a function word; Chinese ones are characters."""
    if len(word) > _LONGEST_FUNCTION_WORD:
        return frozenset()
    known = (code for code in ("en", *STEMMED) if code not in _NO_LIST)
    return frozenset(code for code in known if not without_stop_words(code).analyze(word))


# The same text is asked for again at once, where it is counted and where it is written.
@lru_cache(maxsize=4)
def language_of_text(text: str, main: str = "en") -> str:
    """The language of a passage, as its letters and its function words have it."""
    text = text[:_LOOKED_AT]
    if not text.isascii() and _OTHER_SCRIPT.search(text) and (letters := len(_LETTER.findall(text))):
        if len(_OF_JOINED["th"].findall(text)) >= _JOINED_SHARE * letters:
            counts = {code: len(script.findall(text)) for code, script in _OF_JOINED.items()}
            # Japanese has kana in every sentence, and all that is left is counted last.
            some = _JOINED_SHARE / 2 * counts["th"]
            return next(code for code in counts if counts[code] >= (1 if code == "th" else some))
        for code, script in _OF_LETTERS.items():
            if 2 * len(script.findall(text)) >= letters:
                return code
    main = main if main in _LATIN else "en"
    # Most passages of most indexes need no more than this.
    words = text.lower().split()
    if main == "en" and sum(map(ENGLISH.__contains__, words)) >= _CLEARLY * len(words):
        return main
    words = _WORD.findall(text.lower())
    found = Counter(code for word in words for code in languages_of_word(word))
    best = max(_LATIN, key=lambda code: (found[code], code == main))
    enough = found[best] >= max(_LEAST_WORDS, _CLEARLY * len(words))
    return best if enough and found[best] >= _CLEARLY_AHEAD * found[main] else main


def by_frequency(languages: Mapping[str, int]) -> dict[str, int]:
    """Languages with how many passages are in them, the most frequent one first; none without any."""
    return dict(
        sorted(((code, count) for code, count in languages.items() if count > 0), key=lambda one: (-one[1], one[0]))
    )


def described(languages: Mapping[str, int]) -> str:
    """Languages in words, such as ``English 120, German 14``."""
    return ", ".join(f"{NAMES.get(code, code)} {count:,}" for code, count in by_frequency(languages).items())


def spaced_language(texts: Iterable[str]) -> str:
    """The language of texts that are not in Chinese or Japanese, as their function words and letters have it."""
    parts, size = [], 0
    for text in texts:
        parts.append(text[:_OF_EACH])
        size += len(parts[-1])
        if size >= _SAMPLE:
            break
    sample = clean_text("\n".join(parts))
    letters = len(_LETTER.findall(sample))
    for language, script in _SCRIPTS.items():
        if letters and len(script.findall(sample)) >= 0.5 * letters:
            return language
    shares = {language: _share(sample, language) for language in ("en", *STEMMED) if language not in _NO_LIST}
    best = max(shares, key=lambda language: shares[language])
    return best if shares[best] >= max(_LEAST, _AHEAD * shares["en"]) else "en"


def _share(sample: str, language: str) -> float:
    # For Arabic there is no list, and every word stays.
    words = len(without_stop_words("ar").analyze(sample))
    return 1 - len(without_stop_words(language).analyze(sample)) / words if words else 0.0
