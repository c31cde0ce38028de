"""Text as an index can hold it: how long it is, which language it is in, and which terms it has.

Each language has a stemmer of the Snowball project. What its words are folded to afterwards has no accents: who types
``Munchen`` or ``ecole`` finds ``München`` and ``école``, and ``ß`` is ``ss``. Without spaces, characters go in pairs.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from keqa.errors import InputError
from keqa.retrievers.stopwords import CHINESE, ENGLISH, ROMANIAN, TURKISH

if TYPE_CHECKING:
    import tantivy

# Han ideographs with their extensions, and kana: written without spaces, so each character is counted.
UNSPACED = r"\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
# Those, and Hangul, Thai, Lao, Burmese and Khmer: what is a word there, spaces do not say.
JOINED = UNSPACED + r"\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3\uff66-\uff9f\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
# Lengths are counted in fifths of an English word, so that they stay whole numbers: a Chinese sentence needs about
# five characters where its translation needs three words.
WORD_LENGTH = 5
CHARACTER_LENGTH = 3
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Up to this length, no run of combining marks costs anything that could be measured.
_MARKED = 2000
# Marks are neither of words nor spaces: this is searched for many times faster than the marks, of which hundreds are
# beyond the Basic Multilingual Plane and are compared one by one.
_MARKS_PERHAPS = re.compile(r"[^\w\s]{31}")
# Beside what is no character, where a word may be broken, which is within one.
_INVALID = re.compile("[\ud800-\udfff\ufeff\xad\u200b\u2060]")
_LIGATURES = {one: unicodedata.normalize("NFKC", one) for one in map(chr, range(0xFB00, 0xFB07))}
_OTHER_WIDTH = re.compile("[\uff01-\uffee]+")
_UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")
# An unbroken run of more than 100 characters (a long address, encoded data) counts as several words.
_LONGEST_WORD = 100
_SPACED_WORD = re.compile(f"[^\\s{UNSPACED}]{{1,{_LONGEST_WORD}}}")
_LONGEST_SHOWN = 80
_LETTER = re.compile(r"[^\W\d_]")


def clean_text(value: object) -> str:
    """The text of a value without what an index refuses, composed (NFC): two spellings of a letter are one term.

    PDFs have ﬁ as one character, which nobody types.
    """
    if value is None:
        return ""
    text = value if isinstance(value, str) else str(value)
    # Nearly all of the millions of texts of a corpus need nothing done; these two questions are answered many times
    # faster than the patterns are searched for. What the patterns match is never printable.
    if not text.isprintable():
        text = _INVALID.sub("", _CONTROL.sub(" ", text.replace("\r\n", "\n")))
    if text.isascii():
        return text
    if len(text) > _MARKED and _MARKS_PERHAPS.search(text):
        text = _long_marks().sub(r"\1", text)
    for one, letters in _LIGATURES.items():
        text = text.replace(one, letters)
    return unicodedata.normalize("NFC", text)


@lru_cache(maxsize=1)
def _long_marks() -> re.Pattern[str]:
    """Matches a run of more combining marks than Unicode's own format has (UAX 15, 13): composing takes its square."""
    marks = "".join(mark for mark in map(chr, range(0x300, 0x20000)) if unicodedata.combining(mark))
    return re.compile(f"([{marks}]{{30}})[{marks}]+")


def one_line(text: str) -> str:
    return " ".join(text.split())


def plain(text: str) -> str:
    """Return what a text is recognised by, whatever its letter case, its spaces and the width of its characters."""
    return one_line(unicodedata.normalize("NFKC", text).casefold())


def usual_width(text: str) -> str:
    """A text with letters, digits and signs of the width that keyboards give: Ａ１ is A1, and ｶﾞ is ガ."""
    return text if text.isascii() else _OTHER_WIDTH.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)


def text_length(text: str) -> int:
    """Return the length in fifths of an English word; Chinese and Japanese count by character."""
    if text.isascii():
        # Many times as quick as the pattern, which finds the same.
        words = text.split()
        if len(text) <= _LONGEST_WORD or max(map(len, words), default=0) <= _LONGEST_WORD:
            return WORD_LENGTH * len(words)
    unspaced = 0 if text.isascii() else len(_UNSPACED_CHARACTER.findall(text))
    return WORD_LENGTH * len(_SPACED_WORD.findall(text)) + CHARACTER_LENGTH * unspaced


def unspaced_share(text: str) -> float:
    """Return the share of Chinese and Japanese characters among the letters of a text; 0 where it has no letter."""
    letters = len(_LETTER.findall(text))
    return len(_UNSPACED_CHARACTER.findall(text)) / letters if letters else 0.0


