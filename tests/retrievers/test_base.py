import datetime
import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.retrievers.base import NOWHERE, Passage, Place, place_beside, placed, unpacked

PLACE = Place("sub/Bericht ß.pdf", 3, "Ergebnisse", "2024-05-31")


@given(st.builds(Place, st.sampled_from(["", "a.pdf"]), st.none() | st.integers(1, 99), st.sampled_from(["", "Über"])))
def test_a_place_is_what_was_kept_of_it(place):
    assert unpacked(place.packed()) == place
    assert bool(place) == bool(place.packed())


def test_what_is_no_place_is_passed_over():
    given = {"file": 5, "page": True, "heading": "a\x1b[31m\nb" + "x" * 1000, "date": None, "more": 1}
    assert placed(given) == Place(heading="a [31m b" + "x" * 292)
    assert unpacked('{"page": 0}') == unpacked('{"page": 1e99}') == unpacked("[" * 100_000) == NOWHERE


def test_in_words():
    assert str(PLACE) == "sub/Bericht ß.pdf, page 3, Ergebnisse"
    assert (str(Place("a.pptx", 2)), str(NOWHERE)) == ("a.pptx, slide 2", "")
    read = [Passage("1", title, "It has stripes.").rendered for title in ("Zebra", "")]
    assert read == ["Zebra: It has stripes.", "It has stripes."]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.text() | ANYTHING.map(lambda found: json.dumps(found, default=str)))
def test_whatever_an_index_says_is_a_place(text):
    assert isinstance(unpacked(text), Place)


NAMES = st.sampled_from(["file", "source", "page", "page_label", "heading", "Header 1", "date", "moddate", "place"])


@pytest.mark.parametrize(
    ("metadata", "place"),
    [
        ({"source": "a.pdf", "page": 12}, Place("a.pdf", 12)),
        ({"file_name": "a.pdf", "source": "/home/me/a.pdf", "page_label": "13", "page": 12}, Place("a.pdf", 13)),
        # What is written on the page is no number, and how many it is from the beginning is not known to be from 1.
        ({"source": "a.pdf", "page_label": "iv", "page": 3}, Place("a.pdf")),
        ({"source": "a.pdf", "page": 12.0}, Place("a.pdf", 12)),
        ({"source": "https://a.b/c", "Header 1": "Rules", "Header 2": "Fees"}, Place("https://a.b/c", None, "Fees")),
        ({"file": "", "path": "b", "last_modified": "2020-01-01T10:00"}, Place("b", None, "", "2020-01-01T10:00")),
        ({"date": datetime.datetime(2020, 1, 2, 3)}, Place(date="2020-01-02")),
        ({"date": 2020}, Place(date="2020")),
        ({"file": "a\x1b[31m\n.pdf"}, Place("a [31m .pdf")),
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
