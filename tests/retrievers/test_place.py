import dataclasses
import functools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.retrievers import CachingRetriever, Passage, build_index, open_index
from keqa.retrievers.dense.passages import PassageFile, write_passages
from keqa.retrievers.elasticsearch.mapping import document, field_mappings, passage_of
from keqa.retrievers.manifest import SourceHash
from keqa.retrievers.place import NOWHERE, Place, placed, unpacked
from keqa.retrievers.tantivy_index import TantivyRetriever, make_schema

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
    write_passages(tmp_path, PASSAGES)
    assert [one.place for one in (PassageFile(tmp_path)[0], PassageFile(tmp_path)[1])] == [PLACE, NOWHERE]
    assert [passage_of(document(one)).place for one in PASSAGES] == [PLACE, NOWHERE]
    assert document(PASSAGES[1]).keys() == {"doc_id", "title", "text"}
    assert field_mappings()["properties"]["place"] == {"type": "keyword", "index": False, "doc_values": False}


def test_an_index_of_an_earlier_version_has_no_places_and_is_opened(tmp_path, monkeypatch):
    earlier = functools.partial(make_schema, place=False)
    monkeypatch.setattr("keqa.retrievers.tantivy_build.make_schema", earlier)
    build_index(PASSAGES, tmp_path / "index")
    monkeypatch.undo()
    found = TantivyRetriever.open(tmp_path / "index").search("harbour", 1)
    assert [(hit.passage.id, hit.passage.place) for hit in found] == [("a", NOWHERE)]


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
    assert "the passages are in German" in notices[0]
    found = open_index(tmp_path / "index")
    assert [hit.passage.id for hit in found.search("strasse mullers")] == ["0"]
    assert [hit.passage.id for hit in found.search("Wem gehört das Schloss?")] == ["1"]
