"""The languages whose words an index knows in all their forms, and which of them a text is in.

Each has a stemmer of the Snowball project. What a language's words are folded to afterwards has no accents: who types
``Munchen`` or ``ecole`` finds ``München`` and ``école``, and ``ß`` is ``ss``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from keqa.retrievers.stopwords import ENGLISH, ROMANIAN, TURKISH
from keqa.retrievers.text import clean_text

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

# So many characters of a corpus are looked at, so many of each passage.
_SAMPLE: Final = 100_000
_OF_EACH: Final = 1000
# In running text a third of the words are function words; a list of names or figures has hardly any.
_LEAST: Final = 0.15
# Languages share words (de, la, in, man): another one than English has to be clearly ahead of it.
_AHEAD: Final = 1.3


@lru_cache(maxsize=32)
def without_stop_words(language: str) -> tantivy.TextAnalyzer:
    """The analyzer that leaves out the function words of a language, where there is a list of them.

    Args:
        language: ``"en"`` or one of `STEMMED`.
    """
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


def spaced_language(texts: Iterable[str]) -> str:
    """The language of texts that are not in Chinese or Japanese, as their function words and letters have it.

    Args:
        texts: The beginning of a corpus.

    Returns:
        ``"en"`` or one of `STEMMED`; ``"en"`` where that is unclear.
    """
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
