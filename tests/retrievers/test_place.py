import dataclasses
import datetime
import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.retrievers import CachingRetriever, Passage, add_passages, build_index, delete_passages, open_index
from keqa.retrievers.base import NOWHERE, Place, place_beside, placed, unpacked
from keqa.retrievers.elasticsearch.mapping import document, field_mappings, passage_of
from keqa.retrievers.manifest import SourceHash

PLACE = Place("sub/Bericht ß.pdf", 3, "Ergebnisse", "2024-05-31")
PASSAGES = [Passage("a", "T", "the harbour wall", PLACE), Passage("b", "U", "the mill")]


@given(st.builds(Place, st.sampled_from(["", "a.pdf"]), st.none() | st.integers(1, 99), st.sampled_from(["", "Über"])))
def test_a_place_is_what_was_kept_of_it(place):
    assert unpacked(place.packed()) == place
    assert bool(place) == bool(place.packed())


@pytest.mark.slow
@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_whatever_an_index_says_is_a_place(text):
    assert isinstance(unpacked(text), Place)


def test_what_is_no_place_is_passed_over():
    given = {"file": 5, "page": True, "heading": "a\x1b[31m\nb" + "x" * 1000, "date": None, "more": 1}
    found = placed(given)
    assert (found.file, found.page, found.date, len(found.heading)) == ("", None, "", 300)
    assert found.heading.startswith("a [31m b")
    assert unpacked('{"page": 0}') == unpacked('{"page": 1e99}') == unpacked("[" * 100_000) == NOWHERE


def test_in_words():
    assert str(PLACE) == "sub/Bericht ß.pdf, page 3, Ergebnisse"
    assert str(Place("a.pptx", 2)) == "a.pptx, slide 2"
    assert str(NOWHERE) == ""


def test_every_engine_keeps_the_place(tmp_path):
    build_index(PASSAGES, tmp_path / "index")
    found = open_index(tmp_path / "index")
    assert [found.search(query, 1)[0].passage.place for query in ("harbour", "mill")] == [PLACE, NOWHERE]
    with CachingRetriever(found, tmp_path / "cache.sqlite") as caching:
        for _ in range(2):
            assert {hit.passage.id: hit.passage.place for hit in caching.search("harbour mill", 2)} == {
                "a": PLACE,
                "b": NOWHERE,
            }
        assert caching.hits == 1
    assert [passage_of(document(one)).place for one in PASSAGES] == [PLACE, NOWHERE]
    assert document(PASSAGES[1]).keys() == {"doc_id", "title", "text"}
    assert field_mappings()["properties"]["place"] == {"type": "keyword", "index": False, "doc_values": False}


def test_a_change_counts_the_languages(tmp_path):
    texts = {"a": "The harbour is old.", "b": "Der Hafen ist alt und liegt in der Stadt.", "c": "港口很旧。"}
    build_index([Passage(one, "", text) for one, text in texts.items()], tmp_path / "i")
    more = [Passage("c", "", "The wall is new."), Passage("d", "", "Порт старый, и он не в городе.")]
    assert add_passages(tmp_path / "i", more, replace=True).languages == {"en": 2, "de": 1, "ru": 1}
    assert delete_passages(tmp_path / "i", ["b"]).languages == {"en": 2, "ru": 1}
    assert [hit.passage.id for hit in open_index(tmp_path / "i").search("старые порты", 1)] == ["d"]


def test_a_place_makes_no_other_passage_and_another_source():
    moved = dataclasses.replace(PASSAGES[0], place=Place("other.pdf"))
    assert moved == PASSAGES[0]
    hashes = []
    for passage in (PASSAGES[0], moved, dataclasses.replace(moved, place=NOWHERE)):
        source = SourceHash()
        source.add(passage)
        hashes.append(source.hexdigest())
    assert len(set(hashes)) == 3


def test_an_index_in_german_finds_what_is_written_otherwise(tmp_path):
    notices = []
    texts = ["Die Straße ist nach den Gebrüdern Müller benannt und wurde für sie gebaut.", "Das Schloß ist alt."]
    passages = [Passage(str(number), "", text) for number, text in enumerate(texts)]
    manifest = build_index(passages, tmp_path / "index", notice=notices.append)
    assert (manifest.language, len(notices)) == ("de", 1)
    assert notices == ["languages of the passages: German 2"]
    found = open_index(tmp_path / "index")
    assert [hit.passage.id for hit in found.search("strasse mullers")] == ["0"]
    assert [hit.passage.id for hit in found.search("Wem gehört das Schloss?")] == ["1"]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(["file", "source", "page", "page_label", "heading", "Header 1", "date", "moddate", "place"])


@pytest.mark.parametrize(
    ("metadata", "place"),
    [
        ({"source": "a.pdf", "page": 12}, Place("a.pdf", 12)),
        ({"file_name": "a.pdf", "source": "/home/me/a.pdf", "page_label": "13", "page": 12}, Place("a.pdf", 13)),
        # What is written on the page is no number, and how many it is from the beginning is not known to be from 1.
        ({"source": "a.pdf", "page_label": "iv", "page": 3}, Place("a.pdf")),
        ({"source": "a.pdf", "page": 12.0}, Place("a.pdf", 12)),
        (
            {"source": "https://a.example/b", "Header 1": "Rules", "Header 2": "Fees"},
            Place("https://a.example/b", None, "Fees"),
        ),
        (
            {"file": "", "path": "b.md", "last_modified": "2020-01-01T10:00:00"},
            Place("b.md", None, "", "2020-01-01T10:00:00"),
        ),
        ({"date": datetime.datetime(2020, 1, 2, 3)}, Place(date="2020-01-02")),
        ({"date": 2020}, Place(date="2020")),
    ],
)
def test_the_names_of_metadata(metadata, place):
    assert place_beside({}, metadata) == place


@pytest.mark.parametrize(
    "metadata",
    [
        {"source": {"a": 1}, "page": [3], "heading": 5, "date": 1717000000},
        {"source": "data:text/plain," + "a" * 1000, "page": "9" * 5000, "heading": "a" * 301, "date": "a" * 41},
        {"page": True, "source": b"a.pdf"},
        {"page": 0, "source": None},
        {"page": -1, "source": np.array(["a", "b"])},
        {"page": 12.5},
        {"page": float("nan"), "date": float("inf")},
        {"Source": "a.pdf"},
        "a.pdf",
        ["a.pdf"],
        None,
    ],
)
def test_what_can_be_no_place_is_passed_over(metadata):
    assert place_beside({}, metadata) == NOWHERE


def test_control_characters_are_no_part_of_a_place():
    assert place_beside({"file": "a\x1b[31m\n.pdf"}, None) == Place("a [31m .pdf")


def test_what_the_passage_itself_says_comes_first():
    own = {"file": "a.pdf", "page": 2}
    expected = Place("a.pdf", 2, "", "2020-01-01")
    for item in (own, SimpleNamespace(**own)):
        assert place_beside(item, {"file": "b.pdf", "page": 9, "date": "2020-01-01"}) == expected
    # Of a passage itself, a source may be anything, such as the engine that found it.
    assert place_beside({"source": "bm25", "path": "x"}, None) == NOWHERE


@given(st.dictionaries(NAMES, ANYTHING, max_size=5), st.dictionaries(NAMES, ANYTHING, max_size=5) | ANYTHING)
def test_whatever_a_stranger_says_is_a_place(item, metadata):
    found = place_beside(item, metadata)
    assert (len(found.file) <= 1000, len(found.heading) <= 300, len(found.date) <= 40) == (True, True, True)
    assert found.page is None or 0 < found.page <= 10_000_000
