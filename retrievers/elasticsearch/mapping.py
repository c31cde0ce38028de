"""How passages lie in Elasticsearch and how a question becomes a request: BM25 over title and text, kNN over vectors.

Everything that ranks is said here and not left to a cluster's own settings: BM25 as in the paper (Section 4.1). The
analyzers are Elasticsearch's ``english``, with the pairs of characters of ``cjk`` in it, and ``cjk``, with two
differences, both as in the embedded index. Stop words are kept in the index and dropped from the query, so that "The
Who" can be found; and a query counts each of its words once. A Chinese function word is dropped where it stands alone,
and not as a part of another: 的 of 目的地.
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from keqa.errors import ConfigurationError
from keqa.retrievers.base import Origin, Passage, unpacked
from keqa.retrievers.manifest import EncoderSettings, Manifest, Numbers
from keqa.retrievers.text import (
    MAX_QUERY_TERMS,
    AnalyzerSettings,
    analyzer,
    clean_text,
    may_be_mistyped,
    settings_for,
    stop_words,
)

MOST_HITS: Final = 10_000
LOADING: Final = {"number_of_replicas": 0, "auto_expand_replicas": "false", "refresh_interval": "-1"}
"""Settings of an index while it is loaded: no copies, and no refresh."""

FILE: Final = "file"
DIGEST: Final = "file_digest"
VECTOR: Final = "vector"
LONGEST_VECTOR: Final = 4096
"""The most dimensions that Elasticsearch takes."""
PASSAGE: Final = ("doc_id", "title", "text", "place")
"""What `passage_of` reads."""

ANALYZERS: Final = {
    code: dataclasses.replace(settings_for(code), tokenizer=name) for code, name in (("en", "english"), ("zh", "cjk"))
}
"""The languages that there are analyzers for, and what a manifest says of each."""

_FILTERS: Final = {
    "en": (["keqa_possessive", "cjk_width", "lowercase", "cjk_bigram"], ["porter_stem"]),
    "zh": (["cjk_width", "lowercase", "cjk_bigram"], []),
}
"""By language, what a word goes through before stop words are dropped, and then."""

_SIMILARITY: Final = {"cosine": "cosine", "dot": "max_inner_product"}
_MOST_CANDIDATES: Final = 10_000
_LEAST_CANDIDATES: Final = 300
# Longer ids are hashed: Elasticsearch takes no longer key for a document.
_LONGEST_KEY: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorManifest(Manifest):
    """What an index with vectors says about itself: its models, and the vector of a question that never changes."""

    encoder: EncoderSettings
    probe: Numbers

    def problems(self) -> Iterator[str]:
        yield from self.encoder.problems(self.probe)


def with_vectors(manifest: Manifest, where: str) -> VectorManifest:
    """The manifest of an index that has vectors; `ConfigurationError` where it has none."""
    if not isinstance(manifest, VectorManifest):
        raise ConfigurationError(
            f"{where} has no vectors: load it again with `keqa index … --engine elasticsearch --model MODEL`, or "
            "search its text as elasticsearch://…"
        )
    return manifest


def index_body(language: str, shards: int, vectors: EncoderSettings | None) -> dict[str, dict[str, Any]]:
    """The settings of a new index, as they are while it is loaded, and its fields; nothing else may come in."""
    before, after = _FILTERS[language]
    query = [*after, "unique", "keqa_most"]
    chains = {
        "keqa_text": [*before, *after],
        "keqa_query": [*before, "keqa_stop", *query],
        "keqa_every_word": [*before, *query],
    }
    filters = {
        "keqa_possessive": {"type": "stemmer", "language": "possessive_english"},
        "keqa_stop": {"type": "stop", "stopwords": sorted(stop_words(language))},
        "keqa_most": {"type": "limit", "max_token_count": MAX_QUERY_TERMS},
    }
    standard = {"type": "custom", "tokenizer": "standard"}
    settings = {
        "number_of_shards": shards,
        **LOADING,
        "max_result_window": MOST_HITS,
        "analysis": {
            "filter": filters,
            "analyzer": {name: {**standard, "filter": chain} for name, chain in chains.items()},
        },
        "similarity": {"keqa_bm25": {"type": "BM25", "k1": 1.2, "b": 0.75}},
    }
    text = {
        "type": "text",
        "analyzer": "keqa_text",
        "search_analyzer": "keqa_query",
        "similarity": "keqa_bm25",
        "index_options": "freqs",
    }
    fields: dict[str, Any] = {
        "doc_id": {"type": "keyword"},
        "title": text,
        "text": text,
        "place": {"type": "keyword", "index": False, "doc_values": False},
        FILE: {"type": "keyword"},
        DIGEST: {"type": "keyword", "index": False},
    }
    if vectors is not None:
        fields[VECTOR] = {
            "type": "dense_vector",
            "dims": vectors.dimension,
            "index": True,
            "similarity": _SIMILARITY[vectors.similarity],
            # All four bytes of a number, so that scores are exact; the default of later servers keeps one of them.
            "index_options": {"type": "hnsw", "m": 16, "ef_construction": 100},
        }
    return {"settings": settings, "mappings": {"dynamic": "strict", "properties": fields}}


def document(passage: Passage, origin: Origin | None = None) -> dict[str, Any]:
    """A passage, already clean, as it is stored, with the file that it comes from where that is known."""
    stored = {"doc_id": passage.id, "title": passage.title, "text": passage.text}
    if passage.place:
        stored["place"] = passage.place.packed()
    return stored if origin is None else {**stored, FILE: origin.path, DIGEST: origin.digest}


def key(passage_id: str) -> str:
    """The key of a passage's document: its id, or a hash of an id that is too long for one."""
    encoded = passage_id.encode()
    return passage_id if len(encoded) <= _LONGEST_KEY else f"sha256:{hashlib.sha256(encoded).hexdigest()}"


