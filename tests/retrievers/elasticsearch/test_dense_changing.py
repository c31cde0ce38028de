"""An index with vectors follows its files; the vectors are those of a build of the same files."""

import pytest

from keqa.errors import ConfigurationError, RetrievalError
from keqa.retrievers import open_index, read_corpus
from keqa.retrievers.changing import add_files, remove_files, sync_folder
from keqa.retrievers.elasticsearch import dense_address, load_index
from keqa.retrievers.elasticsearch.address import parse_address
from keqa.retrievers.engines import ENGINES

MODEL = "some/model"


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "docs"
    made.mkdir()
    for n in range(6):
        (made / f"{n}.txt").write_text(f"Paper {n} is about topic{n}. It was written by author{n} and author{n % 2}.")
    return made


@pytest.fixture
def dense(address, folder, library):
    load_index(read_corpus([folder]), address, sources=[str(folder)], model=MODEL)
    return f"{dense_address(parse_address(address))}@{MODEL}"


def vectors(client, address):
    hits = client.search(index=parse_address(address).name, size=1000)["hits"]["hits"]
    return {hit["_source"]["doc_id"]: hit["_source"]["vector"] for hit in hits}


def test_a_folder_is_followed_and_only_what_is_new_encoded(library, client, address, dense, folder, elasticsearch_url):
    (folder / "1.txt").write_text("Paper 1 is now about another matter, by author9.")
    (folder / "2.txt").unlink()
    (folder / "6.txt").write_text("Paper 6 is about topic6.")
    library.CALLS.clear()
    (change,) = sync_folder(dense, folder)
    assert (len(change.added), len(change.changed), len(change.removed), change.unchanged) == (1, 1, 1, 4)
    encoded = [text for _, _, texts in library.CALLS for text in texts]
    # One that is there shows whether the model is the same.
    assert len(encoded) == 3
    changed, found = vectors(client, address), open_index(dense)
    assert found.manifest.passages == len(changed) == 6
    hits = found.search("topic6", 6)
    load_index(read_corpus([folder]), address, sources=[str(folder)], model=MODEL)
    assert vectors(client, address) == changed
    assert open_index(dense).search("topic6", 6) == hits


def test_adding_and_removing(library, dense, tmp_path):
    more = tmp_path / "more.txt"
    more.write_text("A lighthouse of Skarn.")
    add_files(dense, [more])
    retriever = open_index(dense)
    assert retriever.search("lighthouse of Skarn", 1)[0].passage.title == "more"
    library.CALLS.clear()
    remove_files(dense, [more])
    assert library.CALLS == []
    assert retriever.reload().passages == 6
    assert retriever.search("lighthouse of Skarn", 1)[0].passage.title != "more"


def test_the_address_of_its_text_changes_nothing(address, dense, folder):
    (folder / "6.txt").write_text("Paper 6 is about topic6.")
    for given in (address, f"{address},{dense}"):
        with pytest.raises(ConfigurationError, match=r"has vectors, which change with its text: change it as "):
            sync_folder(given, folder)
    assert open_index(dense).manifest.passages == 6


def test_another_model_changes_nothing(dense, folder):
    (folder / "6.txt").write_text("Paper 6 is about topic6.")
    with pytest.raises(RetrievalError, match="does not give the vectors that the index"):
        sync_folder(dense.replace(MODEL, "other/model"), folder)
    with pytest.raises(ConfigurationError, match="opened only where you name it"):
        sync_folder(dense.partition("@")[0], folder)
    assert open_index(dense).manifest.passages == 6


def test_facts_name_the_models_and_not_their_fingerprint(address, dense):
    for name, given in (("elasticsearch", address), ("elasticsearch-dense", dense)):
        facts = ENGINES[name].facts(given)
        assert facts["encoder"]["model"] == MODEL
        assert facts["passages"] == 6
        assert "probe" not in facts
