"""How text becomes terms: one analyzer for English, one for Chinese mixed with anything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from keqa.errors import InputError, RetrievalError
from keqa.retrievers.base import Passage
from keqa.retrievers.stopwords import CHINESE, ENGLISH
from keqa.retrievers.text import UNSPACED, clean_text, unspaced_share

if TYPE_CHECKING:
    import tantivy

Language = Literal["en", "zh"]

# A query of more different terms than this is cut: a 100 kB question must not become 10,000 term queries.
MAX_QUERY_TERMS = 512

# Below this share of the letters, Chinese is taken for names inside an English corpus.
_CHINESE_SHARE = 0.05
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
        language: ``"en"``, or ``"zh"`` where each Han character is a term; the latter serves mixed text too.
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
}


def settings_for(language: str) -> AnalyzerSettings:
    """Return the settings of a language.

    Raises:
        InputError: The language is neither ``"en"`` nor ``"zh"``.
    """
    if language not in _SETTINGS:
        raise InputError(f"unknown language {language!r}: use auto, en or zh")
    return _SETTINGS[language]


def language_of(named: str, passages: Iterable[Passage]) -> Language:
    """The language of a corpus as it was named, or where that is ``"auto"`` as a sample of its passages has it.

    Raises:
        InputError: There is no such language.
    """
    if named != "auto":
        return settings_for(named).language
    shares = [unspaced_share(passage.text) for passage in passages]
    return "zh" if shares and sum(shares) / len(shares) >= _CHINESE_SHARE else "en"


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


@lru_cache(maxsize=4)
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
    kept = [term for word, term in zip(words, terms, strict=True) if word not in stop]
    return list(dict.fromkeys(kept or terms))[:MAX_QUERY_TERMS]


def plain_words(query: str, language: Language) -> Sequence[str]:
    """Return the words of a query in lower case, as they are before stop words are dropped and the rest is stemmed."""
    words: Sequence[str] = _query_analyzers(language)[0].analyze(clean_text(query))
    return words


def stop_words(language: Language) -> frozenset[str]:
    """Return the function words that a query of a language drops."""
    return ENGLISH if language == "en" else ENGLISH | CHINESE