def shown(value: object) -> str:
    """A value as a message shows it: on one line, not endless, and by its type where it has no text of its own."""
    try:
        text = " ".join(repr(value).split())
    except Exception:
        # An integer of thousands of digits has no decimal writing, and an object may write itself in its own way.
        text = ""
    if not text or " at 0x" in text:
        return f"a value of the type {type(value).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


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
_LISTED: Final = tuple(code for code in ("en", *STEMMED) if code not in _NO_LIST)
_SCRIPTS: Final = {"ar": re.compile(r"[\u0620-\u06ff]"), "el": re.compile(r"[\u0370-\u03ff]")}
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
# Parts ASCII into the same words, in less time.
_PARTED: Final = "".join(char if char.isalpha() else " " for char in map(chr, range(128)))
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
    return frozenset(code for code in _LISTED if not without_stop_words(code).analyze(word))


# The same text is asked for again at once, where it is counted and where it is written.
@lru_cache(maxsize=4)
def language_of_text(text: str, main: str = "en") -> str:
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
    words = text.lower().translate(_PARTED).split() if text.isascii() else _WORD.findall(text.lower())
    found = Counter(code for codes in filter(None, map(languages_of_word, words)) for code in codes)
    best = max((code for code in _LATIN if found[code]), key=lambda code: (found[code], code == main), default=main)
    enough = found[best] >= max(_LEAST_WORDS, _CLEARLY * len(words))
    return best if enough and found[best] >= _CLEARLY_AHEAD * found[main] else main


def by_frequency(languages: Mapping[str, int]) -> dict[str, int]:
    """Languages with how many passages are in them, the most frequent one first; none without any."""
    found = [(code, count) for code, count in languages.items() if count > 0]
    return dict(sorted(found, key=lambda one: (-one[1], one[0])))


def described(languages: Mapping[str, int]) -> str:
    """Languages in words, such as ``English 120, German 14``."""
    return ", ".join(f"{NAMES.get(code, code)} {count:,}" for code, count in by_frequency(languages).items())


def spaced_language(texts: Iterable[str]) -> str:
    """The language of texts that are not in Chinese or Japanese, as their function words and letters have it."""
    parts: list[str] = []
    for text in texts:
        parts.append(text[:_OF_EACH])
        if sum(map(len, parts)) >= _SAMPLE:
            break
    sample = clean_text("\n".join(parts))
    letters = len(_LETTER.findall(sample))
    for language, script in _SCRIPTS.items():
        if letters and len(script.findall(sample)) >= 0.5 * letters:
            return language
    # For Arabic there is no list, and every word stays.
    words = len(without_stop_words("ar").analyze(sample)) or 1
    shares = {code: 1 - len(without_stop_words(code).analyze(sample)) / words for code in _LISTED}
    best = max(shares, key=lambda language: shares[language])
    return best if shares[best] >= max(_LEAST, _AHEAD * shares["en"]) else "en"


# A query of more different terms than this is cut: a 100 kB question must not become 10,000 term queries.
MAX_QUERY_TERMS = 512
# Below this share of the letters, Chinese is taken for names inside an English corpus.
_CHINESE_SHARE = 0.05
# Above this one, other languages are taken for names and quotations.
_MOSTLY_CHINESE = 0.5
_LONGEST_TERM = 40
_HAN_SPLITTING = r"[\p{Han}]|[\p{Alphabetic}\p{N}&&[^\p{Han}]]+"
_RUN = re.compile(f"[{JOINED}]+")
# A name of code, and where a word begins in it: retry|Count, HTTP|Client. What has digits is mostly encoded data.
_NAME = re.compile(r"(?<![^\W_])(?:[A-Z]?[a-z]+[A-Z]|[A-Z]{2,}[a-z]{2})[A-Za-z]*(?![^\W_])")
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
_HAN = re.compile(r"[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]")


@dataclass(frozen=True, slots=True)
class AnalyzerSettings:
    """What an index was built with and a query must follow; the language is that of passages of which it is unclear."""

    # Raised whenever a change makes terms of old indexes and new queries differ.
    version: int
    language: str
    tokenizer: str
    title_weight: float


# The terms of a passage are made here, by its own language, and the engine parts them where there are spaces.
_SETTINGS: dict[str, AnalyzerSettings] = {
    code: AnalyzerSettings(2, code, "whitespace", title_weight=0.5) for code in ("en", "zh", *STEMMED)
}
LANGUAGES: Final = tuple(_SETTINGS)
"""The languages that there are analyzers for."""


def settings_for(language: str) -> AnalyzerSettings:
    if language not in _SETTINGS:
        raise InputError(f"unknown language {language!r}: use auto, or one of {', '.join(_SETTINGS)}")
    return _SETTINGS[language]


