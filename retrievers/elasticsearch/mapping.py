"""How passages lie in Elasticsearch and how a question becomes a query: BM25 over title and text.

The paper retrieves with Elasticsearch's BM25 (Section 4.1), whose parameters it leaves at
their defaults. Everything that ranks is said here and not left to a cluster's own settings.

The analyzers are Elasticsearch's ``english``, with the pairs of characters of ``cjk`` in it, and ``cjk``, with two
differences, both as in the embedded index. Stop words are kept in the index and dropped from the query, so that "The
Who" can be found; and a query counts each of its words once. A Chinese function word is dropped where it stands alone,
and not as a part of another: 的 of 目的地.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any, Final

from keqa.errors import InputError, RetrievalError
from keqa.retrievers.analysis import MAX_QUERY_TERMS, AnalyzerSettings, Language, plain_words, settings_for, stop_words
from keqa.retrievers.base import Passage
from keqa.retrievers.files import Origin
from keqa.retrievers.place import unpacked
from keqa.retrievers.text import clean_text

MOST_HITS: Final = 10_000
LOADING: Final = {"number_of_replicas": 0, "auto_expand_replicas": "false", "refresh_interval": "-1"}
"""Settings of an index while it is loaded: no copies, and no refresh."""

FILE: Final = "file"
DIGEST: Final = "file_digest"
FILE_FIELDS: Final[dict[str, Any]] = {FILE: {"type": "keyword"}, DIGEST: {"type": "keyword", "index": False}}
"""The file that a passage comes from; indexes of earlier versions have none of it."""

VECTOR: Final = "vector"
"""The field of the vectors, in an index that has them."""

FIELDS: Final = ("doc_id", "title", "text", "place")
"""What `passage_of` reads."""

_TOKENIZER: dict[Language, str] = {"en": "english", "zh": "cjk"}
LANGUAGES: Final = tuple(_TOKENIZER)
"""The languages that there are analyzers for."""

# Since 2, a Chinese query keeps the function words that are characters of other words, and an English index finds
# Chinese. An index has the analyzers of its queries itself.
_VERSION: dict[Language, int] = {"en": 2, "zh": 2}
_READ: dict[Language, tuple[int, ...]] = {"en": (1, 2), "zh": (2,)}
_BEFORE_STOP: dict[Language, list[str]] = {
    "en": ["keqa_possessive", "cjk_width", "lowercase", "cjk_bigram"],
    "zh": ["cjk_width", "lowercase", "cjk_bigram"],
}
_AFTER_STOP: dict[Language, list[str]] = {"en": ["porter_stem"], "zh": []}
# Longer ids are hashed: Elasticsearch takes no longer key for a document.
_LONGEST_KEY = 512


def analyzer_settings(language: str) -> AnalyzerSettings:
    """Return what the manifest says about the analyzer of a language.

    Raises:
        InputError: The language is neither ``"en"`` nor ``"zh"``.
    """
    embedded = settings_for(language)
    if embedded.language not in LANGUAGES:
        known = ", ".join(LANGUAGES)
        raise InputError(f"there is no analyzer for {language!r} in Elasticsearch: use auto, or one of {known}")
    return AnalyzerSettings(
        version=_VERSION[embedded.language],
        language=embedded.language,
        tokenizer=_TOKENIZER[embedded.language],
        title_weight=embedded.title_weight,
    )


def check_analyzer(settings: AnalyzerSettings, where: str) -> None:
    """Make sure that this version makes queries that fit the terms of an index.

    Raises:
        RetrievalError: This version does not know the settings.
    """
    known = settings.language in _TOKENIZER and settings.version in _READ[settings.language]
    if not known or dataclasses.replace(settings, version=2) != analyzer_settings(settings.language):
        raise RetrievalError(
            f"{where} was built with analyzer settings that this version does not know ({settings}). Load it again, "
            "or use the version that built it"
        )


def index_settings(language: Language, *, shards: int, k1: float, b: float) -> dict[str, Any]:
    """Return the settings of a new index, as they are while it is loaded.

    Args:
        language: Of the analyzer.
        shards: How many parts the index has.
        k1: How soon further occurrences of a word stop to count.
        b: How much a long text is held against it.
    """
    filters = {
        "keqa_possessive": {"type": "stemmer", "language": "possessive_english"},
        "keqa_stop": {"type": "stop", "stopwords": sorted(stop_words(language))},
        "keqa_most": {"type": "limit", "max_token_count": MAX_QUERY_TERMS},
    }
    before, after = _BEFORE_STOP[language], [*_AFTER_STOP[language], "unique", "keqa_most"]
    return {
        "number_of_shards": shards,
        **LOADING,
        "max_result_window": MOST_HITS,
        "analysis": {
            "filter": filters,
            "analyzer": {
                "keqa_text": _chain([*before, *_AFTER_STOP[language]]),
                "keqa_query": _chain([*before, "keqa_stop", *after]),
                "keqa_every_word": _chain([*before, *after]),
            },
        },
        "similarity": {"keqa_bm25": {"type": "BM25", "k1": k1, "b": b}},
    }


def _chain(filters: list[str]) -> dict[str, Any]:
    return {"type": "custom", "tokenizer": "standard", "filter": filters}


def field_mappings() -> dict[str, Any]:
    """Return the fields: id, title, text, the place, which is only kept, and the file; nothing else may come in."""
    text = {
        "type": "text",
        "analyzer": "keqa_text",
        "search_analyzer": "keqa_query",
        "similarity": "keqa_bm25",
        "index_options": "freqs",
    }
    place = {"type": "keyword", "index": False, "doc_values": False}
    fields = {"doc_id": {"type": "keyword"}, "title": text, "text": text, "place": place, **FILE_FIELDS}
    return {"dynamic": "strict", "properties": fields}


def document(passage: Passage, origin: Origin | None = None) -> dict[str, str]:
    """Return a passage, already clean, as it is stored.

    Args:
        passage: The passage.
        origin: The file that it comes from, where that is known.
    """
    stored = {"doc_id": passage.id, "title": passage.title, "text": passage.text}
    if passage.place:
        stored["place"] = passage.place.packed()
    return stored if origin is None else {**stored, FILE: origin.path, DIGEST: origin.digest}


def key(passage_id: str) -> str:
    """Return the key of a passage's document: its id, or a hash of an id that is too long for one."""
    encoded = passage_id.encode()
    return passage_id if len(encoded) <= _LONGEST_KEY else f"sha256:{hashlib.sha256(encoded).hexdigest()}"


def passage_of(source: dict[str, Any]) -> Passage:
    """Return the passage that a document holds."""
    place = unpacked(str(source.get("place", "")))
    return Passage(str(source["doc_id"]), str(source["title"]), str(source["text"]), place)


def query_body(query: str, settings: AnalyzerSettings, k: int) -> dict[str, Any] | None:
    """Return the request for the best passages, or None where the query has nothing to search for.

    Equal scores are ordered by id, so that every copy of the index gives the same answer.
    """
    language = settings.language
    words = plain_words(query, language)
    if not words:
        return None
    analyzer = "keqa_query" if set(words) - stop_words(language) else "keqa_every_word"
    asked = {"query": clean_text(query), "analyzer": analyzer}
    return {
        "query": {
            "bool": {
                "should": [
                    {"match": {"text": asked}},
                    {"match": {"title": {**asked, "boost": settings.title_weight}}},
                ]
            }
        },
        **ordered(k),
    }


def ordered(k: int) -> dict[str, Any]:
    """Return the entries of a request for so many passages; of those that score the same the first id comes first."""
    return {"size": k, "sort": [{"_score": "desc"}, {"doc_id": "asc"}], "track_total_hits": False}