def passage_of(source: dict[str, Any]) -> Passage:
    place = unpacked(str(source.get("place", "")))
    title, text = (str(source.get(name, "")) for name in ("title", "text"))
    return Passage(str(source["doc_id"]), title, text, place)


def query_body(query: str, settings: AnalyzerSettings, k: int) -> dict[str, Any] | None:
    """The request for the best passages, or None where the query has nothing to search for."""
    text = clean_text(query)
    # As they are before stop words are dropped and the rest is stemmed.
    words = set(analyzer(settings.language, stem=False).analyze(text))
    if not words:
        return None
    chain = "keqa_query" if words - stop_words(settings.language) else "keqa_every_word"
    asked = {"query": text, "analyzer": chain}
    matches = [{"match": {"text": asked}}, {"match": {"title": {**asked, "boost": settings.title_weight}}}]
    return {"query": {"bool": {"should": matches}}, **_ordered(k)}


def mistyped_body(query: str, settings: AnalyzerSettings, k: int) -> dict[str, Any] | None:
    """The request for the words of a query as mistyped, as the embedded index makes it, or None where none may be."""
    words = dict.fromkeys(analyzer(settings.language, stem=False).analyze(clean_text(query)))
    long = [one for one in words if may_be_mistyped(one) and one not in stop_words(settings.language)]
    how = {"fields": ["text", f"title^{settings.title_weight}"], "type": "most_fields", "fuzziness": 1}
    near = [{"multi_match": {"query": one, **how}} for one in long[:MAX_QUERY_TERMS]]
    wanted = {"should": near, "minimum_should_match": (len(near) + 1) // 2}
    return {"query": {"bool": wanted}, **_ordered(k)} if near else None


def knn_body(vector: Iterable[float], k: int) -> dict[str, Any]:
    candidates = min(_MOST_CANDIDATES, max(_LEAST_CANDIDATES, 2 * k))
    knn = {"field": VECTOR, "query_vector": as_sent(vector), "k": k, "num_candidates": candidates}
    return {"knn": knn, **_ordered(k)}


def _ordered(k: int) -> dict[str, Any]:
    """So many hits; of those that score the same the first id comes first, so that every copy gives the same."""
    return {"size": k, "sort": [{"_score": "desc"}, {"doc_id": "asc"}], "track_total_hits": False}


def as_sent(row: Iterable[float]) -> list[float]:
    """A vector as JSON has it: the shortest numbers that are read back as they were."""
    return [float(str(value)) for value in row]


def score_of(similarity: str | None, score: float) -> float:
    """The cosine or inner product behind a score of kNN, which is never negative; any other score as it is."""
    if similarity == "cosine":
        return 2 * score - 1
    return score if similarity is None else score - 1 if score >= 1 else 1 - 1 / score
