"""How text becomes terms: words are stemmed by the language of their passage; without spaces, characters in pairs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, cast

from keqa.errors import InputError
from keqa.retrievers.base import Passage
from keqa.retrievers.languages import STEMMED, languages_of_word, spaced_language, words_of_any_script
from keqa.retrievers.stopwords import CHINESE, ENGLISH
from keqa.retrievers.text import JOINED, UNSPACED, clean_text, unspaced_share

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
_LONGEST_TERM = 40
_HAN_SPLITTING = r"[\p{Han}]|[\p{Alphabetic}\p{N}&&[^\p{Han}]]+"
_UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")
_RUN = re.compile(f"[{JOINED}]+")
_HAN = re.compile(r"[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]")


@dataclass(frozen=True, slots=True)
class AnalyzerSettings:
    """What an index was built with and a query must follow; kept in the manifest and compared on opening.

    Attributes:
        version: Raised whenever a change makes terms of old indexes and new queries differ.
        language: That of passages of which it is unclear: ``"en"``, ``"zh"``, or one of
            `keqa.retrievers.languages.STEMMED`.
        tokenizer: Name of the tokenizer inside the index.
        title_weight: What a match in the title counts beside one in the text.
    """

    version: int
    language: Language
    tokenizer: str
    title_weight: float


# The terms of a passage are made here, by its own language, and the engine parts them where there are spaces.
_SETTINGS: dict[str, AnalyzerSettings] = {
    code: AnalyzerSettings(2, cast(Language, code), "whitespace", title_weight=0.5) for code in ("en", "zh", *STEMMED)
}
LANGUAGES: Final = tuple(_SETTINGS)
"""The languages that there are analyzers for."""


def settings_for(language: str) -> AnalyzerSettings:
    """Return the settings of a language."""
    if language not in _SETTINGS:
        raise InputError(f"unknown language {language!r}: use auto, or one of {', '.join(_SETTINGS)}")
    return _SETTINGS[language]


def language_of(named: str, passages: Iterable[Passage], known: Collection[str] = LANGUAGES) -> Language:
    """The language of a corpus as it was named, or where that is ``"auto"`` as a sample of its passages has it."""
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


@lru_cache(maxsize=64)
def analyzer(language: Language, *, stem: bool = True, fold: bool = True) -> tantivy.TextAnalyzer:
    """Return the analyzer of a language, with or without its stemmer, and its folding.

    The English one does exactly what Tantivy's own ``en_stem`` does.
    """
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    han = Tokenizer.regex(_HAN_SPLITTING)
    tokenizer = words_of_any_script() if language in STEMMED else Tokenizer.simple() if language == "en" else han
    builder = TextAnalyzerBuilder(tokenizer).filter(Filter.remove_long(_LONGEST_TERM)).filter(Filter.lowercase())
    return _stemming(language, builder, stem=stem, fold=fold).build()


def _stemming(
    language: Language, builder: tantivy.TextAnalyzerBuilder, *, stem: bool = True, fold: bool = True
) -> tantivy.TextAnalyzerBuilder:
    from tantivy import Filter

    builder = builder.filter(Filter.stemmer(STEMMED.get(language, "english"))) if stem else builder
    # Last: stemmers distinguish endings by their accents.
    return builder.filter(Filter.ascii_fold()) if fold and language in STEMMED else builder


def is_known(settings: AnalyzerSettings) -> bool:
    """Whether this version makes the terms that settings from elsewhere stand for."""
    return settings == _SETTINGS.get(settings.language)


def _spoken(language: str) -> Language:
    """The language whose words are stemmed where one is written; English words stand in any other."""
    return cast(Language, language if language in STEMMED else "en")


@lru_cache(maxsize=1 << 16)
def _term(word: str, language: Language) -> str:
    """A word as it is in lower case, as the term that it is in a passage in some language."""
    from tantivy import TextAnalyzerBuilder, Tokenizer

    terms = _stemming(language, TextAnalyzerBuilder(Tokenizer.raw())).build().analyze(word)
    return str(terms[0]) if terms else word


def index_terms(text: str, language: str) -> list[str]:
    """The terms of a passage."""
    words, joined = _joined_terms(text)
    return [*analyzer(_spoken(language)).analyze(words), *joined]


def _joined_terms(text: str) -> tuple[str, list[str]]:
    """The words that spaces part, and the terms of other writing: pairs of characters, and single ones of Han."""
    if text.isascii() or _RUN.search(text) is None:
        return text, []
    terms = []
    for run in _RUN.findall(text):
        terms += _HAN.findall(run)
        terms += [run] if len(run) == 1 and not _HAN.match(run) else [run[at : at + 2] for at in range(len(run) - 1)]
    return _RUN.sub(" ", text), terms


def query_terms(query: str, *languages: str) -> list[str]:
    """Return the terms that a query is searched for, each once.

    Any text is a query: nothing in it is an operator. Its words are stemmed as those of each language are. The stop
    words of the languages that it may be in are dropped unless nothing else is left ("The Who"). The result is empty
    only where the query has neither letters nor digits.
    """
    words, joined = _joined_terms(clean_text(query))
    spoken = dict.fromkeys(map(_spoken, languages))
    plain = {code: _words(words, stemmed=code in STEMMED) for code in spoken}
    # A long query is cut, and then for all languages at the same place.
    found = sorted((place, word, code) for code in spoken for place, word in enumerate(plain[code]))
    known = Counter(code for word in {word for _, word, _ in found} for code in languages_of_word(word))
    most = max((known[code] for code in spoken), default=0)
    likely = {code for code in spoken if 0 < known[code] == most}
    kept = [_term(word, code) for _, word, code in found if not (likely & languages_of_word(word))]
    kept += [term for term in joined if not CHINESE.issuperset(term)]
    kept = kept or [*(_term(word, code) for _, word, code in found), *joined]
    return list(dict.fromkeys(kept))[:MAX_QUERY_TERMS]


def _words(text: str, *, stemmed: bool) -> Sequence[str]:
    words: Sequence[str] = analyzer("de" if stemmed else "en", stem=False, fold=False).analyze(text)
    return words


def plain_words(query: str, language: Language) -> Sequence[str]:
    """Return the words of a query in lower case, as they are before stop words are dropped and the rest is stemmed."""
    words: Sequence[str] = analyzer(language, stem=False).analyze(clean_text(query))
    return words


def stop_words(language: Language) -> frozenset[str]:
    """Return the function words that a query in English or Chinese drops; other languages have lists in the engine."""
    return ENGLISH if language == "en" else ENGLISH | CHINESE
