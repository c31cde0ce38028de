"""An index that is changed while it is searched."""

import shutil

import pytest

from keqa.errors import RetrievalError
from keqa.programs.fingerprint import retriever_spec
from keqa.retrievers import Passage, add_files, build_index, open_index, remove_files
from keqa.retrievers.watching import WatchedRetriever

FIRST = Passage("1", "Harbour", "The harbour of Varn is old.")


def found(retriever, query="harbour"):
    return sorted(hit.passage.id for hit in retriever.search(query))


def test_each_part_of_a_hybrid_is_watched_for_what_is_added_removed_or_built_again(tmp_path):
    for name in ("one", "other"):
        build_index([FIRST], tmp_path / name)
    (tmp_path / "lamp.txt").write_text("The lamp of the harbour burns.")
    address = f"{tmp_path / 'one'},{tmp_path / 'other'}"
    both = WatchedRetriever(address, open_index(address))
    assert not both.refresh()
    add_files(tmp_path / "other", tmp_path / "lamp.txt")
    assert both.refresh()
    assert found(both) == ["1", "lamp.txt#1"]
    assert retriever_spec(both) == retriever_spec(open_index(address))
    build_index([Passage("3", "", "Another harbour.")], tmp_path / "one", overwrite=True)
    remove_files(tmp_path / "other", ["1"])
    assert both.refresh()
    assert found(both) == ["3", "lamp.txt#1"]


def test_an_index_that_cannot_be_opened_stays_as_it_was(tmp_path):
    folder = tmp_path / "index"
    build_index([FIRST], folder)
    watched = WatchedRetriever(folder, open_index(folder))
    (manifest,) = (folder / "data").glob("manifest-*.json")
    kept = manifest.read_text()
    manifest.write_text("{}")
    with pytest.raises(RetrievalError):
        watched.refresh()
    assert found(watched) == ["1"]
    manifest.write_text(kept)
    assert not watched.refresh()
    shutil.rmtree(folder)
    with pytest.raises(RetrievalError, match="there is no index at"):
        watched.refresh()


def test_a_file_of_documents_may_be_written_again(tmp_path):
    file = tmp_path / "own.jsonl"
    file.write_text('{"question": "Who?", "text": "Ann."}\n')
    watched = WatchedRetriever(f"documents:{file}", open_index(f"documents:{file}"))
    file.write_text('{"question": "Who?", "text": "Somebody else."}\n')
    assert watched.refresh()
    assert [hit.passage.text for hit in watched.search("Who?")] == ["Somebody else."]
