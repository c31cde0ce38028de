"""What is refused before anything is loaded, with a client in the place of a cluster."""

from types import SimpleNamespace

import pytest

from keqa.errors import InputError
from keqa.retrievers import Passage
from keqa.retrievers.elasticsearch import load_index
from keqa.retrievers.elasticsearch.address import parse_address
from keqa.retrievers.elasticsearch.lifecycle import Indexes

pytest.importorskip("elasticsearch")

ADDRESS = parse_address("elasticsearch://localhost:9200/wiki")


def indexes(sources):
    state = {"mappings": {"_meta": {"keqa": {"format": "keqa-index", "name": "wiki", "sources": sources}}}}
    return Indexes(SimpleNamespace(indices=SimpleNamespace(get=lambda index: {"wiki-1": state})), ADDRESS)


def test_an_index_of_other_sources_is_not_replaced_unasked():
    with pytest.raises(InputError, match=r"wiki at .* holds an index of other sources \(docs\).*--force"):
        indexes(["docs"]).refuse_foreign(["other"])
    indexes(["docs"]).refuse_foreign(["./docs"])
    indexes(["docs"]).refuse_foreign(None)


def test_a_load_asks_before_it_begins(address):
    load_index([Passage("1", "", "word")], address, sources=["docs"])
    with pytest.raises(InputError, match="other sources"):
        load_index([Passage("1", "", "word")], address, sources=["other"])
    assert load_index([Passage("1", "", "word")], address, sources=["other"], overwrite=True).sources == ("other",)
