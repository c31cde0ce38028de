"""How text becomes terms: an analyzer for English, one for Chinese with English in it, one for each other language."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, cast

from keqa.errors import InputError, RetrievalError
from keqa.retrievers.base import Passage
from keqa.retrievers.languages import STEMMED, spaced_language, without_stop_words, words_of_any_script
from keqa.retrievers.stopwords import CHINESE, ENGLISH
from keqa.retrievers.text import UNSPACED, clean_text, unspaced_share

if TYPE_CHECKING:
    import tantivy

Language = Literal[
    "en", "zh", "ar", "da", "de", "el", "es", "fi", "fr", "hu", "it", "nl", "no", "pt", "ro", "ru", "sv", "tr"
]

# A query of more different terms than this is cut: a 100 kB question must not become 10,000 term queries.
MAX_QUERY_TERMS = 512

# Below this share of the letters, Chinese is taken for names inside an English corpus.
_CHINESE_SHARE = 0.05
# Above this one, other languages are taken for names and quotations.
_MOSTLY_CHINESE = 0.5
# Above this share of passages in Chinese, an index that was taken for English finds too little.
_REPORTED_CHINESE_SHARE = 0.01
_LONGEST_TERM = 40
_HAN_SPLITTING = r"[\p{Han}]|[\p{Alphabetic}\p{N}&&[^\p{Han}]]+"
_UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")


@dataclass(frozen=True, slots=True)
class AnalyzerSettings:
    """What an index was built with and a query must follow; kept in the manifest and compared on opening.

    Attributes:
        version: Raised whenever a change makes terms of old indexes and new queries differ.
        language: ``"en"``; ``"zh"`` where each Han character is a term, which serves text mixed with English too; or
            one of `keqa.retrievers.languages.STEMMED`, which serves text mixed with Chinese.
        tokenizer: Name of the tokenizer inside the index.
        title_weight: What a match in the title counts beside one in the text.
    """

    version: int
    language: Language
    tokenizer: str
    title_weight: float


_SETTINGS: dict[str, AnalyzerSettings] = {
    "en": AnalyzerSettings(version=1, language="en", tokenizer="en_stem", title_weight=0.5),
    "zh": AnalyzerSettings(version=1, language="zh", tokenizer="keqa_zh", title_weight=0.5),
    **{code: AnalyzerSettings(1, cast(Language, code), f"keqa_{code}", title_weight=0.5) for code in STEMMED},
}

LANGUAGES: Final = tuple(_SETTINGS)
"""The languages that there are analyzers for."""


def settings_for(language: str) -> AnalyzerSettings:
    """Return the settings of a language.

    Raises:
        InputError: There is no such language.
    """
    if language not in _SETTINGS:
        raise InputError(f"unknown language {language!r}: use auto, or one of {', '.join(_SETTINGS)}")
    return _SETTINGS[language]


def language_of(named: str, passages: Iterable[Passage], known: Collection[str] = LANGUAGES) -> Language:
    """The language of a corpus as it was named, or where that is ``"auto"`` as a sample of its passages has it.

    Args:
        named: As the user gave it.
        passages: The sample.
        known: The languages of the engine; English is one.

    Raises:
        InputError: There is no such language.
    """
    if named != "auto":
        if named in _SETTINGS and named not in known:
            raise InputError(f"this engine has no analyzer for {named!r}: use auto, or one of {', '.join(known)}")
        return settings_for(named).language
    sample = list(passages)
    shares = [unspaced_share(passage.text) for passage in sample]
    spaced = spaced_language(passage.text for passage in sample if not is_chinese(passage.text))
    chinese = sum(shares) / len(shares) if shares else 0.0
    # Its analyzer serves Chinese as well, and that for Chinese knows English beside it.
    if spaced != "en" and spaced in known and chinese < _MOSTLY_CHINESE:
        return cast(Language, spaced)
    return "zh" if chinese >= _CHINESE_SHARE else "en"


def is_chinese(text: str) -> bool:
    """Decide whether a text is written in Chinese (or Japanese) rather than quoting some of it."""
    # The first two questions are quick; only a text that has such a character at all is counted.
    return not text.isascii() and _UNSPACED_CHARACTER.search(text) is not None and unspaced_share(text) >= 0.5


def warning_of_chinese(chinese: int, count: int, language: str | None) -> str:
    """The warning about passages in Chinese in an index for English; empty where there are hardly any."""
    if language != "en" or chinese <= _REPORTED_CHINESE_SHARE * count:
        return ""
    return (
        f"{chinese} of {count} passages are in Chinese, in an index for English: "
        "build it with language zh, which serves both"
    )


def analyzer(language: Language, *, stem: bool = True) -> tantivy.TextAnalyzer:
    """Return the analyzer of a language, with or without its stemmer.

    The English one does exactly what Tantivy's own ``en_stem`` does.
    """
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    if language in STEMMED:
        builder = TextAnalyzerBuilder(words_of_any_script()).filter(Filter.remove_long(_LONGEST_TERM))
        builder = builder.filter(Filter.lowercase())
        builder = builder.filter(Filter.stemmer(STEMMED[language])) if stem else builder
        # Last: stemmers distinguish endings by their accents.
        return builder.filter(Filter.ascii_fold()).build()
    tokenizer = Tokenizer.simple() if language == "en" else Tokenizer.regex(_HAN_SPLITTING)
    builder = TextAnalyzerBuilder(tokenizer).filter(Filter.remove_long(_LONGEST_TERM)).filter(Filter.lowercase())
    return (builder.filter(Filter.stemmer("english")) if stem else builder).build()


def register(index: tantivy.Index, settings: AnalyzerSettings) -> None:
    """Make the index know its tokenizer; needed after creating and after every opening.

    Raises:
        RetrievalError: This version does not know the settings.
    """
    if _SETTINGS.get(settings.language) != settings:
        raise RetrievalError(f"the index was built with analyzer settings that this version does not know: {settings}")
    if settings.tokenizer != "en_stem":
        index.register_tokenizer(settings.tokenizer, analyzer(settings.language))


@lru_cache(maxsize=32)
def _query_analyzers(language: Language) -> tuple[tantivy.TextAnalyzer, tantivy.TextAnalyzer]:
    return analyzer(language, stem=False), analyzer(language, stem=True)


def query_terms(query: str, language: Language) -> list[str]:
    """Return the terms that a query is searched for, in order, each once.

    Any text is a query: nothing in it is an operator. Stop words are dropped unless nothing else is left ("The
    Who"). The result is empty only where the query has neither letters nor digits.
    """
    # The two analyzers differ in their last filter only, which changes terms but neither adds nor drops one.
    words = plain_words(query, language)
    terms: Sequence[str] = _query_analyzers(language)[1].analyze(clean_text(query))
    stop = stop_words(language)
    if language in STEMMED:
        content = without_stop_words(language).analyze(clean_text(query))
        stop = frozenset(words) - frozenset(_folding().analyze(" ".join(content)))
    kept = [term for word, term in zip(words, terms, strict=True) if word not in stop]
    return list(dict.fromkeys(kept or terms))[:MAX_QUERY_TERMS]


@lru_cache(maxsize=1)
def _folding() -> tantivy.TextAnalyzer:
    from tantivy import Filter, TextAnalyzerBuilder

    return TextAnalyzerBuilder(words_of_any_script()).filter(Filter.ascii_fold()).build()


def plain_words(query: str, language: Language) -> Sequence[str]:
    """Return the words of a query in lower case, as they are before stop words are dropped and the rest is stemmed."""
    words: Sequence[str] = _query_analyzers(language)[0].analyze(clean_text(query))
    return words


def stop_words(language: Language) -> frozenset[str]:
    """Return the function words that a query in English or Chinese drops; other languages have lists in the engine."""
    return ENGLISH if language == "en" else ENGLISH | CHINESE