def language_of(named: str, texts: Iterable[str], known: Collection[str] = LANGUAGES) -> str:
    """The language of a corpus as it was named, or where that is ``"auto"`` as a sample of its passages has it."""
    if named != "auto":
        if named in _SETTINGS and named not in known:
            raise InputError(f"this engine has no analyzer for {named!r}: use auto, or one of {', '.join(known)}")
        return settings_for(named).language
    sample = list(texts)
    shares = list(map(unspaced_share, sample))
    spaced = spaced_language(text for text in sample if not is_chinese(text))
    chinese = sum(shares) / len(shares) if shares else 0.0
    # Its analyzer serves Chinese as well, and that for Chinese knows English beside it.
    if spaced != "en" and spaced in known and chinese < _MOSTLY_CHINESE:
        return spaced
    return "zh" if chinese >= _CHINESE_SHARE else "en"


def is_chinese(text: str) -> bool:
    """Decide whether a text is written in Chinese (or Japanese) rather than quoting some of it."""
    # The first two questions are quick; only a text that has such a character at all is counted.
    return not text.isascii() and _UNSPACED_CHARACTER.search(text) is not None and unspaced_share(text) >= 0.5


@lru_cache(maxsize=64)
def analyzer(language: str, *, stem: bool = True, fold: bool = True) -> tantivy.TextAnalyzer:
    """The analyzer of a language, with or without its stemmer and folding; the English one is Tantivy's ``en_stem``."""
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    han = Tokenizer.regex(_HAN_SPLITTING)
    tokenizer = words_of_any_script() if language in STEMMED else Tokenizer.simple() if language == "en" else han
    builder = TextAnalyzerBuilder(tokenizer).filter(Filter.remove_long(_LONGEST_TERM)).filter(Filter.lowercase())
    return _stemming(language, builder, stem=stem, fold=fold).build()


def _stemming(
    language: str, builder: tantivy.TextAnalyzerBuilder, *, stem: bool = True, fold: bool = True
) -> tantivy.TextAnalyzerBuilder:
    from tantivy import Filter

    builder = builder.filter(Filter.stemmer(STEMMED.get(language, "english"))) if stem else builder
    # Last: stemmers distinguish endings by their accents.
    return builder.filter(Filter.ascii_fold()) if fold and language in STEMMED else builder


@lru_cache(maxsize=1 << 16)
def _term(word: str, language: str) -> str:
    """A word as it is in lower case, as the term that it is in a passage in some language."""
    from tantivy import TextAnalyzerBuilder, Tokenizer

    terms = _stemming(language, TextAnalyzerBuilder(Tokenizer.raw())).build().analyze(word)
    return str(terms[0]) if terms else word


def index_terms(text: str, language: str) -> list[str]:
    words, joined = _joined_terms(text)
    # English words stand in any other language.
    analyze = analyzer(language if language in STEMMED else "en").analyze
    # "retry count" finds retryCount, which is found as it is written, too. Elsewhere than in code McDonald is one word.
    names = _NAME.findall(words) if "`" in words else []
    return [*analyze(words), *analyze(_CAPITAL.sub(" ", " ".join(names))), *joined]


def _joined_terms(text: str) -> tuple[str, list[str]]:
    """The words that spaces part, and the terms of other writing: pairs of characters, and single ones of Han."""
    text = usual_width(text)
    if text.isascii() or _RUN.search(text) is None:
        return text, []
    terms = []
    for run in _RUN.findall(text):
        terms += _HAN.findall(run)
        terms += [run] if len(run) == 1 and not _HAN.match(run) else [run[at : at + 2] for at in range(len(run) - 1)]
    return _RUN.sub(" ", text), terms


def query_terms(query: str, *languages: str) -> list[str]:
    """The terms that any text as a query is searched for, each once: its words, as each of the languages stems them.

    Stop words are dropped unless nothing else is left ("The Who").
    """
    words, joined = _joined_terms(clean_text(query))
    spoken = dict.fromkeys(code if code in STEMMED else "en" for code in languages)
    plain = {code: analyzer(code if code == "en" else "de", stem=False, fold=False).analyze(words) for code in spoken}
    # A long query is cut, and then for all languages at the same place.
    found = sorted((place, word, code) for code in spoken for place, word in enumerate(plain[code]))
    known = Counter(code for word in {word for _, word, _ in found} for code in languages_of_word(word))
    most = max((known[code] for code in spoken), default=0)
    likely = {code for code in spoken if 0 < known[code] == most}
    kept = [_term(word, code) for _, word, code in found if not (likely & languages_of_word(word))]
    kept += [term for term in joined if not CHINESE.issuperset(term)]
    kept = kept or [*(_term(word, code) for _, word, code in found), *joined]
    return list(dict.fromkeys(kept))[:MAX_QUERY_TERMS]


def may_be_mistyped(term: str) -> bool:
    """Whether a term is a word that is long enough: all but one letter of a shorter one, too many others have."""
    return len(term) >= 5 and term.isalpha() and not _RUN.search(term)


def stop_words(language: str) -> frozenset[str]:
    """Return the function words that a query in English or Chinese drops; other languages have lists in the engine."""
    return ENGLISH if language == "en" else ENGLISH | CHINESE
